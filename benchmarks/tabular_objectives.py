"""Do CEDA and ACET help on tables? Patients of an intensive care unit, and credit default."""

import gzip
import io
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import farfield as ff
from benchmarks.parts import data_folder, part
from farfield.evaluate import detection
from farfield.objectives import ACET, CEDA, Objective, TableNoise

QUESTION = (
    "ICU mortality (trained on medical and surgical units, shifted to coronary and cardiac "
    "surgery) and credit default, trained plainly, with CEDA and with ACET: is the test AUC kept, "
    "how sure are the networks on noise, on the shifted unit and with one feature far away, and "
    "what does the exact far field say?"
)
TARGETS = {
    "icu_ceda_auc_lost": "<= 0.005",
    "icu_acet_auc_lost": "<= 0.005",
    "credit_ceda_auc_lost": "<= 0.005",
    "credit_acet_auc_lost": "<= 0.005",
}
SEEDS = (0, 1, 2)
OBJECTIVES: dict[str, str | Objective] = {
    "plain": "nll",
    "ceda": CEDA(),
    "acet": ACET(),
    # The same with other noise, to see what the choice does.
    "ceda, uniform noise": CEDA(noise="uniform"),
    "ceda, gaussian noise, covariance x 4": CEDA(noise="gaussian", inflation=4.0),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "icu": {
        "hidden": (50, 50),
        "dropout": 0.3,
        "weight_decay": 1e-2,
        "epochs": 30,
        "patience": 5,
        "batch_size": 64,
        "learning_rate": 1e-3,
    },
    "credit": {
        "hidden": (50, 50),
        "dropout": 0.1,
        "weight_decay": 1e-3,
        "epochs": 15,
        "patience": 4,
        "batch_size": 256,
        "learning_rate": 2e-3,
    },
}
# Columns of the ICU file that tell the outcome, or are no measurements.
NO_FEATURES = {"RecordID", "set", "ICUType", "SAPS_I", "SOFA", "LOS", "Survival", "death"}
# How far one feature is moved, in standard deviations, and how many rows are moved.
FAR = (10.0, 100.0, 1000.0)
MOVED_ROWS = 50
RANDOM_RAYS = 500
BLIND = 0.99

Array = NDArray[np.float64]


def measure() -> dict[str, Any]:
    """Train every objective with every seed; each is a part that a later run need not repeat."""
    data = data_folder("tabular")
    results: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name in SETTINGS:
        sets = _read(data, name)
        results[name] = {
            "rows": {key: len(X) for key, (X, _) in sets.items()},
            "features": sets["train"][0].shape[1],
            "deaths or defaults": float(sets["train"][1].mean()),
        }
        for objective in OBJECTIVES:
            runs = [
                part(
                    "tabular_objectives",
                    f"{name}-{objective}-{seed}".replace(" ", "-").replace(",", ""),
                    lambda n=name, o=objective, s=seed, d=sets: _run(n, o, s, d),
                )
                for seed in SEEDS
            ]
            results[name][objective] = {key: _mean([run[key] for run in runs]) for key in runs[0]}
        plain = results[name]["plain"]["auc"]
        for objective in ("ceda", "acet"):
            numbers[f"{name}_{objective}_auc_lost"] = plain - results[name][objective]["auc"]
    settings = {"seeds": list(SEEDS), **SETTINGS, "objectives": _constants()}
    return {**numbers, "settings": settings, **results}


def _constants() -> dict[str, str]:
    return {name: repr(objective) for name, objective in OBJECTIVES.items()}


def _run(name: str, objective: str, seed: int, sets: dict[str, tuple[Array, Array]]) -> Any:
    """Train one network and measure it near, far and at infinity."""
    print(f"  {name}: {objective}, seed {seed}", file=sys.stderr)
    start = time.perf_counter()
    model = ff.ReLUClassifier(objective=OBJECTIVES[objective], random_state=seed, **SETTINGS[name])
    X, y = sets["train"]
    model.fit(X, y)
    seconds = time.perf_counter() - start
    test, labels = sets["test"]
    known = model.predict_proba(test)
    inside = known.max(axis=1)
    generator = torch.Generator().manual_seed(seed)
    noise = TableNoise("mixed")(torch.from_numpy(X), 2000, generator).numpy()
    result: dict[str, Any] = {
        "auc": float(roc_auc_score(labels, known[:, 1])),
        "mmc": float(inside.mean()),
        "noise": _outside(model, noise, inside),
    }
    if "shift" in sets:
        shifted, outcome = sets["shift"]
        result["shift"] = _outside(model, shifted, inside)
        result["shift"]["auc"] = float(roc_auc_score(outcome, model.predict_proba(shifted)[:, 1]))
    rows, scale = test[:MOVED_ROWS], X.std(axis=0)
    for far in FAR:
        moved = _one_feature(rows, scale, far)
        result[f"one feature {far:g} deviations away"] = _outside(model, moved, inside)
    result["far field"] = _far_field(model, rows, scale, seed)
    result["seconds"] = round(seconds, 1)
    return result


