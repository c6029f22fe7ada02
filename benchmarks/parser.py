"""The command line's grammar. Loads nothing but argparse, so that `--help` is quick."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from .errors import UsageError, nearest

COMMANDS = (
    "list", "data", "train", "run", "plan", "status", "table", "cost", "predict", "draw", "doctor",
)  # fmt: skip
LISTS = ("attention", "tasks", "settings", "grids", "datasets", "metrics")
FORMATS = ("md", "csv", "latex", "html", "json")
ALONG = ("updates", "epochs", "seconds")
DEFAULT_OUT = Path("runs")


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print a usage text and exit."""

    def error(self, message: str) -> NoReturn:
        """Raise `message` as an error of ours, with near names for an unknown command."""
        if match := re.search(r"argument COMMAND: invalid choice: '([^']*)'", message):
            hint = nearest(match[1], COMMANDS, otherwise=f"; there are {', '.join(COMMANDS)}")
            raise UsageError(f"there is no command {match[1]!r}{hint}")
        command = self.prog.partition(" ")[2]
        message = re.sub(r"^argument \S+: (?=there is no )", "", message)
        raise UsageError(f"{command}: {message}; see {self.prog} --help" if command else message)


def build_parser() -> Parser:
    """All sub-commands; each sets `command` to its name and, for lists and data, `what`."""
    common = Parser(add_help=False)
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks"
    )
    parser = Parser(
        prog="attnbench",
        description="Train grids of attention variants and put the results beside the published "
        "numbers.",
        parents=[common],
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[common])

    for fill in (
        _list, _data, _train, _run, _plan, _status, _table, _cost, _predict, _draw, _doctor,
    ):  # fmt: skip
        fill(add)
    return parser


Add = Callable[[str, str], argparse.ArgumentParser]
_Options = argparse.ArgumentParser | argparse._ArgumentGroup


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command line; `key=value` words may stand anywhere and become `settings`.

    Raises UsageError.
    """
    options, rest = build_parser().parse_known_args(_items_joined(arguments))
    takes_settings = getattr(options, "command", None) in ("train", "data", "predict", "draw")
    for word in rest:
        if not takes_settings or "=" not in word or word.startswith("-"):
            raise UsageError(f"{options.command}: {word!r} means nothing here; "
                             f"see attnbench {options.command} --help")  # fmt: skip
    options.settings = rest
    return options


def _items_joined(words: Sequence[str]) -> list[str]:
    """`--item -3g5yACwYnA` as one word: ids that begin with a dash aren't options."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--item":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _list(add: Add) -> None:
    parser = add(
        "list",
        "show the attention variants, tasks, settings of a task, grids, data sets or metrics",
    )
    parser.usage = f"attnbench list {'|'.join(LISTS)} [TASK] [--json]"
    parser.add_argument("what", type=_one_of(LISTS), metavar="|".join(LISTS))
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task, for settings")
    _json(parser)


def _data(add: Add) -> None:
    parser = add("data", "write a demo data set, check one that lies on disk, or pack its features")
    parser.usage = (
        "attnbench data demo|check|pack TASK|DATASET --root DIR [--out DIR] [--extract BACKBONE] "
        "[--dtype float32|float16] [key=value ...]"
    )
    parser.add_argument("what", type=_one_of(("demo", "check", "pack")), metavar="demo|check|pack")
    parser.add_argument(
        "name", metavar="TASK|DATASET", help="demo: a task; check and pack: a data set"
    )
    parser.add_argument("--root", type=Path, required=True, metavar="DIR", help="its folder")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="pack: the new store (default: in its folder)"
    )
    parser.add_argument(
        "--extract", metavar="BACKBONE",
        help="pack: make grid features from the images with efficientnet-lite0, timm:NAME or "
        "torchvision:NAME (with weights=FILE)",
    )  # fmt: skip
    parser.add_argument(
        "--dtype", type=_one_of(("float32", "float16")), default="float32",
        metavar="float32|float16", help="pack: type of the stored values (default: float32)",
    )  # fmt: skip
    _json(parser)


