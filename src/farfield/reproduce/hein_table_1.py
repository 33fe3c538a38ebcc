"""Table 1 of Hein et al.: confidence on other data, noise and adversarial images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from farfield.evaluate import Attack, confidence_table
from farfield.reproduce import hein_models as hein
from farfield.reproduce.drawing import panels, tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value

NAME = "hein-table-1"
TITLE = "Plain, CEDA and ACET: confidence on other images, noise and adversarial noise"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Table 1"
NEEDS = hein.NEEDS
# Other data that the networks are shown, by what they were trained on.
OTHERS = {
    "cifar10": {"SVHN": "svhn"},
    "svhn": {"CIFAR-10": "cifar10"},
    "mnist": {"FashionMNIST": "fashion", "EMNIST": "emnist", "gray CIFAR-10": "gray"},
}


def settings(quick: bool, seed: int) -> Settings:
    """The authors' networks on 2,000 images, 500 attacked for 200 and 80 steps; our LeNets."""
    return {
        "seed": seed,
        "networks": [*hein.RESNETS, *hein.LENETS],
        "images": 200 if quick else 2000,
        "noise": 200 if quick else 2000,
        "attacked": 10 if quick else 500,
        "noise_steps": 40 if quick else 200,
        "sample_steps": 20 if quick else 80,
        "lenet": hein.lenet_settings(quick, seed),
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """Train our LeNets, then evaluate every network."""
    lenets = [name for name in settings["networks"] if name in hein.LENETS]
    keys = ("seed", "images", "noise", "attacked", "noise_steps", "sample_steps")
    fixed = {key: settings[key] for key in keys}
    found = hein.lenet_steps(settings["lenet"], request) if lenets else []
    for name in settings["networks"]:
        run = partial(evaluate, name, settings, request)
        own = {"network": name, **({"lenet": settings["lenet"]} if name in hein.LENETS else {})}
        found.append(Stage(f"evaluate {name}", {**fixed, **own}, run, hein.needs_of(name)))
    return found


def evaluate(name: str, settings: Settings, request: RunRequest, trained: Any = None) -> Result:
    """Measure one network: the authors', or the one that was trained in an earlier step."""
    data, method = name.split("-")
    count = settings["images"]
    model: Any = hein.read_network(request, name, trained)
    inside, labels = hein.read_set(request, data, count), hein.read_labels(request, data, count)
    outside = {shown: hein.read_set(request, key, count) for shown, key in OTHERS[data].items()}
    outside["noise"] = hein.draw_noise(inside, settings["noise"], settings["seed"])
    # For MNIST the ball of adversarial samples is as large as that of noise.
    radius, step = (0.3, 0.0075) if data == "mnist" else (0.1, 0.0025)
    few, seed = settings["attacked"], settings["seed"]
    on_noise = hein.crossing_attack(0.3, settings["noise_steps"], 0.0075)
    on_samples = hein.crossing_attack(radius, settings["sample_steps"], step)
    attacks = {
        "adversarial noise": Attack(on_noise, on="noise", points=few),
        "adversarial samples": Attack(on_samples, points=few),
    }
    models = {method: model.to(memory_format=torch.channels_last)}
    table = confidence_table(
        models, (inside, labels), outside, attacks, in_name="data", random_state=seed
    )
    rows = {row.data: [row.mmc, row.auroc, row.fpr95, row.points] for row in table[method].rows}
    return {"error": table[method].test_error, "rows": rows}


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Put every row beside the paper's."""
    comparisons: list[PaperComparison] = []
    rows: list[list[Value]] = []
    for name in settings["networks"]:
        result = results[f"evaluate {name}"]
        published = hein.TABLE_1[name]
        comparisons += _compare(name, result, settings)
        for data, (mmc, auroc, fpr, points) in result["rows"].items():
            known = [*published.get(data, ()), None, None, None]
            rows.append([name, data, points, mmc, known[0], auroc, known[1], fpr, known[2]])
    columns = ["network", "data", "images", "MMC", "published MMC", "AUROC", "published AUROC"]
    columns += ["FPR@95", "published FPR@95"]
    caption = (
        "Mean maximal confidence, and detection by confidence. The cifar10 and svhn networks are "
        "the authors'; the mnist ones were trained here."
    )
    picture = Figure("mmc", _CAPTION, _figure(settings, results))
    table = ResultTable("table-1", caption, columns, rows)
    return Findings(_summary(settings, comparisons), comparisons, [table], [picture])


_CAPTION = "Mean maximal confidence: ours (bars) and published (orange marks)."


def _compare(name: str, result: Result, settings: Settings) -> list[PaperComparison]:
    published = hein.TABLE_1[name]
    error = {f"{name}: test error, %": 100 * result["error"]}
    why = f"{settings['images']} test images, not all of them."
    why += " Trained for minutes, not for 100 epochs." if name in hein.LENETS else ""
    found = PaperComparison.each(error, published["error"][0], "Table 1", why, tolerance=1.0)
    for data, values in published.items():
        if data not in result["rows"]:
            continue
        why = _why(name, data, settings)
        for column, theirs, ours in zip(hein.COLUMNS, values, result["rows"][data], strict=False):
            within = 0.09 if column == "FPR@95" else 0.02
            found += PaperComparison.each(
                {f"{name} on {data}: {column}": ours}, theirs, "Table 1", why, tolerance=within
            )
    return found


def _why(name: str, data: str, settings: Settings) -> str:
    """What differs in how the number was made."""
    reasons = [f"{settings['images']} images"]
    if data.startswith("adversarial"):
        number = settings["noise_steps" if data.endswith("noise") else "sample_steps"]
        longer = "" if number >= 80 else ", longer than the paper's"
        reasons = [f"{settings['attacked']} images, {number} steps{longer}"]
    if name in hein.LENETS:
        reasons.append("another training of the network")
    if "svhn" in name or data == "SVHN":
        reasons.append("SVHN digits cropped again from the full numbers")
    if data == "EMNIST":
        reasons.append("a sample of EMNIST letters")
    return f"Different here: {'; '.join(reasons)}."


def _summary(settings: Settings, comparisons: Sequence[PaperComparison]) -> list[str]:
    theirs = [
        c for c in comparisons if not c.quantity.startswith("mnist") and "error" not in c.quantity
    ]
    agree = sum(bool(c.agreement) for c in theirs)
    sentences = []
    if theirs:
        sentences.append(
            f"The authors' networks: {agree} of {len(theirs)} numbers agree with the paper (MMC, "
            "AUROC within 0.02, FPR@95 within 0.09)."
        )
    if any(name in hein.LENETS for name in settings["networks"]):
        training = settings["lenet"]
        if training["epoch_images"]:
            sentences.append(
                "Our LeNets: "
                + ", ".join(f"{m} {training['epochs'][m]} epochs" for m in hein.METHODS)
                + f" of {training['epoch_images']} images, ACET from CEDA's weights with "
                f"{training['acet_steps']} steps of its attack; the paper has 100 epochs of 60,000 "
                "and 40 steps."
            )
        else:
            sentences.append("Our LeNets are trained as the paper says.")
    return sentences


def _figure(settings: Settings, results: Mapping[str, Result]) -> Any:
    names = settings["networks"]
    figure, axes = panels(names, (3.0, 1.75), 3, more=(0.0, 0.6), fontsize=9, sharex=True)
    for axis, name in zip(axes, names, strict=True):
        rows = results[f"evaluate {name}"]["rows"]
        axis.barh(range(len(rows)), [row[0] for row in rows.values()], color="#9e9ac8")
        published = hein.TABLE_1[name]
        for place, data in enumerate(rows):
            if data in published:
                axis.plot(published[data][0], place, "|", ms=11, mew=2.2, color="#d95f02")
        axis.set_yticks(range(len(rows)), list(rows), fontsize=7)
        axis.invert_yaxis()
        axis.set_xlim(0, 1.03)
        tidy(axis)
    return figure