def _outside(model: Any, points: Array, inside: Array) -> dict[str, float]:
    confidence = model.predict_proba(points).max(axis=1)
    measured = detection(-inside, -confidence)
    return {
        "mmc": float(confidence.mean()),
        "over_99": float((confidence >= BLIND).mean()),
        "auroc": measured.auroc,
        "fpr95": measured.fpr95,
    }


def _one_feature(rows: Array, scale: Array, far: float) -> Array:
    """Move every feature of every row, one at a time, up and down."""
    steps = np.concatenate([np.diag(scale), -np.diag(scale)])[np.abs(np.r_[scale, scale]) > 0]
    moved: Array = (rows[:, None] + far * steps[None]).reshape(-1, rows.shape[1])
    return moved


def _far_field(model: Any, rows: Array, scale: Array, seed: int) -> dict[str, Any]:
    """Follow rays to infinity: along single features, and in random directions."""
    network = ff.capture(model)
    single = np.concatenate([np.diag(scale), -np.diag(scale)])[np.abs(np.r_[scale, scale]) > 0]
    origin = np.repeat(rows, len(single), axis=0)
    generator = np.random.default_rng(seed)
    random = generator.standard_normal((RANDOM_RAYS, rows.shape[1])) * scale
    starts = rows[generator.integers(len(rows), size=RANDOM_RAYS)]
    return {
        "single features": _rays(network, origin, np.tile(single, (len(rows), 1))),
        "random directions": _rays(network, starts, random),
    }


def _rays(network: ff.Network, origin: Array, direction: Array) -> dict[str, float]:
    far = ff.at_infinity(network, torch.from_numpy(origin), torch.from_numpy(direction))
    distance = far.distance(0.999)[0]
    # Distances are lengths of the direction: standard deviations of the features.
    return {
        "blind": float((far.confidence >= BLIND).double().mean()),
        "constant": float(far.constant.double().mean()),
        "median_deviations_to_0.999": _finite(distance.median()),
        "never_0.999": float(torch.isinf(distance).double().mean()),
    }


def _finite(value: torch.Tensor) -> float | None:
    return float(value) if bool(torch.isfinite(value)) else None


def _mean(values: list[Any]) -> Any:
    """Average over seeds, in every corner of a nested result."""
    if isinstance(values[0], dict):
        return {key: _mean([value[key] for value in values]) for key in values[0]}
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if len(numbers) == len(values) else None


def _read(data: Path, name: str) -> dict[str, tuple[Array, Array]]:
    """Read a table, fill gaps with medians of the training rows, and split it."""
    file = {"icu": "physionet2012_icu_features.csv.gz", "credit": "credit_default_uci.csv.gz"}[name]
    with gzip.open(data / "tabular" / file, "rt", encoding="utf-8") as stream:
        names, text = stream.readline().strip().split(","), stream.read()
    if name == "icu":
        for letter, number in (("a", "1"), ("b", "2"), ("c", "3")):
            text = text.replace(f",{letter},", f",{number},")
    values = np.genfromtxt(io.StringIO(text), delimiter=",")
    column = {title: values[:, index] for index, title in enumerate(names)}
    if name == "icu":
        own = np.isin(column["ICUType"], (3, 4))
        parts = {
            "train": own & (column["set"] < 3),
            "test": own & (column["set"] == 3),
            "shift": ~own,
        }
        y, X = column["death"], _columns(column, NO_FEATURES)
    else:
        order = np.random.default_rng(0).permutation(len(values))
        held = np.zeros(len(values), dtype=bool)
        held[order[: len(values) // 5]] = True
        parts = {"train": ~held, "test": held}
        label = "default.payment.next.month"
        y, X = column[label], _columns(column, {"ID", label})
    medians = np.nanmedian(X[parts["train"]], axis=0)
    X = np.where(np.isnan(X), medians, X)
    return {key: (X[rows], y[rows].astype(int)) for key, rows in parts.items()}


def _columns(column: dict[str, Array], without: set[str]) -> Array:
    return np.stack([values for name, values in column.items() if name not in without], axis=1)
