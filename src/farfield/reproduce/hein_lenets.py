"""LeNets in minutes: plain, CEDA and ACET on MNIST, beside Table 1 of Hein et al., to infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from farfield.estimators.images import ImageSettings
from farfield.exact import at_infinity, first_reaching
from farfield.graph import capture
from farfield.levels import BLIND, SURE
from farfield.objectives import ACET, CEDA, NLL
from farfield.objectives.attacks_values import log_confidence
from farfield.reproduce import hein_models as hein
from farfield.reproduce import hein_table_1
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Findings, PaperComparison, ResultTable, Value

NAME = "hein-lenets"
TITLE = "LeNets trained in minutes: confidence elsewhere, and the far field"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Tables 1 and 2, MNIST"
NEEDS = tuple(each for each in hein.IMAGES.values() if "svhn" not in each)
# Epochs of 3,000 images, so that a schedule of the whole is met in a short training.
SHORT = 3000
FEW_STEPS = {"steps": 10, "step_size": 0.03}


def phases(images: int) -> dict[str, list[dict[str, Any]]]:
    """What each network is trained with, one after the other; ``after`` says from whose weights.

    ACET goes on from CEDA's weights, with few long steps of its attack, then with the paper's.
    """
    few = {"objective": "acet", "attack": FEW_STEPS, "epoch_images": images}
    own = {"objective": "acet", "attack": {}, "epoch_images": max(16, images // 6)}
    return {
        "plain": [{"objective": "nll", "epochs": 30, "epoch_images": images}],
        "ceda": [
            {"objective": "ceda", "epochs": 25, "epoch_images": images, "seed": seed}
            for seed in (0, 3)
        ],
        "acet": [
            {**few, "after": "ceda", "epochs": 4, "schedule": [0.75], "seed": 1},
            {**own, "epochs": 6, "schedule": [0.5, 0.75], "learning_rate": 5e-4, "seed": 2},
            {**few, "epochs": 5, "schedule": [0.6, 0.8], "seed": 4},
            {**own, "epochs": 8, "schedule": [0.5], "learning_rate": 2e-4, "seed": 5},
        ],
    }


def settings(quick: bool, seed: int) -> Settings:
    """Half an hour of training and as much of attacks, or a minute."""
    return {
        "seed": seed,
        "phases": phases(100 if quick else SHORT),
        "images": 200 if quick else 10_000,
        "noise": 200 if quick else 2000,
        "attacked": 10 if quick else 500,
        "noise_steps": 40 if quick else 200,
        "sample_steps": 20 if quick else 80,
        "rays": 20 if quick else 100,
        "crossings": 1 if quick else 25,
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """Every phase of every training, then the table and the far field of each network."""
    found: list[Stage] = []
    trained = settings["phases"]
    for method in hein.METHODS:
        last: tuple[str, ...] = ()
        for number, phase in enumerate(trained[method], start=1):
            if "after" in phase:
                last = (f"train {phase['after']} {len(trained[phase['after']])}",)
            name = f"train {method} {number}"
            fixed = {"seed": settings["seed"], "phases": trained, "phase": name}
            found.append(Stage(name, fixed, partial(_train, name, phase, settings, request), last))
            last = (name,)
        fixed = {key: value for key, value in settings.items() if key != "rays"}
        evaluate = partial(hein_table_1.evaluate, f"mnist-{method}", settings, request)
        found.append(Stage(f"evaluate mnist-{method}", fixed, evaluate, last))
        far = {key: settings[key] for key in ("seed", "phases", "rays", "crossings", "attacked")}
        follow = partial(_follow, settings, request)
        found.append(Stage(f"follow mnist-{method}", {**far, "method": method}, follow, last))
    return found


def _train(
    name: str, phase: dict[str, Any], settings: Settings, request: RunRequest, start: Any = None
) -> Result:
    makers: dict[str, Any] = {"nll": NLL, "ceda": CEDA, "acet": ACET}
    chosen = ImageSettings(
        objective=makers[phase["objective"]](**phase.get("attack", {})),
        epochs=phase["epochs"],
        epoch_images=phase["epoch_images"],
        schedule=tuple(phase.get("schedule", (0.5, 0.75, 0.9))),
        learning_rate=phase.get("learning_rate", 1e-3),
        random_state=settings["seed"] + phase.get("seed", 0),
    )
    return hein.train_lenet(chosen, request, request.folder / f"{name.replace(' ', '-')}", start)


def _follow(settings: Settings, request: RunRequest, trained: Result) -> Result:
    """Rays to infinity, exact first crossings, and where an attack has nothing to follow."""
    model = hein.network_of(trained)
    network = capture(model, torch.zeros(1, 1, 28, 28))
    generator = torch.Generator().manual_seed(settings["seed"])
    count, origin = settings["rays"], torch.zeros(1, 28, 28)
    digits = hein.read_set(request, "mnist", count).float()
    uniform = torch.rand(count, 1, 28, 28, generator=generator)
    gaussian = torch.randn(len(digits), 1, 28, 28, generator=generator)
    rays = {
        "multiples of uniform images": (origin, uniform),
        "multiples of digits": (origin, digits),
        "from digits in Gaussian directions": (digits, gaussian),
    }
    limits = {}
    for family, (start, direction) in rays.items():
        far = at_infinity(network, start, direction)
        blind = float((far.confidence >= BLIND).double().mean())
        limits[family] = [blind, float(far.distance(SURE)[0].median())]
    crossings = [
        first_reaching(network, origin, image[None], SURE).t
        for image in uniform[: settings["crossings"]]
    ]
    noise = hein.draw_noise(
        hein.read_set(request, "mnist train"), settings["attacked"], settings["seed"]
    )
    leaf = noise.float().requires_grad_()
    (slope,) = torch.autograd.grad(log_confidence([model])(leaf).sum(), leaf)
    return {
        "limits": limits,
        "crossings": [float(t) for t in crossings],
        "without_slope": float((slope.flatten(1) == 0).all(1).double().mean()),
    }


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Table 1 beside the paper's, and the far field that no table of the paper has."""
    shown = {**settings, "networks": list(hein.LENETS), "lenet": {"epoch_images": None}}
    table = hein_table_1.present(shown, results)
    rows: list[list[Value]] = []
    comparisons: list[PaperComparison] = [*table.comparisons]
    for name in hein.LENETS:
        found = results[f"follow {name}"]
        ordered = sorted(found["crossings"])
        median = ordered[(len(ordered) - 1) // 2]
        for family, (blind, distance) in found["limits"].items():
            rows.append([name, family, blind, distance, median, found["without_slope"]])
        comparisons += _compare(name, median)
    columns = [
        "network", "rays", "blind (exact)", "median distance from which on 99.9% sure, at most",
        "median first multiple of uniform images with 99.9%", "noise images without slope",
    ]  # fmt: skip
    caption = "At infinity; and the share of noise images on which an attack has nothing to follow."
    tables = [*table.tables, ResultTable("far-field", caption, columns, rows)]
    return Findings(_summary(settings, results), comparisons, tables, table.pictures)


def _compare(name: str, median: float) -> list[PaperComparison]:
    if name not in hein.TABLE_2:
        return []
    published = hein.TABLE_2[name][0]
    return [
        PaperComparison(
            f"{name}: median multiple of uniform images with 99.9%",
            published,
            median if math.isfinite(median) else "never",
            "Table 2",
            "Another, shorter training; and first crossings, which may lie below 1.",
            tolerance=0.15 * published,
        )
    ]


def _summary(settings: Settings, results: Mapping[str, Result]) -> list[str]:
    counts = {
        method: sum(phase["epochs"] * phase["epoch_images"] for phase in settings["phases"][method])
        for method in hein.METHODS
    }
    seen = ", ".join(f"{method} {count:,}" for method, count in counts.items())
    blind = [
        results[f"follow {name}"]["limits"]["multiples of uniform images"][0]
        for name in hein.LENETS
    ]
    return [
        f"Images that training saw: {seen} (ACET after CEDA's); the paper has 6,000,000 each.",
        "Multiples of uniform images end at least 99% sure in "
        + ", ".join(f"{share:.0%}" for share in blind)
        + " of the directions for plain, CEDA and ACET.",
    ]