def _train(add: Add) -> None:
    parser = add("train", "train and evaluate one cell with settings of your own")
    parser.usage = (
        "attnbench train TASK [--preset P] [--data DATASET --root DIR] [--out DIR] "
        "[--again] [--threads N] [key=value ...]"
    )
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--preset", help="begin from paper, small or smoke of the task's grids")
    _place(parser)
    _out(parser)
    parser.add_argument("--again", action="store_true", help="also where it is done already")
    _machine(parser)


def _run(add: Add) -> None:
    parser = add("run", "run the cells of a grid; what is finished is kept and not run again")
    _grid(parser)
    _choice(parser)
    _out(parser)
    parser.add_argument(
        "--only",
        type=_one_of(("missing", "failed", "all")),
        default="missing",
        metavar="missing|failed|all",
        help="which cells (default: missing)",
    )
    parser.add_argument(
        "--launcher",
        type=_one_of(("local",)),
        default="local",
        metavar="local",
        help="where cells run; this version knows only this machine",
    )
    parser.add_argument(
        "--jobs", type=_positive, default=1, metavar="N", help="cells at once (default: 1)"
    )
    _machine(parser)


def _plan(add: Add) -> None:
    parser = add("plan", "show what a run would do and how long it may take; starts nothing")
    _grid(parser)
    _choice(parser)
    _out(parser)
    parser.add_argument("--jobs", type=_positive, default=1, metavar="N", help="cells at once")
    parser.add_argument(
        "--gmacs", type=_speed, metavar="X", help="speed to assume, 10^9 multiply-accumulates a s"
    )
    _json(parser)


def _status(add: Add) -> None:
    parser = add("status", "show which cells are done, running, interrupted, failed or missing")
    _grid(parser)
    _selection(parser, "all that there are")
    _out(parser)
    _json(parser)


def _table(add: Add) -> None:
    parser = add("table", "print the results of a grid beside the published numbers")
    _grid(parser)
    _selection(parser, "all that there are, averaged")
    _out(parser)
    parser.add_argument(
        "--format",
        type=_one_of(FORMATS),
        default="md",
        metavar="|".join(FORMATS),
        help="default: md",
    )
    parser.add_argument(
        "--save", type=Path, metavar="DIR",
        help="write GRID.DATASET.json and .md, and the --format given, into DIR instead",
    )  # fmt: skip


def _cost(add: Add) -> None:
    parser = add("cost", "count parameters and multiply-accumulates of every row; trains nothing")
    parser.add_argument("grids", nargs="+", metavar="GRID", help="names or YAML files")
    parser.add_argument("--preset", default="paper", help="default: paper")
    parser.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="only these rows")
    _set(parser)
    _json(parser)
    parser.add_argument(
        "--save", type=Path, metavar="FILE",
        help="write Markdown with ratios, and what each row adds to the one without attention",
    )  # fmt: skip


