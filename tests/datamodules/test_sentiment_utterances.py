"""From CMU-MOSI by utterance, in any of its layouts, to utterances with their neighbours."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnbench.datamodules.sentiment_records import MODALITIES
from tests.datamodules.sentiment_files import (
    VIDEOS,
    note,
    opened,
    refused,
    utterances,
    write_csv_folder,
    write_npz,
    write_pickle,
    write_utterance_pickles,
)


def write_layout(layout: str, root: Path, parts: dict[str, dict[str, Any]]) -> None:
    if layout == "csv":
        write_csv_folder(root, parts)
    elif layout == "npz":
        write_npz(root / "mosi_by_video.npz", parts)
    else:
        write_utterance_pickles(root, parts, one_hot=layout == "one-hot pickles")


LAYOUTS = ("csv", "npz", "pickles", "one-hot pickles")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("context", [None, 0, 1, 2])
def test_an_utterance_is_seen_with_its_neighbours(
    tmp_path: Path, layout: str, context: int | None
) -> None:
    parts = utterances()
    write_layout(layout, tmp_path, parts)
    raw = opened(tmp_path, context=context)
    assert raw.kind == "binary" and list(raw.parts) == ["train", "test"]
    for name, made in parts.items():
        part = raw.parts[name]
        assert len(part) == sum(VIDEOS[name]) and len(set(part.ids)) == len(part)
        assert part.read_at is not None
        matched: set[int] = set()
        for number in range(len(part)):
            at = int(part.read_at["text"][number])
            own = part.features["text"][number, at]
            row = int(np.abs(made["features"]["text"] - own).sum(1).argmin())
            matched.add(row)
            video, place = made["videos"][row], made["places"][row]
            size = int((made["videos"] == video).sum())
            near = [
                r
                for r in range(row - place, row - place + size)
                if context is None or abs(r - row) <= context
            ]
            assert part.labels[number, 0] == made["labels"][row]
            for modality in MODALITIES:
                stream = part.features[modality][number]
                assert part.lengths[modality][number] == len(near)
                assert part.read_at[modality][number] == near.index(row)
                expected = made["features"][modality][near]
                np.testing.assert_allclose(stream[: len(near)], expected, atol=1e-6)
                assert not stream[len(near) :].any()
        assert len(matched) == len(part)
        assert len(set(part.groups)) == len(VIDEOS[name])
    assert note(raw, "videos:") == "videos: train 3, test 2"
    ones = f"train {parts['train']['labels'].mean():.3f}"
    assert ones in note(raw, "share of label 1")


def test_transcripts_give_ids_videos_and_words(tmp_path: Path) -> None:
    write_csv_folder(tmp_path / "csv", utterances())
    part = opened(tmp_path).parts["train"]
    assert part.groups == ["Vid_10x"] * 3 + ["Vid_8x"] * 4 + ["Vid_9x"]
    assert part.ids[:3] == ["Vid_10x_1", "Vid_10x_2", "Vid_10x_3"]
    assert part.texts is not None and part.texts[0] == "WORDS, OF Vid_10x_1"
    assert opened(tmp_path, file="csv").parts["train"].ids == part.ids


def test_the_richest_of_several_layouts_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    parts = utterances()
    for layout in ("csv", "npz", "pickles"):
        write_layout(layout, tmp_path, parts)
    raw = opened(tmp_path)
    assert raw.format == "CSV of utterances"
    said = note(raw, "not read")
    assert "mosi_by_video.npz" in said and "audio_2way.pickle" in said
    assert opened(tmp_path, file="mosi_by_video.npz").format.startswith("npz")
    raw = opened(tmp_path, file="audio_2way.pickle")
    assert len(raw.files) == 3 and raw.format.startswith("Python-2 pickles")
    (tmp_path / "transcripts.csv.gz").unlink()
    assert opened(tmp_path).format.startswith("npz")


def test_csv_without_transcripts_has_no_videos(tmp_path: Path) -> None:
    parts = utterances()
    write_csv_folder(tmp_path, parts)
    (tmp_path / "transcripts.csv.gz").unlink()
    assert "no row's video is known" in refused(tmp_path) and "context=0" in refused(tmp_path)
    raw = opened(tmp_path, context=0)
    assert raw.parts["test"].ids == [f"test-{number}" for number in range(5)]
    assert raw.parts["test"].features["text"].shape == (5, 1, 4)


def edit(path: Path, old: str, new: str) -> None:
    lines = gzip.decompress(path.read_bytes()).decode()
    assert old in lines
    path.write_bytes(gzip.compress(lines.replace(old, new, 1).encode()))


def first_row(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode().splitlines()[0]


def test_broken_csv(tmp_path: Path) -> None:
    def again() -> Path:
        return write_csv_folder(tmp_path, utterances())

    audio = again() / "audio" / "audio_train0.csv.gz"
    row = first_row(audio)
    edit(audio, row, row.replace(row.split(",")[0], '"much"'))
    assert "audio_train0.csv.gz, line 1: expected numbers only, found 'much'" in refused(tmp_path)
    again()
    edit(audio, row, row + ',"1"')
    assert "line 2: 4 numbers instead of 5" in refused(tmp_path)
    again()
    edit(audio, row + "\n", "")
    assert "has 7 rows, but 8 are there for text" in refused(tmp_path)
    again()
    flipped = row[:-2] + ("0" if row[-2] == "1" else "1") + '"'
    edit(audio, row, flipped)
    assert "line 1: the label differs from that of text" in refused(tmp_path)
    again()
    edit(audio, row, row[:-2] + '7"')
    assert "has labels such as" in refused(tmp_path)
    again()
    lines = tmp_path / "text_test.csv.gz"
    row = first_row(lines)
    edit(lines, row, row.replace(row.split(",")[0], '"99"'))
    assert "line 1: 99 is no line of transcripts.csv" in refused(tmp_path)
    again()
    edit(lines, row, row.replace(row.split(",")[1], '"5.5"'))
    assert "line 1: features or label differ" in refused(tmp_path)
    again()
    transcripts = tmp_path / "transcripts.csv.gz"
    edit(transcripts, "Vid_10x_1", "Vid_10x_one")
    assert "transcripts.csv.gz, line 1: expected video_number" in refused(tmp_path)
    again()
    (tmp_path / "video" / "video_test0.csv.gz").unlink()
    assert "video_test0.csv isn't there" in refused(tmp_path)


def test_broken_npz(tmp_path: Path) -> None:
    parts = utterances()
    path = tmp_path / "mosi.npz"
    write_npz(path, parts, split=np.full(13, 7))
    assert "has part 7" in refused(tmp_path)
    write_npz(path, parts, label=np.arange(13))
    assert "labels such as 0, 1" in refused(tmp_path)
    write_npz(path, parts, text=np.ones((12, 4)))
    assert "12 of text" in refused(tmp_path)
    write_npz(path, parts, text=np.ones(13))
    assert "text of " in refused(tmp_path)
    write_npz(path, parts, position=np.zeros(13, int))
    assert "two utterances at one position" in refused(tmp_path)
    write_npz(path, parts, label=np.array([{}] * 13, object))
    assert "can't be read" in refused(tmp_path)
    np.savez(path, text=np.ones(3))
    assert "no sentiment data" in refused(tmp_path)
    assert "no npz of utterances" in refused(tmp_path, file="mosi.npz")


def test_broken_utterance_pickles(tmp_path: Path) -> None:
    parts = utterances()
    text, audio, video = write_utterance_pickles(tmp_path, parts)
    whole = audio.read_bytes()
    audio.unlink()
    said = refused(tmp_path)
    assert "no pickle of audio (only text_2way.pickle, video_2way.pickle)" in said
    audio.write_bytes(whole)
    (tmp_path / "acoustic.pickle").write_bytes(whole)
    assert "audio in several files (acoustic.pickle, audio_2way.pickle)" in refused(tmp_path)
    (tmp_path / "acoustic.pickle").rename(tmp_path / "x7.pickle")
    assert "its name doesn't say which" in refused(tmp_path, file="x7.pickle")
    (tmp_path / "x7.pickle").unlink()
    content = list(pickle.Unpickler(video.open("rb")).load())  # noqa: S301 (written above)
    write_pickle(video, (*content[:5], [3, 2, 4], content[6]))
    assert "don't belong together: part train has other numbers" in refused(tmp_path)
    write_pickle(video, (content[0], 1 - content[1], *content[2:]))
    assert "other labels for vision" in refused(tmp_path)
    write_pickle(video, (*content[:5], [9, 1, 4], content[6]))
    assert "part train has features (3, 5, 2)" in refused(tmp_path)
    write_pickle(video, {"a": 1})
    assert "doesn't hold features, labels and lengths" in refused(tmp_path)
    assert text.is_file()
