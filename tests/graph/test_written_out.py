"""Operations that PyTorch writes out are read as what they are."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from farfield.errors import UnsupportedOperation
from small_networks import captured


class Applied(nn.Module):
    """A function behind weights that leave everything as it is, times two."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.last = nn.Linear(3, 3, bias=False, dtype=torch.float64)
        self.last.weight.data = 2 * torch.eye(3, dtype=torch.float64)

    def forward(self, x):
        return self.last(self.function(x))


@pytest.mark.parametrize("size", [0.5, 0.4, 3.0])
def test_softshrink(size):
    network = captured(Applied(lambda x: F.softshrink(x, size)), 3)
    places = torch.tensor([0.0, size, -size, 2 * size, -5 * size, 0.1], dtype=torch.float64)
    rows = torch.stack([places, places + 1, -places], dim=1)
    beside = torch.nextafter(rows, torch.full_like(rows, torch.inf))
    for points in (rows, beside):
        assert torch.equal(network.logits(points)[0], 2 * F.softshrink(points, size))
    line = ff.along(network, torch.zeros(3), [1.0, -1.0, 0.0])[0]
    assert line.breakpoints.tolist() == [size]
    far = ff.at_infinity(network, torch.zeros(3), [1.0, -2.0, 0.0], certify=True)
    assert far.slope.tolist() == [[[2.0, -4.0, 0.0]]]
    assert far.intercept.tolist() == [[[-2 * size, 2 * size, 0.0]]]
    assert far.certified.all()


def shrunk(x, size, by):
    """What softshrink is written as, but with two constants."""
    return torch.where(x.abs() > size, x - x.sign() * by, x * 0)


def test_what_only_looks_alike_is_refused_by_name():
    captured(Applied(lambda x: shrunk(x, 0.5, 0.5)), 3)
    for other in (
        lambda x: shrunk(x, 0.5, 0.25),
        lambda x: shrunk(x, -0.5, -0.5),
        lambda x: F.hardshrink(x, 0.5),
    ):
        with pytest.raises(UnsupportedOperation, match=r"aten\.where\.self"):
            captured(Applied(other), 3)
