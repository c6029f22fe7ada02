"""Tables in HTML: one small page without scripts, and the fragment that a larger page takes in."""

from html import escape as html_escape

from .layout import Layout, Text

STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1d2327; background: #fff; }
.result { max-width: 100%; overflow-x: auto; }
.result table { border-collapse: collapse; border-top: 2px solid; border-bottom: 2px solid; }
.result caption { text-align: left; font-weight: 600; padding: .4rem 0; }
.result th, .result td { padding: .2rem .8rem; text-align: left; vertical-align: top; }
.result thead th { border-bottom: 1px solid; }
.result tbody th { font-weight: 400; white-space: nowrap; }
.result .r { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.result dl { display: grid; grid-template-columns: max-content auto; gap: 0 1rem; }
.result dd { margin: 0; overflow-wrap: anywhere; }"""


def escape(text: str) -> str:
    """`text` for element content and quoted attributes; control characters vanish."""
    line = " ".join(text.split())
    return html_escape("".join(letter for letter in line if letter.isprintable()))


def fragment(layout: Layout) -> str:
    """The table, its footnotes and how it was made, as one `<section>`."""
    heads = "".join(
        f'<th scope="col"{_class(letter)}>{escape(heading)}</th>'
        for heading, letter in zip(layout.headings, layout.aligned, strict=True)
    )
    lines = [
        '<section class="result">',
        "<table>",
        f"<caption>{escape(layout.title)}</caption>",
        f"<thead><tr>{heads}</tr></thead>",
        "<tbody>",
        *(_line(row, layout.aligned) for row in layout.rows),
        "</tbody>",
        "</table>",
        *(f"<p>{escape(note)}</p>" for note in layout.footnotes),
        "<details open><summary>How this was made</summary><dl>",
        *(f"<dt>{escape(term)}</dt><dd>{escape(words)}</dd>" for term, words in layout.how),
        "</dl></details>",
        "</section>",
    ]
    return "\n".join(lines) + "\n"


def html(layout: Layout) -> str:
    """A complete page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(layout.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"{fragment(layout)}</body>\n</html>\n"
    )


def _line(cells: tuple[Text, ...], aligned: str) -> str:
    first, *rest = cells
    shown = [f'<th scope="row">{_text(first)}</th>']
    shown += [
        f"<td{_class(letter)}>{_text(cell)}</td>"
        for cell, letter in zip(rest, aligned[1:], strict=True)
    ]
    return f"<tr>{''.join(shown)}</tr>"


def _text(cell: Text) -> str:
    text = escape(cell.text)
    return f"<strong>{text}</strong>" if cell.bold else text


def _class(letter: str) -> str:
    return ' class="r"' if letter == "r" else ""
