"""Before and after: what a guard changed, as plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from farfield.errors import InputError
from farfield.estimate import Estimate, clopper_pearson
from farfield.evaluate.calibration import calibration
from farfield.evaluate.detection import detection
from farfield.exact.infinity import at_infinity
from farfield.guard.function import GuardedFunction
from farfield.guard.model import GuardedModel
from farfield.scores import one_minus_max_probability

THRESHOLD = 0.99
RAYS = 1000
BATCH_ROWS = 1000


@dataclass(frozen=True)
class Side:
    """One model: the plain one, or the guarded one.

    Attributes:
        blindness: Share of directions that are blind at infinity, by family: a number where it is
            exact (for a guarded model 0, by proof), an estimate where directions are sampled.
        accuracy: Share of labels that are right; ``None`` without labels.
        nll: Negative log-likelihood in nats.
        ece: Expected calibration error.
        detection: For each out-of-distribution set its AUROC and FPR at 95% TPR.
        row_seconds: Time for one row.
        batch_seconds: Time for a batch of ``BATCH_ROWS`` rows.
    """

    blindness: Mapping[str, float | Estimate]
    accuracy: float | None
    nll: float | None
    ece: float | None
    detection: Mapping[str, tuple[float, float]]
    row_seconds: float
    batch_seconds: float


@dataclass(frozen=True)
class Comparison:
    """A model before and after.

    Attributes:
        before: The plain model.
        after: The guarded one.
        same_class: Share of all given rows, out-of-distribution ones included, whose predicted
            class is the same.
        identical: Share of in-distribution rows whose probabilities are bit-identical.
        rows: Number of in-distribution rows.
        statement: The certificate in words.
    """

    before: Side
    after: Side
    same_class: float
    identical: float
    rows: int
    statement: str


def compare(
    model: Any,
    guarded: GuardedModel | GuardedFunction,
    X: Any,
    y: Any = None,
    *,
    ood: Mapping[str, Any] | None = None,
    threshold: float = THRESHOLD,
    repeats: int = 5,
    random_state: int = 0,
) -> Comparison:
    """Compare a model with its guarded self.

    The plain side is evaluated through the guarded model's own copy of it, so that timings and
    numbers differ by the guard alone.

    Args:
        model: The plain model, or ``None``; only checked to predict what the copy predicts.
        guarded: From :func:`farfield.guard`.
        X: ``(rows, *input)`` in-distribution rows, best unseen ones.
        y: ``(rows,)`` classes from 0 to K - 1, if known.
        ood: Name of an out-of-distribution set to its rows.
        threshold: Confidence at infinity from which a direction is blind.
        repeats: How often to time; the fastest counts.
        random_state: Seed of the directions.
    """
    sets = {"": X, **(ood or {})}
    counts = {name: len(guarded.columns.read(values)) for name, values in sets.items()}
    if model is not None:
        _check_same(model, guarded, X)
    labels = None if y is None else _labels(y, counts[""], guarded.certificate.classes)
    plain = {name: guarded.own_proba(values) for name, values in sets.items()}
    safe = {name: guarded.predict_proba(values) for name, values in sets.items()}
    same = sum(
        int((plain[name].argmax(axis=1) == safe[name].argmax(axis=1)).sum()) for name in sets
    )
    identical = (plain[""] == safe[""]).all(axis=1)
    seconds = _latency(guarded, X, repeats)
    blindness = _blindness(guarded, threshold, random_state)
    proven = dict.fromkeys(blindness, 0.0)
    return Comparison(
        before=_side(plain, labels, blindness, seconds["plain"]),
        after=_side(safe, labels, proven, seconds["guarded"]),
        same_class=same / sum(counts.values()),
        identical=float(identical.mean()),
        rows=counts[""],
        statement=guarded.certificate.statement(),
    )


def _check_same(model: Any, guarded: GuardedModel | GuardedFunction, X: Any) -> None:
    """See that a model is the one that was guarded."""
    if not (isinstance(model, torch.nn.Module) and isinstance(guarded, GuardedModel)):
        return
    if len(guarded.members) > 1:
        return
    rows = guarded.rows(X)[:8].to(guarded.dtype)
    with torch.no_grad():
        training = model.training
        outputs = model.eval()(rows)
        model.train(training)
        own = guarded.members[0](rows)
    if outputs.shape == own.shape:
        scale = 1.0 + float(own.abs().max())
        head = torch.softmax(own, dim=-1) if own.ndim > 1 else own
        close = (outputs - own).abs().max() <= 1e-3 * scale or (outputs - head).abs().max() <= 1e-3
        if not bool(close):
            raise InputError("model is not the one inside of the guard; pass the same model")


def _labels(y: Any, rows: int, classes: int) -> np.ndarray[Any, Any]:
    labels = np.asarray(y)
    if labels.shape != (rows,) or labels.dtype.kind not in "iu" or labels.max() >= classes:
        raise InputError(
            f"y must be {rows} whole numbers below {classes}, got {labels.dtype} {labels.shape}"
        )
    return labels


def _side(
    probabilities: Mapping[str, Any],
    labels: np.ndarray[Any, Any] | None,
    blindness: Mapping[str, float | Estimate],
    seconds: tuple[float, float],
) -> Side:
    own = np.asarray(probabilities[""], dtype=np.float64)
    fit = None if labels is None else calibration(own, labels)
    inside = one_minus_max_probability(own)
    found = {}
    for name, values in probabilities.items():
        if name:
            outside = one_minus_max_probability(np.asarray(values, dtype=np.float64))
            result = detection(np.asarray(inside), np.asarray(outside))
            found[name] = (result.auroc, result.fpr95)
    return Side(
        blindness,
        None if fit is None else fit.accuracy,
        None if fit is None else fit.nll,
        None if fit is None else fit.ece,
        found,
        *seconds,
    )


def _blindness(
    guarded: GuardedModel | GuardedFunction, threshold: float, seed: int
) -> dict[str, float | Estimate]:
    """Blind shares of the plain model: both ends of every axis exactly, the sphere sampled."""
    if not isinstance(guarded, GuardedModel) or guarded.held.reason or len(guarded.covered.other):
        return {}
    network = guarded.network
    shape, units = network.input_shape, guarded.covered.whitened
    columns = len(units.mean)
    centre = units.mean.reshape(shape)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(RAYS, columns, generator=generator, dtype=torch.float64)
    sphere = units.inputs(drawn) - units.mean
    shares: dict[str, float | Estimate] = {}
    if columns <= 1024:
        axes = torch.eye(columns, dtype=torch.float64)
        axes = torch.cat([axes, -axes]).reshape(-1, *shape)
        blind = at_infinity(network, centre, axes).confidence >= threshold
        shares["axes"] = float(blind.double().mean())
    few = RAYS if columns <= 1024 else RAYS // 10
    blind = at_infinity(network, centre, sphere[:few].reshape(-1, *shape)).confidence >= threshold
    shares["sphere"] = clopper_pearson(int(blind.sum()), len(blind))
    return shares


def _latency(
    guarded: GuardedModel | GuardedFunction, X: Any, repeats: int
) -> dict[str, tuple[float, float]]:
    """Fastest times of one row and of a batch, both models in turn."""
    calls: dict[str, Callable[[Any], object]]
    if isinstance(guarded, GuardedModel):
        rows = guarded.rows(X).to(guarded.dtype)
        batch: Any = rows[torch.arange(BATCH_ROWS) % len(rows)]
        calls = {"plain": guarded.unguarded, "guarded": guarded.forward}
    else:
        places = np.arange(BATCH_ROWS) % len(X)
        batch = X.iloc[places] if hasattr(X, "iloc") else np.asarray(X)[places]
        calls = {"plain": guarded.own_proba, "guarded": guarded.predict_proba}
    best = {name: [float("inf"), float("inf")] for name in calls}
    with torch.no_grad():
        for _ in range(repeats + 1):
            for name, call in calls.items():
                for place, values in enumerate((batch[:1], batch)):
                    start = time.perf_counter()
                    call(values)
                    best[name][place] = min(best[name][place], time.perf_counter() - start)
    return {name: (times[0], times[1]) for name, times in best.items()}
