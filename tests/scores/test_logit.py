"""Scores of logits: definitions, huge logits, several instances."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp

from farfield import scores
from farfield.errors import InputError

LOGITS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(2, 5)),
    elements=st.floats(-1e6, 1e6),
)


@settings(deadline=None)
@given(LOGITS, st.floats(0.1, 100))
def test_definitions(z, temperature):
    mean = z.mean(axis=0)
    np.testing.assert_allclose(scores.negative_max_logit(z), -mean.max(axis=1), atol=1e-9)
    expected = -temperature * logsumexp(mean / temperature, axis=1)
    for kind in (z, torch.tensor(z)):
        got = scores.energy(kind, temperature=temperature)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(
            np.asarray(scores.negative_max_logit(kind)), -mean.max(axis=1), atol=1e-9
        )


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("score", [scores.energy, scores.negative_max_logit])
def test_huge_logits_neither_overflow_nor_lose_the_order(kind, score):
    z = np.array([[1e30, -1e30, 0], [-1e30, -2e30, -1e30], [3e38, -3e38, 3e38]], np.float32)
    got = np.asarray(score(kind(z)))
    np.testing.assert_allclose(got, [-1e30, 1e30, -3e38], rtol=1e-6)
    many = np.full((100, 1, 2), 3e38, np.float32)
    assert score(kind(many))[0] == pytest.approx(-3e38, rel=1e-5)


@pytest.mark.parametrize("score", scores.LOGIT_SCORES)
def test_higher_means_more_uncertain(score):
    function = scores.LOGIT_SCORES[score]
    small, large = np.array([[0.1, 0.0]]), np.array([[9.0, 0.0]])
    assert function(small)[0] > function(large)[0]
    agree = np.array([[[9.0, 0.0]], [[9.0, 0.0]]])
    disagree = np.array([[[9.0, 0.0]], [[0.0, 9.0]]])
    assert function(disagree)[0] > function(agree)[0]


def test_gradients():
    z = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z.requires_grad_(True)
    assert torch.autograd.gradcheck(scores.energy, z)
    assert torch.autograd.gradcheck(scores.negative_max_logit, z)
    extreme = torch.tensor([[1e30, -3e38], [3e38, -3e38]], requires_grad=True)
    scores.energy(extreme).sum().backward()
    assert extreme.grad is not None
    assert extreme.grad.tolist() == [[-1.0, 0.0], [-1.0, 0.0]]


@pytest.mark.parametrize("score", [scores.energy, scores.negative_max_logit])
def test_half_precision_is_averaged_in_single_precision(score):
    z = np.full((3, 1, 2), 6e4, np.float16)
    assert score(z)[0] == pytest.approx(-float(z[0, 0, 0]), rel=1e-4)
    assert score(z).dtype == np.float32
    assert score(torch.tensor(z)).dtype == torch.float32


@pytest.mark.parametrize("score", [scores.energy, scores.negative_max_logit])
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([[np.nan, 0.0]], "finite"),
        ([[np.inf, 0.0]], "finite"),
        ([[-np.inf, 0.0]], "finite"),
        ([[1, 2]], "floating-point"),
        ([1.0, 2.0], "got shape"),
        ([[1.0]], "two classes"),
        ([[[]]], "at least one point"),
    ],
)
def test_bad_logits_are_refused(score, kind, z, message):
    with pytest.raises(InputError, match=message):
        score(kind(z))


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_bad_temperature_is_refused(temperature):
    with pytest.raises(InputError, match="temperature"):
        scores.energy(np.zeros((1, 2)), temperature=temperature)
