"""The picture of the study: who grows certain far away, who notices, and what a guard changes."""

from __future__ import annotations

from typing import Any

from farfield.report.figure import new_figure
from farfield.reproduce.drawing import tidy
from farfield.reproduce.every_model_grid import StudyGrid, scaled, value_of
from farfield.reproduce.findings import Figure

CAPTION = (
    "Left: the share of features that alone, at infinity, make a model at least 99% sure; bars "
    "the mean over tables, dots the tables; guarded models end at 0, by proof. Right: how well "
    "confidence tells rows with one column ten to a million times too large from test rows (AUROC, "
    "mean over tables), as trained and with a guard around the same model."
)
# Told apart by people who see colours differently, and by their shapes.
TRAINED, SAFE = "#d95f02", "#1b6ca8"
BAR = "#fdd0a2"
TEXT = 12


def picture(grid: StudyGrid) -> Figure:
    """Draw it."""
    return Figure("every-model", CAPTION, draw(grid))


def draw(grid: StudyGrid) -> Any:
    """Models from the blindest, below, to those that never are."""
    blind = {model: value_of(grid.blind(model, "axes")) or 0.0 for model in grid.models}
    noticed = {model: grid.mean(model, scaled("before")) or 0.0 for model in grid.models}
    order = sorted(grid.models, key=lambda model: (-blind[model], noticed[model]))
    figure = new_figure(13.3, 0.30 * len(order) + 1.8)
    figure.suptitle("Which models know when they do not know?", fontsize=17, fontweight="bold")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, model in enumerate(order):
        _certain(left, grid, model, place, blind[model])
        _noticed(right, grid, model, place)
    _finish(left, right, order)
    return figure


def _certain(axis: Any, grid: StudyGrid, model: str, place: int, blind: float) -> None:
    own = grid.of(model)
    shares = [r["blind"]["axes"]["value"] for r in own if "axes" in r["blind"]]
    axis.barh(place, blind, color=BAR, height=0.7, label=None if place else "mean over tables")
    axis.plot(
        shares, [place] * len(shares), "o", ms=5, mfc="none", mec=TRAINED, clip_on=False, zorder=5,
        label=None if place else "one table, as trained",
    )  # fmt: skip
    if own and all(result.get("proven") for result in own):
        axis.plot(
            0, place, "D", ms=7, color=SAFE, clip_on=False, zorder=4,
            label=None if place else "all tables, guarded: 0, proven",
        )  # fmt: skip


def _noticed(axis: Any, grid: StudyGrid, model: str, place: int) -> None:
    before, after = grid.mean(model, scaled("before")), grid.mean(model, scaled("after"))
    if before is not None and after is not None:
        axis.plot([before, after], [place, place], color="0.7", lw=2, zorder=1)
    for value, mark, colour, size, name in (
        (before, "o", TRAINED, 8, "as trained"),
        (after, "D", SAFE, 7, "guarded"),
    ):
        if value is not None:
            axis.plot(
                value, place, mark, ms=size, color=colour, clip_on=False, zorder=3,
                label=None if place else name,
            )  # fmt: skip


def _finish(left: Any, right: Any, order: list[str]) -> None:
    from matplotlib.ticker import PercentFormatter

    left.set_yticks(range(len(order)), order)
    left.set_title(
        "Grows certain: features that alone,\nat infinity, make it 99% sure", fontsize=TEXT + 1
    )
    left.xaxis.set_major_formatter(PercentFormatter(1.0))
    left.set_xlabel("share of features, up and down", fontsize=TEXT)
    right.set_title(
        "Notices: tells a wrongly scaled column\nfrom test rows by its confidence",
        fontsize=TEXT + 1,
    )
    right.axvline(0.5, color="0.5", lw=1, ls=":", zorder=0)
    right.text(0.49, -0.45, "chance", ha="right", color="0.35", fontsize=TEXT - 2)
    right.set_xlabel("AUROC (1: less sure of every such row than of any test row)", fontsize=TEXT)
    tidy(left, right)
    for axis in (left, right):
        axis.set_xlim(0, 1)
        axis.set_ylim(-0.6, len(order) - 0.2)
        axis.tick_params(labelsize=TEXT)
        axis.legend(loc="upper right" if axis is left else "upper left", fontsize=TEXT - 2)
