"""Bounds on what boosted trees can say at all."""

import itertools

import numpy as np
import pytest

from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.margins import confidence_cap, margin_bounds


def stump(builder, column, low, high, output=0):
    builder.add(
        feature=[column, -1, -1],
        threshold=[0.0, 0.0, 0.0],
        left=[1, 0, 0],
        right=[2, 0, 0],
        values=np.array([np.zeros_like(low), low, high]),
        output=output,
    )


def test_bounds_are_reached_where_trees_share_no_column():
    rng = np.random.default_rng(0)
    heights = rng.normal(size=(4, 2))
    builder = TreeBuilder(4, [0.25])
    for column, (low, high) in enumerate(heights):
        stump(builder, column, low, high)
    ensemble = builder.build()
    sums = [0.25 + sum(pick) for pick in itertools.product(*heights)]
    low, high = margin_bounds(ensemble)
    assert np.allclose([low[0], high[0]], [min(sums), max(sums)])
    sure = max(1 / (1 + np.exp(-abs(value))) for value in sums)
    assert confidence_cap(ensemble) == pytest.approx(sure, rel=1e-11)
    assert confidence_cap(ensemble) >= sure


def test_several_classes_and_vector_leaves():
    rng = np.random.default_rng(1)
    apart, together = TreeBuilder(3, np.zeros(3)), TreeBuilder(3, np.zeros(3))
    heights = rng.normal(size=(3, 2))
    for column, (low, high) in enumerate(heights):
        stump(apart, column, low, high, output=column)
    vectors = rng.normal(size=(2, 3))
    stump(together, 1, *vectors)
    apart, together = apart.build(), together.build()
    every = np.array(list(itertools.product(*heights)))
    for ensemble, rows in ((apart, every), (together, vectors)):
        low, high = margin_bounds(ensemble)
        assert np.allclose([low, high], [rows.min(axis=0), rows.max(axis=0)])
        assert confidence_cap(ensemble) >= surest(rows)
    assert confidence_cap(apart) == pytest.approx(surest(every), rel=1e-11)


def surest(rows):
    return (np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)).max()


def test_extreme_leaves():
    builder = TreeBuilder(1, [0.0])
    stump(builder, 0, -1e300, 1e300)
    assert confidence_cap(builder.build()) == 1.0
