"""How good the model is on the data that it was given, if that has labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.audit.black_box import BlackBox
from farfield.audit.case import Case
from farfield.audit.fields.quality import Bin, Health
from farfield.audit.rows import in_order
from farfield.audit.subject import Floats
from farfield.evaluate import calibration, regression
from farfield.graph.network import Network

CHUNK = 16_384
# Probabilities that are kept for the calibration; more rows than fit are taken as a sample.
MOST_KEPT = 50_000_000
# Bootstrap draws: resamples times rows.
DRAWS = 2e8
SHARED_CLASSES = ("accuracy", "nll", "brier", "ece", "adaptive_ece")


def compute(case: Case) -> dict[str, Any]:
    """Errors and calibration over all labelled rows."""
    advance = case.stage("health")
    if case.source.label is None:
        return {"health": None}
    return {"health": _classification(case, advance) if case.classifies else _regression(case)}


def resamples(rows: int) -> int:
    """How many bootstrap resamples a number of rows can afford."""
    return int(np.clip(DRAWS / max(1, rows), 100, 1000))


def _classification(case: Case, advance: Callable[[float], None]) -> Health:
    """Accuracy, likelihood and calibration over all labelled rows."""
    model, source, settings = case.subject.model, case.source, case.settings
    probabilities, labels, done = [], [], 0
    most = MOST_KEPT // model.classes
    chunks = source.chunks(CHUNK) if source.n_rows <= most else _sample_chunks(source, most)
    for p, y in in_order(settings.engine, mean_probabilities, model, chunks):
        probabilities.append(p)
        labels.append(np.asarray(y))
        done += len(y)
        advance(done / source.n_rows)
    p, y = np.concatenate(probabilities), np.concatenate(labels)
    found = calibration(
        p, y, interval=0.95, resamples=resamples(len(y)), random_state=settings.seed
    )
    return Health(
        rows=len(y),
        numbers={name: found.intervals[name] for name in SHARED_CLASSES},
        reliability=tuple(
            Bin(bar.lower, bar.upper, bar.points, bar.confidence, bar.accuracy)
            for bar in found.reliability
        ),
        mmc=float(p.max(axis=1).mean()),
        baseline=float(np.bincount(y).max() / len(y)),
        certain=float((p.max(axis=1) >= settings.threshold).mean()),
    )


def mean_probabilities(
    model: Network | BlackBox, chunk: tuple[NDArray[Any], Any]
) -> tuple[Floats, Any]:
    """Mean probabilities over instances of a chunk, and the labels that came with it."""
    rows, labels = chunk
    return model.probabilities(rows).mean(dim=0).numpy(), labels


def _sample_chunks(source: Any, most: int) -> Iterator[tuple[NDArray[Any], Any]]:
    rows = source.sample(most)
    for first in range(0, len(rows.X), CHUNK):
        part = slice(first, first + CHUNK)
        yield rows.X[part], rows.y[part]


@dataclass(frozen=True)
class ScaledNetwork:
    """A regressor's network with what turns its raw scale into the units of the target."""

    network: Network
    target_scale: float
    constant_scale: NDArray[np.float64] | None


def mixture_of(
    shared: ScaledNetwork, chunk: tuple[NDArray[Any], Any]
) -> tuple[Floats, Floats, Any]:
    """Mean and standard deviation of every member on a chunk, ``(instances, rows)`` each."""
    rows, y = chunk
    raw = shared.network.logits(rows).numpy()
    if shared.network.one_logit:
        means = raw[..., 1]
        given = shared.constant_scale
        fixed = np.full(len(means), 1e-6) if given is None else np.asarray(given)
        return means, np.broadcast_to(fixed[:, None], means.shape), y
    scale = shared.target_scale * (np.logaddexp(0.0, raw[..., 1]) + 1e-6)
    return raw[..., 0], scale, y


def _regression(case: Case) -> Health:
    """Errors, likelihood and coverage over all rows with a target."""
    settings, estimator = case.settings, case.loaded.estimator
    shared = ScaledNetwork(
        case.subject.network,
        float(getattr(estimator, "target_scale_", 1.0)),
        getattr(estimator, "constant_scale_", None),
    )
    parts = list(in_order(settings.engine, mixture_of, shared, case.source.chunks(CHUNK)))
    mean = np.concatenate([part[0] for part in parts], axis=1)
    std = np.concatenate([part[1] for part in parts], axis=1)
    y = np.concatenate([np.asarray(part[2], dtype=float) for part in parts])
    found = regression(
        y, mean, std, interval=0.95, resamples=resamples(len(y)), random_state=settings.seed
    )
    return Health(rows=len(y), numbers=dict(found.intervals), baseline=float(y.std()))
