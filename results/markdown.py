"""Tables in Markdown (GitHub's pipe tables)."""

import re

from .layout import Layout, Text

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


def escape(text: str) -> str:
    """`text` so that Markdown shows it letter by letter, also inside a table cell."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", line)


def markdown(layout: Layout) -> str:
    """The table, its footnotes and how it was made."""
    lines = [f"### {escape(layout.title)}", ""]
    lines.append(_line([escape(heading) for heading in layout.headings]))
    lines.append(_line(["---:" if letter == "r" else "---" for letter in layout.aligned]))
    lines += [_line([_cell(cell) for cell in row]) for row in layout.rows]
    lines.append("")
    lines += [f"{escape(note)}\n" for note in layout.footnotes]
    lines += [f"- {escape(term)}: {_words(term, words)}" for term, words in layout.how]
    return "\n".join(lines) + "\n"


def _cell(cell: Text) -> str:
    text = escape(cell.text)
    return f"**{text}**" if cell.bold else text


def _words(term: str, words: str) -> str:
    """Commands and signatures as code, where nothing needs an escape but a backtick."""
    if term in ("command", "signatures") and "`" not in words:
        return f"`{' '.join(words.split())}`"
    return escape(words)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
