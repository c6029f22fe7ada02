"""Tables in LaTeX with booktabs rules."""

import re

from .layout import Layout, Text

_LIGATURES = "-',"

_PRINTED = ("grid", "published", "data", "items evaluated", "seeds", "±")

_LETTERS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "`": "{`}",
    '"': r"{\char34}",
    "±": r"$\pm$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "§": r"$^{\S}$",
    "–": "--",
    "…": r"\ldots{}",
}


def escape(text: str) -> str:
    """`text` so that LaTeX prints it letter by letter.

    Also what would be an argument of a line break (`[`, `*`) and what would run together (`--`);
    control characters vanish.
    """
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    parts: list[str] = []
    for index, letter in enumerate(line):
        runs_together = letter in _LIGATURES and index > 0 and line[index - 1] == letter
        parts.append(("{}" if runs_together else "") + _LETTERS.get(letter, letter))
    return "".join(parts)


def latex(layout: Layout) -> str:
    """A `table` environment with a label; needs `\\usepackage{booktabs}` and nothing else.

    Notes of rows stand under the table behind small letters, as they are longer than a column.
    What a reader of a paper needs is printed, the rest of how it was made follows as comments.
    """
    rows, letters = _with_letters(layout)
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape(layout.title)}}}",
        f"\\label{{{label(layout.name)}}}",
        f"\\begin{{tabular}}{{{layout.aligned}}}",
        "\\toprule",
        _line([escape(heading) for heading in layout.headings]),
        "\\midrule",
        *(_line(row) for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\par\\medskip\\footnotesize\\raggedright",
    ]
    lines += [f"{letter} {escape(note)}\\par" for note, letter in letters.items()]
    lines += [f"{escape(note)}\\par" for note in layout.footnotes]
    lines += [_how(term, words) for term, words in layout.how if term in _PRINTED]
    lines.append("\\end{table}")
    lines += [_comment(term, words) for term, words in layout.how if term not in _PRINTED]
    return "\n".join(lines) + "\n"


def label(name: str) -> str:
    """What to `\\ref`: `tab:` and the name, with hyphens for what may not stand in a label."""
    return "tab:" + re.sub(r"[^A-Za-z0-9.:-]+", "-", name).strip("-")


def _with_letters(layout: Layout) -> tuple[list[list[str]], dict[str, str]]:
    """The rows as LaTeX, and the letters that stand for their notes; equal notes share one."""
    letters: dict[str, str] = {}
    rows: list[list[str]] = []
    has_notes = layout.headings[-1] == "note"
    for row, note in zip(layout.rows, layout.notes, strict=True):
        cells = [_cell(cell) for cell in row]
        if has_notes and note:
            cells[-1] = letters.setdefault(note, f"$^{{{_letter(len(letters))}}}$")
        rows.append(cells)
    return rows, letters


def _letter(number: int) -> str:
    """a … z, aa, ab, …"""
    rest, last = divmod(number, 26)
    return (_letter(rest - 1) if rest else "") + "abcdefghijklmnopqrstuvwxyz"[last]


def _how(term: str, words: str) -> str:
    return f"\\textit{{{escape(term)}}}: {escape(words)}\\par"


def _comment(term: str, words: str) -> str:
    return " ".join(f"% {term}: {words}".split())


def _cell(cell: Text) -> str:
    text = escape(cell.text)
    if text[:1] in "+-" and text[1:2].isdigit():
        text = f"${text[0]}${text[1:]}"
    return f"\\textbf{{{text}}}" if cell.bold else text


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
