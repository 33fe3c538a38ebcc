"""Bounds on what trees can say at all."""

import itertools

import numpy as np
import pytest
import torch

import farfield as ff
from farfield.graph.assemble import from_reading
from farfield.graph.network import join
from farfield.graph.reading import Reading, Writer
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import as_reading, pack, write_trees


def stump(builder, column, low, high, output=0):
    builder.add(
        feature=[column, -1, -1],
        threshold=[0.0, 0.0, 0.0],
        left=[1, 0, 0],
        right=[2, 0, 0],
        values=np.array([np.zeros_like(low), low, high]),
        output=output,
    )


def network_of(ensemble):
    return from_reading(as_reading(ensemble, labels=None, columns=None), None, torch.float64)


def test_bounds_are_reached_where_trees_share_no_column():
    rng = np.random.default_rng(0)
    heights = rng.normal(size=(4, 2))
    builder = TreeBuilder(4, [0.25])
    for column, (low, high) in enumerate(heights):
        stump(builder, column, low, high)
    ensemble = builder.build()
    sums = [0.25 + sum(pick) for pick in itertools.product(*heights)]
    _, trees = pack(ensemble)
    assert np.allclose([-trees.lead(None, 0), trees.lead(0, None)], [min(sums), max(sums)])
    sure = max(1 / (1 + np.exp(-abs(value))) for value in sums)
    cap = network_of(ensemble).confidence_cap
    assert cap == pytest.approx(sure, rel=1e-11)
    assert cap >= sure


def test_several_classes_and_vector_leaves():
    rng = np.random.default_rng(1)
    apart, together = TreeBuilder(3, np.zeros(3)), TreeBuilder(3, np.zeros(3))
    heights = rng.normal(size=(3, 2))
    for column, (low, high) in enumerate(heights):
        stump(apart, column, low, high, output=column)
    vectors = rng.normal(size=(2, 3))
    stump(together, 1, *vectors)
    every = np.array(list(itertools.product(*heights)))
    for builder, rows in ((apart, every), (together, vectors)):
        ensemble = builder.build()
        _, trees = pack(ensemble)
        gaps = (rows[:, :, None] - rows[:, None]).max(axis=0)
        found = [[trees.lead(one, other) for other in range(3)] for one in range(3)]
        assert np.allclose(found, gaps)
        cap = network_of(ensemble).confidence_cap
        assert cap >= surest(rows)
        if builder is apart:
            assert cap == pytest.approx(surest(rows), rel=1e-11)


def surest(rows):
    return (np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)).max()


def test_extreme_leaves():
    builder = TreeBuilder(1, [0.0])
    stump(builder, 0, -1e300, 1e300)
    assert network_of(builder.build()).confidence_cap == 1.0


def forest(shares):
    """A forest of stumps on columns of their own, with given shares of the first class."""
    builder = TreeBuilder(len(shares), np.zeros(2))
    for column, pair in enumerate(shares):
        low, high = (np.array([share, 1 - share]) / len(shares) for share in pair)
        stump(builder, column, low, high)
    writer = Writer(len(shares))
    logits = write_trees(writer, writer.input, builder.build())
    reading = Reading(writer.program(logits), writer.constants, "identity")
    return from_reading(reading, None, torch.float64)


def test_forests_and_what_is_joined():
    sure, unsure = forest([(0.9, 0.2), (0.7, 0.4)]), forest([(0.6, 0.5), (0.5, 0.5)])
    assert sure.confidence_cap == pytest.approx(0.8)
    assert unsure.confidence_cap == pytest.approx(0.55)
    assert join([unsure, sure]).confidence_cap == pytest.approx(0.675)
    network = ff.capture(torch.nn.Linear(2, 3), torch.zeros(1, 2))
    assert network.confidence_cap == 1.0
