"""Figure 1 of the first version of Know Your Limits: five models on nine clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farfield.datasets import nine_clusters
from farfield.exact import blind_arcs
from farfield.graph import capture
from farfield.report.disc import draw_disc
from farfield.reproduce.drawing import disc_of, draw_points, draw_surface, panels
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable
from farfield.reproduce.models import make_model
from farfield.reproduce.surfaces import SurfaceGrid, Window, polar_surfaces, score_surfaces

NAME = "first-version-1"
TITLE = "Five models on a problem with nine classes: predictive entropy, out to infinity"
SOURCE = "Ulmer and Cinà, Know Your Limits, first version, Figure 1 and Theorem 1"
NEEDS: tuple[str, ...] = ()
WINDOW: Window = (-5.0, 5.0, -5.0, 5.0)
ENTROPY = "predictive_entropy"
MODELS = ("single network", "MC dropout", "Bayes by backprop", "ensemble", "anchored ensemble")
TOP = float(np.log2(9))


def settings(quick: bool, seed: int) -> Settings:
    """2-5-5-9, Adam 1e-3, batches of 8, 100 epochs; the widths of the other models are ours."""
    return {
        "seed": seed,
        "step": 0.1,
        "epochs": 40 if quick else 100,
        "single_hidden": [5, 5],
        "hidden": [25, 25],
        "dropout": 0.2,
        "members": 10,
        "samples": 50,
        "directions": 360 if quick else 1440,
        "models": list(MODELS),
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each model."""
    return step_per_model(settings, _evaluate)


def _build(name: str, settings: Settings) -> Any:
    own: dict[str, Any] = {
        "single network": {"hidden": tuple(settings["single_hidden"])},
        "MC dropout": {"dropout": settings["dropout"]},
        "Bayes by backprop": {"learning_rate": 1e-2, "batch_size": 64},
    }
    shared = {"hidden": tuple(settings["hidden"]), "learning_rate": 1e-3, "batch_size": 8}
    shared |= {"epochs": settings["epochs"], "random_state": settings["seed"], **own.get(name, {})}
    return make_model(name, shared, settings["members"], settings["samples"])


def _evaluate(name: str, settings: Settings) -> Result:
    clusters = nine_clusters(settings["seed"])
    model = _build(name, settings).fit(clusters.X, clusters.y)
    network = capture(model)
    surface = score_surfaces(network, [ENTROPY], SurfaceGrid.of(WINDOW, settings["step"]))[ENTROPY]
    polar = polar_surfaces(network, [ENTROPY], np.zeros(2), directions=settings["directions"])
    arcs = blind_arcs(network)
    return {
        "accuracy": float(model.score(clusters.X, clusters.y)),
        "blind": arcs.share,
        "member_blind": float(arcs.instance_share.mean()),
        "certain_share": float((surface < 0.1).mean()),
        "entropy": surface,
        **{key.removesuffix(f" {ENTROPY}"): values for key, values in polar.items()},
    }


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Draw the five surfaces and the five discs."""
    clusters = nine_clusters(settings["seed"])
    data = (clusters.X, clusters.y)
    columns: dict[str, Any] = {
        "accuracy": "accuracy",
        "share of the window below 0.1 bit": "certain_share",
        "blind share of directions (exact)": "blind",
        "its members alone": "member_blind",
        "entropy at infinity, mean": lambda each: float(each["limit"].mean()),
        "entropy at infinity, largest": lambda each: float(each["limit"].max()),
    }
    caption = "Predictive entropy in bits; blind: at least 99% sure infinitely far out."
    pictures = [
        Figure("figure-1", _CAPTION, _figure(results, data)),
        Figure("figure-1-infinity", _CAPTION_DISC, _discs(results, data)),
    ]
    table = ResultTable.of("models", caption, results, columns)
    return Findings(_summary(results), _compare(results), [table], pictures)


_CAPTION = (
    "Figure 1 of the first version. Predictive entropy in [-5, 5]^2, white for certain, from 0 to "
    "log2(9) = 3.17 bits."
)
_CAPTION_DISC = (
    "The same on the whole plane: the ring outside of each disc is infinity, exact. White arcs are "
    "blind directions; in purple ones the members end up with different classes."
)


def _compare(results: Mapping[str, Result]) -> list[PaperComparison]:
    alone = "The network is constant in a direction in which all units of a layer go off."
    several = (
        "Each member becomes certain, but of its own class: where votes differ, the entropy of the "
        "vote remains. The later version claims a fixed level only."
    )
    return [
        PaperComparison(
            f"predictive entropy in the limit, {name}: largest over directions, bits",
            0.0,
            float(each["limit"].max()),
            "Theorem 1: perfect certainty for every metric",
            alone if name == "single network" else several,
            tolerance=1e-6,
        )
        for name, each in results.items()
    ]


def _summary(results: Mapping[str, Result]) -> list[str]:
    return [
        "The source gives the number of clusters and points, the window and the single network "
        "(2-5-5-9); places of the clusters and the other models' sizes are ours.",
        "Blind directions, exact: "
        + ", ".join(f"{name} {each['blind']:.1%}" for name, each in results.items())
        + ".",
    ]


def _figure(results: Mapping[str, Result], data: Any) -> Any:
    figure, axes = panels(list(results), (2.8, 2.8), 3)
    for axis, each in zip(axes, results.values(), strict=True):
        image = draw_surface(axis, WINDOW, each["entropy"], (0.0, TOP))
        draw_points(axis, data[0], data[1], size=2.5)
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="bits", ticks=[0, 1, 2, 3])
    return figure


def _discs(results: Mapping[str, Result], data: Any) -> Any:
    figure, axes = panels(list(results), (2.75, 3.1), more=(0.6, 0.0), fontsize=9)
    X, y = data
    scale = float(X.std(axis=0).max())
    for axis, each in zip(axes, results.values(), strict=True):
        disc = disc_of(each, scale)
        image = draw_disc(axis, disc, (0.0, TOP))
        draw_points(axis, disc.places(X), y, size=1.0)
    figure.colorbar(image, ax=axes, shrink=0.7, pad=0.01, label="bits", ticks=[0, 1, 2, 3])
    return figure
