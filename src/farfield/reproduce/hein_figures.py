"""Figures 2, 3 and 4 of Hein et al.: noise, adversarial noise, adversarial samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from farfield.evaluate import Attack, ConfidenceTable, confidence_table
from farfield.objectives import PGD
from farfield.objectives.attacks_values import log_confidence
from farfield.report.confidence import save_confidence_histograms, save_image_grid
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.hein_models import (
    LENETS,
    METHODS,
    NEEDS,
    draw_noise,
    lenet_settings,
    lenet_steps,
    network_of,
    read_labels,
    read_network,
    read_set,
)
from farfield.reproduce.hein_published import TABLE_1

__all__ = ["NAME", "NEEDS", "SOURCE", "TITLE", "present", "settings", "steps"]
NAME = "hein-figures"
TITLE = "Noise, adversarial noise, and how sure networks are of adversarial samples"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Figures 2, 3 and 4"


def settings(quick: bool, seed: int) -> Settings:
    """Figures 2 and 3 with 40 steps of the attack, Figure 4 with 80 on the test set."""
    return {
        "seed": seed,
        "shown": 8,
        "steps": 40,
        "samples": 60 if quick else 10_000,
        "sample_steps": 20 if quick else 80,
        "lenet": lenet_settings(quick, seed),
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """Train our LeNets (shared), make adversarial noise, attack test images."""
    grid = {key: settings[key] for key in ("seed", "shown", "steps")}
    sampling = {key: settings[key] for key in ("seed", "samples", "sample_steps", "lenet")}
    mnist = {**grid, "lenet": settings["lenet"]}
    found = [
        *lenet_steps(settings["lenet"], request),
        Stage(
            "noise mnist",
            mnist,
            partial(_attack_mnist, settings, request),
            needs=("train mnist-plain",),
        ),
        *(
            Stage(
                f"noise cifar10-{m}", {**grid, "m": m}, partial(_attack_cifar, m, settings, request)
            )
            for m in METHODS
        ),
    ]
    found += [
        Stage(
            f"samples {name}",
            {**sampling, "network": name},
            partial(_samples, settings, request),
            needs=(f"train {name}",),
        )
        for name in LENETS
    ]
    return found


def _attack(model: Any, noise: Any, settings: Settings) -> Result:
    """Drive the confidence on noise up."""
    # Forty of the paper's steps of 0.0075 just reach the edge of the ball.
    attack = PGD(0.3, settings["steps"], 0.0075)
    generator = torch.Generator().manual_seed(settings["seed"])
    found = attack.maximize(log_confidence([model]), noise, generator, low=0.0, high=1.0)
    with torch.inference_mode():
        before, after = (
            torch.softmax(model(images).double(), dim=-1).amax(dim=-1)
            for images in (noise, found.inputs)
        )
    return {
        "noise": noise.numpy(),
        "found": found.inputs.numpy(),
        "before": before.numpy(),
        "after": after.numpy(),
    }


def _attack_mnist(settings: Settings, request: RunRequest, trained: Result) -> Result:
    noise = draw_noise(read_set(request, "mnist", 500), settings["shown"], settings["seed"])
    return _attack(network_of(trained), noise, settings)


def _attack_cifar(method: str, settings: Settings, request: RunRequest) -> Result:
    noise = draw_noise(read_set(request, "cifar10", 500), settings["shown"], settings["seed"])
    return _attack(read_network(request, f"cifar10-{method}"), noise, settings)


def _samples(settings: Settings, request: RunRequest, trained: Result) -> Result:
    """Attack the labels of test images; how sure is the network of what comes out?"""
    count, steps = settings["samples"], settings["sample_steps"]
    attack = Attack(PGD(0.3, steps, max(0.0075, 2.5 * 0.3 / steps)))
    images = read_set(request, "mnist", count)
    table = confidence_table(
        {"network": network_of(trained)},
        (images, read_labels(request, "mnist", count)),
        {"gray CIFAR-10": read_set(request, "gray", 10)},
        {"adversarial samples": attack},
        in_name="MNIST",
        random_state=settings["seed"],
    )
    return {"table": table.to_json()}


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Draw the three figures."""
    table = _joined(results)
    cifar = {method: results[f"noise cifar10-{method}"] for method in METHODS}
    pictures = [
        Figure("figure-2", _CAPTION_2, partial(_grid, {"plain": results["noise mnist"]})),
        Figure("figure-3", _CAPTION_3, partial(_grid, cifar)),
        Figure("figure-4", _CAPTION_4, partial(_histograms, table)),
    ]
    rows: list[list[Value]] = [
        [name, len(each["before"]), float(each["before"].mean()), float(each["after"].mean())]
        for name, each in {"mnist-plain": results["noise mnist"], **_named(cifar)}.items()
    ]
    columns = ["network", "images", "mean confidence on noise", "on adversarial noise"]
    caption = f"The images of Figures 2 and 3: {settings['steps']} steps of 0.0075 within 0.3."
    return Findings(
        _summary(table),
        _compare(table, settings),
        [ResultTable("noise", caption, columns, rows)],
        pictures,
    )


