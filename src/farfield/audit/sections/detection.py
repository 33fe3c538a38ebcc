"""Out-of-distribution sets: how well every score tells them from the data.

Beside the model's own scores stand two that do not look at its logits, on standardised inputs and
on penultimate features: the Mahalanobis distance to the data's mean (Lee et al. 2018, one Gaussian
for all classes) and the distance to the k-th nearest row (Sun et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.audit.black_box import BlackBox
from farfield.audit.case import Case
from farfield.audit.fields.quality import Detected, OutSet
from farfield.audit.rows import in_order
from farfield.audit.settings import EngineName
from farfield.audit.subject import Floats
from farfield.errors import InputError
from farfield.evaluate import detection
from farfield.graph.network import Network
from farfield.scores import all_scores, energy, negative_max_logit
from farfield.shrinkage import ledoit_wolf

MOST_IN_ROWS = 4_000
MOST_OUT_ROWS = 4_000
NEIGHBOURS = 10
# A Gaussian in more dimensions than this costs more than it tells; distances to rows remain.
MOST_DIMENSIONS = 2000
FIT_ROWS = 2000


def compute(case: Case) -> dict[str, Any]:
    """How well every score tells every out-of-distribution set from the data."""
    advance, settings, data = case.stage("detection"), case.settings, case.subject.rows
    if not case.ood:
        return {}
    half = len(data) // 2
    if half < 1:
        raise InputError("detection needs at least two rows of data: one to fit, one to score")
    detector = Detector.fit(case.subject.model, data[:half])
    inside = _scores(detector, data[half:][:MOST_IN_ROWS], settings.engine)
    detected: list[Detected] = []
    sets: list[OutSet] = []
    for index, (name, source) in enumerate(case.ood.items()):
        rows = source.sample(MOST_OUT_ROWS, random_state=settings.seed).X
        outside = _scores(detector, rows, settings.engine)
        confidence = outside.pop("confidence")
        for score, values in outside.items():
            detected.append(_detected(name, score, inside[score], values, settings.seed))
        certain = float((confidence >= settings.threshold).mean())
        sets.append(OutSet(name, source.where, source.n_rows, float(confidence.mean()), certain))
        advance((index + 1) / len(case.ood))
    return {"detection": tuple(detected), "out_sets": tuple(sets)}


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


@dataclass(frozen=True, eq=False)
class Reference:
    """Two distances in one space, fitted on rows of the data.

    Attributes:
        mean: ``(dimensions,)``, and
        scale: ``(dimensions,)``, by which rows are standardised.
        precision: Inverse of the shrunk covariance, or ``None`` in too many dimensions.
        rows: ``(rows, dimensions)`` the standardised rows themselves.
    """

    mean: Floats
    scale: Floats
    precision: Floats | None
    rows: Floats

    @classmethod
    def fit(cls, rows: Floats) -> Reference:
        """Fit on rows of the data."""
        flat = np.asarray(rows, dtype=float).reshape(len(rows), -1)[:FIT_ROWS]
        mean, scale = flat.mean(axis=0), flat.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        standard = (flat - mean) / scale
        precision: Floats | None = None
        if len(flat) > 1 and flat.shape[1] <= MOST_DIMENSIONS:
            covariance = ledoit_wolf(standard)
            ridge = 1e-9 * max(1.0, float(np.trace(covariance)))
            precision = np.asarray(np.linalg.inv(covariance + ridge * np.eye(len(covariance))))
        return cls(mean, scale, precision, standard)

    def distances(self, rows: Floats) -> dict[str, Floats]:
        """``mahalanobis`` (where it was fitted) and ``nearest``, ``(rows,)`` each."""
        from sklearn.neighbors import NearestNeighbors  # takes a second to load

        standard = (np.asarray(rows, dtype=float).reshape(len(rows), -1) - self.mean) / self.scale
        found: dict[str, Floats] = {}
        if self.precision is not None:
            squared = np.einsum("ij,jk,ik->i", standard, self.precision, standard, optimize=True)
            found["mahalanobis"] = np.sqrt(np.maximum(squared, 0.0))
        neighbours = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(self.rows)))
        found["nearest"] = neighbours.fit(self.rows).kneighbors(standard)[0][:, -1]
        return found


def penultimate(network: Network) -> Network | None:
    """What the last layer of the first instance reads; ``None`` if that is no more than the row."""
    from farfield.guard.penultimate import split_last_layer

    group = network.groups[0]
    one = replace(group, shared=group.instance(0), stacked={}, members=(0,))
    try:
        found = split_last_layer(replace(network, groups=(one,)))
    except InputError:
        return None
    return None if found.step == group.program.input else found.features


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
        fitted = None if body is None else Reference.fit(body.logits(rows)[0].numpy())
        return cls(model, Reference.fit(rows), body, fitted)


def score_rows(detector: Detector, rows: NDArray[Any]) -> dict[str, Floats]:
    """Every score of every row; higher means more uncertain."""
    model = detector.model
    found: dict[str, Floats] = {}
    if isinstance(model, Network) and model.link == "softmax":
        logits = model.logits(rows)
        found["negative_max_logit"] = np.asarray(negative_max_logit(logits.numpy()))
        found["energy"] = np.asarray(energy(logits.numpy()))
        p = torch.softmax(logits, dim=-1).numpy()
    else:
        p = model.probabilities(rows).numpy()
    found |= dict(all_scores(p))
    for name, values in detector.inputs.distances(rows).items():
        found[f"{name} (inputs)"] = values
    if detector.body is not None and detector.body_reference is not None:
        inner = detector.body.logits(rows)[0].numpy()
        for name, values in detector.body_reference.distances(inner).items():
            found[f"{name} (features)"] = values
    found["confidence"] = p.mean(axis=0).max(axis=-1)
    return found
