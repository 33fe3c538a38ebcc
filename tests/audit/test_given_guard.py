"""The guards of audits and of the command line: columns are what their table says."""

import numpy as np
import torch
from torch import nn

import farfield as ff
from farfield.audit.given_guard import guarded
from farfield.data.encoding import TableColumn


def test_columns_of_0_and_1_are_categories_unless_the_table_says_otherwise():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 2, (200, 2)), rng.normal(size=200)]).astype(float)
    torch.manual_seed(0)
    network = ff.capture(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), rows[:1])
    columns = [
        TableColumn("sex", (0,), binary=True),
        TableColumn("children", (1,)),
        TableColumn("age", (2,)),
    ]
    safe = guarded(network, columns, rows, None)
    between = np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]])
    assert safe.distance(between)[0] >= 1.0
    assert [safe.explain(row).view == "categories" for row in between] == [True, False]
