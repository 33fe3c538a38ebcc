"""Ensembles of random trees against a walk node by node."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.errors import CaptureError
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import ZERO, pack

COLUMNS = 3


def grow(rng, depth, width):
    """A random tree as lists, with thresholds, sets, gaps and zeros of all kinds."""
    nodes = []

    def node(level):
        place = len(nodes)
        nodes.append(None)
        leaf = level == 0 or rng.random() < 0.2
        entry = {
            "feature": -1 if leaf else int(rng.integers(COLUMNS)),
            "threshold": float(rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0, 1e-36])),
            "missing_left": bool(rng.random() < 0.5),
            "zero_missing": bool(rng.random() < 0.3),
            "sets": None,
            "values": rng.normal(size=width),
            "left": 0,
            "right": 0,
        }
        if not leaf:
            if rng.random() < 0.3:
                entry["sets"] = frozenset(rng.choice(5, size=2).tolist())
                entry["zero_missing"] = False
            entry["left"] = node(level - 1)
            entry["right"] = node(level - 1)
        nodes[place] = entry
        return place

    node(depth)
    return nodes


def ask(nodes, row):
    """Where a row ends, by the words of the documentation."""
    at = nodes[0]
    while at["feature"] >= 0:
        x = row[at["feature"]]
        if np.isnan(x) or (at["zero_missing"] and abs(x) <= ZERO):
            left = at["missing_left"]
        elif at["sets"] is not None:
            left = x >= 0 and int(np.floor(x)) in at["sets"]
        else:
            left = x <= at["threshold"]
        at = nodes[at["left"] if left else at["right"]]
    return at["values"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([(1, 1), (1, 3), (3, 3)]))
def test_random_ensembles(seed, depth, shape):
    width, count = shape
    rng = np.random.default_rng(seed)
    trees = [grow(rng, depth, width) for _ in range(int(rng.integers(1, 6)))]
    base = rng.normal(size=count)
    builder = TreeBuilder(COLUMNS, base)
    outputs = [int(rng.integers(count - width + 1)) for _ in trees]
    for nodes, output in zip(trees, outputs, strict=True):
        fields = {key: [node[key] for node in nodes] for key in nodes[0]}
        builder.add(output=output, **fields)
    steps, packed = pack(builder.build())
    special = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 1e-36, -1e-36, 1e30, -1e30, np.nan, 2.5]
    rows = rng.choice([*special, np.nextafter(1.0, 2.0), np.nextafter(2.0, 0.0)], (50, COLUMNS))
    wanted = np.tile(base, (50, 1))
    for nodes, output in zip(trees, outputs, strict=True):
        wanted[:, output : output + width] += [ask(nodes, row) for row in rows]
    found = packed(steps(torch.from_numpy(rows))).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    packed.__dict__["_levels"] = None  # as if trees were too deep to be completed
    np.testing.assert_array_equal(packed(steps(torch.from_numpy(rows))).numpy(), found)


@pytest.mark.parametrize(("depth", "complete"), [(1, None), (4, True), (4, False), (12, None)])
def test_shallow_trees_are_walked_by_their_levels(depth, complete):
    # A chain has a leaf to the left on every level; a complete tree has leaves on the last alone.
    nodes = 2 ** (depth + 1) - 1 if complete else 2 * depth + 1
    inner = np.arange(nodes) < nodes // 2 if complete else np.arange(nodes) % 2 == 0
    inner[-1] = False
    place = np.cumsum(inner) - 1
    left = np.where(inner, 2 * place + 1, 0)
    feature = np.where(inner, 0, -1)
    builder = TreeBuilder(1, [0.0])
    builder.add(
        feature=feature, threshold=place, left=left, right=left + inner, values=np.arange(nodes)
    )
    steps, packed = pack(builder.build())
    assert (packed._levels is None) == (complete is None)
    codes = steps(torch.arange(-1.0, nodes)[:, None] + 0.5)
    found = packed(codes)
    packed.__dict__["_levels"] = None
    assert torch.equal(packed(codes), found)
    assert len(found.unique()) > depth


def stump(**changes):
    return {
        "feature": [0, -1, -1],
        "threshold": [1.0, 0, 0],
        "left": [1, 0, 0],
        "right": [2, 0, 0],
        "values": [0.0, 1.0, 2.0],
    } | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature": [7, -1, -1]}, "column 7"),
        ({"left": [3, 0, 0]}, "no node of it"),
        ({"left": [2, 0, 0]}, "share a child"),
        ({"left": [0, 0, 0]}, "no node of it"),
        ({"values": [0.0, np.nan, 1.0]}, "not finite"),
        ({"threshold": [np.nan, 0, 0]}, "NaN"),
        (
            {
                "feature": [-1, 0, 0],
                "left": [0, 2, 1],
                "right": [0, 2, 1],
            },
            "share a child|circle",
        ),
    ],
)
def test_what_is_no_tree_is_refused(changes, message):
    with pytest.raises(CaptureError, match=message):
        TreeBuilder(2, [0.0]).add(**stump(**changes))


def test_an_ensemble_needs_trees_and_outputs():
    with pytest.raises(CaptureError, match="no trees"):
        TreeBuilder(2, [0.0]).build()
    builder = TreeBuilder(2, [0.0])
    builder.add(**stump(), output=1)
    with pytest.raises(CaptureError, match="do not fit"):
        builder.build()
