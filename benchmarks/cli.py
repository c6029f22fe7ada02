"""`attnbench …`: errors as one sentence, exit codes 0 done, 1 a cell failed, 2 bad use or input."""

from __future__ import annotations

import contextlib
import io
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
    _prepare_output()
    try:
        code = _run(words)
        sys.stdout.flush()  # here, where an error still has an exit code
        return code
    except (Interrupted, KeyboardInterrupt) as stop:
        _say(str(stop) or "stopped")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _drop_output()
        return 0
    except Exception as error:
        if "--debug" in words:
            traceback.print_exc()
        if type(error).__module__.startswith(_PACKAGE):  # ours: made for the user
            _say(str(error))
            return 2
        if isinstance(error, OSError):
            _say(_of_the_system(error))
            _drop_output()
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
    with contextlib.suppress(OSError):  # nobody reads it
        print(f"attnbench: {' '.join(text.split())}", file=sys.stderr, flush=True)


def _of_the_system(error: OSError) -> str:
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    if not isinstance(error.filename, str | bytes):
        return f"can't go on reading or writing: {reason}"
    return f"can't use {os.fsdecode(error.filename)}: {reason}"


def _prepare_output() -> None:
    """A closed output takes everything, and one that lacks a character shows `?` for it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _drop_output() -> None:
    """Let what is still in the buffer go nowhere, or Python complains when it ends."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
