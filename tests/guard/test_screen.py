"""The quick look: never wrong, and right about most rows."""

import copy
import functools
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from farfield.guard import guard
from farfield.guard.screen import screen_of

KINDS = ("full", "diagonal", "isotropic")


def _table(columns, rows=300):
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    mixed[:, 0] = np.exp(mixed[:, 0] / columns)
    mixed[:, 1] += 1e6
    return mixed


def _answer(rows):
    return np.tile([0.4, 0.6], (len(rows), 1))


@functools.cache
def _shared(columns, metric=None):
    """Rows and their guard, made once: whoever changes it takes a copy."""
    rows = _table(columns)
    return rows, guard(_answer, rows, metric=metric)


def _own(*which):
    """The same, to be changed."""
    return copy.deepcopy(_shared(*which))


def _everywhere(rows, seed=1):
    """Rows like the data, on its edges, between and beyond, and such that are no numbers."""
    rng = np.random.default_rng(seed)
    middle = rows.mean(axis=0)
    found = [middle + scale * (rows - middle) for scale in (0.5, 1.0, 1.1, 1.3, 2.0, 1e3, 1e200)]
    found.append(rows[rng.permutation(len(rows))] / 2 + rows / 2)
    odd = rows[:3].copy()
    odd[0, 0], odd[1, 1], odd[2, 0] = np.nan, np.inf, -np.inf
    return np.concatenate([*found, odd])


@pytest.mark.parametrize(
    ("columns", "metric"),
    [*((3, kind) for kind in KINDS), (20, "full"), (150, "full"), (150, "isotropic")],
)
def test_a_row_that_is_certainly_inside_is_inside(columns, metric):
    rows, safe = _shared(columns, metric)
    tried = _everywhere(rows)
    certain = screen_of(safe.covered).inside(tried)
    assert (safe.covered.distance(torch.from_numpy(tried))[certain] <= 0).all()
    assert certain[: 2 * len(rows)].mean() > 0.9
    assert not certain[-3:].any()


@pytest.mark.parametrize(("columns", "metric"), [(20, None), (150, "diagonal")])
def test_single_precision_is_no_excuse(columns, metric):
    """Columns far from zero, and thresholds moved into the rows: many are close to an edge."""
    rows, safe = _own(columns, metric)
    exact = torch.from_numpy(rows)
    for view in safe.covered.each_view:
        if view.name != "ranges":
            place, _ = safe.covered.place(exact)
            view.threshold.copy_(view.score(place).median())
            distance = safe.covered.distance(exact)
            certain = screen_of(safe.covered).inside(rows)
            assert (distance[certain] <= 0).all()
            assert certain.sum() >= 0.9 * int((distance <= 0).sum())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_look_at_one_row_and_at_many_is_never_wrong(kind):
    """Columns of few values too, of which many are at their ends, and one that never varies."""
    rng = np.random.default_rng(3)
    rows = _table(6)
    rows[:, 3] = rng.integers(0, 3, len(rows)) / 10
    rows[:, 4] = 0.1
    rows = rows.astype(kind)
    safe = guard(_answer, rows)
    tried = np.concatenate([rows, rows + kind(0.1), *(rows * kind(s) for s in (0.9, 1.02, 1e30))])
    tried[:2, 0] = np.nan, np.inf
    safe.covered.balls.threshold.add_(0.5)
    screen = screen_of(safe.covered)
    distance = safe.covered.distance(torch.from_numpy(tried))
    one = np.array([screen.certain(row) for row in tried])
    held = screen.inside(tried)
    assert (distance[one] <= 0).all()
    assert (distance[held] <= 0).all()
    assert one[: len(rows)].mean() > 0.95
    assert held[: len(rows)].mean() > 0.95


def test_values_between_two_single_numbers_are_no_reason():
    """0.1 in single precision is not 0.1: nothing of that precision is in a range of one value."""
    rows = _table(3)
    rows[:, 2] = 0.1
    safe = guard(_answer, rows)
    screen, single = screen_of(safe.covered), rows[:50].astype(np.float32)
    assert screen.inside(rows[:50]).any()
    assert not screen.inside(single).any()
    assert not any(screen.certain(row) for row in single)


def test_temperatures_are_those_of_the_exact_look():
    rows, safe = _shared(6)
    tried = torch.from_numpy(_everywhere(rows))
    with torch.no_grad():
        exact = safe.covered.temperature(safe.covered.distance(tried))
        assert torch.equal(safe.covered(tried) == 1.0, exact == 1.0)
        torch.testing.assert_close(safe.covered(tried), exact)
        assert safe.covered(tried[:0]).shape == (0,)


@pytest.mark.parametrize("change", ["write", "load", "assign", "double", "view"])
def test_other_numbers_get_another_look(change):
    rows, safe = _own(4)
    row = torch.from_numpy(rows[:1])
    assert safe.covered(row) == 1.0
    state = copy.deepcopy(safe.covered.state_dict())
    state["views.0.threshold"] -= 1e3
    if change == "write":
        safe.covered.balls.threshold.sub_(1e3)
    elif change == "view":
        safe.covered.views[0] = copy.deepcopy(safe.covered.balls)
        safe.covered.balls.threshold.sub_(1e3)
    elif change == "double":
        safe.covered.balls.threshold = state["views.0.threshold"]
    else:
        safe.covered.load_state_dict(state, assign=change == "assign")
    assert safe.covered(row) > 1.0


def test_copies_take_their_own_look():
    rows, safe = _shared(4)
    row = torch.from_numpy(rows[:1])
    safe.covered(row)
    for other in (copy.deepcopy(safe.covered), pickle.loads(pickle.dumps(safe.covered))):
        assert other._quick is None
        other.balls.threshold.sub_(1e3)
        assert other(row) > 1.0
    assert safe.covered(row) == 1.0


def test_slopes_are_looked_at_exactly():
    rows, safe = _shared(4)
    row = torch.from_numpy(rows[:1] * 3.0).requires_grad_()
    assert safe.covered.screen(row) is None
    safe.covered(row).sum().backward()
    assert (row.grad != 0).any()


def test_categories_are_looked_at_exactly():
    rows = np.column_stack([_table(3), np.arange(300) % 4])
    safe = guard(_answer, rows, categorical=[3])
    assert screen_of(safe.covered) is None
    assert safe.is_inside(rows).mean() > 0.9


def test_nothing_is_remembered_of_numbers_that_do_not_tell_of_changes():
    rows = _table(4)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    with torch.inference_mode():
        safe, row = guard(module, rows), torch.from_numpy(rows[:1])
        assert safe.covered(row) == 1.0
        safe.covered.balls.threshold.sub_(1e3)
        assert safe.covered(row) > 1.0
