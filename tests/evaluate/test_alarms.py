"""Every alarm is given in the same share of correct rows."""

import numpy as np
import pytest
import torch

from farfield.data import TableColumn
from farfield.errors import InputError
from farfield.evaluate.alarms import Alarms, answers, ask_parts, range_limits

RNG = np.random.default_rng(0)


class Model:
    """The sigmoid of the first input."""

    def probabilities(self, x):
        p = torch.sigmoid(torch.as_tensor(x)[:, :1])
        return torch.cat([1 - p, p], dim=1)[None]


@pytest.mark.parametrize("alarms", [0.0, 0.01, 0.1])
def test_range_limits_give_no_more_alarms_than_allowed(alarms):
    rows = RNG.normal(size=(1000, 5))
    low, high = range_limits(rows, alarms)
    share = ((rows < low) | (rows > high)).any(axis=1).mean()
    assert share <= alarms
    # One order statistic deeper in all of the five columns would be too much.
    assert share >= alarms - 10 / 1000


def test_all_alarms_are_set_at_the_same_rate():
    rows = RNG.normal(size=(2000, 3))
    columns = [TableColumn(f"f{place}", (place,)) for place in range(3)]
    watch = Alarms.over(Model(), rows, columns, lambda x: np.abs(x).max(axis=1))
    found = answers(Model(), rows)
    for name, values in found.scores.items():
        assert 0.005 <= (values > watch.scores[name]).mean() <= 0.01
    assert 0.005 <= (np.abs(rows).max(axis=1) > watch.far).mean() <= 0.01
    assert 0.005 <= watch.outside(rows).any(axis=1).mean() <= 0.01


def test_a_category_is_out_of_range_if_it_is_none():
    rows = np.eye(2)[RNG.integers(0, 2, 50)]
    watch = Alarms.over(Model(), rows, [TableColumn("city", (0, 1), values=("x", "y"))])
    assert not watch.outside(rows).any()
    assert watch.outside(np.zeros((1, 2))).any()


def test_what_a_model_refuses_is_no_answer():
    class Picky(Model):
        def probabilities(self, x):
            if (np.asarray(x) > 100).any():
                raise InputError("too large")
            return super().probabilities(x)

    rows = np.array([[1.0], [-1.0], [500.0]])
    found = ask_parts(Picky(), rows, [slice(0, 2), slice(2, 3)])
    assert found.label.tolist() == [1, 0, -1]
    assert np.isinf(found.scores["predictive_entropy"][2])
