"""From where on logits stay close to their asymptotes: held against many digits beyond it."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from campaigns.growth_soundness import drawn
from farfield.errors import InputError
from farfield.exact.series import settling
from farfield.exact.series.tube import Frame
from growth_cases import GROWN
from growth_referee import farthest_off, grown, rays

DELTA = 0.01
BEYOND = (1.0, 1.1, 1e4)


ARCHITECTURES = [
    ("pre norm", "layer norm", "gelu"),
    ("product", "rms norm", "attention"),
    ("mixture", "largest", "quotient"),
    ("gate", "clamp", "logarithm", "silu"),
]


def seeded(module, seed=3):
    """Give a module weights of a moderate size, and its norms weights near 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        scale = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.3
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale
        parameter.data = drawn + (1.0 if "norm" in name and "weight" in name else 0.0)
    return module.double().eval()


class Block(nn.Module):
    """A transformer of one pre-norm block over three tokens, mean pool, norm, head."""

    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(4, 12)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(4), nn.LayerNorm(4), nn.LayerNorm(4)
        self.query, self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.wide, self.narrow, self.head = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = self.entry(x).view(-1, 3, 4)
        y = self.norm1(x)
        x = x + F.scaled_dot_product_attention(self.query(y), self.key(y), self.value(y))
        x = x + self.narrow(F.gelu(self.wide(self.norm2(x))))
        return self.head(self.norm3(x.mean(1)))


class SqueezeExcite(nn.Module):
    """Channels weighted by a sigmoid of their means."""

    def __init__(self):
        super().__init__()
        self.entry, self.down, self.up = nn.Linear(4, 12), nn.Linear(4, 3), nn.Linear(3, 4)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        x = self.entry(x).view(-1, 4, 3)
        shares = torch.sigmoid(self.up(F.silu(self.down(x.mean(2)))))
        return self.head((x * shares[:, :, None]).flatten(1))


