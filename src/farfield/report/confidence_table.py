"""A confidence table as text for a terminal, as LaTeX and as HTML, in the form of Hein et al. 2019.

One block of columns per model: MMC, AUROC and FPR@95; the first row is the data itself, and the
test error stands with the model's name.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from farfield.report.latex import escape

if TYPE_CHECKING:
    from farfield.evaluate import ConfidenceRow, ConfidenceTable, ModelConfidence

COLUMNS = ("MMC", "AUROC", "FPR@95")
WIDTHS = (5, 5, 6)
NONE = "\N{EM DASH}"


def format_confidence_table(table: ConfidenceTable) -> str:
    """Write a table for a terminal.

    Args:
        table: What was measured.

    Returns:
        Lines of text, as wide as the models need.
    """
    names = [_heading(model) for model in table.models]
    cells = _cells(table)
    first = max(len(row[0]) for row in cells)
    block = [max(len(name), sum(WIDTHS) + 4) for name in names]
    lines = ["".ljust(first) + "".join(f"   {n:^{w}}" for n, w in zip(names, block, strict=True))]
    for row in [("", *COLUMNS * len(names)), *cells]:
        groups = [row[1 + 3 * i : 4 + 3 * i] for i in range(len(names))]
        text = [
            "  ".join(cell.rjust(width) for cell, width in zip(group, WIDTHS, strict=True))
            for group in groups
        ]
        lines.append(
            row[0].ljust(first) + "".join(f"   {t:>{w}}" for t, w in zip(text, block, strict=True))
        )
    return "\n".join(line.rstrip() for line in lines)


def confidence_latex(table: ConfidenceTable) -> str:
    r"""Write a table as LaTeX; ``\toprule`` and its like come from the ``booktabs`` package."""
    count = len(table.models)
    heads = [rf"\multicolumn{{3}}{{c}}{{{escape(_heading(model))}}}" for model in table.models]
    rules = [rf"\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(count)]
    rows = [
        " & ".join(["---" if cell == NONE else escape(cell) for cell in row]) + r" \\"
        for row in _cells(table)
    ]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'rrr' * count}}}",
            r"\toprule",
            " & ".join(["", *heads]) + r" \\",
            " ".join(rules),
            " & ".join(["", *map(escape, COLUMNS * count)]) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def confidence_html(table: ConfidenceTable) -> str:
    """Write a table as an HTML element; every name in it is escaped."""
    heads = "".join(
        f'<th colspan="3" scope="colgroup">{html.escape(_heading(model))}</th>'
        for model in table.models
    )
    units = "".join(f'<th scope="col">{title}</th>' for title in COLUMNS) * len(table.models)
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in _cells(table)
    )
    return (
        '<table class="confidence">\n'
        f"<caption>Mean maximal confidence (MMC), AUROC and FPR at 95% TPR by confidence; "
        f"out-of-distribution is positive, the data is {html.escape(table.in_data)}.</caption>\n"
        f"<thead>\n<tr><td></td>{heads}</tr>\n<tr><td></td>{units}</tr>\n</thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table>\n"
    )


def _heading(model: ModelConfidence) -> str:
    """Name a model with its test error, as the paper does."""
    return f"{model.model} (TE: {100 * model.test_error:.2f}%)"


def _cells(table: ConfidenceTable) -> list[tuple[str, ...]]:
    """Return rows of text: a set's name, and three numbers for every model."""
    rows = []
    for index, row in enumerate(table.models[0].rows):
        cells = [row.data]
        for model in table.models:
            cells.extend(_numbers(model.rows[index]))
        rows.append(tuple(cells))
    return rows


def _numbers(row: ConfidenceRow) -> tuple[str, str, str]:
    return _number(row.mmc), _number(row.auroc), _number(row.fpr95)


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"
