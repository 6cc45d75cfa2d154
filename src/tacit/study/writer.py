"""One writer for tables: Markdown, HTML, LaTeX and CSV from a heading and rows of text."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from tacit.errors import TacitError
from tacit.files import write_text

Cells = Sequence[object]

# What LaTeX would read as a command.
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def as_markdown(heading: Cells, rows: Iterable[Cells], *, align: Sequence[str] = ()) -> str:
    """A table in Markdown; `align` has a sign for each column, as in ["---", "---:"].

    >>> print(as_markdown(["method", "HR@10"], [["a | b", 0.5]]))
    | method | HR@10 |
    | --- | --- |
    | a \\| b | 0.5 |
    """
    lines = [heading, list(align) or ["---"] * len(heading), *rows]
    return "\n".join(markdown_line(line) for line in lines)


def markdown_line(cells: Cells) -> str:
    """A line of a Markdown table.

    >>> markdown_line(["a", "b | c", None])
    '| a | b \\\\| c |  |'
    """
    return "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in cells) + " |"


def as_csv(heading: Cells, rows: Iterable[Cells]) -> str:
    """A table as CSV.

    >>> as_csv(["method", "HR@10"], [["a, b", None]])
    'method,HR@10\\r\\n"a, b",\\r\\n'
    """
    stream = io.StringIO()
    csv.writer(stream).writerows([heading, *rows])
    return stream.getvalue()


def as_latex(heading: Cells, rows: Iterable[Cells]) -> str:
    """A table for LaTeX with booktabs; the first column is left, all others right.

    >>> print(as_latex(["method", "HR@10"], [["a_b", 0.5]]))
    \\begin{tabular}{lr}
    \\toprule
    method & HR@10 \\\\
    \\midrule
    a\\_b & 0.5 \\\\
    \\bottomrule
    \\end{tabular}
    """

    def line(cells: Cells) -> str:
        escaped = (re.sub(r"[\\~^&%$#_{}]", lambda m: _LATEX[m[0]], _text(c)) for c in cells)
        return " & ".join(escaped) + r" \\"

    columns = "l" + "r" * (len(heading) - 1)
    body = "\n".join(line(row) for row in rows)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(heading)}\n\\midrule\n{body}\n"
        "\\bottomrule\n\\end{tabular}"
    )


def as_html(heading: Cells, rows: Iterable[Cells]) -> str:
    """A table as HTML.

    >>> print(as_html(["method"], [["a < b"]]))
    <table>
    <tr><th>method</th></tr>
    <tr><td>a &lt; b</td></tr>
    </table>
    """

    def line(cells: Cells, tag: str) -> str:
        marked = "".join(f"<{tag}>{html.escape(_text(cell))}</{tag}>" for cell in cells)
        return f"<tr>{marked}</tr>"

    lines = ["<table>", line(heading, "th"), *(line(row, "td") for row in rows), "</table>"]
    return "\n".join(lines)


_FORMATS: Mapping[str, Callable[[Cells, Iterable[Cells]], str]] = {
    ".md": as_markdown,
    ".html": as_html,
    ".tex": as_latex,
    ".csv": as_csv,
}


def write_frame(frame: pl.DataFrame, path: str | Path) -> Path:
    """A frame as a file; its ending says the format: .md, .html, .tex or .csv.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_frame(pl.DataFrame({"a": [1]}), Path(folder) / "one.md")
    ...     path.read_text()
    '| a |\\n| --- |\\n| 1 |\\n'
    """
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise TacitError(
            f"Cannot write a table to {path.name!r}; end its name with one of "
            f"{', '.join(_FORMATS)}."
        )
    text = _FORMATS[path.suffix](frame.columns, frame.iter_rows())
    write_text(path, text if text.endswith("\n") else text + "\n")
    return path


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)
