"""Figure 1 of Hein et al. and the toy problem: regions, growing windows, four kinds of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from farfield.datasets import half_moons
from farfield.estimators import RBFClassifier, ReLUClassifier
from farfield.exact import at_infinity, blind_arcs, slice_plane
from farfield.graph import capture
from farfield.levels import SURE
from farfield.objectives import resolve
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import KeptPolygons, draw_points, draw_regions, shuffled_colours
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable
from farfield.reproduce.surfaces import Window, circle

NAME = "hein-1"
TITLE = "Linear regions, and confidence on growing windows: plain, CEDA, ACET and RBF"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Figure 1, Theorems 3.1 and 3.2, Section 4"
NEEDS: tuple[str, ...] = ()
MODELS = ("plain", "CEDA", "ACET", "RBF")
OBJECTIVES = {"plain": "nll", "CEDA": "ceda", "ACET": "acet"}
CENTRE = (0.5, 0.25)


def settings(quick: bool, seed: int) -> Settings:
    """Two hidden layers; windows around the data, ten and a hundred times as wide."""
    return {
        "seed": seed,
        "hidden": [50, 50],
        "epochs": 60 if quick else 200,
        "batch_size": 128,
        "radii": [3.0, 30.0, 300.0],
        "pixels": 120 if quick else 300,
        "region_hidden": [16, 16],
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for the regions, one for each kind of training."""
    regions = {key: settings[key] for key in ("seed", "region_hidden")}
    models = step_per_model({**settings, "models": MODELS}, _evaluate, "region_hidden")
    return [Stage("regions", regions, partial(_regions, settings)), *models]


def _regions(settings: Settings) -> Result:
    """A small network with two hidden layers: all its regions in two windows."""
    moons = half_moons(settings["seed"])
    model = ReLUClassifier(
        hidden=tuple(settings["region_hidden"]), epochs=100, random_state=settings["seed"]
    ).fit(moons.X, moons.y)
    network = capture(model)
    result: Result = {}
    for name, radius in (("near", 4.0), ("far", 400.0)):
        plane = slice_plane(network, CENTRE, [1.0, 0.0], [0.0, 1.0], radius)
        result[f"{name} vertices"] = plane.vertices.numpy()
        result[f"{name} offsets"] = plane.offsets.numpy()
        result[f"{name} confidence"] = plane.probabilities.amax(dim=-1).numpy()
    # Each affine map that some ray ends on belongs to a region that extends to infinity.
    far = at_infinity(network, CENTRE, circle(20_000)[1])
    slopes = far.jacobian()[0].flatten(1).numpy().round(9)
    result["unbounded"] = len(np.unique(slopes, axis=0))
    result["blind"] = blind_arcs(network).share
    return result


def _evaluate(name: str, settings: Settings) -> Result:
    moons = half_moons(settings["seed"])
    model = _build(name, settings).fit(moons.X, moons.y)
    held = (moons.X_validation, moons.y_validation)
    inside = float(model.predict_proba(moons.X_validation).max(axis=1).mean())
    result: Result = {"accuracy": float(model.score(*held)), "inside": inside}
    pixels = settings["pixels"]
    for radius in settings["radii"]:
        ticks = np.linspace(-radius, radius, pixels)
        points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2) + CENTRE
        confidence = model.predict_proba(points).max(axis=1)
        result[f"window {radius:g}"] = confidence.reshape(pixels, pixels).astype(np.float32)
        result[f"mean {radius:g}"] = float(confidence.mean())
    if name == "RBF":
        radius = model.certificate_radius(0.01)
        return {**result, "blind": 0.0, "distance": None, "radius": radius}
    network = capture(model)
    distance = at_infinity(network, CENTRE, circle(1440)[1]).distance(SURE)[0]
    blind = blind_arcs(network).share
    return {**result, "blind": blind, "distance": float(distance.median()), "radius": None}


