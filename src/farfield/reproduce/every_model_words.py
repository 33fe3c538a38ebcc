"""The answer of the study in plain words, all of them made from the numbers, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from farfield.report.figure import new_figure
from farfield.reproduce.drawing import tidy
from farfield.reproduce.every_model_grid import Read, StudyGrid, change, natural, scaled, value_of
from farfield.reproduce.every_model_tables import GUARDED, distance_told
from farfield.reproduce.findings import Figure, PaperComparison

# From which mean share of features on a model counts as blind; and up to which as open.
MOSTLY, HARDLY = 0.9, 0.1
THEOREMS = {
    "ReLU network": ("all", "Hein et al. 2019, Theorem 3.1"),
    "RBF network": ("none", "Hein et al. 2019, Theorem 3.2"),
}
# Numbers that differ by less are told as one.
SAME = 0.0005
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


def summary(grid: StudyGrid) -> list[str]:
    """Answer: who becomes certain, who notices, what a guard changes, and at what price."""
    sentences = [
        *_certain(grid),
        *_distances(grid),
        *_noticed(grid),
        *_guarded(grid),
        *_most_accurate(grid),
        *_not_exact(grid),
    ]
    return [sentence for sentence in sentences if sentence]


def _certain(grid: StudyGrid) -> list[str]:
    """Who becomes certain when one feature goes far away."""
    blind = _known({model: value_of(grid.blind(model, "axes")) for model in grid.models})
    groups = (
        ([m for m in blind if blind[m] >= MOSTLY], "grow certain for almost any single feature"),
        ([m for m in blind if HARDLY < blind[m] < MOSTLY], "do so for a part of the features"),
        ([m for m in blind if blind[m] <= HARDLY], "do so hardly ever, or never"),
    )
    lead = (
        "Let one feature go to infinity, up or down, and leave the others at their medians: the "
        "share of features with which a model ends at least 99% sure, mean over tables."
    )
    told = [
        f"{_listed({m: blind[m] for m in group}, '{:.0%}')}: {words}."
        for group, words in groups
        if group
    ]
    return [lead, *told]


def _distances(grid: StudyGrid) -> list[str]:
    """How soon."""
    found = {model: grid.sure_from(model) for model in grid.models}
    finite = {m: each for m, each in found.items() if each and each[0] < float("inf")}
    if not finite:
        return ["On most tables no model is 99.9% sure for good along half of its features."]
    told = ", ".join(f"{m} {distance_told(each)}" for m, each in finite.items())
    return [
        "From so many standard deviations on, at the median over features and then over tables, "
        f"a model is 99.9% sure for good (≤ a bound, ~ only seen): {told}. All others: on half of "
        "the tables never, or it was not seen, for half of the features."
    ]


def _noticed(grid: StudyGrid) -> list[str]:
    """Who notices foreign rows."""
    sentences = []
    for read, what in (
        (scaled("before"), "A column that is ten to a million times too large"),
        (natural("before"), "A natural shift (other hospitals, growers, clients)"),
    ):
        found = _known({model: grid.mean(model, read) for model in grid.models})
        if found:
            top, bottom = max(found.values()), min(found.values())
            best = [m for m in found if top - found[m] < SAME]
            worst = [m for m in found if found[m] - bottom < SAME]
            below = sum(value < 0.5 for value in found.values())
            sentences.append(
                f"{what} is told from test rows best by {' and '.join(best)} (AUROC {top:.3f}), "
                f"worst by {' and '.join(worst)} ({bottom:.3f}); {below} of {len(found)} models "
                "are more often surer of such a row than of a test row (below 0.5)."
            )
    return sentences


def _guarded(grid: StudyGrid) -> list[str]:
    """What a guard changes, and at what price."""
    made = sum("after" in result for result in grid.cells.values())
    proven = sum(bool(result.get("proven")) for result in grid.cells.values())
    if not made:
        return ["No guard could be made."]
    ends = _range(grid, scaled("after"))
    kinds = _range(grid, natural("after"))
    kept = _range(grid, lambda result: result.get("unchanged"))
    price = _range(grid, change("brier"))
    parts = [
        f"A guard was made for {made} of {len(grid.cells)} models and tables, with a certificate "
        f"that checks on {proven}: no direction is blind any more."
    ]
    if ends:
        parts.append(f"A scaled column is then told with AUROC {ends[0]:.3f} to {ends[1]:.3f}")
        parts[-1] += f", natural shifts with {kinds[0]:.3f} to {kinds[1]:.3f}." if kinds else "."
    if kept and price:
        parts.append(
            f"The price: {kept[0]:.1%} to {kept[1]:.1%} of test rows keep their probabilities to "
            f"the last bit, the Brier score changes by {price[0]:+.4f} to {price[1]:+.4f} (means "
            "over tables, from model to model)."
        )
    refused = sorted({key for key, result in grid.cells.items() if "refused" in result})
    if refused:
        parts.append(f"Refused: {', '.join(f'{model} on {table}' for table, model in refused)}.")
    return [" ".join(parts)]


def _most_accurate(grid: StudyGrid) -> list[str]:
    """The models one would have taken anyway, before and after."""
    told = []
    for model in grid.best(GUARDED):
        mean = partial(grid.mean, model)
        before, after = mean(scaled("before")), mean(scaled("after"))
        right = mean(lambda result: result["before"]["accuracy"])
        if before is not None and after is not None and right is not None:
            told.append(f"{model} (accuracy {right:.3f}): AUROC {before:.3f}, guarded {after:.3f}")
    if not told:
        return []
    return [
        "The most accurate models on test rows, chosen by that alone, and a scaled column: "
        f"{'; '.join(told)}."
    ]


def _not_exact(grid: StudyGrid) -> list[str]:
    """What was only seen."""
    asked = sorted({model for (_, model), result in grid.cells.items() if not result["exact"]})
    if not asked:
        return [f"All {len(grid.models)} kinds were followed to infinity exactly on every table."]
    return [f"Only looked at, on some table: {', '.join(asked)}."]


def compare(grid: StudyGrid) -> list[PaperComparison]:
    """What theorems say of kinds of models, beside what was found."""
    found = []
    for model, (claimed, source) in THEOREMS.items():
        share = value_of(grid.blind(model, "axes")) if model in grid.models else None
        if share is not None:
            held = share == 1.0 if claimed == "all" else share == 0.0
            found.append(
                PaperComparison(
                    f"{model}: features that alone make it 99% sure, mean over tables",
                    claimed,
                    share,
                    source,
                    "The theorem assumes that far away no two logits grow alike; where a whole "
                    "layer is off, none grows.",
                    agrees=held,
                )
            )
    return found


def _range(grid: StudyGrid, read: Read) -> tuple[float, float] | None:
    found = _known({model: grid.mean(model, read) for model in grid.models})
    return (min(found.values()), max(found.values())) if found else None


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _listed(values: Mapping[str, float], layout: str) -> str:
    order: Sequence[str] = sorted(values, key=lambda name: -values[name])
    return ", ".join(f"{name} ({layout.format(values[name])})" for name in order)


def picture(grid: StudyGrid) -> Figure:
    """Draw models from the blindest, below, to those that never are."""
    blind = {model: value_of(grid.blind(model, "axes")) or 0.0 for model in grid.models}
    noticed = {model: grid.mean(model, scaled("before")) or 0.0 for model in grid.models}
    order = sorted(grid.models, key=lambda model: (-blind[model], noticed[model]))
    figure = new_figure(13.3, 0.30 * len(order) + 1.8)
    figure.suptitle("Which models know when they do not know?", fontsize=17, fontweight="bold")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, model in enumerate(order):
        _draw_certain(left, grid, model, place, blind[model])
        _draw_noticed(right, grid, model, place)
    _finish(left, right, order)
    return Figure("every-model", CAPTION, figure)


def _draw_certain(axis: Any, grid: StudyGrid, model: str, place: int, blind: float) -> None:
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


def _draw_noticed(axis: Any, grid: StudyGrid, model: str, place: int) -> None:
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
