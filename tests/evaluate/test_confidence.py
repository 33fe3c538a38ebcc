"""Mean maximal confidence: of the mean over instances, with an interval on request."""

import numpy as np
import pytest
import torch

from farfield.errors import InputError
from farfield.evaluate import Estimate, mean_max_confidence


def test_averages_instances_first():
    p = np.array([[[1.0, 0.0], [0.8, 0.2]], [[0.0, 1.0], [0.6, 0.4]]])
    assert mean_max_confidence(p) == pytest.approx((0.5 + 0.7) / 2)
    assert mean_max_confidence(torch.tensor(p)) == mean_max_confidence(p)
    assert mean_max_confidence(p[0]) == pytest.approx(0.9)


def test_interval_is_another_type():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    estimate = mean_max_confidence(p, interval=0.95)
    assert isinstance(estimate, Estimate)
    assert estimate.value == mean_max_confidence(p)
    error = p.max(axis=1).std() / 200**0.5
    assert estimate.low == pytest.approx(estimate.value - 1.96 * error, abs=0.3 * error)
    assert estimate.high == pytest.approx(estimate.value + 1.96 * error, abs=0.3 * error)
    generator = np.random.default_rng(5)
    moved = mean_max_confidence(p, interval=0.95, random_state=generator)
    assert moved != mean_max_confidence(p, interval=0.95, random_state=generator)


def test_constant_confidence_has_no_width():
    estimate = mean_max_confidence(np.full((50, 2), 0.5), interval=0.95)
    assert (estimate.low, estimate.high) == (0.5, 0.5)


def test_logits_are_refused():
    with pytest.raises(InputError, match="softmax"):
        mean_max_confidence(np.array([[7.0, 1.0]]))
