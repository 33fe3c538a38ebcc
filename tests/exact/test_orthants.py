"""The share of blind orthants, against predictions far out in each of them."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import farfield as ff
from farfield.errors import InputError, UnsupportedOperation
from farfield.estimate import Estimate
from farfield.exact import orthants
from farfield.graph.network import join
from small_networks import captured, mlp
from step_models import X, Y, step_model, stumps


@pytest.mark.parametrize("name", ["forest", "boosted"])
def test_every_orthant(name):
    model, network = step_model(name)
    found = ff.blind_orthants(network, 0.6)
    assert found.exact
    assert found.features == (0, 1, 2, 3)
    assert sorted(found.signs.tolist()) == sorted(map(list, itertools.product([-1, 1], repeat=4)))
    far = model.predict_proba(1e9 * found.signs.numpy())
    assert np.allclose(found.confidence, far.max(axis=1), atol=1e-12)
    assert found.share == (far.max(axis=1) >= 0.6).mean()
    assert np.array_equal(found.label, far.argmax(axis=1))
    assert "orthants" in repr(found)


def test_features_that_nothing_looks_at_do_not_count():
    low, high = np.array([9.0, 0.0]), np.array([0.0, 1.0])
    network = stumps(9, [(2, 0.0, low, high), (5, 1.0, 0 * low, 0 * low)])
    found = ff.blind_orthants(network)
    # The second split leads to the same leaf on both sides, but it is a split.
    assert found.features == (2, 5)
    assert found.share == 0.5
    nothing = ff.blind_orthants(stumps(2, [(0, np.inf, low, high)]))
    assert (nothing.features, nothing.share, len(nothing)) == ((), 1.0, 1)


def test_many_features_are_sampled(monkeypatch):
    monkeypatch.setattr(orthants, "MOST_FEATURES", 3)
    _, network = step_model("forest")
    exact = np.mean([(ff.at_infinity(network, X[0], s).confidence >= 0.6).item() for s in SIGNS])
    found = ff.blind_orthants(network, 0.6, samples=2000, level=0.999)
    assert isinstance(found.share, Estimate)
    assert not found.exact
    assert found.share.low <= exact <= found.share.high
    again = ff.blind_orthants(network, 0.6, samples=2000, level=0.999, random_state=0)
    assert torch.equal(found.signs, again.signs)
    other = ff.blind_orthants(network, 0.6, samples=2000, level=0.999, random_state=1)
    assert not torch.equal(found.signs, other.signs)


SIGNS = list(map(np.array, itertools.product([-1.0, 1.0], repeat=4)))


def test_what_has_no_orthants_is_refused():
    with pytest.raises(UnsupportedOperation, match="mixtures of several features"):
        ff.blind_orthants(step_model("rotated")[1])
    with pytest.raises(UnsupportedOperation, match="keep changing far away"):
        ff.blind_orthants(captured(mlp(2, 3, 2), 2))
    with pytest.raises(UnsupportedOperation, match="smooth"):
        ff.blind_orthants(captured(torch.nn.Sequential(mlp(2, 3), torch.nn.GELU()), 2))
    with pytest.raises(InputError, match="threshold"):
        ff.blind_orthants(step_model("forest")[1], 1.5)
    with pytest.raises(InputError, match="samples"):
        ff.blind_orthants(step_model("forest")[1], samples=0)


def test_several_instances_look_at_all_their_features():
    first = RandomForestClassifier(3, max_depth=1, random_state=0).fit(X[:, :2], Y)
    networks = [ff.capture(first), ff.capture(first.set_params(random_state=5).fit(X[:, :2], Y))]
    both = join(networks)
    found = ff.blind_orthants(both, 0.5)
    mean = both.probabilities(1e9 * found.signs.double()).mean(dim=0).amax(dim=-1)
    assert torch.allclose(found.confidence, mean)


def test_where_one_stands_does_not_matter():
    """Clipped columns rest at the origin here, and are looked at all the same."""
    front = MinMaxScaler(clip=True).fit(X + 10)
    model = make_pipeline(front, RandomForestClassifier(3, random_state=0)).fit(X + 10, Y)
    found = ff.blind_orthants(ff.capture(model), 0.6)
    assert found.features == (0, 1, 2, 3)
    own = model.predict_proba(1e9 * found.signs.double().numpy()).max(axis=1)
    assert np.allclose(found.confidence, own, atol=1e-12)
    dead = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    dead[0].bias.data.fill_(-9.0)
    with pytest.raises(UnsupportedOperation, match="keep changing far away"):
        ff.blind_orthants(captured(dead, 2))


def test_masks_of_single_features():
    class Masks(torch.nn.Module):
        def forward(self, x):
            both = ((x[:, :1] > 3) & (x[:, 1:2] <= -1)).to(x.dtype)
            return torch.cat([9 * both, x[:, 2:] * 0], dim=1)

    found = ff.blind_orthants(captured(Masks(), 3))
    assert (found.features, found.share) == ((0, 1), 0.25)
