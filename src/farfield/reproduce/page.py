"""What was found, written: a page that needs nothing else, tables as CSV and as LaTeX."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from farfield.files import replacing
from farfield.report.latex import escape
from farfield.reproduce.findings import Findings, ResultTable, Value, format_value

_SYMBOLS = {"±": r"$\pm$", "≥": r"$\ge$", "≤": r"$\le$", "ε": r"$\varepsilon$"}


def write_page(
    path: Path,
    title: str,
    source: str,
    findings: Findings,
    images: Mapping[str, Path],
    run: Mapping[str, Any],
) -> Path:
    """Write the page of one experiment.

    Args:
        path: The file to write.
        title: What was reproduced.
        source: The document.
        findings: What was found.
        images: Name of a picture to its PNG file, which is put into the page.
        run: What was run: settings, time, versions.
    """
    encoded = {
        name: base64.b64encode(image.read_bytes()).decode() for name, image in images.items()
    }
    text = _template().render(
        title=title, heading=title, source=source, findings=findings, images=encoded, run=run
    )
    return _write(path, text)


def write_overview(path: Path, outcomes: Sequence[Any], run: Mapping[str, Any]) -> Path:
    """Write the page that leads to all experiments, given what became of each."""
    title, heading = "farfield: reproduced", "Every table and figure, beside the published one"
    text = _template().render(
        title=title, heading=heading, findings=None, outcomes=outcomes, run=run
    )
    return _write(path, text)


def write_table(table: ResultTable, folder: Path) -> None:
    """Write ``folder/name.csv`` and ``folder/name.tex``."""
    _write(folder / f"{table.name}.csv", to_csv(table))
    _write(folder / f"{table.name}.tex", to_latex(table))


def to_csv(table: ResultTable) -> str:
    r"""Write a table with full precision.

    >>> to_csv(ResultTable("t", "", ["a", "b"], [[1, 0.1], ["x, y", None]]))
    'a,b\n1,0.1\n"x, y",\n'
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([table.columns, *table.rows])
    return buffer.getvalue()


def to_latex(table: ResultTable) -> str:
    r"""Write a table for LaTeX with booktabs; numbers stand on the right.

    >>> print(to_latex(ResultTable("t", "50% of a_b", ["a", "b"], [["x", 0.5]])))
    \begin{table}
      \centering
      \caption{50\% of a\_b}
      \begin{tabular}{lr}
        \toprule
        a & b \\
        \midrule
        x & 0.5 \\
        \bottomrule
      \end{tabular}
    \end{table}
    """
    columns = range(len(table.columns))
    text = [any(isinstance(row[column], str) for row in table.rows) for column in columns]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex(table.caption)}}}",
        rf"  \begin{{tabular}}{{{''.join('l' if left else 'r' for left in text)}}}",
        r"    \toprule",
        f"    {_row(table.columns)}",
        r"    \midrule",
        *(f"    {_row(row)}" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def to_markdown(table: ResultTable) -> str:
    r"""Write a table for Markdown, without its caption.

    >>> print(to_markdown(ResultTable("t", "", ["a", "b"], [["x | y", 0.5]])))
    | a | b |
    |---|---|
    | x \| y | 0.5 |
    """
    rows = [[format_value(cell).replace("|", r"\|") for cell in row] for row in table.rows]
    lines = [table.columns, *rows]
    written = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([written[0], f"|{'---|' * len(table.columns)}", *written[1:]])


def _row(cells: Sequence[Value]) -> str:
    return " & ".join(_latex(format_value(cell)) for cell in cells) + r" \\"


def _latex(text: str) -> str:
    return "".join(_SYMBOLS.get(character) or escape(character) for character in text)


@cache
def _template() -> Template:
    """The page; everything that is put into it is escaped."""
    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(shown=format_value, fact=_fact)
    return made.from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_fact(each) for each in value) + "]"
    return format_value(value) if isinstance(value, float) else str(value)


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
