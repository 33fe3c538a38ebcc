"""Out-of-distribution sets: how well every score tells them from the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.audit.black_box import BlackBox
from farfield.audit.case import Case
from farfield.audit.findings import Detected, OutSet
from farfield.audit.rows import Floats, in_order, outputs
from farfield.audit.sections.references import Reference, features, penultimate
from farfield.audit.settings import EngineName
from farfield.audit.subject import Subject
from farfield.errors import InputError
from farfield.evaluate import detection
from farfield.graph.network import Network
from farfield.scores import all_scores, energy, negative_max_logit

MOST_IN_ROWS = 4_000
MOST_OUT_ROWS = 4_000


def compute(case: Case) -> dict[str, Any]:
    """Every score on every out-of-distribution set."""
    advance, settings = case.stage("detection"), case.settings
    detected, sets = detect(
        case.subject, case.ood, settings.threshold, settings.engine, settings.seed, advance
    )
    return {"detection": detected, "out_sets": sets}


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
