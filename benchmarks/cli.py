"""`attnbench …`: errors as one sentence, exit codes 0 done, 1 a cell failed, 2 bad use or input."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

from .errors import Interrupted
from .parser import build_parser, parse

INTERRUPTED = 130
_PACKAGE = (__package__ or "attnbench").partition(".")[0] + "."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except (Interrupted, KeyboardInterrupt):
        _say("stopped; finished cells are kept, and the same command goes on from here")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if "--debug" in words:
            traceback.print_exc()
        if type(error).__module__.startswith(_PACKAGE):  # ours: made for the user
            _say(str(error))
            return 2
        _say(f"unexpected {type(error).__name__}: {error} (--debug shows where)")
        return 1


def _run(words: list[str]) -> int:
    options = parse(words)
    if options.version:
        from .. import __version__

        print(f"attnbench {__version__}")
        return 0
    if options.command is None:
        build_parser().print_help()
        return 0
    from . import commands

    return commands.COMMANDS[options.command](options, words)


def _say(text: str) -> None:
    print(f"attnbench: {' '.join(text.split())}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
