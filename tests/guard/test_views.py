"""Views by themselves."""

import numpy as np
import pytest
import torch

from farfield.errors import InputError
from farfield.guard.views.ranges import LEAST_UNIT, Ranges
from farfield.guard.views.view import Place


def _score(view, rows):
    rows = torch.tensor(rows, dtype=torch.float64)
    return view.score(Place(rows, rows, rows, rows))


def test_ends_of_a_column_have_units_of_their_own():
    """A column that ends sharply on one side and has a long tail on the other."""
    rows = np.random.default_rng(0).standard_exponential((5000, 1))
    view = Ranges.fit(rows, common=False)
    low, high = view.unit[:, 0].tolist()
    assert low == pytest.approx(LEAST_UNIT * rows.std())
    # An exponential tail is as long beyond any of its values.
    assert high == pytest.approx(1.0, rel=0.15)
    inside, below, above = _score(view, [[1.0], [-1.0], [rows.max() + 1.0]])
    assert inside == 0.0
    assert below == pytest.approx((1.0 + rows.min()) / low)
    assert above == pytest.approx(1.0 / high)


def test_few_rows_have_larger_units():
    rows = np.linspace(0.0, 1.0, 36)[:, None]
    assert Ranges.fit(rows, common=False).unit.min() == pytest.approx(0.5 * rows.std())


def test_pixels_share_one_unit():
    rows = np.random.default_rng(0).normal(size=(50, 4)) * [1.0, 1.0, 1.0, 0.0]
    assert len(Ranges.fit(rows, common=True).unit.unique()) == 1


def test_ranges_of_another_shape_are_refused():
    with pytest.raises(InputError, match="made again"):
        Ranges(torch.zeros(2), torch.ones(2), torch.ones(2))
