"""In-distribution health, and detection of out-of-distribution sets: what rows can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.audit.black_box import BlackBox
from farfield.audit.findings import Bin, Detected, Health, OutSet
from farfield.audit.references import Reference, features, penultimate
from farfield.audit.rows import EngineName, Floats, in_order, mean_probabilities, outputs
from farfield.audit.subject import Subject
from farfield.errors import InputError
from farfield.evaluate import calibration, detection, regression
from farfield.graph.network import Network
from farfield.scores import all_scores, energy, negative_max_logit

CHUNK = 16_384
# Probabilities that are kept for the calibration; more rows than fit are taken as a sample.
MOST_KEPT = 50_000_000
# Bootstrap draws: resamples times rows.
DRAWS = 2e8
MOST_IN_ROWS = 4_000
MOST_OUT_ROWS = 4_000
SHARED_CLASSES = ("accuracy", "nll", "brier", "ece", "adaptive_ece")


def resamples(rows: int) -> int:
    """How many bootstrap resamples a number of rows can afford."""
    return int(np.clip(DRAWS / max(1, rows), 100, 1000))


def classification_health(
    subject: Subject, source: Any, engine: EngineName, seed: int, advance: Callable[[float], None]
) -> Health | None:
    """Accuracy, likelihood and calibration over all labelled rows."""
    if source.label is None:
        return None
    probabilities, labels, done = [], [], 0
    fits = source.n_rows * subject.model.classes <= MOST_KEPT
    chunks = (
        source.chunks(CHUNK) if fits else _sample_chunks(source, MOST_KEPT // subject.model.classes)
    )
    for p, y in in_order(engine, mean_probabilities, subject.model, chunks):
        probabilities.append(p)
        labels.append(np.asarray(y))
        done += len(y)
        advance(done / source.n_rows)
    p, y = np.concatenate(probabilities), np.concatenate(labels)
    found = calibration(p, y, interval=0.95, resamples=resamples(len(y)), random_state=seed)
    return Health(
        rows=len(y),
        numbers={name: found.intervals[name] for name in SHARED_CLASSES},
        reliability=tuple(
            Bin(bar.lower, bar.upper, bar.points, bar.confidence, bar.accuracy)
            for bar in found.reliability
        ),
        mmc=float(p.max(axis=1).mean()),
        baseline=float(np.bincount(y).max() / len(y)),
    )


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


def regression_health(
    shared: ScaledNetwork, source: Any, engine: EngineName, seed: int
) -> Health | None:
    """Errors, likelihood and coverage over all rows with a target."""
    if source.label is None:
        return None
    parts = list(in_order(engine, mixture_of, shared, source.chunks(CHUNK)))
    mean = np.concatenate([part[0] for part in parts], axis=1)
    std = np.concatenate([part[1] for part in parts], axis=1)
    y = np.concatenate([np.asarray(part[2], dtype=float) for part in parts])
    found = regression(y, mean, std, interval=0.95, resamples=resamples(len(y)), random_state=seed)
    return Health(rows=len(y), numbers=dict(found.intervals), baseline=float(y.std()))


@dataclass(frozen=True, eq=False)
class Detector:
    """Everything that scores a row: the model, and distances fitted on rows of the data."""

    model: Network | BlackBox
    inputs: Reference
    body: Network | None
    body_reference: Reference | None

    @classmethod
    def fit(cls, model: Network | BlackBox, rows: Floats) -> Detector:
        """Fit the references on rows that are not scored afterwards."""
        body = penultimate(model) if isinstance(model, Network) else None
        fitted = None if body is None else Reference.fit(features(body, rows))
        return cls(model, Reference.fit(rows), body, fitted)


def score_rows(detector: Detector, rows: NDArray[Any]) -> dict[str, Floats]:
    """Every score of every row; higher means more uncertain."""
    model = detector.model
    found: dict[str, Floats] = {}
    if isinstance(model, Network):
        logits, p = outputs(model, rows)
        found["negative_max_logit"] = np.asarray(negative_max_logit(logits))
        found["energy"] = np.asarray(energy(logits))
    else:
        p = model.probabilities(rows).numpy()
    found |= dict(all_scores(p))
    for name, values in detector.inputs.distances(rows).items():
        found[f"{name} (inputs)"] = values
    if detector.body is not None and detector.body_reference is not None:
        inner = features(detector.body, rows)
        for name, values in detector.body_reference.distances(inner).items():
            found[f"{name} (features)"] = values
    found["confidence"] = p.mean(axis=0).max(axis=-1)
    return found


def detect(
    subject: Subject,
    out_sets: Mapping[str, Any],
    threshold: float,
    engine: EngineName,
    seed: int,
    advance: Callable[[float], None],
) -> tuple[tuple[Detected, ...], tuple[OutSet, ...]]:
    """Measure how well every score tells every out-of-distribution set from the data."""
    if not out_sets:
        return (), ()
    half = len(subject.rows) // 2
    if half < 1:
        raise InputError("detection needs at least two rows of data: one to fit, one to score")
    detector = Detector.fit(subject.model, subject.rows[:half])
    inside = _scores(detector, subject.rows[half:][:MOST_IN_ROWS], engine)
    detected: list[Detected] = []
    sets: list[OutSet] = []
    for index, (name, source) in enumerate(out_sets.items()):
        rows = source.sample(MOST_OUT_ROWS, random_state=seed).X
        outside = _scores(detector, rows, engine)
        confidence = outside.pop("confidence")
        for score, values in outside.items():
            detected.append(_detected(name, score, inside[score], values, seed))
        certain = float((confidence >= threshold).mean())
        mmc = float(confidence.mean())
        sets.append(OutSet(name, source.where, source.n_rows, mmc, certain))
        advance((index + 1) / len(out_sets))
    return tuple(detected), tuple(sets)


def _scores(detector: Detector, rows: Floats, engine: EngineName) -> dict[str, Floats]:
    parts = (rows[first : first + 1000] for first in range(0, len(rows), 1000))
    scored = list(in_order(engine, score_rows, detector, parts))
    return {name: np.concatenate([part[name] for part in scored]) for name in scored[0]}


def _detected(name: str, score: str, inside: Floats, outside: Floats, seed: int) -> Detected:
    found = detection(inside, outside, interval=0.95, resamples=200, random_state=seed)
    return Detected(
        dataset=name,
        score=score,
        reference="(" in score,
        auroc=found.intervals["auroc"],
        aupr=found.intervals["aupr_out"],
        fpr95=found.intervals["fpr95"],
        rows=len(outside),
    )
