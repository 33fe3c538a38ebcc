"""Padding with minus infinity before a max pool, in every domain."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

import farfield as ff
from farfield.errors import UnsupportedOperation


class Same(nn.Module):
    """TensorFlow's "same" pooling: the odd padding comes after."""

    def __init__(self, pool, pads, shape=(2, 6, 5)):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first = nn.Conv2d(2, 3, 3, padding=1).double()
            self.pool, self.pads = pool, pads
            out = self.middle(torch.zeros(1, *shape, dtype=torch.float64))
            self.last = nn.Linear(out[0].numel(), 3).double()

    def middle(self, x):
        x = F.pad(F.relu(self.first(x)) - 1, self.pads, value=-math.inf)
        return self.pool(x)

    def forward(self, x):
        return self.last(self.middle(x).flatten(1))


POOLS = {
    "same": (lambda x: F.max_pool2d(x, 3, 2), (0, 1, 0, 1)),
    "before and after": (lambda x: F.max_pool2d(x, 3, 2), (1, 1, 0, 2)),
    "with the pool's own padding": (lambda x: F.max_pool2d(x, 3, 2, 1, 1, True), (1, 0, 1, 0)),
    "with gaps": (lambda x: F.max_pool2d(x, 2, 2, 0, 2), (1, 1, 1, 1)),
    "with positions": (lambda x: F.max_pool2d(x, 3, 2, return_indices=True)[0], (0, 1, 0, 1)),
}


def rows(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 2, 6, 5, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", POOLS)
def test_the_numbers_are_the_models(name):
    model = Same(*POOLS[name])
    network = ff.capture(model, rows(1))
    torch.testing.assert_close(network.logits(rows(4))[0], model(rows(4)).detach())
    assert all("pad" not in step.operation or "pool" in step.operation for step in steps(network))


def steps(network):
    return network.groups[0].program.steps


@pytest.mark.parametrize("name", ["same", "with gaps"])
def test_every_domain_follows_it(name):
    model = Same(*POOLS[name])
    network = ff.capture(model, rows(1))
    origin, direction = rows(2), rows(2, 1)
    far = ff.at_infinity(network, origin, direction, certify=True)
    assert far.certified.all()
    out = model(origin + 1e7 * direction).detach()
    np.testing.assert_array_equal(far.label, out.argmax(dim=-1))
    (line,) = ff.along(network, origin[:1], direction[:1])
    t = torch.linspace(0, 10, 7, dtype=torch.float64)
    points = origin[0] + t[:, None, None, None] * direction[0]
    torch.testing.assert_close(line.logits_at(t)[0], model(points).detach(), atol=1e-9, rtol=1e-9)
    region = ff.linearize(network, origin[:1])
    here = region.V[0] @ origin[0].flatten() + region.a[0]
    torch.testing.assert_close(here, model(origin[:1])[0].detach())
    plane = ff.slice_plane(network, origin[0], direction[0], direction[1], (-1, 1, -1, 1))
    assert len(plane) > 1


def test_a_window_of_padding_alone_is_refused():
    model = Same(lambda x: F.max_pool2d(x, 2, 2).clamp(min=-9.0), (0, 1, 2, 0), (2, 6, 5))
    with pytest.raises(UnsupportedOperation, match="pads with -inf"):
        ff.capture(model, rows(1))


def test_padding_that_others_read_is_refused():
    def both(x):
        return F.max_pool2d(x, 3, 2) + F.avg_pool2d(x.clamp(min=-5.0), 3, 2)

    with pytest.raises(UnsupportedOperation, match="pads with -inf"):
        ff.capture(Same(both, (0, 1, 0, 1)), rows(1))
