"""Small data that every estimator can learn."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_moons

Moons = tuple[NDArray[Any], NDArray[Any]]

# Networks this small gain nothing from threads, and workers that share cores would wait for each
# other at every operation.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def moons() -> Moons:
    X, y = make_moons(200, noise=0.125, random_state=0)
    return X, y


@pytest.fixture(scope="session")
def cubic() -> Moons:
    generator = np.random.default_rng(0)
    X = generator.uniform(-4, 4, (80, 1))
    return X, X[:, 0] ** 3 + generator.normal(0, 3, 80)
