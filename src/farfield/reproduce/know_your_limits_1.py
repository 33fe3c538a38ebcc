"""Figure 1 of Know Your Limits: entropy, exact polytopes and gradient of a nine-class network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from farfield.datasets import nine_clusters
from farfield.estimators import ReLUClassifier
from farfield.exact import linearize, slice_plane
from farfield.graph import capture
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import (
    KeptPolygons,
    draw_gradient,
    draw_points,
    draw_regions,
    draw_surface,
    shuffled_colours,
    tidy,
)
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable
from farfield.reproduce.surfaces import SurfaceGrid, Window, gradient_surfaces, score_surfaces

NAME = "know-your-limits-1"
TITLE = "Nine clusters: entropy surface, exact polytopes, gradient magnitude"
SOURCE = "Ulmer and Cinà, Know Your Limits, Figure 1 and footnote 6"
NEEDS: tuple[str, ...] = ()
WINDOW: Window = (-5.0, 5.0, -5.0, 5.0)
HIDDEN = (5, 5)
PUBLISHED = 0.063


def settings(quick: bool, seed: int) -> Settings:
    """2-5-5-9, Adam 1e-3, batches of 8, 100 epochs; the share over several trainings."""
    return {"seed": seed, "step": 0.1, "epochs": 100, "networks": 8 if quick else 40}


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each trained network."""
    fixed = {name: settings[name] for name in ("step", "epochs")}
    return [
        Stage(f"network {seed}", {**fixed, "seed": seed}, partial(_evaluate, seed, settings))
        for seed in range(settings["seed"], settings["seed"] + settings["networks"])
    ]


def _evaluate(seed: int, settings: Settings) -> Result:
    clusters = nine_clusters(seed)
    model = ReLUClassifier(
        hidden=HIDDEN,
        learning_rate=1e-3,
        batch_size=8,
        epochs=settings["epochs"],
        standardize=False,
        random_state=seed,
    ).fit(clusters.X, clusters.y)
    network = capture(model)
    plane = slice_plane(network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], WINDOW)
    zeros, dead = plane.slope == 0, (plane.slope == 0).all(dim=(1, 2))
    has_zero = zeros.any(dim=2).any(dim=1)
    area = plane.areas / plane.areas.sum()
    grid = SurfaceGrid.of(WINDOW, settings["step"])
    V = linearize(network, grid.points).V
    scores = score_surfaces(network, ["predictive_entropy"], grid)
    slopes = gradient_surfaces(network, ["predictive_entropy"], grid)
    edge = torch.tensor(WINDOW[1]) - plane.vertices.abs().amax(dim=1)
    outer = _any_corner(edge <= 1e-9, plane.offsets)
    return {
        "accuracy": float(model.score(clusters.X, clusters.y)),
        "regions": len(plane),
        "outer_regions": int(outer.sum()),
        "share_area": float(area[has_zero].sum()),
        "share_all_zero": float(area[dead].sum()),
        "share_points": float((V == 0).flatten(1).any(dim=1).double().mean()),
        "entropy": scores["predictive_entropy"],
        "gradient": slopes["predictive_entropy"],
        "has_zero": has_zero.numpy(),
        "vertices": plane.vertices.numpy(),
        "offsets": plane.offsets.numpy(),
    }


