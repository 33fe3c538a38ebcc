"""Tables as CSV for programs and as LaTeX for papers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from farfield.files import replacing
from farfield.report.latex import escape
from farfield.reproduce.findings import ResultTable, Value, format_value

_SYMBOLS = {
    "±": r"$\pm$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "ε": r"$\varepsilon$",
}


def write_table(table: ResultTable, folder: Path) -> list[Path]:
    """Write ``folder/name.csv`` and ``folder/name.tex``."""
    paths = []
    for ending, text in ((".csv", to_csv(table)), (".tex", to_latex(table))):
        path = folder / f"{table.name}{ending}"
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def to_csv(table: ResultTable) -> str:
    r"""Write a table with full precision.

    >>> to_csv(ResultTable("t", "", ["a", "b"], [[1, 0.1], ["x, y", None]]))
    'a,b\n1,0.1\n"x, y",\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow(["" if cell is None else cell for cell in row])
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
    numeric = [
        all(not isinstance(row[column], str) for row in table.rows)
        for column in range(len(table.columns))
    ]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.caption)}}}",
        rf"  \begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
        r"    \toprule",
        f"    {_row(table.columns)}",
        r"    \midrule",
        *(f"    {_row(row)}" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def escape_latex(text: str) -> str:
    r"""Escape what LaTeX would read as commands.

    >>> escape_latex("a_b & 5%")
    'a\\_b \\& 5\\%'
    """
    return "".join(_SYMBOLS.get(character) or escape(character) for character in text)


def _row(cells: object) -> str:
    assert isinstance(cells, list | tuple)
    return " & ".join(escape_latex(_text(cell)) for cell in cells) + r" \\"


def _text(cell: Value) -> str:
    return format_value(cell)
