"""Scores of probabilities against their definitions, written out slowly in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from farfield import scores
from farfield.errors import InputError

NAMES = tuple(scores.PROBABILITY_SCORES)
ENTROPIES = ("predictive_entropy", "expected_entropy", "mutual_information")


def entropy(row):
    return -sum(x * math.log(x) for x in row if x > 0)


def oracle(p):
    """Every score of (instances, points, classes), one point at a time."""
    result = {name: [] for name in NAMES}
    for point in np.asarray(p, np.float64).transpose(1, 0, 2):
        mean = [math.fsum(column) / len(point) for column in point.T]
        variances = [
            math.fsum((x - m) ** 2 for x in column) / len(point)
            for column, m in zip(point.T, mean, strict=True)
        ]
        data = math.fsum(entropy(row) for row in point) / len(point)
        result["one_minus_max_probability"].append(1 - max(mean))
        result["class_variance"].append(math.fsum(variances) / len(mean))
        result["predictive_entropy"].append(entropy(mean))
        result["expected_entropy"].append(data)
        result["mutual_information"].append(entropy(mean) - data)
    return {name: np.array(values) for name, values in result.items()}


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def sample(instances=5, points=40, classes=4, scale=3.0, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return softmax(scale * rng.standard_normal((instances, points, classes))).astype(dtype)


@st.composite
def probabilities(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 7), st.integers(2, 5)))
    logits = draw(hnp.arrays(np.float64, shape, elements=st.floats(-900, 900)))
    return softmax(logits)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.01, 3.0, 300.0])
@pytest.mark.parametrize("shape", [(5, 40, 4), (1, 9, 2), (2, 1, 30), (3, 2, 100), (100, 3, 3)])
def test_scores_equal_their_definitions(dtype, scale, shape):
    p = sample(*shape, scale=scale, dtype=dtype)
    expected = oracle(p)
    tolerance = 50 * np.finfo(dtype).eps
    for name, values in scores.all_scores(p).items():
        assert values.dtype == dtype
        np.testing.assert_allclose(values, expected[name], rtol=tolerance, atol=tolerance)


def test_small_class_variance_is_accurate_in_float32():
    p = np.full((4, 1, 2), 0.5, np.float32)
    p[:, 0, 0] += np.float32(2.0**-14) * np.array([1, -1, 1, -1], np.float32)
    p[:, 0, 1] = 1 - p[:, 0, 0]
    assert scores.class_variance(p)[0] == pytest.approx(2.0**-28, rel=1e-6)


def test_many_instances_lose_no_digits_in_float32():
    p = np.tile(np.array([[[0.1, 0.9]]], np.float32), (5000, 1, 1))
    assert scores.predictive_entropy(p)[0] == pytest.approx(entropy([0.1, 0.9]), rel=1e-6)
    assert scores.mutual_information(p)[0] < 1e-6
    assert scores.class_variance(p)[0] < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_one_score_is_the_same_alone_and_together(name):
    p = sample(dtype=np.float32)
    np.testing.assert_array_equal(scores.PROBABILITY_SCORES[name](p), scores.all_scores(p)[name])


@pytest.mark.parametrize("name", NAMES)
def test_one_instance_may_leave_out_its_axis(name):
    p = sample(instances=1)
    function = scores.PROBABILITY_SCORES[name]
    np.testing.assert_array_equal(function(p[0]), function(p))
    np.testing.assert_array_equal(function(torch.tensor(p[0])), function(torch.tensor(p)))


@settings(deadline=None)
@given(probabilities())
def test_invariants(p):
    got = scores.all_scores(p)
    instances, _, classes = p.shape
    ceilings = {
        "one_minus_max_probability": 1 - 1 / classes,
        "class_variance": 0.25,
        "predictive_entropy": math.log(classes),
        "expected_entropy": math.log(classes),
        "mutual_information": math.log(min(classes, instances)),
    }
    for name, values in got.items():
        assert (values >= 0).all(), name
        assert (values <= ceilings[name] + 1e-9).all(), name
    total = got["expected_entropy"] + got["mutual_information"]
    np.testing.assert_allclose(got["predictive_entropy"], total, atol=1e-12)
    turned = scores.all_scores(np.ascontiguousarray(p[::-1, ::-1, ::-1]))
    for name, values in turned.items():
        np.testing.assert_allclose(values[::-1], got[name], atol=1e-12)


@settings(deadline=None)
@given(probabilities(), st.sampled_from([torch.float32, torch.float64]))
def test_torch_equals_numpy_with_and_without_gradients(p, dtype):
    tensor = torch.tensor(p, dtype=dtype)
    tensor = tensor / tensor.sum(dim=-1, keepdim=True)
    tolerance = 20 * torch.finfo(dtype).eps
    expected = scores.all_scores(tensor.numpy())
    for x in (tensor, tensor.clone().requires_grad_(True)):
        for name, values in scores.all_scores(x).items():
            assert isinstance(values, torch.Tensor)
            assert values.dtype == dtype
            np.testing.assert_allclose(values.detach().numpy(), expected[name], atol=tolerance)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_saturated_instances_are_a_vote(votes):
    p = np.eye(4)[votes][:, None, :]
    share = np.bincount(votes, minlength=4) / len(votes)
    got = scores.all_scores(p)
    assert got["one_minus_max_probability"][0] == pytest.approx(1 - share.max())
    assert got["class_variance"][0] == pytest.approx(np.mean(share * (1 - share)))
    assert got["predictive_entropy"][0] == pytest.approx(entropy(share))
    assert got["mutual_information"][0] == pytest.approx(entropy(share))
    assert got["expected_entropy"][0] == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_higher_means_more_uncertain(name, kind):
    """The sure agree on one class; the unsure are unsure each, and disagree."""
    sure = np.array([[[0.98, 0.02]], [[0.99, 0.01]]])
    unsure = np.array([[[0.6, 0.4]], [[0.3, 0.7]]])
    score = scores.PROBABILITY_SCORES[name]
    assert score(kind(unsure))[0] > score(kind(sure))[0]


@pytest.mark.parametrize("name", ENTROPIES)
def test_bits_are_nats_over_log_two(name):
    p = sample()
    score = scores.PROBABILITY_SCORES[name]
    np.testing.assert_allclose(score(p, unit="bits"), score(p) / math.log(2), rtol=1e-14)
    np.testing.assert_allclose(
        scores.all_scores(p, unit="bits")[name], score(p) / math.log(2), rtol=1e-14
    )
    x = torch.tensor(p, requires_grad=True)
    np.testing.assert_allclose(score(x, unit="bits").detach(), score(p) / math.log(2), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_definition(name):
    logits = torch.tensor(np.random.default_rng(1).standard_normal((3, 2, 4)), requires_grad=True)
    score = scores.PROBABILITY_SCORES[name]
    assert torch.autograd.gradcheck(lambda z: score(z.softmax(dim=-1)), logits)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_at_zero_and_one(name, dtype):
    p = torch.eye(3, dtype=dtype)[[0, 1, 0]][:, None, :].repeat(1, 2, 1).requires_grad_(True)
    scores.PROBABILITY_SCORES[name](p).sum().backward()
    assert p.grad is not None
    assert p.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entropy_gradient_at_zero_and_one_is_as_documented(dtype):
    p = torch.tensor([[0.0, 1.0]], dtype=dtype, requires_grad=True)
    scores.predictive_entropy(p).sum().backward()
    assert p.grad is not None
    assert p.grad[0].tolist() == pytest.approx([-math.log(torch.finfo(dtype).tiny), -1.0])


def test_saturated_logits_have_zero_gradient():
    z = torch.tensor([[[1e30, 0.0], [-1e30, 5.0]]], requires_grad=True)
    scores.predictive_entropy(z.softmax(dim=-1)).sum().backward()
    assert z.grad is not None
    assert (z.grad == 0).all()


# torch itself compiles with a deprecated tool when forward mode is first used
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_and_function_transforms_differentiate():
    p = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    direction = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    expected = math.log(0.75 / 0.25)

    def total(x):
        return scores.predictive_entropy(x).sum()

    assert (torch.func.grad(total)(p) * direction).sum() == pytest.approx(expected)
    assert torch.func.jvp(total, (p,), (direction,))[1] == pytest.approx(expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(p, direction)
        tangent = torch.autograd.forward_ad.unpack_dual(total(dual)).tangent
        assert tangent == pytest.approx(expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_and_threads_do_not_change_results(monkeypatch, threads):
    p = sample(points=211, dtype=np.float32)
    p[2, 100:] = [0, 0, 1, 0]
    whole = scores.all_scores(p)
    before = torch.get_num_threads()
    monkeypatch.setattr("farfield.scores.sweep._BLOCK_BYTES", 13 * p.nbytes // 211)
    monkeypatch.setattr("farfield.scores.probability._BLOCK_ENTRIES", 13 * p.size // 211)
    try:
        torch.set_num_threads(threads)
        parts = scores.all_scores(p)
        halves = scores.all_scores(torch.tensor(p).bfloat16())
    finally:
        torch.set_num_threads(before)
    for name in NAMES:
        np.testing.assert_allclose(parts[name], whole[name], atol=1e-6)
        np.testing.assert_allclose(halves[name].numpy(), whole[name], atol=0.03)


@pytest.mark.parametrize("arrange", [np.asfortranarray, lambda p: p[:, ::-1][:, ::-1]])
def test_memory_layout_does_not_matter(arrange):
    p = sample()
    expected = scores.all_scores(p)
    for name, values in scores.all_scores(arrange(p)).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-14)


def test_input_is_left_alone_and_may_be_read_only():
    p = sample()
    before = p.copy()
    p.flags.writeable = False
    scores.all_scores(p)
    np.testing.assert_array_equal(p, before)


def test_half_precision_is_scored_in_single_precision():
    p = sample(dtype=np.float16)
    expected = oracle(p)
    for kind in (p, torch.tensor(p)):
        for name, values in scores.all_scores(kind).items():
            assert str(values.dtype).endswith("float32")
            np.testing.assert_allclose(np.asarray(values), expected[name], atol=2e-3)


def test_extra_memory_is_bounded():
    import tracemalloc

    peaks = []
    for points in (200_000, 400_000):
        p = np.full((10, points, 2), 0.5, np.float32)
        tracemalloc.start()
        results = scores.all_scores(p)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        peaks.append(peak - sum(values.nbytes for values in results.values()))
    assert peaks[1] < 1.2 * peaks[0]


def test_registry_looks_scores_up_and_lists_them():
    assert scores.score_by_name("class_variance") is scores.class_variance
    with pytest.raises(InputError, match=r"'entropy'.*predictive_entropy.*mutual_information"):
        scores.score_by_name("entropy")
    with pytest.raises(TypeError):
        scores.PROBABILITY_SCORES["new"] = scores.energy  # type: ignore[index]


def broken(change):
    p = sample(instances=3, points=20)
    change(p)
    return p


BROKEN = {
    "NaN": (broken(lambda p: p.__setitem__((2, 7, 1), np.nan)), r"instance 2, point 7 holds NaN"),
    "infinite": (broken(lambda p: p.__setitem__((0, 3, 0), np.inf)), r"point 3 holds NaN or inf"),
    "negative": (
        broken(lambda p: p.__setitem__((1, 5), [1.1, -0.1, 0, 0])),
        r"instance 1, point 5 holds a negative",
    ),
    "sum": (broken(lambda p: p.__setitem__((1, 4), 0.3)), r"instance 1, point 4 sums to 1\.2"),
    "sums that cancel": (
        broken(lambda p: (p.__setitem__((0, 4), 0.3), p.__setitem__((1, 4), 0.2))),
        r"point 4 sums to",
    ),
    "logits": (np.array([[3.0, 1.0]]), r"apply softmax"),
    "integers": (np.array([[1, 0]]), r"dtype int64"),
    "rank one": (np.array([0.5, 0.5]), r"got shape \(2,\)"),
    "rank four": (np.full((1, 1, 1, 2), 0.5), r"got shape \(1, 1, 1, 2\)"),
    "no points": (np.empty((3, 0, 2)), r"at least one point, got shape \(3, 0, 2\)"),
    "no instances": (np.empty((0, 3, 2)), r"got shape \(0, 3, 2\)"),
    "one class": (np.ones((4, 1)), r"at least two classes"),
    "objects": (np.array([["a", "b"]]), r"floating-point"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", BROKEN)
def test_bad_input_is_refused(fault, name):
    p, message = BROKEN[fault]
    score = scores.PROBABILITY_SCORES[name]
    with pytest.raises(InputError, match=message):
        score(p)
    if p.dtype.kind in "fi":
        with pytest.raises(InputError, match=message.replace("dtype int64", "torch.int64")):
            score(torch.tensor(p))
    if p.dtype.kind == "f":
        with pytest.raises(InputError, match=message):
            score(torch.tensor(p, requires_grad=True))


def test_first_broken_block_is_named(monkeypatch):
    p = sample(points=100)
    p[0, 30:] = 0.5
    monkeypatch.setattr("farfield.scores.sweep._BLOCK_BYTES", p.nbytes // 100)
    with pytest.raises(InputError, match="instance 0, point 30 sums to 2"):
        scores.all_scores(p)


def test_negative_probabilities_are_found_among_zeros():
    p = np.array([[[1.0, 0.0]] * 4, [[0.0, 1.0]] * 4])
    p[1, 2] = [-0.2, 1.2]
    with pytest.raises(InputError, match="instance 1, point 2 holds a negative"):
        scores.all_scores(p)


def test_rounding_of_the_dtype_is_accepted():
    rng = np.random.default_rng(3)
    p = softmax(rng.standard_normal((2, 50, 1000)).astype(np.float32))
    scores.all_scores(p)
    scores.all_scores(p.astype(np.float64))


@pytest.mark.parametrize("unit", ["bit", None, 2])
def test_unknown_unit_is_refused(unit):
    with pytest.raises(InputError, match="'nats' or 'bits'"):
        scores.predictive_entropy(sample(), unit=unit)
