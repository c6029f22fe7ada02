from dataclasses import replace

import numpy as np
import pytest

from attnbench.datamodules.sentiment_convert import convert
from tests.datamodules.sentiment_raw import DIMS, STEPS, raw_part, raw_sentiment
from tests.datamodules.writing import Sentence


def stored(tmp_path, part, name="train"):
    store = convert(raw_sentiment(tmp_path, {name: part}), tmp_path)
    return store.parts[name], store.header.parts[name]


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_side_of_padding_and_the_lengths_are_found(tmp_path, side):
    raw = raw_part("train", 12, side=side)
    part, header = stored(tmp_path, raw)
    for modality, stream in part.streams.items():
        steps = STEPS[modality]
        assert header[modality].side == side and header[modality].steps == steps
        assert stream.lengths_N.tolist() == [1 + n % steps for n in range(12)]
        padded = stream.gather(np.arange(12), as_in_file=True)
        np.testing.assert_array_equal(padded.features_BTF, raw.features[modality])
        np.testing.assert_array_equal(padded.valid_BT, (raw.features[modality] != 0).any(-1))
        last = steps - 1 if side == "left" else stream.lengths_N - 1
        np.testing.assert_array_equal(padded.read_at_B, np.broadcast_to(last, 12))


def test_trimmed_batches_are_padded_on_the_right_up_to_the_longest(tmp_path):
    raw = raw_part("train", 12)
    part, _ = stored(tmp_path, raw)
    numbers = np.array([1, 3])
    padded = part.streams["audio"].gather(numbers)
    assert padded.features_BTF.shape == (2, 4, DIMS["audio"])
    assert padded.valid_BT.tolist() == [[True, True, False, False], [True] * 4]
    assert padded.read_at_B.tolist() == [1, 3]
    np.testing.assert_array_equal(padded.features_BTF[0, :2], raw.features["audio"][1, -2:])
    assert not padded.features_BTF[0, 2:].any()


def test_zeros_between_and_at_the_other_end_are_real_steps(tmp_path):
    raw = raw_part("train", 12)
    raw.features["audio"][8, 4] = 0  # between
    raw.features["audio"][7, -1] = 0  # behind, where the files are padded in front
    part, header = stored(tmp_path, raw)
    assert part.streams["audio"].lengths_N.tolist() == [1 + n % 9 for n in range(12)]
    assert header["audio"].other_end == 1 and header["text"].other_end == 0


def test_a_file_without_padding(tmp_path):
    raw = raw_part("train", 3)
    whole = {m: np.ones_like(array) for m, array in raw.features.items()}
    part, header = stored(tmp_path, replace(raw, features=whole))
    assert header["text"].side == "none" and part.streams["text"].lengths_N.tolist() == [5] * 3


def test_values_that_are_no_numbers_become_zero_and_are_counted(tmp_path):
    raw = raw_part("train", 12)
    audio = raw.features["audio"]
    audio[0, -1] = -np.inf  # the only step of item 0: it stays a real one
    audio[5, -1, 1], audio[5, -2, 0] = np.inf, np.nan
    part, header = stored(tmp_path, raw)
    assert header["audio"].cleaned == {"-inf": DIMS["audio"], "inf": 1, "nan": 1}
    assert header["vision"].cleaned == {}
    stream = part.streams["audio"]
    assert stream.lengths_N[0] == 1 and not stream.of(0).any()
    assert np.isfinite(stream.rows_RF).all()
    assert stream.of(5)[-1, 1] == 0 and stream.of(5)[-1, 0] == audio[5, -1, 0]


def test_items_without_a_step_stay_and_are_named(tmp_path):
    raw = raw_part("train", 12)
    raw.features["text"][[2, 4]] = 0
    part, header = stored(tmp_path, raw)
    assert header["text"].empty == 2 and header["text"].empty_ids == ["train-2", "train-4"]
    padded = part.streams["text"].gather(np.array([2, 4]))
    assert padded.features_BTF.shape[1] == 1 and not padded.valid_BT.any()
    assert padded.read_at_B.tolist() == [-1, -1]
    as_in_file = part.streams["text"].gather(np.array([2, 3]), as_in_file=True)
    assert not as_in_file.valid_BT[0].any() and as_in_file.read_at_B.tolist() == [-1, 4]
    assert not part.streams["text"].mean(np.array([2])).any()


