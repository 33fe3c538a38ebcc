"""The guard itself, as one more remedy, with its certificate verified and attacked."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.evaluate import calibration, detection
from farfield.guard import GuardedModel, calibrate, falsify, guard
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.boosted import as_rows
from farfield.reproduce.rivals.rival import Rival, of_probabilities, proven_uniform
from farfield.reproduce.shifted_tables import Floats


def guarded(model: Any, task: GuardTask, seed: int) -> Rival:
    """Guard a model with the defaults."""
    start = time.perf_counter()
    safe = _guard(model, task, seed)
    seconds = time.perf_counter() - start
    extra = {**_changes(safe, task), **_promise(safe, task), "seconds_to_guard": round(seconds, 1)}
    far = proven_uniform(task.classes)
    if not isinstance(safe, GuardedModel):
        return of_probabilities(as_rows(safe.predict_proba), far, smooth=False, extra=extra)

    def probabilities(rows: Tensor) -> Tensor:
        return torch.softmax(safe(rows).double(), dim=1)

    def within(rows: Tensor) -> Tensor:
        return -safe.covered.distance(rows)

    return of_probabilities(probabilities, far, climbs=(within,), extra=extra)


def at_shares(model: Any, task: GuardTask, seed: int, shares: Sequence[float]) -> dict[str, Any]:
    """AUROC in every column if fewer rows are kept, whatever that costs in likelihood."""
    found = {}
    for keep in shares:
        with _unlimited_budget():
            safe = _guard(model, task, seed, keep=keep)
        changes = _changes(safe, task)
        inside = _uncertainty(safe, task.test[0])
        aurocs = {
            name: detection(inside, _uncertainty(safe, rows)).auroc
            for name, rows in {**task.near, **task.far()}.items()
        }
        kept = {key: changes[key] for key in ("identical_test", "nll_change")}
        found[f"{keep:g}"] = {**kept, "aurocs": aurocs}
    return found


@contextmanager
def _unlimited_budget() -> Iterator[None]:
    """Calibrate as if the likelihood of new rows did not count, which nobody should do."""
    usual = calibrate.BUDGET
    try:
        calibrate.BUDGET = math.inf
        yield
    finally:
        calibrate.BUDGET = usual


def _uncertainty(safe: Any, rows: Floats) -> Floats:
    found: Floats = 1.0 - np.asarray(safe.predict_proba(rows), dtype=np.float64).max(axis=1)
    return found


def _guard(model: Any, task: GuardTask, seed: int, **options: Any) -> Any:
    X, y = task.train
    return guard(
        model,
        X,
        labels=y,
        metric=task.metric,
        categorical=list(task.blocks) or None,
        random_state=seed,
        **options,
    )


def _changes(safe: Any, task: GuardTask) -> dict[str, Any]:
    """What the guard changes near the data, and whether it ever changes a class."""
    rows, labels = task.test
    own, new = safe.own_proba(rows), safe.predict_proba(rows)
    before, after = (calibration(np.asarray(p, dtype=np.float64), labels) for p in (own, new))
    everything = [rows, *task.near.values(), *task.far().values()]
    return {
        "accuracy_difference": after.accuracy - before.accuracy,
        "changed_classes": sum(_changed(safe, each) for each in everything),
        "identical_training": safe.certificate.training.share,
        "identical_test": float((own == new).all(axis=1).mean()),
        "nll_change": after.nll - before.nll,
        "ece_change": after.ece - before.ece,
    }


def _changed(safe: Any, rows: Floats) -> int:
    own, new = safe.own_proba(rows), safe.predict_proba(rows)
    usual = np.isfinite(own).all(axis=1)
    return int((own[usual].argmax(axis=1) != new[usual].argmax(axis=1)).sum())


def _promise(safe: Any, task: GuardTask) -> dict[str, Any]:
    """The certificate, verified again, and what an attack on it found."""
    X = task.train[0]
    wide = X[0].size > 500
    options = {"restarts": 4, "steps": 5} if wide else {"restarts": 16, "steps": 20}
    broken = falsify(safe, rows=X[: 8 if wide else 64], **options)
    return {
        "certificate": json.loads(safe.certificate.to_json()),
        "verified": bool(safe.verify()),
        "certificate_survives": broken.holds,
        "largest_found": broken.largest,
        "allowed": broken.allowed,
        "attacks": broken.starts,
    }