_CAPTION_2 = (
    "Figure 2. Noise images (from permuted MNIST images and uniform ones) and the adversarial "
    "noise made from each for our plain LeNet; the confidence is below."
)
_CAPTION_3 = (
    "Figure 3. Noise images for CIFAR-10, and adversarial noise for the authors' plain, CEDA and "
    "ACET networks; the confidence is below."
)
_CAPTION_4 = (
    "Figure 4. Confidence of our LeNets on adversarial samples of MNIST test images (logarithmic "
    "scale)."
)


def _named(cifar: Mapping[str, Result]) -> dict[str, Result]:
    return {f"cifar10-{method}": each for method, each in cifar.items()}


def _grid(found: Mapping[str, Result], path: Path) -> None:
    first = next(iter(found.values()))
    rows = {"noise": first["noise"], **{name: each["found"] for name, each in found.items()}}
    captions = {name: _texts(each["after"]) for name, each in found.items()}
    if len(found) == 1:
        captions["noise"] = _texts(first["before"])
    save_image_grid(rows, path, captions=captions)


def _texts(values: Any) -> list[str]:
    return [f"{float(value):.2f}" for value in np.asarray(values)]


def _histograms(table: ConfidenceTable, path: Path) -> None:
    save_confidence_histograms(table, path, data=["adversarial samples"])


def _joined(results: Mapping[str, Result]) -> ConfidenceTable:
    """One table of the three LeNets."""
    tables = []
    for name in LENETS:
        table = ConfidenceTable.from_json(results[f"samples {name}"]["table"])
        (entry,) = table.models
        renamed = type(entry)(name.split("-")[1], entry.test_error, entry.rows)
        tables.append(ConfidenceTable(table.in_data, (renamed,), table.attacks))
    joined = tables[0]
    for table in tables[1:]:
        joined = joined.merge(table)
    return joined


def _compare(table: ConfidenceTable, settings: Settings) -> list[PaperComparison]:
    why = (
        f"{settings['samples']} images and {settings['sample_steps']} steps, and our own training "
        "of the network."
    )
    return [
        PaperComparison(
            f"mnist-{model.model}: MMC on adversarial samples",
            TABLE_1[f"mnist-{model.model}"]["adversarial samples"][0],
            model["adversarial samples"].mmc,
            "Table 1, and Figure 4",
            why,
            tolerance=0.05,
        )
        for model in table.models
    ]


def _summary(table: ConfidenceTable) -> list[str]:
    low = {
        model.model: float(np.sum(model["adversarial samples"].histogram[:25]))
        / model["adversarial samples"].points
        for model in table.models
    }
    shares = ", ".join(f"{name} {share:.0%}" for name, share in low.items())
    return [
        "The paper's point in Figure 4 is that ACET alone gives most adversarial samples a low "
        f"confidence. Share of adversarial samples with a confidence below 0.5 here: {shares}."
    ]