def _predict(add: Add) -> None:
    parser = add("predict", "write the task's result file, or files, of a finished run for a split")
    parser.usage = (
        "attnbench predict RUN [--split S] [--root DIR] [--phase PHASE] [--out FILE] "
        "[--threads N] [key=value ...]"
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder, or its record")
    parser.add_argument(
        "--split", default="test",
        help="train, val, test (default), or another that the data set has (Cityscapes: server)",
    )  # fmt: skip
    parser.add_argument("--root", type=Path, metavar="DIR", help="folder of the data set")
    parser.add_argument(
        "--phase", metavar="PHASE",
        help="weights of an earlier phase of training (default: the final ones)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="file, or folder where the task has one file an item; default: predictions.SPLIT… in "
        "the run's folder",
    )  # fmt: skip
    parser.add_argument("--threads", type=_positive, metavar="N", help="CPU threads")


def _draw(add: Add) -> None:
    parser = add("draw", "draw curves of a grid, or what a run says of an item and where it looks")
    below = "\n" + " " * 22
    parser.usage = (
        "attnbench draw GRID [--metric NAME] [--x updates|epochs|seconds] [--preset P] "
        f"[--data DATASET]{below}[--seeds K ...] [--rows ROW ...] [--set key=value ...] "
        f"[--out DIR]{below}[--save FILE]\n"
        "       attnbench draw RUN --item ID [--split S] [--layer L] [--head mean|N] "
        f"[--root DIR]{below}[--phase PHASE] [--save FILE] [--threads N] [key=value ...]\n"
        f"       attnbench draw RUN --item ID [--least-score X]{below}"
        "[--cell ROW,COLUMN | --pixel Y,X] [...]"
    )
    parser.add_argument(
        "what", type=Path, metavar="GRID|RUN",
        help="a grid, for curves; or a finished run's folder or record, for one item",
    )  # fmt: skip
    parser.add_argument(
        "--save", type=Path, metavar="FILE",
        help="the picture, .png, .svg or .pdf (default: a .png beside the results)",
    )  # fmt: skip
    curves = parser.add_argument_group("curves of a grid: a line for each row, a band over seeds")
    curves.add_argument("--metric", metavar="NAME", help="what is drawn (default: val/loss)")
    curves.add_argument(
        "--x", type=_one_of(ALONG), metavar="|".join(ALONG), help="default: updates"
    )
    _selection(curves, "all that there are")
    _out(curves)
    maps = parser.add_argument_group(
        "one item of a run: its attention, a map for each place in the model; for images what the "
        "model says beside the truth, or where a cell of its feature maps looks"
    )
    maps.add_argument("--item", metavar="ID", help="an item's id, or its position from 0")
    maps.add_argument("--split", metavar="S", help="train, val or test (default)")
    maps.add_argument(
        "--layer", type=_layer, metavar="L",
        help="from 1 (default: the last); of a cell also the block's name, such as layer3.1",
    )  # fmt: skip
    maps.add_argument("--head", type=_head, metavar="mean|N", help="from 1 (default: mean)")
    maps.add_argument(
        "--cell", type=_pair, metavar="ROW,COLUMN",
        help="draw where this cell of the layer's map looks, from 0",
    )  # fmt: skip
    maps.add_argument(
        "--pixel", type=_pair, metavar="Y,X", help="the same for the cell nearest to this pixel"
    )
    maps.add_argument(
        "--least-score", type=_score, metavar="X", help="detections below it are left out (0.5)"
    )
    maps.add_argument("--root", type=Path, metavar="DIR", help="folder of the data set")
    maps.add_argument(
        "--phase", metavar="PHASE",
        help="weights of an earlier phase of training (default: the final ones)",
    )  # fmt: skip
    maps.add_argument("--threads", type=_positive, metavar="N", help="CPU threads")


def _doctor(add: Add) -> None:
    parser = add("doctor", "check this machine and this installation")
    _out(parser)
    _json(parser)


def _grid(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grid", metavar="GRID", help="a name of `list grids`, or a YAML file")


def _choice(parser: argparse.ArgumentParser) -> None:
    _selection(parser, "0")
    parser.add_argument("--root", type=Path, metavar="DIR", help="folder of the data set")


def _selection(parser: _Options, seeds: str) -> None:
    parser.add_argument("--preset", default="paper", help="paper (default), small or smoke")
    parser.add_argument("--data", metavar="DATASET", help="default: what the preset or grid names")
    parser.add_argument(
        "--seeds", nargs="+", type=_seed, default=[], metavar="K",
        help=f"only these seeds (default: {seeds})",
    )  # fmt: skip
    parser.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="only these rows")
    _set(parser)


def _set(parser: _Options) -> None:
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="key=value",
        help="settings for every cell, stronger than the grid's",
    )  # fmt: skip


def _place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DATASET", help="data set (default: demo)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="folder of the data set")


def _machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=_positive, metavar="N", help="CPU threads of a cell")
    parser.add_argument(
        "--keep-checkpoints", action="store_true", help="don't remove a finished cell's checkpoints"
    )


def _out(parser: _Options) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=DEFAULT_OUT,
        metavar="DIR",
        help=f"folder of the results (default: {DEFAULT_OUT})",
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in known:
            hint = nearest(text, known, otherwise=f", only {', '.join(known)}")
            raise argparse.ArgumentTypeError(f"there is no {text!r}{hint}")
        return text

    return convert


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 on")
    return int(text)


def _head(text: str) -> str:
    return text if text == "mean" else str(_positive(text))


def _layer(text: str) -> str:
    return text if re.search(r"[a-z]", text) else str(_positive(text))


def _pair(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,6}),(\d{1,6})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be two whole numbers from 0, such as 4,7")
    return int(found[1]), int(found[2])


def _score(text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 0 to 1")
    return score


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0")
    return speed


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 0 to 2^32 - 1")
    return int(text)
