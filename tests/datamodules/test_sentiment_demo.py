import io
import pickletools

import numpy as np
import pytest

from attnbench.datamodules.demo.sentiment import (
    DIMS,
    SPLIT_SHARE,
    STEPS,
    DemoPart,
    draw_parts,
    has_sentiment_demo,
    write_sentiment_demo,
)
from tests.datamodules.writing import Sentence


@pytest.fixture(scope="module")
def drawn() -> DemoPart:
    return draw_parts(3, {"train": 3000})["train"]


def fair(agree: np.ndarray) -> bool:
    """Tell whether a share is that of a fair coin, up to 4 standard deviations."""
    return abs(agree.mean() - 0.5) < 2 / np.sqrt(len(agree))


def test_a_label_is_polarity_times_strength_times_cue(drawn):
    labels = drawn.labels[:, 0]
    assert set(labels.tolist()) == {-3, -2, -1, 0, 1, 2, 3}
    assert 0.07 < (labels == 0).mean() < 0.13
    there = labels != 0
    np.testing.assert_array_equal(np.sign(labels[there]), (drawn.polarity * drawn.cue)[there])


def test_no_modality_alone_tells_the_sign(drawn):
    # Text is made from the polarity and the strength, the others from the cue:
    # so the sign must be a fair coin given each of them, and given where the cue is.
    there = drawn.labels[:, 0] != 0
    positive = drawn.labels[there, 0] > 0
    for known in (drawn.polarity[there] > 0, drawn.cue[there] > 0):
        assert fair(positive == known) and fair(known)
        assert fair(positive[known]) and fair(positive[~known])
    for place in ("audio", "vision"):
        assert fair(positive[drawn.place[there] == place])
    assert fair(drawn.place == "audio")
    assert fair((drawn.polarity == drawn.cue)[there])


@pytest.mark.parametrize("modality", DIMS)
def test_a_linear_map_of_one_modality_is_at_chance(drawn, modality):
    features = np.nan_to_num(drawn.streams["unaligned"][modality], neginf=0).astype(np.float64)
    flat = np.concatenate([features.mean(1), features.std(1), features.max(1)], axis=1)
    there = np.flatnonzero(drawn.labels[:, 0])
    train, test = there[:2000], there[2000:]
    design = np.concatenate([flat, np.ones((len(flat), 1))], axis=1)
    signs = np.sign(drawn.labels[:, 0])
    weights, *_ = np.linalg.lstsq(design[train], signs[train], rcond=None)
    assert fair(np.sign(design[test] @ weights) == signs[test])


def cue_value(drawn: DemoPart, which: str, modality: str) -> np.ndarray:
    """Give the largest value of any step along the direction of the cue, with its sign."""
    from attnbench.datamodules.demo import sentiment

    direction = sentiment._looks().value[modality]
    features = np.nan_to_num(drawn.streams[which][modality], neginf=0)
    return features @ direction / (direction @ direction)


def test_averaging_over_words_loses_the_cues_of_one_word(drawn):
    assert abs(drawn.split.mean() - SPLIT_SHARE) < 0.04
    for modality in ("audio", "vision"):
        mine = drawn.place == modality
        value = np.abs(cue_value(drawn, "aligned", modality)).max(1)
        whole = np.abs(cue_value(drawn, "unaligned", modality)).max(1)
        assert (whole[mine] > 0.7).all()
        assert value[mine & drawn.split].min() > whole[mine].mean() / 6
    both = drawn.place == "audio"
    sums = cue_value(drawn, "aligned", "audio")[both & ~drawn.split].sum(1)
    assert np.abs(sums).max() < 1.5


def test_streams_are_padded_in_front_and_hold_minus_infinity(drawn):
    for which in ("unaligned", "aligned"):
        for modality, (fewest, most) in STEPS.items():
            features = drawn.streams[which][modality]
            limits = (fewest, most) if which == "unaligned" else STEPS["text"]
            assert features.shape == (3000, limits[1], DIMS[modality])
            real = (features != 0).any(-1)
            assert real[:, -1].all() and (np.diff(real.astype(int), axis=1) >= 0).all()
            assert real.sum(1).min() == limits[0] and real.sum(1).max() == limits[1]
            finite = np.isfinite(features)
            assert finite.all() if modality != "audio" else (~finite).any()
            assert not np.isnan(features).any() and not (features == np.inf).any()


def test_words_are_the_same_steps_in_both_files(drawn):
    np.testing.assert_array_equal(
        drawn.streams["aligned"]["text"], drawn.streams["unaligned"]["text"]
    )


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    sizes = {"train": 12, "val": 4, "test": 8}
    one = write_sentiment_demo(tmp_path / "one", **sizes)
    other = write_sentiment_demo(tmp_path / "other", **sizes)
    names = sorted(path.name for path in one.iterdir())
    assert names == ["demo_data.pkl", "demo_data_noalign.pkl"]
    assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)
    stamp = (one / names[0]).stat().st_mtime_ns
    write_sentiment_demo(one, **sizes)
    assert (one / names[0]).stat().st_mtime_ns == stamp
    assert has_sentiment_demo(one) and not has_sentiment_demo(tmp_path)
    with Sentence(str(one), "not empty"):
        write_sentiment_demo(one, **sizes, seed=1)


def test_the_pickles_name_nothing_but_numpy(tmp_path):
    root = write_sentiment_demo(tmp_path / "demo", train=4, val=4, test=4)
    for path in root.iterdir():
        operations = pickletools.genops(io.BytesIO(path.read_bytes()))
        words = [argument for _, argument, _ in operations if isinstance(argument, str)]
        modules = {word for word in words if "." in word or word in ("builtins", "os", "numpy")}
        assert modules and all(module.split(".")[0] == "numpy" for module in modules)