class Mixture(nn.Module):
    """Two experts, and a gate that is at rest: order 0 of the product needs order -1 of it."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(4), nn.Linear(4, 2)
        self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        share = torch.softmax(self.gate(self.norm(x)), 1)
        return share[:, :1] * self.one(x).relu() + share[:, 1:] * self.other(x)


def stacked(*layers):
    return lambda: nn.Sequential(*(layer() for layer in layers))


NETWORKS = {
    "block": Block,
    "squeeze and excite": SqueezeExcite,
    "mixture": Mixture,
    "layer norms": stacked(
        lambda: nn.Linear(4, 8),
        lambda: nn.LayerNorm(8),
        nn.ReLU,
        lambda: nn.Linear(8, 8),
        lambda: nn.LayerNorm(8),
        nn.Tanh,
        lambda: nn.Linear(8, 3),
    ),
    **{
        act.__name__: stacked(
            lambda: nn.Linear(4, 8), act, lambda: nn.Linear(8, 6), act, lambda: nn.Linear(6, 3)
        )
        for act in (nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Tanh, nn.ELU, nn.SELU, nn.CELU)
    },
    **{
        act.__name__: stacked(lambda: nn.Linear(4, 8), act, lambda: nn.Linear(8, 3))
        for act in (nn.Softplus, nn.Softsign, nn.LogSigmoid)
    },
}


@cache
def captured(name):
    """A network, captured once."""
    return ff.capture(seeded(NETWORKS[name]()), torch.zeros(1, 4, dtype=torch.float64))


def check_settled(network, origin, direction, delta=DELTA):
    """Far out it settles, and beyond that place logits are where it says."""
    far = ff.at_infinity(network, origin, direction)
    found = far.settles(delta)
    assert bool(torch.isfinite(found).all()), found
    order = max(int(far.order.max()), 1)
    for index in range(len(found)):
        places = [found[index] * factor for factor in BEYOND]
        assert farthest_off(network, origin, direction, order, places, index) <= delta
    return found


@pytest.mark.parametrize(
    "target", [pytest.param(target, id=str(target).split(" at ")[0]) for target in GROWN]
)
def test_operations_that_change_growth_settle_and_are_certified(target):
    _, network = grown(target)
    origin, direction = rays(2)
    check_settled(network, origin, direction)
    assert bool(ff.at_infinity(network, origin, direction, certify=True).certified.all())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_settle(name):
    check_settled(captured(name), *rays(2, 4))


@pytest.mark.parametrize("names", ARCHITECTURES, ids=", ".join)
def test_random_networks_settle_where_they_say(names):
    network, origin, direction = drawn("settling", names)
    origin, direction = torch.from_numpy(origin), torch.from_numpy(direction)
    far = ff.at_infinity(network, origin, direction, undecided="mark")
    found = far.settles(DELTA)
    some = torch.isfinite(found[0])
    order = max(int(far.order.max()), 1)
    places = [found[0, some] * factor for factor in BEYOND]
    if bool(some.any()):
        assert farthest_off(network, origin[some], direction[some], order, places) <= DELTA


def test_forgotten_rests_are_noticed(monkeypatch):
    honest = Frame.cut
    monkeypatch.setattr(
        Frame,
        "cut",
        lambda self, balls: {
            o: b._replace(rest=0 * b.rest) for o, b in honest(self, balls).items()
        },
    )
    with pytest.raises(AssertionError):
        check_settled(captured("block"), *rays(2, 4))


def test_smaller_distances_are_reached_later():
    far = ff.at_infinity(captured("block"), *rays(2, 4))
    late, soon = far.settles(1e-6), far.settles(0.1)
    assert bool((late > soon).all())
    # The distance falls like 1 / t.
    assert bool((late < 1e7 * soon).all())


def test_looking_halvings_ahead_changes_nothing(monkeypatch):
    far = ff.at_infinity(captured("mixture"), *rays(4, 4))
    ahead = far.settles(DELTA)
    monkeypatch.setattr(settling, "FEW", 0)
    assert torch.equal(far.settles(DELTA), ahead)


@pytest.mark.parametrize("name", ["block", "mixture", "squeeze and excite"])
def test_winners_are_kept_from_where_that_is_said(name):
    origin, direction = rays(2, 4)
    network = captured(name)
    far = ff.at_infinity(network, origin, direction)
    level = 0.9 * float(far.probabilities.amax(dim=-1).min())
    found = far.sure_from(level)
    assert not bool(found.exact.any())
    assert bool(torch.isfinite(found.t).all())
    for factor in (1.0, 1.5, 10.0, 1e3, 1e5):
        p = network.probabilities(origin + (found.t[0] * factor)[:, None] * direction)[0]
        assert bool((p.gather(1, far.winner[0][:, None]) >= level).all())


def test_piecewise_affine_networks_settle_where_they_reach_their_asymptotes():
    origin, direction = rays(3, 4)
    module = seeded(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    far = ff.at_infinity(ff.capture(module, origin), origin, direction)
    assert torch.equal(far.settles(DELTA), far.reach)


def test_instances_and_single_precision():
    origin, direction = rays(3, 4)
    members = [
        seeded(nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 3)), s) for s in (1, 2)
    ]
    network = ff.capture([member.float() for member in members], origin.float())
    found = ff.at_infinity(network, origin.float(), direction.float()).settles(DELTA)
    assert found.shape == (2, 3)
    assert found.dtype == torch.float64
    alone = ff.capture(members[1], origin.float())
    again = ff.at_infinity(alone, origin.float(), direction.float()).settles(DELTA)
    assert torch.equal(again[0], found[1])


def test_what_is_not_known_is_infinite():
    # The difference of two sums that are alike but for rounding: nothing proves that it rests.
    layer = nn.Linear(3, 4, dtype=torch.float64)
    twice = nn.Linear(3, 4, dtype=torch.float64)
    twice.weight.data, twice.bias.data = layer.weight.data * 3, layer.bias.data

    class Cancelled(nn.Module):
        def forward(self, x):
            return F.layer_norm(layer(x) * 3 - twice(x), (4,))

    origin, direction = rays(1)
    network = ff.capture(Cancelled(), origin)
    far = ff.at_infinity(network, origin, direction, undecided="mark")
    assert bool(torch.isinf(far.settles(DELTA)).all())


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_bad_distances_are_told(delta):
    origin, direction = rays(1, 4)
    network = ff.capture(seeded(nn.Sequential(nn.Linear(4, 2), nn.GELU())), origin)
    with pytest.raises(InputError, match="delta must be positive"):
        ff.at_infinity(network, origin, direction).settles(delta)