def test_a_modality_that_is_nowhere_real_is_refused(tmp_path):
    raw = raw_part("test", 4)
    raw.features["vision"][:] = 0
    with Sentence("source.pkl", "no item of part test has a real step of vision"):
        stored(tmp_path, raw, "test")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("modality", DIMS)
def test_a_modality_without_any_number_is_refused(tmp_path, modality, value):
    raw = raw_part("test", 4)
    raw.features[modality][:] = value
    with Sentence("source.pkl", f"{modality} of part test has no number but 0"):
        stored(tmp_path, raw, "test")


@pytest.mark.parametrize("side", ["left", "right"])
def test_lengths_that_the_file_gives_are_taken(tmp_path, side):
    raw = raw_part("train", 12, side=side)
    lengths = {"audio": np.array([1 + n % 9 for n in range(12)])}
    raw.features["audio"][3, 5 if side == "left" else 3] = 0  # an end of zeros that is real
    lengths["audio"][8] = 2  # the file says two steps of an item that has nine
    part, header = stored(tmp_path, replace(raw, lengths=lengths))
    assert part.streams["audio"].lengths_N.tolist() == lengths["audio"].tolist()
    assert header["audio"].left_out == 1
    whole = raw.features["audio"][8]
    kept = whole[-2:] if side == "left" else whole[:2]
    np.testing.assert_array_equal(part.streams["audio"].of(8), kept)


def test_the_step_that_is_read_is_given_by_the_data(tmp_path):
    raw = raw_part("train", 9, side="right")
    read_at = {m: np.array([n % steps // 2 for n in range(9)]) for m, steps in STEPS.items()}
    raw.features["vision"][4, 2:] = 0  # its own step, 2, is behind the others and all zeros
    part, _ = stored(tmp_path, replace(raw, read_at=read_at))
    for modality, stream in part.streams.items():
        assert stream.gather(np.arange(9)).read_at_B.tolist() == read_at[modality].tolist()
    assert part.streams["vision"].lengths_N[4] == 3


def test_labels_and_widths_that_cannot_be_used(tmp_path):
    raw = raw_part("train", 4)
    raw.labels[2] = np.nan
    with Sentence("part train", "1 items have labels that are no (float32) numbers", "train-2"):
        stored(tmp_path, raw)
    narrow = raw_part("test", 4)
    narrow.features["audio"] = narrow.features["audio"][..., :2]
    parts = {"train": raw_part("train", 4), "test": narrow}
    with Sentence("audio", "3 in train, 2 in test"):
        convert(raw_sentiment(tmp_path, parts), tmp_path)


@pytest.mark.parametrize("side", ["left", "right"])
def test_aligned_streams_keep_their_steps_together(tmp_path, side):
    # Three streams of six steps, four of them real; a stream that is silent in the first or last of
    # them, or altogether, must not be moved against the others.
    real = slice(2, 6) if side == "left" else slice(0, 4)
    raw = raw_part("train", 5)
    for modality, dim in DIMS.items():
        raw.features[modality] = np.zeros((5, 6, dim), np.float32)
        raw.features[modality][:, real] = np.arange(1.0, 5.0)[:, None]
    raw.features["audio"][1, real.start] = raw.features["audio"][2, real.stop - 1] = 0
    raw.features["text"][3] = 0
    for features in raw.features.values():
        features[4] = 0
    store = convert(raw_sentiment(tmp_path, {"train": raw}), tmp_path, aligned=True)
    part, header = store.parts["train"], store.header.parts["train"]
    for modality, stream in part.streams.items():
        assert stream.lengths_N.tolist() == [4, 4, 4, 4, 0], modality
        assert header[modality].side == side
        np.testing.assert_array_equal(
            stream.gather(np.arange(5), as_in_file=True).features_BTF, raw.features[modality]
        )
    assert part.streams["audio"].of(1)[:, 0].tolist() == [0, 2, 3, 4]
    assert part.streams["audio"].of(2)[:, 0].tolist() == [1, 2, 3, 0]
    assert header["text"].empty_ids == ["train-3", "train-4"] and header["audio"].empty == 1
