"""What boosted trees end in: logits and a softmax; and how sure they can be at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.graph.reading import InputColumn, Reading, Writer
from farfield.graph.trees.ensemble import TreeEnsemble
from farfield.graph.trees.traverse import write_trees

Floats = NDArray[np.float64]


def as_reading(
    ensemble: TreeEnsemble,
    *,
    labels: tuple[Any, ...] | None,
    columns: tuple[InputColumn, ...] | None,
    notes: tuple[str, ...] = (),
) -> Reading:
    """Write the program of an ensemble that gives logits; one logit ``f`` stands for ``(0, f)``."""
    writer = Writer(ensemble.columns)
    logits = write_trees(writer, writer.input, ensemble)
    return Reading(
        program=writer.program(logits),
        constants=writer.constants,
        link="softmax",
        labels=labels,
        columns=columns,
        notes=notes,
        confidence_cap=confidence_cap(ensemble),
    )


def margin_bounds(ensemble: TreeEnsemble) -> tuple[Floats, Floats]:
    """The smallest and the largest sum that each output can have: ``(outputs,)`` twice.

    Every tree gives its smallest or its largest leaf. Where trees share no column the bounds are
    reached; elsewhere they may lie beyond what any row gets.
    """
    leaf = ensemble.feature < 0
    first: NDArray[np.int64] = (np.cumsum(leaf) - leaf)[ensemble.roots]
    width = ensemble.values.shape[1]
    places = ensemble.output[:, None] + np.arange(width)
    found = []
    for extreme in (np.minimum, np.maximum):
        total = ensemble.base.copy()
        np.add.at(total, places, extreme.reduceat(ensemble.values, first, axis=0))
        found.append(total)
    return found[0], found[1]


def confidence_cap(ensemble: TreeEnsemble) -> float:
    """A bound on the confidence of logits anywhere; 1.0 if it cannot be told from that.

    For one logit between ``l`` and ``h`` it is ``max(sigmoid(h), sigmoid(-l))``; for several, class
    ``k`` gets at most ``1 / (1 + sum over j != k of exp(l_j - h_k))``.
    """
    low, high = margin_bounds(ensemble)
    if len(low) == 1:
        low, high = np.append(0.0, low), np.append(0.0, high)
    rest = np.exp(np.minimum(low[None, :] - high[:, None], 700.0))
    np.fill_diagonal(rest, 0.0)
    cap = float((1.0 / (1.0 + rest.sum(axis=1))).max())
    # Some roundings on the way; a bound must not be below what it bounds.
    return min(1.0, cap * (1.0 + 1e-12))
