"""The hospital story: ICU patients held out by group, and single features scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from farfield.data import open_table
from farfield.evaluate import detection
from farfield.exact import at_infinity
from farfield.graph import capture
from farfield.levels import BLIND, SURE
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.models import make_model
from farfield.reproduce.shifted_tables import FILES, Floats
from farfield.reproduce.trust_findings import FACTORS, SCORES, present
from farfield.scores import score_by_name

__all__ = ["NAME", "NEEDS", "SOURCE", "TITLE", "present", "settings", "steps"]
NAME = "trust-issues"
TITLE = "ICU patients: groups held out and single features scaled, every model and score"
SOURCE = (
    "Ulmer and Cinà, Know Your Limits, Sections 1 and 3.2, after Ulmer, Meijerink and Cinà 2020"
)
FILE = FILES["ICU"]
NEEDS = (FILE,)
# Not known when the prediction is made, or no property of the patient.
DROPPED = ("RecordID", "set", "SAPS_I", "SOFA", "LOS", "Survival")
UNITS = {1: "coronary unit", 2: "cardiac surgery unit", 3: "medical unit", 4: "surgical unit"}
AGES = {"younger than 45": (0, 45), "85 and older": (85, 200)}
MODELS = (
    *("network", "temperature", "MC dropout"),
    *("ensemble", "anchored ensemble", "Bayes by backprop"),
)


def settings(quick: bool, seed: int) -> Settings:
    """All groups, models and features, or some of them."""
    units = list(UNITS.values())
    return {
        "seed": seed,
        "groups": units[:1] + list(AGES)[1:] if quick else units + list(AGES),
        "models": [m for m in MODELS if not quick or m in ("network", "MC dropout", "ensemble")],
        "hidden": [64, 64],
        "epochs": 20 if quick else 40,
        "members": 10,
        "samples": 20,
        "features": 20 if quick else 0,
        "patients": 300 if quick else 1000,
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """For each model: every held-out group, then single features scaled."""
    keys = ("seed", "hidden", "epochs", "members", "samples")
    fixed = {key: settings[key] for key in keys}
    scaling = {**fixed, "features": settings["features"], "patients": settings["patients"]}
    found = []
    for model in settings["models"]:
        found += [
            Stage(
                f"{model}: without {group}",
                {**fixed, "model": model, "group": group},
                partial(_hold_out, model, group, settings, request),
            )
            for group in settings["groups"]
        ]
        found.append(
            Stage(
                f"{model}: scaled features",
                {**scaling, "model": model},
                partial(_scale, model, settings, request),
            )
        )
    return found


@dataclass(frozen=True)
class Patients:
    """Stays with their features, outcome, unit and age."""

    X: Floats
    y: NDArray[np.int64]
    names: tuple[str, ...]
    unit: NDArray[np.int64]
    age: Floats

    def group(self, name: str) -> NDArray[np.bool_]:
        """Who belongs to a group."""
        if name in AGES:
            low, high = AGES[name]
            return np.asarray((self.age >= low) & (self.age < high))
        number = next(key for key, unit in UNITS.items() if unit == name)
        return np.asarray(self.unit == number)


def read_patients(request: RunRequest) -> Patients:
    """Read the ICU table; missing measurements become the median."""
    assert request.data_dir is not None
    table = open_table(request.data_dir / FILE, label="death", ignore=DROPPED, impute="median")
    rows, names = table.read(), table.feature_names
    unit, age = names.index("ICUType"), names.index("Age")
    kept = [index for index, name in enumerate(names) if name != "ICUType"]
    return Patients(
        rows.X[:, kept],
        np.asarray(rows.y),
        tuple(names[index] for index in kept),
        rows.X[:, unit].astype(np.int64),
        rows.X[:, age],
    )


def _build(name: str, settings: Settings) -> Any:
    shared: dict[str, Any] = {
        "hidden": tuple(settings["hidden"]),
        "epochs": settings["epochs"],
        "learning_rate": 1e-3,
        "batch_size": 128,
        "patience": 5,
        "dropout": 0.1,
        "random_state": settings["seed"],
    }
    if name == "Bayes by backprop":
        shared |= {"dropout": 0.0, "learning_rate": 5e-3}
    return make_model(name, shared, settings["members"], settings["samples"])


def _split(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Four fifths to train, one to test."""
    order = np.random.default_rng(seed).permutation(count)
    return order[count // 5 :], order[: count // 5]


def _hold_out(name: str, group: str, settings: Settings, request: RunRequest) -> Result:
    """Train without a group; can any score tell its patients from the others?"""
    patients = read_patients(request)
    outside = patients.group(group)
    X, y = patients.X[~outside], patients.y[~outside]
    train, test = _split(len(X), settings["seed"])
    model = _build(name, settings).fit(X[train], y[train])
    inside, strange = model.predict_instances(X[test]), model.predict_instances(patients.X[outside])
    result: Result = {
        "patients": int(outside.sum()),
        "auc": _auc(y[test], inside),
        "auc_outside": _auc(patients.y[outside], strange),
    }
    for score in SCORES:
        found = _scores(score, inside), _scores(score, strange)
        result[score] = detection(*found).auroc if found[0] is not None else None
    return result


def _auc(y: Any, p: Any) -> float:
    return float(roc_auc_score(y, p.mean(axis=0)[:, 1]))


def _scores(name: str, p: Any) -> Any:
    """A score of probabilities; None where one instance makes it zero."""
    if len(p) == 1 and name in ("class_variance", "mutual_information"):
        return None
    return score_by_name(name)(p)


def _scale(name: str, settings: Settings, request: RunRequest) -> Result:
    """Scale one feature of test patients; AUROC of every score, and the exact far field."""
    patients = read_patients(request)
    train, test = _split(len(patients.X), settings["seed"])
    model = _build(name, settings).fit(patients.X[train], patients.y[train])
    rows = patients.X[test][: settings["patients"]]
    chosen = _features(rows, settings)
    inside = model.predict_instances(patients.X[test])
    aurocs = np.full((len(SCORES), len(FACTORS), len(chosen)), np.nan)
    for place, feature in enumerate(chosen):
        for step, factor in enumerate(FACTORS):
            moved = rows.copy()
            moved[:, feature] *= factor
            strange = model.predict_instances(moved)
            for number, score in enumerate(SCORES):
                found = _scores(score, inside), _scores(score, strange)
                if found[0] is not None:
                    aurocs[number, step, place] = detection(*found).auroc
    limits = _limits(model, rows, chosen, inside)
    return {
        "aurocs": aurocs,
        "names": [patients.names[feature] for feature in chosen],
        "auc": _auc(patients.y[test], inside),
        **limits,
    }


def _features(rows: Floats, settings: Settings) -> list[int]:
    """Features that scaling moves: not zero for most patients; all of them, or the first few."""
    moving = [index for index in range(rows.shape[1]) if np.mean(rows[:, index] != 0) > 0.9]
    return moving[: settings["features"] or None]


def _limits(model: Any, rows: Floats, chosen: Sequence[int], inside: Any) -> Result:
    """AUROC and confidence when the factor goes to infinity, exact."""
    network = capture(model)
    aurocs = np.full((len(SCORES), len(chosen)), np.nan)
    confidence, settled = np.empty(len(chosen)), np.empty(len(chosen))
    for place, feature in enumerate(chosen):
        moving = rows[rows[:, feature] != 0]
        direction = np.zeros_like(moving)
        direction[:, feature] = moving[:, feature]
        far = at_infinity(network, moving, direction)
        confidence[place] = float((far.confidence >= BLIND).double().mean())
        # Factors are one more than the distance in units of the feature's own value.
        settled[place] = float(far.distance(SURE).amax(dim=0).median()) + 1
        for number, score in enumerate(SCORES):
            known = _scores(score, inside)
            if known is not None:
                end = _scores(score, far.probabilities.numpy())
                aurocs[number, place] = detection(known, end).auroc
    return {"limit_aurocs": aurocs, "blind": confidence, "settled": settled}
