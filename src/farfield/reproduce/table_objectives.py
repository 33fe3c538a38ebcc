"""CEDA and ACET on tables: patients of an intensive care unit, and credit default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from farfield.estimators import ReLUClassifier
from farfield.evaluate import detection
from farfield.exact import at_infinity
from farfield.graph import Network, capture
from farfield.levels import BLIND, SURE
from farfield.objectives import ACET, CEDA, NLL, Objective, TableNoise
from farfield.report.figure import CLASSES
from farfield.reproduce.drawing import panels, tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.shifted_tables import FILES as TABLE_FILES
from farfield.reproduce.shifted_tables import NO_MEASUREMENTS, Floats, columns_of

NAME = "table-objectives"
TITLE = "CEDA and ACET on tables: is the AUC kept, and how sure are the networks elsewhere?"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Section 4, on tables"
FILES = {"icu": TABLE_FILES["ICU"], "credit": TABLE_FILES["credit default"]}
NEEDS = tuple(FILES.values())
OBJECTIVES: dict[str, Objective] = {
    "plain": NLL(),
    "ceda": CEDA(),
    "acet": ACET(),
    # The same with other noise, to see what the choice does.
    "ceda, uniform noise": CEDA(noise="uniform"),
    "ceda, gaussian noise, covariance x 4": CEDA(noise="gaussian", inflation=4.0),
}
TRAINING: dict[str, dict[str, Any]] = {
    "icu": {"dropout": 0.3, "weight_decay": 1e-2, "patience": 5, "batch_size": 64,
            "learning_rate": 1e-3},
    "credit": {"dropout": 0.1, "weight_decay": 1e-3, "patience": 4, "batch_size": 256,
               "learning_rate": 2e-3},
}  # fmt: skip
# How far one feature is moved, in standard deviations.
FAR = (10.0, 100.0, 1000.0)
# What may be lost of the test AUC.
KEPT = 0.005


def settings(quick: bool, seed: int) -> Settings:
    """Three seeds and all objectives, or one seed and the papers' three."""
    return {
        "seed": seed,
        "seeds": 1 if quick else 3,
        "objectives": list(OBJECTIVES)[: 3 if quick else None],
        "hidden": [50, 50],
        "epochs": {"icu": 5 if quick else 30, "credit": 2 if quick else 15},
        "moved_rows": 20 if quick else 50,
        "random_rays": 100 if quick else 500,
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """One step for each table, objective and seed: train, then measure near, far, at infinity."""
    keys = ("hidden", "epochs", "moved_rows", "random_rays")
    fixed = {key: settings[key] for key in keys}
    return [
        Stage(
            f"{name}: {objective}, seed {seed}",
            {**fixed, "table": name, "objective": objective, "seed": seed},
            partial(_run, name, objective, seed, settings, request),
        )
        for name in FILES
        for objective in settings["objectives"]
        for seed in _seeds(settings)
    ]


def _seeds(settings: Settings) -> range:
    return range(settings["seed"], settings["seed"] + settings["seeds"])


def _run(name: str, objective: str, seed: int, settings: Settings, request: RunRequest) -> Result:
    """Train one network and measure it near, far and at infinity."""
    assert request.data_dir is not None
    sets = _read(request.data_dir, name)
    model = ReLUClassifier(
        objective=OBJECTIVES[objective],
        random_state=seed,
        hidden=tuple(settings["hidden"]),
        epochs=settings["epochs"][name],
        **TRAINING[name],
    )
    X, y = sets["train"]
    model.fit(X, y)
    test, labels = sets["test"]
    known = model.predict_proba(test)
    inside = known.max(axis=1)
    generator = torch.Generator().manual_seed(seed)
    noise = TableNoise("mixed")(torch.from_numpy(X), 2000, generator).numpy()
    places = {"noise": _outside(model, noise, inside)}
    if "shift" in sets:
        places["other units"] = _outside(model, sets["shift"][0], inside)
    rows, scale = test[: settings["moved_rows"]], X.std(axis=0)
    for far in FAR:
        places[f"one feature {far:g} sd away"] = _outside(
            model, _one_feature(rows, scale, far), inside
        )
    return {
        "auc": float(roc_auc_score(labels, known[:, 1])),
        "mmc": float(inside.mean()),
        "places": places,
        "limits": _far_field(model, rows, scale, seed, settings["random_rays"]),
    }


def _outside(model: Any, points: Floats, inside: Floats) -> dict[str, float]:
    confidence = model.predict_proba(points).max(axis=1)
    measured = detection(-inside, -confidence)
    return {
        "mmc": float(confidence.mean()),
        "over_99": float((confidence >= BLIND).mean()),
        "auroc": measured.auroc,
        "fpr95": measured.fpr95,
    }


def _one_feature(rows: Floats, scale: Floats, far: float) -> Floats:
    """Move every feature of every row, one at a time, up and down."""
    moved: Floats = (rows[:, None] + far * _axes(scale)[None]).reshape(-1, rows.shape[1])
    return moved


def _axes(scale: Floats) -> Floats:
    """Both ends of every feature that varies, ``(directions, features)``."""
    both: Floats = np.concatenate([np.diag(scale), -np.diag(scale)])
    varying: Floats = both[np.r_[scale, scale] != 0]
    return varying


def _far_field(
    model: Any, rows: Floats, scale: Floats, seed: int, count: int
) -> dict[str, dict[str, float | None]]:
    """Follow rays to infinity: along single features, and in random directions."""
    network = capture(model)
    single = _axes(scale)
    origin = np.repeat(rows, len(single), axis=0)
    generator = np.random.default_rng(seed)
    random = generator.standard_normal((count, rows.shape[1])) * scale
    starts = rows[generator.integers(len(rows), size=count)]
    return {
        "single features": _rays(network, origin, np.tile(single, (len(rows), 1))),
        "random directions": _rays(network, starts, random),
    }


def _rays(network: Network, origin: Floats, direction: Floats) -> dict[str, float | None]:
    far = at_infinity(network, torch.from_numpy(origin), torch.from_numpy(direction))
    distance = far.distance(SURE)[0]
    median = float(distance.median())
    # Distances are lengths of the direction: standard deviations of the features.
    return {
        "blind": float((far.confidence >= BLIND).double().mean()),
        "constant": float(far.constant.double().mean()),
        "median_deviations_to_0.999": median if math.isfinite(median) else None,
        "never_0.999": float(torch.isinf(distance).double().mean()),
    }


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Means over seeds: quality, confidence elsewhere, and the far field."""
    means = {
        (name, objective): _mean(
            [results[f"{name}: {objective}, seed {seed}"] for seed in _seeds(settings)]
        )
        for name in FILES
        for objective in settings["objectives"]
    }
    near: list[list[Value]] = []
    far: list[list[Value]] = []
    for key, found in means.items():
        near.append([*key, "own test rows", found["auc"], found["mmc"], None, None])
        near += [
            [*key, place, None, each["mmc"], each["auroc"], each["fpr95"]]
            for place, each in found["places"].items()
        ]
        far += [[*key, rays, *each.values()] for rays, each in found["limits"].items()]
    where = ["table", "objective"]
    tables = [
        ResultTable("near", "Confidence, and detection by it; means over seeds.",
                    [*where, "rows", "AUC", "MMC", "AUROC", "FPR@95"], near),
        ResultTable("far", "Rays to infinity, exact; distances in standard deviations, at most.",
                    [*where, "rays", "blind", "constant", "median distance to 99.9%",
                     "never 99.9%"], far),
    ]  # fmt: skip
    picture = Figure("elsewhere", _CAPTION, _figure(means))
    return Findings(_summary(means), _compare(means), tables, [picture])


_CAPTION = "Mean confidence on a network's own test rows and elsewhere; 0.5 is the least there is."


def _compare(means: Mapping[tuple[str, str], Any]) -> list[PaperComparison]:
    lost = {
        f"{name}, {objective}: test AUC lost": means[name, "plain"]["auc"] - found["auc"]
        for (name, objective), found in means.items()
        if objective in ("ceda", "acet")
    }
    claim, why = "nothing to speak of", f"More than {KEPT} is lost on this table."
    return [
        PaperComparison(
            f"{what} against plain training", claim, auc, "Section 4", why, agrees=auc <= KEPT
        )
        for what, auc in lost.items()
    ]


def _summary(means: Mapping[tuple[str, str], Any]) -> list[str]:
    shares = {
        f"{name} {objective}": found["limits"]["single features"]["blind"]
        for (name, objective), found in means.items()
    }
    told = ", ".join(f"{key} {share:.0%}" for key, share in shares.items())
    same = " What training moves is the distance." if min(shares.values()) == 1 else ""
    return [f"Blind along single features, exactly: {told}.{same}"]


def _figure(means: Mapping[tuple[str, str], Any]) -> Any:
    figure, axes = panels(list(FILES), (4.5, 3.6), sharey=True)
    for axis, name in zip(axes, FILES, strict=True):
        shown = {objective: found for (table, objective), found in means.items() if table == name}
        for place, (objective, found) in enumerate(shown.items()):
            values = [found["mmc"], *(each["mmc"] for each in found["places"].values())]
            at = np.arange(len(values)) + 0.8 * place / len(shown)
            axis.bar(at, values, 0.8 / len(shown), color=CLASSES[place], label=objective)
        labels = ["own rows", *next(iter(shown.values()))["places"]]
        axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=7)
        tidy(axis)
    axes[0].set(ylim=(0.5, 1.0), ylabel="mean confidence")
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def _mean(values: list[Any]) -> Any:
    """Average over seeds, in every corner of a nested result."""
    if isinstance(values[0], dict):
        return {key: _mean([value[key] for value in values]) for key in values[0]}
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if len(numbers) == len(values) else None


def _read(data: Path, name: str) -> dict[str, tuple[Floats, Floats]]:
    """Read a table, fill gaps with medians of the training rows, and split it."""
    column = columns_of(data, FILES[name])
    if name == "icu":
        own, last = np.isin(column["ICUType"], (3, 4)), column["set"] == "c"
        parts = {"train": own & ~last, "test": own & last, "shift": ~own}
        label, others = "death", set(NO_MEASUREMENTS)
    else:
        order = np.random.default_rng(0).permutation(len(column["ID"]))
        held = np.zeros(len(order), dtype=bool)
        held[order[: len(order) // 5]] = True
        parts = {"train": ~held, "test": held}
        label, others = "default.payment.next.month", {"ID", "default.payment.next.month"}
    y = column[label]
    X: Floats = np.stack([each for title, each in column.items() if title not in others], axis=1)
    medians = np.nanmedian(X[parts["train"]], axis=0)
    X = np.where(np.isnan(X), medians, X)
    return {key: (X[rows], y[rows].astype(int)) for key, rows in parts.items()}