def _build(name: str, settings: Settings) -> Any:
    shared: dict[str, Any] = {
        "epochs": settings["epochs"],
        "batch_size": settings["batch_size"],
        "random_state": settings["seed"],
    }
    if name == "RBF":
        return RBFClassifier(centres=100, **shared)
    return ReLUClassifier(
        hidden=tuple(settings["hidden"]), objective=resolve(OBJECTIVES[name]), **shared
    )


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Draw regions and windows."""
    moons = half_moons(settings["seed"])
    data = (moons.X, moons.y)
    regions = results["regions"]
    models = {name: results[name] for name in MODELS if name in results}
    columns = {
        "accuracy": "accuracy",
        "mean confidence, validation": "inside",
        **{f"mean confidence, window ± {r:g}": f"mean {r:g}" for r in settings["radii"]},
        "blind share of directions (exact)": "blind",
        "median distance to 99.9%": "distance",
        "certified radius, ε = 0.01": "radius",
    }
    caption = "Half-moons. The largest window is a hundred times as wide as the smallest."
    pictures = [
        Figure("figure-1", _CAPTION, _draw_regions(regions, data)),
        Figure("windows", _CAPTION_WINDOWS, _draw_windows(settings, models, data)),
    ]
    table = ResultTable.of("windows", caption, models, columns, "training")
    return Findings(_summary(regions, models), _compare(models), [table], pictures)


_CAPTION = (
    "Figure 1. All linear regions of a network with two hidden layers of 16 units, exact; right: "
    "the window is a hundred times as wide, and only regions that extend to infinity are seen, "
    "shaded by the confidence at their centres."
)
_CAPTION_WINDOWS = (
    "Confidence (white 0.5, dark 1) around the half-moons, in windows 6, 60 and 600 wide. CEDA and "
    "ACET hold it down where noise was drawn, not beyond; the RBF network returns to 0.5."
)


def _compare(models: Mapping[str, Result]) -> list[PaperComparison]:
    shares = {
        f"share of directions that are at least 99% sure at infinity, {name}": each["blind"]
        for name, each in models.items()
        if name != "RBF"
    }
    claim = "Theorem 3.1: almost any direction"
    why = "V has identical rows in some last region: the condition of the theorem fails there."
    comparisons = PaperComparison.each(shares, 1.0, claim, why, tolerance=1e-9)
    if "RBF" in models:
        largest = [key for key in models["RBF"] if key.startswith("mean ")][-1]
        mean = {"mean confidence of the RBF network in the largest window": models["RBF"][largest]}
        why = "The window holds the data, where it is confident."
        comparisons += PaperComparison.each(
            mean, 0.5, "Theorem 3.2: 1/K far away", why, tolerance=0.01
        )
    return comparisons


def _summary(regions: Result, models: Mapping[str, Result]) -> list[str]:
    sentences = [
        f"The small network has {len(regions['near offsets']) - 1} regions in the window around "
        f"the data; at least {regions['unbounded']} regions extend to infinity. It is at "
        f"least 99% sure in {regions['blind']:.1%} of all directions."
    ]
    if "plain" in models and "ACET" in models:
        sentences.append(
            "Blind at infinity: "
            + ", ".join(f"{name} {each['blind']:.1%}" for name, each in models.items())
            + ". What CEDA and ACET move is the distance at which 99.9% is reached: "
            + ", ".join(
                f"{name} {each['distance']:.3g}"
                for name, each in models.items()
                if each["distance"] is not None
            )
            + " (median over directions)."
        )
    sentences.append(
        "The two-dimensional toy in the authors' code undoes every step of its attack, so its ACET "
        "is CEDA; ours attacks."
    )
    return sentences


def _square(radius: float) -> Window:
    return (-radius, radius, -radius, radius)


def _draw_regions(result: Result, data: Any) -> Any:
    from matplotlib import colormaps

    figure = new_figure(8.4, 4.1)
    left, right = figure.subplots(1, 2)
    near = KeptPolygons(result["near vertices"], result["near offsets"], _square(4.0))
    draw_regions(left, near, shuffled_colours(len(near.offsets) - 1))
    draw_points(left, data[0] - np.array(CENTRE), data[1], size=4)
    left.set_title(f"{len(near.offsets) - 1} regions around the data", fontsize=10)
    far = KeptPolygons(result["far vertices"], result["far offsets"], _square(400.0))
    shades = colormaps["Purples"](2 * result["far confidence"] - 1)
    draw_regions(right, far, shades, edge="white")
    right.set_title("a hundred times as wide", fontsize=10)
    return figure


def _draw_windows(settings: Settings, models: Mapping[str, Result], data: Any) -> Any:
    radii = settings["radii"]
    figure = new_figure(2.5 * len(models) + 0.7, 2.45 * len(radii))
    axes = figure.subplots(len(radii), len(models), squeeze=False)
    image = None
    for line, radius in zip(axes, radii, strict=True):
        for axis, (name, each) in zip(line, models.items(), strict=True):
            image = axis.imshow(
                each[f"window {radius:g}"],
                extent=_square(radius),
                origin="lower", cmap="Purples", vmin=0.5, vmax=1.0, interpolation="bilinear",
            )  # fmt: skip
            if radius == radii[0]:
                draw_points(axis, data[0] - np.array(CENTRE), data[1], size=1.5)
            mean = each[f"mean {radius:g}"]
            axis.set_title(f"{name}, mean {mean:.2f}", fontsize=8)
            axis.tick_params(labelsize=6)
    bar = figure.colorbar(image, ax=list(axes.ravel()), shrink=0.6, pad=0.01)
    bar.set_label("confidence")
    return figure
