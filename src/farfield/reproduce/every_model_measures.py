"""One model on one table: on its own rows, infinitely far away, on foreign rows, and guarded."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.audit.black_box import BlackBox
from farfield.audit.case import Case, open_case
from farfield.audit.families import axes, follow
from farfield.audit.fields.directions import Family
from farfield.audit.opening import open_both
from farfield.audit.sections import directions
from farfield.audit.settings import Settings as Looked
from farfield.audit.subject import Subject
from farfield.data import Schema
from farfield.errors import FarfieldError, NotFollowed
from farfield.estimate import Estimate
from farfield.evaluate import calibration, detection
from farfield.graph.network import Network
from farfield.guard.classifier import GuardedClassifier
from farfield.reproduce.experiment import Result, Settings
from farfield.reproduce.shifted_tables import TABLES, ShiftedTable
from farfield.reproduce.table_models import MODELS, MOST_ROWS

SCALED = "one column scaled"
FAMILIES = ("axes", "random", "data")
LEVEL = 0.95
# How far a guarded model is asked along every axis, in standard deviations.
FAR = 1e6
Predict = Callable[[Any], Any]


def measure(table: str, name: str, settings: Settings, folder: Path | None) -> Result:
    """Fit a model, follow it to infinity, and look at rows that are not its own."""
    data = TABLES[table](folder)
    rows = min(settings["rows"], MOST_ROWS.get(name, settings["rows"]))
    X, y = (part[:rows] for part in data.train)
    model = MODELS[name](settings["seed"])
    with warnings.catch_warnings():
        # Libraries warn of columns that never vary and of fits that could go on.
        warnings.simplefilter("ignore")
        model.fit(X, y)
        return {
            "rows": len(X),
            "classes": len(np.unique(y)),
            **_far(model, X, y, data, settings),
            "before": _near(model.predict_proba, data, settings),
            **_guarded(model, X, y, data, settings),
        }


def describe(table: str, folder: Path | None) -> Result:
    """Say how large a table is, and what is foreign to it."""
    data = TABLES[table](folder)
    X, y = data.train
    return {
        "features": X.shape[1],
        "classes": len(np.unique(y)),
        "train": len(X),
        "test": len(data.test[0]),
        "foreign": {name: len(rows) for name, rows in _foreign(data).items()},
    }


def _foreign(data: ShiftedTable) -> dict[str, NDArray[Any]]:
    return {SCALED: data.scaled(), **data.near}


def _far(model: Any, X: Any, y: Any, data: ShiftedTable, settings: Settings) -> Result:
    """Follow a model along every family of directions; distances that nobody knows are looked for.

    Of a model that only nears its limits no distance is known; what is seen of it is.
    """
    case = _opened(model, X, y, data, settings)
    try:
        families = directions.compute(case)["families"]
    except NotFollowed:
        # Such as neighbours that tie for the last vote.
        case = replace(case, subject=_asked(case.subject))
        families = directions.compute(case)["families"]
    found = {family.name: family for family in families}
    alone, exact = found["axes"], case.subject.exact
    if any(math.isnan(each) for each in alone.settled):
        rays = axes(case.subject)
        assert rays is not None, "the same features as before"
        alone, exact = follow(_asked(case.subject), rays, case.settings.threshold), False
    how = "seen" if not exact else "exact" if alone.settled_exact else "at most"
    return {
        "exact": case.subject.exact,
        "blind": {name: _share(found[name]) for name in FAMILIES if name in found},
        "sure from": {"median": alone.settled[1], "how": how},
    }


def _asked(subject: Subject) -> Subject:
    """The same model, but only evaluated: by us, since far out some libraries' sums are not one."""
    network = subject.network
    ask = partial(_probabilities, network)
    return replace(subject, model=BlackBox(ask, network.input_shape, network.classes))


def _probabilities(network: Network, rows: NDArray[Any]) -> NDArray[Any]:
    return network.probabilities(rows).mean(dim=0).numpy()


def _opened(model: Any, X: Any, y: Any, data: ShiftedTable, settings: Settings) -> Case:
    names = [f"x{place}" for place in range(X.shape[1])]
    blocks = {
        f"block {number}": tuple(names[place] for place in block)
        for number, block in enumerate(data.blocks)
    }
    loaded, source, task = open_both(model, X, y, features=names, schema=Schema(blocks=blocks))
    return open_case(
        Looked(directions=settings["directions"], seed=settings["seed"]),
        loaded,
        source,
        task,
        data=X,
        ood={},
        class_names=None,
        progress=lambda _stage, _done: None,
    )


def _share(family: Family) -> Result:
    """A share, with its interval where it was sampled."""
    share = family.share
    if isinstance(share, Estimate):
        return {"value": share.value, "low": share.low, "high": share.high, "rays": family.rays}
    return {"value": float(share), "rays": family.rays}


def _near(predict: Predict, data: ShiftedTable, settings: Settings) -> Result:
    """Accuracy and likelihood on test rows; AUROC of one minus confidence on what is foreign."""
    own = np.asarray(predict(data.test[0]))
    judged = calibration(own, data.test[1])
    inside = 1 - own.max(axis=1)
    found = {}
    for name, rows in _foreign(data).items():
        outside = 1 - np.asarray(predict(rows)).max(axis=1)
        seen = detection(inside, outside, interval=LEVEL, resamples=settings["resamples"])
        interval = seen.intervals["auroc"]
        found[name] = {"value": seen.auroc, "low": interval.low, "high": interval.high}
    return {
        "accuracy": judged.accuracy,
        "nll": judged.nll,
        "brier": judged.brier,
        "auroc": found,
    }


def _guarded(model: Any, X: Any, y: Any, data: ShiftedTable, settings: Settings) -> Result:
    """The same behind a guard, which sees training rows alone; why not, if it cannot be made."""
    wrapped = GuardedClassifier(
        model, prefit=True, categorical=data.blocks or None, random_state=settings["seed"]
    )
    try:
        safe = wrapped.fit(X, y)
    except FarfieldError as error:
        return {"refused": str(error)}
    far = np.asarray(safe.predict_proba(_ends(X, data)))
    return {
        "after": _near(safe.predict_proba, data, settings),
        "proven": bool(safe.guard_.verify()),
        "unchanged": float(np.mean(safe.is_inside(data.test[0]))),
        "far confidence": float(far.max()),
    }


def _ends(X: NDArray[Any], data: ShiftedTable) -> NDArray[Any]:
    """A training row with each number alone far up, and far down."""
    fixed = {place for block in data.blocks for place in block}
    free = [place for place in range(X.shape[1]) if place not in fixed]
    rows = np.tile(X[0], (2 * len(free), 1))
    for number, place in enumerate(free):
        step = FAR * (float(X[:, place].std()) or 1.0)
        rows[2 * number, place] += step
        rows[2 * number + 1, place] -= step
    return rows
