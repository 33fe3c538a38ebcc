"""Classifiers that say the same of everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from farfield.errors import NotFollowed
from farfield.graph.reading import Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.registry import ClassScores, Table, classifier


@classifier("DummyClassifier")
def _dummy(writer: Writer, table: Table, model: Any) -> ClassScores:
    if model.strategy == "stratified":
        raise NotFollowed("DummyClassifier(strategy='stratified') draws its answers at random.")
    shares = np.asarray(model.class_prior_, dtype=np.float64)
    if model.strategy == "uniform":
        shares = np.full(len(shares), 1.0 / len(shares))
    elif model.strategy == "most_frequent":
        shares = np.eye(len(shares))[shares.argmax()]
    elif model.strategy == "constant":
        shares = (np.asarray(model.classes_) == model.constant).astype(np.float64)
    same: list[tuple[int, list[float], list[float], float]] = [
        (0, [], [share], share) for share in shares.tolist()
    ]
    return ClassScores(writer.take_steps(table.held, Steps.of(same)), "identity")
