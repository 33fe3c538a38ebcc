"""Confidence as Hein et al. 2019 show it: their tables, and their Figures 2 to 4.

A table is text for a terminal, LaTeX or HTML. One block of columns per model: MMC, AUROC and
FPR@95; the first row is the data itself, and the test error stands with the model's name.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.report.figure import CLASSES, new_figure, save_figure
from farfield.report.latex import escape

if TYPE_CHECKING:
    from farfield.evaluate import ConfidenceRow, ConfidenceTable, ModelConfidence

Array = NDArray[Any]
COLUMNS = ("MMC", "AUROC", "FPR@95")
WIDTHS = (5, 5, 6)
NONE = "\N{EM DASH}"


def format_confidence_table(table: ConfidenceTable) -> str:
    """Write a table for a terminal: lines of text, as wide as the models need."""
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
    return [
        (row.data, *(cell for model in table.models for cell in _numbers(model.rows[index])))
        for index, row in enumerate(table.models[0].rows)
    ]


def _numbers(row: ConfidenceRow) -> list[str]:
    return [NONE if each is None else f"{each:.3f}" for each in (row.mmc, row.auroc, row.fpr95)]


def save_confidence_histograms(
    table: ConfidenceTable, path: Path, *, data: Sequence[str] | None = None
) -> Path:
    """Draw how many points have which confidence, on a logarithmic scale (Figure 4).

    Args:
        table: What was measured.
        path: Where to write; the ending says in which format.
        data: Names of the sets to show; the last one of the table by default.

    Raises:
        InputError: If a set is not in the table.
        MissingDependency: If matplotlib is not installed.
    """
    names = list(data or [table.models[0].rows[-1].data])
    figure = new_figure(3.1 * len(table.models), 0.5 + 2.0 * len(names))
    axes = figure.subplots(len(names), len(table.models), squeeze=False, sharex=True, sharey="row")
    for number, (line, name) in enumerate(zip(axes, names, strict=True)):
        for column, (axis, model) in enumerate(zip(line, table.models, strict=True)):
            row = model[name]
            edges = np.linspace(0, 1, len(row.histogram) + 1)
            colour = CLASSES[column % len(CLASSES)]
            axis.stairs(row.histogram, edges, fill=True, color=colour)
            axis.set_yscale("log")
            axis.set_ylim(0.7, 2 * max(max(m[name].histogram) for m in table.models))
            axis.set_xlim(0, 1)
            axis.spines[["top", "right"]].set_visible(False)
            axis.text(
                0.5,
                0.93,
                f"mean {row.mmc:.3f}",
                transform=axis.transAxes,
                ha="center",
                fontsize=8,
                color="0.25",
            )
            if number == 0:
                axis.set_title(model.model, fontsize=10)
            if number == len(axes) - 1:
                axis.set_xlabel("confidence")
        line[0].set_ylabel(f"{name}\n(points)", fontsize=9)
    return save_figure(figure, path)


def save_image_grid(
    rows: Mapping[str, Array],
    path: Path,
    *,
    captions: Mapping[str, Sequence[str]] | None = None,
    title: str = "",
) -> Path:
    """Draw rows of images below each other: noise, and what attacks made of it (Figures 2, 3).

    Args:
        rows: Name of a row to images ``(images, channels, height, width)`` in [0, 1]; as many
            in each row, with one or three channels.
        path: Where to write.
        captions: Name of a row to a short text below each of its images.
        title: Above the picture.

    Raises:
        InputError: For rows that do not fit together.
        MissingDependency: If matplotlib is not installed.
    """
    shapes = {name: np.asarray(images).shape for name, images in rows.items()}
    counts = {shape[0] for shape in shapes.values()}
    if len(counts) != 1 or any(len(s) != 4 or s[1] not in (1, 3) for s in shapes.values()):
        raise InputError(
            "rows must all have the same number of images, (images, 1 or 3 channels, height, "
            f"width), got {shapes}"
        )
    captions = captions or {}
    wrong = {name for name, texts in captions.items() if len(texts) != counts.copy().pop()}
    if wrong or set(captions) - set(rows):
        raise InputError(f"captions need one text per image of a row, got others for {wrong}")
    count = counts.pop()
    height = sum(1.18 if name in captions else 1.0 for name in rows)
    figure = new_figure(0.9 * count + 1.1, 0.9 * height + (0.35 if title else 0.1))
    axes = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for index, (axis, image) in enumerate(zip(line, np.asarray(images), strict=True)):
            pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
            axis.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            if name in captions:
                axis.set_xlabel(captions[name][index], fontsize=7, labelpad=2)
        line[0].set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center")
    if title:
        figure.suptitle(title, fontsize=10)
    return save_figure(figure, path)
