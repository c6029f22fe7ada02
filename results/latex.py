"""Tables in LaTeX with booktabs rules."""

from .layout import Layout, Text

_LIGATURES = "-',"

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
    """A `table` environment; needs `\\usepackage{booktabs}`."""
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape(layout.title)}}}",
        f"\\begin{{tabular}}{{{layout.aligned}}}",
        "\\toprule",
        _line([escape(heading) for heading in layout.headings]),
        "\\midrule",
        *(_line([_cell(cell) for cell in row]) for row in layout.rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\par\\medskip\\footnotesize\\raggedright",
    ]
    lines += [f"{escape(note)}\\par" for note in layout.footnotes]
    lines += [f"\\textit{{{escape(term)}}}: {escape(words)}\\par" for term, words in layout.how]
    lines.append("\\end{table}")
    return "\n".join(lines) + "\n"


def _cell(cell: Text) -> str:
    text = escape(cell.text)
    if text[:1] in "+-" and text[1:2].isdigit():
        text = f"${text[0]}${text[1:]}"
    return f"\\textbf{{{text}}}" if cell.bold else text


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
