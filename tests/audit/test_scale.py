"""Small, degenerate and enormous data: an answer or one line."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import FarfieldError

RNG = np.random.default_rng(0)
CASES = {
    "one feature": RNG.normal(size=(50, 1)),
    "two rows": RNG.normal(size=(2, 3)),
    "equal rows": np.ones((40, 3)),
    "one constant column": np.hstack([RNG.normal(size=(40, 2)), np.ones((40, 1))]),
    "at 1e300": RNG.normal(size=(40, 3)) * 1e300,
    "at 1e-300": RNG.normal(size=(40, 3)) * 1e-300,
    "two rows at 1e308": np.array([[1e308, -1e308], [-1e308, 1e308]]),
}


# Where numbers are large, small or equal, the type that the network computes in matters.
DOUBLE = ("equal rows", "at 1e300", "at 1e-300", "two rows at 1e308")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float32) for name in CASES), *((name, torch.float64) for name in DOUBLE)],
)
def test_degenerate_data(name, dtype):
    rows = CASES[name]
    torch.manual_seed(0)
    features = rows.shape[1]
    model = nn.Sequential(nn.Linear(features, 6), nn.ReLU(), nn.Linear(6, 2)).to(dtype)
    labels = np.arange(len(rows)) % 2
    refusal = ""
    try:
        found = ff.audit(model, rows, labels, directions=10, samples=10)
    except FarfieldError as error:
        refusal = str(error)
    if refusal:
        assert len(refusal.splitlines()) == 1
    else:
        assert 0 <= found.verdict.blind <= 1
