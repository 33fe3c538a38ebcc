"""Decisions between all pairs of classes, made into one score for each class.

A class scores the pairs that it wins, and up to a third more or less for how clearly: with ``c``
the sum of its decision values, ``c / 3 (|c| + 1)``.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from torch.nn import functional as F  # noqa: N812 - as PyTorch calls it

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.registry import Table, decide, decision, kind_of
from farfield.graph.scikit.votes import BY_DECISION

# The first of a pair wins at zero and above; a step is taken beyond its place.
BELOW_ZERO = float(np.nextafter(0.0, -1.0))


def scores_of_pairs(writer: Writer, pairs: Wire, classes: int) -> Wire:
    """Write the scores of classes, ``(rows, classes)``.

    Args:
        writer: What to write into.
        pairs: Decision values of the pairs (0, 1), (0, 2), ..., positive for the first.
        classes: How many classes there are.
    """
    signs = np.zeros((classes, pairs.width))
    for place, (first, second) in enumerate(combinations(range(classes), 2)):
        signs[first, place], signs[second, place] = 1.0, -1.0
    steps = [(place, [BELOW_ZERO], [0.0, 1.0], np.nan) for place in range(pairs.width)]
    won = writer.take_steps(pairs, Steps.of(steps))
    votes = writer.linear(won, signs, (signs < 0).sum(axis=1))
    clear = writer.step(F.softsign, writer.linear(pairs, signs))
    return writer.add(votes, writer.divide(clear, np.full(classes, 3.0)))


@decision("OneVsOneClassifier")
def _one_against_one(writer: Writer, table: Table, model: Any) -> Wire:
    others = [each for each in model.estimators_ if kind_of(each) not in BY_DECISION]
    if others:
        raise NotFollowed(f"OneVsOneClassifier of {kind_of(others[0])} is not followed.")
    second = [decide(writer, table, each) for each in model.estimators_]
    pairs = writer.scale(writer.concatenate(*second), np.full(len(second), -1.0))
    scores = scores_of_pairs(writer, pairs, len(model.classes_))
    return writer.select(scores, [1]) if len(model.classes_) == 2 else scores
