"""From a folder to its sentiment data: finds the files by content."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import DataError
from .files import reading
from .pickles import read_pickle
from .sentiment_config import SentimentDataConfig
from .sentiment_csv import has_transcripts, is_csv_folder, read_csv_folder
from .sentiment_mmsa import is_mmsa, read_mmsa
from .sentiment_mult import alignment_of, is_mult, read_mult
from .sentiment_records import RawSentiment
from .sentiment_utterances import (
    is_npz_by_video,
    is_utterance_pickle,
    pickle_modality,
    read_npz,
    read_utterance_pickles,
)
from .sentiment_videos import is_video_level, part_of, read_videos

_PICKLES = (".pkl", ".pickle", ".p")
_METADATA = "metadata.pkl"


@dataclass
class _Found:
    """What there is in a folder and the folders in it, by layout."""

    pickles: list[Path] = field(default_factory=list)
    csv: list[Path] = field(default_factory=list)
    npz: list[Path] = field(default_factory=list)
    utterances: dict[Path, list[Path]] = field(default_factory=dict)
    videos: dict[Path, list[Path]] = field(default_factory=dict)

    @property
    def layouts(self) -> list[Sequence[Path]]:
        """All files, those of one layout together, the richer layouts first."""
        several = [*self.utterances.values(), *self.videos.values()]
        first = [folder for folder in self.csv if has_transcripts(folder)]
        rest = [folder for folder in self.csv if folder not in first]
        return [each for each in (self.pickles, first, self.npz, rest, *several) if each]


def open_sentiment(config: SentimentDataConfig, root: Path) -> RawSentiment:
    """Read the data below a folder.

    Of a file for each alignment the one that `config.alignment` names is read; ``config.file`` says
    which file, or which folder of CSV files, is read where there are several.

    Raises:
        DataError: no data, several files of which none is clearly meant, an alignment that the file
            hasn't, or bad content.
    """
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the folder of {config.dataset} as root.")
    with reading(root):
        if config.file is not None:
            given = root / config.file
            if not given.exists():
                raise DataError(
                    f"{root} has no {config.file}; file= names a file or folder below root."
                )
            return _read(config, given)
        found = _look(root)
        layouts = found.layouts
        if not layouts:
            raise DataError(
                f"{root} has no sentiment data; expected pickles of MulT or MMSA, CMU-MOSI by "
                "utterance as CSV, npz or pickles, or CMU-MOSEI by video, there or in a folder "
                "below it."
            )
        chosen = _chosen(config, root, layouts[0])
        raw = _read(config, chosen)
        others = [path for layout in layouts[1:] for path in layout if path not in raw.files]
    if others:
        names = ", ".join(path.relative_to(root).as_posix() for path in others)
        raw.notes.append(f"there too, but not read: {names} (file= names what is read)")
    return raw


def _look(root: Path) -> _Found:
    """Sort the files by layout."""
    found = _Found()
    for folder in (root, *sorted(path for path in root.iterdir() if path.is_dir())):
        if folder.name.startswith("."):
            continue
        if is_csv_folder(folder):
            found.csv.append(folder)
        found.npz += [path for path in sorted(folder.glob("*.npz")) if is_npz_by_video(path)]
        for path in sorted(folder.iterdir()):
            if path.name == _METADATA or not _is_pickle(path):
                continue
            if part_of(path):
                found.videos.setdefault(folder, []).append(path)
            elif pickle_modality(path):
                found.utterances.setdefault(folder, []).append(path)
            else:
                found.pickles.append(path)
    return found


def _is_pickle(path: Path) -> bool:
    return path.is_file() and path.name.removesuffix(".gz").endswith(_PICKLES)


def _chosen(config: SentimentDataConfig, root: Path, paths: Sequence[Path]) -> Path:
    """Choose the only file, or the one with the data set's name and the alignment wanted."""
    if any(part_of(path) or pickle_modality(path) for path in paths if _is_pickle(path)):
        return paths[0]  # files of one folder that belong together
    left = list(paths)
    if len(left) > 1:
        left = [path for path in left if config.dataset in _words(path)] or left
    if len(left) > 1:
        left = [path for path in left if _says(path) == config.alignment] or [
            path for path in left if _says(path) is None
        ]
    if len(left) != 1:
        names = ", ".join(path.relative_to(root).as_posix() for path in left or paths)
        raise DataError(
            f"{root} has several data files ({names}); name one with file=, or set alignment=."
        )
    return left[0]


def _words(path: Path) -> list[str]:
    return re.split(r"[^a-z]+", path.name.lower())


def _says(path: Path) -> str | None:
    """Give the alignment that a file's name says: ``noalign`` and ``unaligned`` say it isn't."""
    words = _words(path)
    if "noalign" in words or "unaligned" in words:
        return "unaligned"
    return "aligned" if "aligned" in words or "align" in words else None


def _read(config: SentimentDataConfig, path: Path) -> RawSentiment:
    """Read a file of any layout, with those that belong to it."""
    if is_csv_folder(path):
        return read_csv_folder(path, config.context)
    if path.suffix == ".npz":
        if not is_npz_by_video(path):
            raise DataError(f"{path} is no npz of utterances by video; fetch or make it anew.")
        return read_npz(path, config.context)
    content = read_pickle(path)
    beside = [each for each in sorted(path.parent.iterdir()) if _is_pickle(each)]
    if is_utterance_pickle(content):
        known = [each for each in beside if pickle_modality(each)]
        if path not in known:
            raise DataError(
                f"{path} holds one modality, but its name doesn't say which; call it text.pickle, "
                "audio.pickle or video.pickle."
            )
        return read_utterance_pickles(known, config.context)
    if is_video_level(content):
        known = [each for each in beside if part_of(each)]
        return read_videos(known if path in known else [path], {path: content})
    if not is_mult(content):
        held = (
            f"a dictionary of {', '.join(map(str, content))}" if isinstance(content, dict) else ""
        )
        raise DataError(
            f"{path} holds no sentiment data ({held or type(content).__name__}); expected train, "
            "valid and test with text, audio, vision and labels: name another file with file=."
        )
    mmsa = is_mmsa(content)
    return _agreed(
        config, path, read_mmsa(path, content, config) if mmsa else read_mult(path, content, config)
    )


def _agreed(config: SentimentDataConfig, path: Path, raw: RawSentiment) -> RawSentiment:
    """Compare the alignment that is wanted with the one that the streams have.

    A file for unaligned data may have streams of equal length, where its name or ``file=`` says so.
    """
    found = alignment_of(raw.parts)
    lengths = "/".join(
        str(stream.shape[1]) for stream in next(iter(raw.parts.values())).features.values()
    )
    meant = config.file is not None or _says(path) == "unaligned"
    if found != config.alignment and not (found == "aligned" and meant):
        raise DataError(
            f"{path} is {found} (text, audio and vision have {lengths} steps), but alignment="
            f"{config.alignment} is wanted; set alignment={found}, or give the other file."
        )
    if found == "unaligned" and _says(path) == "aligned":
        raw.notes.append(f"the name says aligned, but the streams have {lengths} steps")
    return raw
