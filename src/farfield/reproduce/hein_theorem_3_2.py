"""Theorem 3.2 of Hein et al.: the certified radius of RBF networks against what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from farfield.datasets import half_moons, nine_clusters
from farfield.estimators import RBFClassifier
from farfield.reproduce.drawing import panels, tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.surfaces import circle, nearest

NAME = "hein-theorem-3-2"
TITLE = "RBF networks: the radius of Theorem 3.2 against the measured confidence"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Theorem 3.2"
NEEDS: tuple[str, ...] = ()
EPSILONS = (0.1, 0.01, 0.001, 1e-6)
DATA: dict[str, Any] = {"half-moons": half_moons, "nine clusters": nine_clusters}


def settings(quick: bool, seed: int) -> Settings:
    """Networks with 50 centres and with all training points, several sharpnesses."""
    return {
        "seed": seed,
        "centres": [50, "data"],
        "gammas": ["auto", 1.0] if quick else ["auto", 0.3, 1.0, 3.0],
        "directions": 180 if quick else 360,
        "rings": 400 if quick else 800,
        "epochs": 60 if quick else 200,
        "epsilons": list(EPSILONS),
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each network."""
    fixed = {key: settings[key] for key in ("seed", "directions", "rings", "epochs", "epsilons")}
    return [
        Stage(
            f"{data}, {centres} centres, gamma {gamma}",
            {**fixed, "data": data, "centres": centres, "gamma": gamma},
            partial(_evaluate, data, centres, gamma, settings),
        )
        for data in DATA
        for centres in settings["centres"]
        for gamma in settings["gammas"]
    ]


def _evaluate(data: str, centres: Any, gamma: Any, settings: Settings) -> Result:
    """Measure the largest distance from all centres at which some class is off by more than eps.

    Points on rays from the mean in all directions, far beyond the theorem's radius.
    """
    drawn = DATA[data](settings["seed"])
    model = RBFClassifier(
        centres=centres, gamma=gamma, epochs=settings["epochs"], random_state=settings["seed"]
    ).fit(drawn.X, drawn.y)
    radii = [model.certificate_radius(epsilon) for epsilon in settings["epsilons"]]
    classes = len(model.classes_)
    rays = circle(settings["directions"])[1]
    centre = model.centres_.mean(axis=0)
    spread = float(np.linalg.norm(model.centres_ - centre, axis=1).max())
    reach = np.linspace(0, spread + 1.3 * max(radii), settings["rings"])
    points = (centre + reach[:, None, None] * rays).reshape(-1, 2)
    p = model.predict_proba(points)
    off = np.abs(p - 1 / classes).max(axis=1)
    distance = nearest(model.centres_, points)
    found = [float(distance[off > epsilon].max(initial=0.0)) for epsilon in settings["epsilons"]]
    order = np.argsort(distance)
    top = np.maximum.accumulate(p.max(axis=1)[order][::-1])[::-1]
    places = np.searchsorted(distance[order], np.linspace(0, max(radii) * 1.2, 300))
    return {
        "accuracy": float(model.score(drawn.X, drawn.y)),
        "classes": classes,
        "radii": radii,
        "measured": found,
        "worst": [float(off[distance >= radius].max(initial=0.0)) for radius in radii],
        "distance": distance[order][np.minimum(places, len(order) - 1)],
        "confidence": top[np.minimum(places, len(order) - 1)],
    }


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Tabulate radii and draw confidence against distance."""
    rows: list[list[Value]] = [
        [name, each["accuracy"], epsilon, radius, found, radius / found if found else None, worst]
        for name, each in results.items()
        for epsilon, radius, found, worst in zip(
            settings["epsilons"], each["radii"], each["measured"], each["worst"], strict=True
        )
    ]
    columns = [
        "network", "accuracy", "ε", "certified radius", "largest measured distance with more",
        "certified / measured", "largest deviation beyond the radius",
    ]  # fmt: skip
    caption = (
        "Distance to the nearest centre. Certified: beyond it every class is within ε of 1/K "
        "(Theorem 3.2). Measured: the largest distance of a point at which a class is not."
    )
    broken = [row for row in rows if float(row[6] or 0.0) > float(row[2] or 0.0)]
    ratios = [float(row[5]) for row in rows if isinstance(row[5], float)]
    beyond = "points beyond the certified radius with a class more than ε from 1/K, networks x ε"
    wrong = PaperComparison(beyond, 0, len(broken), "Theorem 3.2", "The theorem would be wrong.")
    summary = [
        f"The theorem holds on all {len(rows)} combinations. Its radius is {min(ratios):.2f} to "
        f"{max(ratios):.2f} times (median {np.median(ratios):.2f}) the distance at which the "
        "confidence really settles: the theorem lets all centres be as near as the nearest one.",
        "The network is unsure wherever it has seen nothing, which no ReLU network can be; the "
        "price is that it has to have centres near everything it should know.",
    ]
    picture = Figure("radii", _CAPTION, _figure(settings, results))
    return Findings(summary, [wrong], [ResultTable("radii", caption, columns, rows)], [picture])


_CAPTION = (
    "The largest confidence at a distance of at least so much from all centres (line), and the "
    "certified radii for ε = 0.1, 0.01 and 0.001 (dashed, from left to right)."
)


def _figure(settings: Settings, results: Mapping[str, Result]) -> Any:
    columns = 2 * len(settings["gammas"])
    titles = [name.replace(", ", "\n", 1) for name in results]
    figure, axes = panels(titles, (2.7, 2.5), columns, fontsize=8, sharey=True)
    for axis, each in zip(axes, results.values(), strict=True):
        axis.plot(each["distance"], each["confidence"], color="#54278f", lw=1.5)
        axis.axhline(1 / each["classes"], color="0.5", lw=0.8, ls=":")
        for radius in each["radii"][:3]:
            axis.axvline(radius, color="#d95f02", lw=1, ls="--")
        axis.set_ylim(0, 1.03)
        axis.set_xlim(0, each["radii"][2] * 1.15)
        tidy(axis)
    for axis in axes[-columns:]:
        axis.set_xlabel("distance to the nearest centre", fontsize=8)
    for axis in axes[::columns]:
        axis.set_ylabel("largest confidence", fontsize=8)
    return figure
