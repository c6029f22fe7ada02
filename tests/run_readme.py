"""Run every command that README.md shows, as a reader would.

Each fenced block marked `bash` is one script. Blocks of `make` commands run in the checkout, all
others share one scratch folder, with the environment's commands on the PATH. A block is left out
only by saying so where it stands: ```bash skip-ci reason="needs a cluster"```; the reason is
printed. `--done COMMAND` names a command that ran already, so that it isn't run twice.

    python tests/run_readme.py [--done "make test"] [README]

Exit code 1 if a block failed.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 1500
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_SHELLS = {"bash", "sh", "shell", "console", "zsh"}


class ReadmeError(ValueError):
    """A block whose marking makes no sense; the message says which line and why."""


@dataclass(frozen=True)
class Block:
    """One fenced block of shell commands.

    `line` is where it starts in the file; `skip` the reason for leaving it out, if any.
    """

    line: int
    script: str
    skip: str | None = None

    @property
    def commands(self) -> list[str]:
        """The lines that are neither empty nor comments."""
        lines = (line.strip() for line in self.script.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    @property
    def in_checkout(self) -> bool:
        """Whether it runs in the checkout: all its commands are `make …`."""
        return all(command.split()[0] == "make" for command in self.commands)


def blocks(text: str) -> list[Block]:
    """Find the shell blocks of a Markdown text.

    Raises ReadmeError for a shell block not marked `bash`, an unknown mark, a skip without a
    reason, or a block that mixes `make` with other commands.
    """
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        language, *marks = shlex.split(match["info"]) or [""]
        if language not in _SHELLS:
            continue
        if language != "bash":
            raise ReadmeError(f"line {line}: mark shell commands as ```bash, not ```{language}")
        block = Block(line, match["body"], _skip_reason(line, marks))
        makes = [command.split()[0] == "make" for command in block.commands]
        if block.skip is None and any(makes) and not all(makes):
            raise ReadmeError(f"line {line}: put the make commands into a block of their own")
        found.append(block)
    return found


def _skip_reason(line: int, marks: list[str]) -> str | None:
    match marks:
        case []:
            return None
        case ["skip-ci", reason] if reason.startswith("reason=") and reason != "reason=":
            return reason.removeprefix("reason=")
        case _:
            raise ReadmeError(
                f"line {line}: unknown mark {' '.join(marks)!r}; "
                'write ```bash or ```bash skip-ci reason="…"'
            )


def run_block(block: Block, scratch: Path, done: set[str]) -> bool:
    """Run one block and say how it went; False if it failed."""
    title = f"README line {block.line}"
    if block.skip is not None:
        print(f"== {title}: left out, {block.skip}", flush=True)
        return True
    if set(block.commands) <= done:
        print(f"== {title}: ran before: {'; '.join(block.commands)}", flush=True)
        return True
    lines = [line for line in block.script.splitlines() if line.strip() not in done]
    print(f"== {title}", *lines, sep="\n   ", flush=True)
    folder = ROOT if block.in_checkout else scratch
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    started = time.monotonic()
    try:
        code: int | str = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        ).returncode
    except subprocess.TimeoutExpired:
        code = f"none after {TIMEOUT_SECONDS} s"
    print(f"== {title}: exit code {code}, {time.monotonic() - started:.0f} s", flush=True)
    return code == 0


def main(arguments: list[str] | None = None) -> int:
    """Run the blocks in order; 1 if any failed, 2 if the file is marked wrongly."""
    parser = argparse.ArgumentParser(description="Run every command of README.md.")
    parser.add_argument("--done", action="append", default=[], help="a command that ran already")
    parser.add_argument("readme", nargs="?", type=Path, default=ROOT / "README.md")
    options = parser.parse_args(arguments)
    try:
        found = blocks(options.readme.read_text(encoding="utf-8"))
    except (ReadmeError, OSError) as error:
        print(f"{options.readme.name}: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="attnbench-readme-") as scratch:
        results = [run_block(block, Path(scratch), set(options.done)) for block in found]
    print(f"README: {sum(results)} blocks fine, {len(results) - sum(results)} failed", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
