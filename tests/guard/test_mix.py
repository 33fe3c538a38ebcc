"""Mixing with the uniform answer: order, bits, sums, and what no class exceeds."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.guard.mix import mix, mix_logits

LOGITS = st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=2, max_size=6)
HOT = st.one_of(st.just(1.0), st.floats(1.0, 1e300), st.just(float("inf")))


def hot(value):
    return torch.tensor([value], dtype=torch.float64)


@settings(max_examples=200, deadline=None)
@given(LOGITS, HOT)
def test_logits_keep_the_first_of_the_largest(values, temperature):
    z = torch.tensor([values])
    out = mix_logits(z, hot(temperature))
    assert int(out.argmax()) == int(z.argmax())
    p = torch.softmax(out, dim=1)[0]
    assert p[int(z.argmax())] == p.max()
    if temperature == 1.0:
        assert torch.equal(out, z)
    else:
        k = len(values)
        assert float(p.double().max()) <= 1 / k + (1 - 1 / k) / temperature + 1e-5


@settings(max_examples=200, deadline=None)
@given(LOGITS, HOT, st.sampled_from([torch.float32, torch.float64]))
def test_probabilities_keep_their_order_and_their_sum(values, temperature, kind):
    p = torch.softmax(torch.tensor([values], dtype=torch.float64) / 2.0**120, dim=1).to(kind)
    out = mix(p, hot(temperature))
    assert out.dtype == kind
    assert int(out.argmax()) == int(p.argmax())
    order = torch.argsort(p[0], stable=True)
    assert bool((out[0][order].diff() >= 0).all())
    assert float(out.double().sum()) == pytest.approx(1.0, abs=1e-5)
    if temperature == 1.0:
        assert torch.equal(out, p)


def test_logits_apart_by_more_than_single_precision_holds():
    z = torch.tensor([[-3e38, 3e38], [3e38, -3e38], [float("inf"), 1.0], [1.0, float("inf")]])
    out = mix_logits(z, torch.full((4,), 50.0, dtype=torch.float64))
    assert out.argmax(dim=1).tolist() == [1, 0, 0, 1]
    assert bool(torch.isfinite(out).all())
    assert float(torch.softmax(out, dim=1).max()) <= 0.51


def test_no_number_is_the_uniform_answer_at_any_temperature():
    z = torch.tensor([[float("nan"), 1.0], [0.0, 0.0]])
    assert mix_logits(z, hot(1.0).expand(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert mix(torch.softmax(z, 1), hot(1.0).expand(2)).tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_answered_in_single(kind):
    """0.51 in steps of bfloat16 would be 0.5117."""
    p = torch.tensor([[1.0, 0.0]], dtype=kind)
    out = mix(p, hot(50.001))
    assert out.dtype == torch.float32
    assert float(out.max()) <= 0.51
    z = torch.tensor([[9.0, -9.0]], dtype=kind)
    assert float(torch.softmax(mix_logits(z, hot(50.001)), dim=1).max()) <= 0.51


def test_the_formula():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 50)
    t = rng.uniform(1.5, 100, 50)
    got = mix(torch.from_numpy(p), torch.from_numpy(t)).numpy()
    assert np.allclose(got, 0.25 + (p - 0.25) / t[:, None], atol=1e-15)
    again = torch.softmax(mix_logits(torch.from_numpy(np.log(p)), torch.from_numpy(t)), dim=1)
    assert np.allclose(got, again.numpy(), atol=1e-14)