def _any_corner(found: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Whether any corner of each polygon has a property."""
    counts = torch.cat([found.new_zeros(1, dtype=torch.long), found.long().cumsum(0)])
    return counts[offsets[1:]] > counts[offsets[:-1]]


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Draw the figure of one network and list the shares of all."""
    shares = np.array([each["share_area"] for each in results.values()])
    number = int(np.abs(shares - PUBLISHED).argmin())
    nearest, shown = list(results.items())[number]
    clusters = nine_clusters(settings["seed"] + number)
    caption = f"{_CAPTION} Shown is {nearest}, whose share is nearest to 6.3%."
    pictures = [
        Figure("figure-1", caption, _figure(shown, (clusters.X, clusters.y))),
        Figure("shares", _CAPTION_SHARES, _histogram(shares)),
    ]
    first = results[f"network {settings['seed']}"]["share_points"]
    return Findings(_summary(results), _compare(first, shares), [_table(results)], pictures)


def _table(results: Mapping[str, Result]) -> ResultTable:
    shown = {
        "accuracy": "accuracy",
        "regions": "regions",
        "regions at the window's edge": "outer_regions",
        "share of grid points": "share_points",
        "share of the window's area (exact)": "share_area",
        "of which V = 0": "share_all_zero",
    }
    caption = "Networks of 2-5-5-9 units with different seeds of data and training, in [-5, 5]^2."
    return ResultTable.of("networks", caption, results, shown, "network")


def _compare(first: float, shares: Any) -> list[PaperComparison]:
    """The published share beside that of the first network, and of all."""
    why = (
        "One network on one draw of clusters is published, and neither its seed nor the clusters' "
        f"places. Over {len(shares)} trainings the exact share runs from {shares.min():.1%} to "
        f"{shares.max():.1%}, and it is 0 for {np.mean(shares == 0):.0%} of them."
    )
    ours = {
        "share of plotted points whose V has a zero entry, first network": first,
        f"the same share of the window's area, exact, mean of {len(shares)} networks": float(
            shares.mean()
        ),
    }
    return PaperComparison.each(ours, PUBLISHED, "footnote 6", why, tolerance=0.01)


_CAPTION = (
    "Figure 1. Left: predictive entropy, white for certain, up to log2(9) = 3.17 bits. Middle: the "
    "exact linear regions; hatched where V has a zero entry. Right: magnitude of the entropy's "
    "gradient."
)
_CAPTION_SHARES = "The exact share of [-5, 5]^2 in which V has a zero entry, for each network."


def _summary(results: Mapping[str, Result]) -> list[str]:
    zero = sum(each["share_area"] for each in results.values())
    whole = sum(each["share_all_zero"] for each in results.values())
    sentences = [
        "The polytopes are exact: every region of the window, not those that a sample of points "
        "happens to meet."
    ]
    if zero > 0:
        sentences.append(
            f"{whole / zero:.1%} of the area where V has a zero entry has V = 0 altogether: all "
            "units of a layer are off. There the network is constant, so the gradient is exactly "
            "zero although Proposition 1 does not apply, and the confidence stays where it is "
            "instead of tending to 1."
        )
    return sentences


def _figure(result: Result, data: Any) -> Any:
    figure = new_figure(11.2, 3.7)
    left, middle, right = figure.subplots(1, 3)
    entropy = draw_surface(left, WINDOW, result["entropy"], (0.0, float(np.log2(9))))
    draw_points(left, data[0], data[1], size=4)
    figure.colorbar(entropy, ax=left, shrink=0.8, label="bits", ticks=[0, 1, 2, 3])
    left.set_title("predictive entropy", fontsize=10)
    plane = KeptPolygons(result["vertices"], result["offsets"], WINDOW)
    draw_regions(middle, plane, shuffled_colours(len(result["offsets"]) - 1))
    hatch = plane.only(result["has_zero"])
    for polygon in hatch:
        middle.fill(*polygon.T, facecolor="none", edgecolor="0.1", hatch="////", linewidth=0.4)
    title = f"{result['regions']} linear regions, exact"
    middle.set_title(title, fontsize=10)
    slopes = draw_gradient(right, WINDOW, result["gradient"])
    figure.colorbar(slopes, ax=right, shrink=0.8, label="bits per unit", format="%.1f")
    right.set_title("gradient magnitude", fontsize=10)
    return figure


def _histogram(shares: Any) -> Any:
    figure = new_figure(6.4, 2.8)
    axis = figure.subplots()
    axis.hist(100 * shares, bins=np.arange(0, max(20, 100 * shares.max()) + 2, 2), color="#807dba")
    axis.axvline(100 * PUBLISHED, color="#d95f02", lw=1.5, label="published, 6.3%")
    axis.set_xlabel("share of the window where V has a zero entry, %")
    axis.set_ylabel("networks")
    axis.legend(frameon=False, fontsize=9)
    tidy(axis)
    return figure
