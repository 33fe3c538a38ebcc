"""The far field against closed forms, plain evaluations far out, and its own invariants."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
import farfield.graph.network
from farfield.errors import InputError, NumericalOverflow
from oracles import germ_by_floats


def mlp(*sizes, seed=0, activation=nn.ReLU):
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs, dtype=torch.float64)
        for parameter in layer.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator).double()
        layers += [layer, activation()]
    return nn.Sequential(*layers[:-1])


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.fixture(scope="module")
def network():
    return ff.capture(mlp(3, 16, 16, 4), torch.zeros(1, 3))


def test_the_slope_is_the_network_without_biases_at_the_direction(network):
    model = mlp(3, 16, 16, 4)
    for part in model:
        if isinstance(part, nn.Linear):
            part.bias.data.zero_()
    direction = normal(50, 3)
    far = ff.at_infinity(network, normal(50, 3, seed=2), direction)
    torch.testing.assert_close(far.slope[0], model(direction).detach())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3))
def test_the_class_depends_on_the_direction_alone_and_not_on_its_length(network, seed, scale):
    direction = normal(1, 3, seed=seed)
    here = ff.at_infinity(network, normal(1, 3, seed=seed + 1), direction)
    there = ff.at_infinity(network, normal(1, 3, seed=seed + 2) * 100, direction * scale)
    assert torch.equal(here.label, there.label)
    torch.testing.assert_close(here.slope * scale, there.slope)
    torch.testing.assert_close(here.confidence, there.confidence)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.floats(0, 100))
def test_starting_further_along_the_same_ray_shifts_it(network, seed, shift):
    origin, direction = normal(1, 3, seed=seed), normal(1, 3, seed=seed + 1)
    near = ff.at_infinity(network, origin, direction)
    later = ff.at_infinity(network, origin + shift * direction, direction)
    torch.testing.assert_close(later.slope, near.slope)
    torch.testing.assert_close(later.intercept, near.intercept + shift * near.slope)
    torch.testing.assert_close(later.reach, (near.reach - shift).clamp(min=0), atol=1e-8, rtol=1e-8)


def test_beyond_reach_the_germ_is_the_network(network):
    origin, direction = normal(200, 3, seed=5), normal(200, 3, seed=6)
    far = ff.at_infinity(network, origin, direction)
    for factor in (1.0, 1.5, 10.0):
        t = far.reach[0, :, None] * factor
        germ = far.slope[0] * t + far.intercept[0]
        torch.testing.assert_close(germ, network.logits(origin + t * direction)[0])


def test_reach_is_attained(network):
    """Just before ``reach`` the network still follows another piece."""
    origin, direction = normal(200, 3, seed=7), normal(200, 3, seed=8)
    far = ff.at_infinity(network, origin, direction)
    model = mlp(3, 16, 16, 4)

    def pattern(t):
        h, signs = origin + t[:, None] * direction, []
        for part in model:
            h = part(h).detach()
            if isinstance(part, nn.Linear):
                signs.append(h > 0)
        return torch.cat(signs[:-1], dim=1)

    before, after, late = (pattern(far.reach[0] * factor) for factor in (1 - 1e-6, 1 + 1e-6, 1e3))
    assert (before != after).any(dim=1).all()
    assert torch.equal(after, late)


def test_softmax_at_infinity_with_ties_and_constants():
    layer = nn.Linear(2, 3, dtype=torch.float64)
    layer.weight.data = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
    layer.bias.data = torch.tensor([0.0, math.log(3.0), 5.0]).double()
    network = ff.capture(layer, torch.zeros(1, 2))
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]).double()
    far = ff.at_infinity(network, torch.zeros(2).double(), directions)
    tie = torch.tensor([0.25, 0.75, 0.0]).double()
    torch.testing.assert_close(far.probabilities[0, 0], tie)
    assert far.probabilities[0, 1].tolist() == [0.0, 0.0, 1.0]
    everything = torch.softmax(layer.bias.detach(), -1)
    torch.testing.assert_close(far.probabilities[0, 2], everything)
    torch.testing.assert_close(far.probabilities[0, 3], everything)
    assert far.saturates[0].tolist() == [False, True, False, False]
    assert far.constant[0].tolist() == [False, False, True, True]
    assert far.label.tolist() == [1, 2, 2, 2]
    torch.testing.assert_close(far.confidence, far.probabilities[0].amax(-1))
    assert (far.reach == 0).all()


def test_one_logit_is_two():
    model = mlp(2, 8, 1)
    network = ff.capture(model, torch.zeros(1, 2))
    far = ff.at_infinity(network, torch.zeros(2).double(), normal(20, 2))
    assert (far.slope[..., 0] == 0).all()
    slope, _ = germ_by_floats(model, torch.zeros(2).double(), normal(20, 2), 1e6)
    torch.testing.assert_close(far.slope[0, :, 1], slope[:, 0])
    assert torch.equal(far.label, (slope[:, 0] > 0).long())


def test_an_ensemble_settles_at_the_entropy_of_its_votes():
    models = [mlp(2, 16, 3, seed=seed) for seed in range(5)]
    network = ff.capture(models, torch.zeros(1, 2))
    far = ff.at_infinity(network, torch.zeros(2).double(), normal(300, 2))
    settled = far.saturates.all(dim=0)
    assert settled.sum() > 200
    votes = far.votes
    torch.testing.assert_close(votes.sum(-1), torch.ones(300).double())
    entropy = -torch.xlogy(votes, votes).sum(-1)
    for name in ("predictive_entropy", "mutual_information"):
        torch.testing.assert_close(far.score(name)[settled], entropy[settled])
    variance = (votes * (1 - votes)).mean(-1)
    torch.testing.assert_close(far.score("class_variance")[settled], variance[settled])
    share = 1 - votes.amax(-1)
    torch.testing.assert_close(far.score("one_minus_max_probability")[settled], share[settled])
    torch.testing.assert_close(far.confidence[settled], votes.amax(-1)[settled])
    far_out = network.probabilities(1e7 * normal(300, 2)).mean(0)
    torch.testing.assert_close(
        far_out[settled], far.probabilities.mean(0)[settled], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("confidence", [0.3, 0.9, 0.999, 1 - 1e-9])
def test_distance_is_where_the_winner_passes_the_confidence(network, confidence):
    origin, direction = normal(100, 3, seed=9), normal(100, 3, seed=10)
    far = ff.at_infinity(network, origin, direction)
    distance = far.distance(confidence)[0]
    finite = torch.isfinite(distance)
    assert torch.equal(finite, far.saturates[0])
    at = network.probabilities(origin + distance[:, None] * direction)[0]
    winner = at.gather(1, far.winner[0][:, None])[:, 0]
    assert (winner[finite] >= confidence - 1e-12).all()
    crossing = finite & (distance > 0)
    assert crossing.any()
    assert (distance < far.reach[0]).any()
    torch.testing.assert_close(
        winner[crossing], torch.full_like(winner[crossing], confidence), atol=1e-9, rtol=0
    )


def test_distance_closed_form_and_never():
    layer = nn.Linear(1, 2, dtype=torch.float64)
    layer.weight.data = torch.tensor([[2.0], [0.5]]).double()
    layer.bias.data = torch.tensor([0.0, 3.0]).double()
    network = ff.capture(layer, torch.zeros(1, 1))
    far = ff.at_infinity(network, [0.0], [[1.0], [-1.0]])
    expected = (3 + math.log(0.999 / 0.001)) / 1.5
    assert far.distance(0.999)[0].tolist() == pytest.approx([expected, (math.log(999) - 3) / 1.5])
    layer.weight.data[1] = 2.0
    tied = ff.at_infinity(ff.capture(layer, torch.zeros(1, 1)), [0.0], [[1.0]])
    assert tied.distance(0.96).item() == math.inf
    assert tied.distance(0.95).item() == 0.0


@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU, nn.SiLU, nn.Softplus, nn.ELU, nn.Sigmoid])
def test_smooth_activations_by_their_limits(activation):
    model = mlp(2, 8, 8, 3, activation=activation)
    network = ff.capture(model, torch.zeros(1, 2))
    origin, direction = normal(20, 2), normal(20, 2, seed=3)
    far = ff.at_infinity(network, origin, direction)
    assert far.asymptotic.all()
    assert torch.isinf(far.reach).all()
    limit = network.probabilities(origin + 1e6 * direction)
    torch.testing.assert_close(far.probabilities, limit, atol=1e-6, rtol=0)
    distance = far.distance(0.6)
    above = far.probabilities.amax(-1) > 0.6
    assert torch.isfinite(distance[above]).all()
    assert torch.isinf(distance[~above]).all()


def test_hard_swish_settles_at_a_finite_reach():
    model = mlp(2, 8, 3, activation=nn.Hardswish)
    network = ff.capture(model, torch.zeros(1, 2))
    origin, direction = normal(20, 2), normal(20, 2, seed=3)
    far = ff.at_infinity(network, origin, direction)
    assert torch.isfinite(far.reach).all()
    t = far.reach[0, :, None] * 1.001
    torch.testing.assert_close(
        far.slope[0] * t + far.intercept[0], network.logits(origin + t * direction)[0]
    )


def test_the_jacobian_and_the_assumptions_belong_to_the_last_region(network):
    origin, direction = normal(5, 3), normal(5, 3, seed=2)
    far = ff.at_infinity(network, origin, direction)
    V = far.jacobian()
    assert V.shape == (1, 5, 4, 3)
    torch.testing.assert_close((V * direction[None, :, None]).sum(-1), far.slope)
    intercept = far.intercept - (V * origin[None, :, None]).sum(-1)
    beyond = origin + 2 * far.reach[0, :, None] * direction
    logits = (V[0] @ beyond[:, :, None])[..., 0] + intercept[0]
    torch.testing.assert_close(logits, network.logits(beyond)[0])
    assert far.assumptions().lemma_1.shape == (1, 5)
    with pytest.raises(InputError, match="does not know its rays"):
        dataclasses.replace(far, rays=None).jacobian()


def test_chunks_do_not_change_the_result(network, monkeypatch):
    origin, direction = normal(57, 3), normal(57, 3, seed=2)
    models = [mlp(3, 16, 16, 4, seed=s) for s in range(3)]
    ensemble = ff.capture(models, origin[:1])
    whole = [ff.at_infinity(n, origin, direction, certify=True) for n in (network, ensemble)]
    monkeypatch.setattr(farfield.graph.network, "CHUNK_ELEMENTS", 16 * 2 * 3 * 5)
    cut = [ff.at_infinity(n, origin, direction, certify=True) for n in (network, ensemble)]
    for one, other in zip(whole, cut, strict=True):
        torch.testing.assert_close(one.slope, other.slope)
        torch.testing.assert_close(one.intercept, other.intercept)
        torch.testing.assert_close(one.reach, other.reach)
        assert torch.equal(one.leading, other.leading)
        assert torch.equal(one.certified, other.certified)
    torch.testing.assert_close(network.logits(origin), network.logits(origin.numpy()))


def test_instances_equal_each_network_alone():
    models = [mlp(3, 16, 16, 4, seed=s) for s in range(3)]
    origin, direction = normal(20, 3), normal(20, 3, seed=2)
    together = ff.at_infinity(ff.capture(models, origin[:1]), origin, direction)
    for index, model in enumerate(models):
        alone = ff.at_infinity(ff.capture(model, origin[:1]), origin, direction)
        torch.testing.assert_close(together.slope[index], alone.slope[0])
        torch.testing.assert_close(together.reach[index], alone.reach[0])


@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("own", ["0.weight", "0.bias", "2.weight", "2.bias"])
def test_instances_that_share_all_but_one_weight_equal_each_alone(own, certify):
    models = [mlp(3, 8, 4, seed=0) for _ in range(3)]
    for index, model in enumerate(models):
        model.get_parameter(own).data += index
    origin, direction = normal(20, 3), normal(20, 3, seed=2)
    together = ff.at_infinity(ff.capture(models, origin[:1]), origin, direction, certify)
    for index, model in enumerate(models):
        alone = ff.at_infinity(ff.capture(model, origin[:1]), origin, direction, certify)
        torch.testing.assert_close(together.slope[index], alone.slope[0])
        torch.testing.assert_close(together.intercept[index], alone.intercept[0])
        torch.testing.assert_close(together.reach[index], alone.reach[0])


def test_origins_and_directions_broadcast(network):
    origin, direction = normal(6, 3), normal(6, 3, seed=2)
    one_origin = ff.at_infinity(network, origin[0], direction)
    one_direction = ff.at_infinity(network, origin, direction[:1])
    assert one_origin.slope.shape == one_direction.slope.shape == (1, 6, 4)
    assert len(one_origin) == 6
    torch.testing.assert_close(
        one_origin.intercept, ff.at_infinity(network, origin[:1].expand(6, 3), direction).intercept
    )


@pytest.mark.parametrize(
    ("origin", "direction", "message"),
    [
        (np.zeros(3), np.zeros((2, 3)), "2 of 2 directions are zero"),
        (np.zeros(3), np.eye(3)[:, :2], "direction has shape"),
        (np.zeros((2, 3)), np.eye(3), "origin has 2 rows and direction 3"),
        (np.zeros(3), np.full((1, 3), np.nan), "NaN or infinite"),
        (np.full(3, np.inf), np.eye(3), "NaN or infinite"),
        (np.zeros(3, dtype=int), np.eye(3), "floating-point"),
        (np.zeros(3), np.zeros((0, 3)), "empty"),
    ],
)
def test_bad_rays(network, origin, direction, message):
    with pytest.raises(InputError, match=message):
        ff.at_infinity(network, origin, direction)


def test_a_model_that_was_not_captured():
    with pytest.raises(InputError, match="capture the model first"):
        ff.at_infinity(mlp(3, 4, 2), np.zeros(3), np.eye(3))


def test_bad_options(network):
    far = ff.at_infinity(network, np.zeros(3), np.eye(3))
    for confidence in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            far.distance(confidence)
    with pytest.raises(InputError, match="predictive_entropy"):
        far.score("entropy of the universe")
    single = ff.capture(mlp(3, 4, 2), torch.zeros(1, 3), dtype=torch.float32)
    with pytest.raises(InputError, match="needs a network captured in float64"):
        ff.at_infinity(single, np.zeros(3), np.eye(3), certify=True)


@pytest.mark.parametrize("certify", [False, True])
def test_overflow_is_an_error_that_names_the_place(certify):
    model = mlp(2, 4, 4, 2)
    for part in model:
        if isinstance(part, nn.Linear):
            part.weight.data = part.weight.data * 1e150
    network = ff.capture(model, torch.zeros(1, 2))
    with pytest.raises(NumericalOverflow, match=r"aten\.linear, in 4 \(Linear\)"):
        ff.at_infinity(network, np.zeros(2), np.ones((3, 2)), certify=certify)


def test_overflow_behind_a_maximum_is_not_hidden():
    class Lost(nn.Module):
        def forward(self, x):
            return torch.maximum(x * -1e300 * 1e300, x)

    network = ff.capture(Lost(), torch.zeros(1, 2).double())
    with pytest.raises(NumericalOverflow):
        ff.at_infinity(network, np.zeros(2), np.ones((1, 2)))


def test_large_but_finite_sums_are_not_mistaken_for_overflow():
    layer = nn.Linear(2, 2, dtype=torch.float64)
    layer.weight.data = torch.tensor([[1.5e308, 0.0], [1.4e308, 0.0]], dtype=torch.float64)
    layer.bias.data.zero_()
    network = ff.capture(layer, torch.zeros(1, 2))
    far = ff.at_infinity(network, np.zeros(2), np.array([[1.0, 0.0]]))
    assert far.label.tolist() == [0]
