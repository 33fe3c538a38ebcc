"""Figures 2, 3 and 4 of Hein et al.: noise, adversarial noise, adversarial samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from farfield.evaluate import Attack, ConfidenceTable, confidence_table
from farfield.objectives import PGD
from farfield.objectives.attacks_values import log_confidence
from farfield.report.confidence import save_confidence_histograms, save_image_grid
from farfield.reproduce import hein_models as hein
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable

NAME = "hein-figures"
TITLE = "Noise, adversarial noise, and how sure networks are of adversarial samples"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Figures 2, 3 and 4"
NEEDS = hein.NEEDS
CIFAR = {method: f"cifar10-{method}" for method in hein.METHODS}
SAMPLES = "adversarial samples"


def settings(quick: bool, seed: int) -> Settings:
    """Figures 2 and 3 with 40 steps of the attack, Figure 4 with 80 on the test set."""
    return {
        "seed": seed,
        "shown": 8,
        "steps": 40,
        "samples": 60 if quick else 10_000,
        "sample_steps": 20 if quick else 80,
        "lenet": hein.lenet_settings(quick, seed),
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """Train our LeNets (shared), make adversarial noise, attack test images."""
    grid = {key: settings[key] for key in ("seed", "shown", "steps")}
    sampling = {key: settings[key] for key in ("seed", "samples", "sample_steps", "lenet")}
    mnist = {**grid, "lenet": settings["lenet"]}
    plain, samples = "mnist-plain", partial(_samples, settings, request)
    return [
        *hein.lenet_steps(settings["lenet"], request),
        Stage(
            "noise mnist", mnist, partial(_attack, plain, settings, request), hein.needs_of(plain)
        ),
        *(
            Stage(f"noise {name}", {**grid, "m": m}, partial(_attack, name, settings, request))
            for m, name in CIFAR.items()
        ),
        *(
            Stage(f"samples {name}", {**sampling, "network": name}, samples, hein.needs_of(name))
            for name in hein.LENETS
        ),
    ]


def _attack(name: str, settings: Settings, request: RunRequest, trained: Any = None) -> Result:
    """Drive the confidence of a network on noise up."""
    model = hein.read_network(request, name, trained)
    images = hein.read_set(request, name.split("-")[0], 500)
    noise = hein.draw_noise(images, settings["shown"], settings["seed"])
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


def _samples(settings: Settings, request: RunRequest, trained: Result) -> Result:
    """Attack the labels of test images; how sure is the network of what comes out?"""
    count = settings["samples"]
    attack = Attack(hein.crossing_attack(0.3, settings["sample_steps"], 0.0075))
    images = hein.read_set(request, "mnist", count)
    table = confidence_table(
        {"network": hein.network_of(trained)},
        (images, hein.read_labels(request, "mnist", count)),
        {"gray CIFAR-10": hein.read_set(request, "gray", 10)},
        {SAMPLES: attack},
        in_name="MNIST",
        random_state=settings["seed"],
    )
    return {"table": table.to_json()}


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Draw the three figures."""
    table = _joined(results)
    cifar = {method: results[f"noise {name}"] for method, name in CIFAR.items()}
    pictures = [
        Figure("figure-2", _CAPTION_2, partial(_grid, {"plain": results["noise mnist"]})),
        Figure("figure-3", _CAPTION_3, partial(_grid, cifar)),
        Figure("figure-4", _CAPTION_4, partial(save_confidence_histograms, table, data=[SAMPLES])),
    ]
    attacked = {"mnist-plain": results["noise mnist"]}
    attacked |= {name: results[f"noise {name}"] for name in CIFAR.values()}
    columns: dict[str, Any] = {
        "images": lambda each: len(each["before"]),
        "mean confidence on noise": lambda each: float(each["before"].mean()),
        "on adversarial noise": lambda each: float(each["after"].mean()),
    }
    caption = f"The images of Figures 2 and 3: {settings['steps']} steps of 0.0075 within 0.3."
    noise = ResultTable.of("noise", caption, attacked, columns, "network")
    return Findings(_summary(table), _compare(table, settings), [noise], pictures)


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


def _grid(found: Mapping[str, Result], path: Path) -> None:
    first = next(iter(found.values()))
    rows = {"noise": first["noise"], **{name: each["found"] for name, each in found.items()}}
    captions = {name: _texts(each["after"]) for name, each in found.items()}
    if len(found) == 1:
        captions["noise"] = _texts(first["before"])
    save_image_grid(rows, path, captions=captions)


def _texts(values: Any) -> list[str]:
    return [f"{float(value):.2f}" for value in np.asarray(values)]


def _joined(results: Mapping[str, Result]) -> ConfidenceTable:
    """One table of the three LeNets."""
    tables = {
        name.split("-")[1]: ConfidenceTable.from_json(results[f"samples {name}"]["table"])
        for name in hein.LENETS
    }
    models = tuple(replace(table.models[0], model=name) for name, table in tables.items())
    return replace(tables["plain"], models=models)


def _compare(table: ConfidenceTable, settings: Settings) -> list[PaperComparison]:
    why = (
        f"{settings['samples']} images and {settings['sample_steps']} steps, and our own training "
        "of the network."
    )
    return [
        PaperComparison(
            f"mnist-{model.model}: MMC on adversarial samples",
            hein.TABLE_1[f"mnist-{model.model}"][SAMPLES][0],
            model[SAMPLES].mmc,
            "Table 1, and Figure 4",
            why,
            tolerance=0.05,
        )
        for model in table.models
    ]


def _summary(table: ConfidenceTable) -> list[str]:
    low = {
        model.model: float(np.sum(model[SAMPLES].histogram[:25])) / model[SAMPLES].points
        for model in table.models
    }
    shares = ", ".join(f"{name} {share:.0%}" for name, share in low.items())
    return [
        "The paper's point in Figure 4 is that ACET alone gives most adversarial samples a low "
        f"confidence. Share of adversarial samples with a confidence below 0.5 here: {shares}."
    ]
