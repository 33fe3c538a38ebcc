"""Positions of maxima: who wins a tie, who is looked up, and what is refused."""

import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import UndecidedLimit, UnsupportedOperation

aten = torch.ops.aten
RAYS = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Of(nn.Module):
    """A function of rows as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def far_of(function, rays=RAYS):
    network = ff.capture(Of(function), rays[0][:1])
    return network, ff.at_infinity(network, *rays)


def test_the_first_of_several_largest_values_counts():
    def first(x):
        best = torch.stack([x[:, 0], x[:, 0], x[:, 1]], 1).max(1).indices
        return x + best.unsqueeze(1)

    _, far = far_of(first)
    wins = RAYS[1][:, 1] > RAYS[1][:, 0]
    torch.testing.assert_close(
        far.intercept[0] - RAYS[0], 2.0 * wins[:, None].double().expand(-1, 3)
    )


def test_the_order_of_equal_values_is_not_known():
    def second(x):
        places = torch.stack([x[:, 0], x[:, 0], x[:, 1]], 1).topk(2, 1).indices
        return x.gather(1, places)

    with pytest.raises(UndecidedLimit, match="no limit was found on 4 of 4 rays"):
        far_of(second)


def test_shares_of_losers_need_not_be_told_apart():
    def chosen(x):
        share, best = (x * x.flip(1)).softmax(1).max(1, keepdim=True)
        return share * x.gather(1, best.expand(-1, 2))

    _, far = far_of(chosen)
    best = (RAYS[1] * RAYS[1].flip(1)).argmax(1, keepdim=True)
    torch.testing.assert_close(far.slope[0], RAYS[1].gather(1, best).expand(-1, 2))


def test_too_many_places_are_refused_by_name():
    def wide(x):
        return x.repeat(1, 100).gather(1, x.argmax(1, keepdim=True).expand(-1, 2))

    with pytest.raises(
        UnsupportedOperation, match=r"aten\.gather .* a position depends on the inp"
    ):
        far_of(wide)
    with pytest.raises(UnsupportedOperation, match="uses the position of a maximum"):
        far_of(lambda x: x + x.repeat(1, 100).topk(3, 1).indices)


def test_members_in_front_of_the_rows_are_put_behind_them():
    def mean(x):
        return torch.stack([x, x.flip(1), -x]).softmax(-1).mean(0)

    network, far = far_of(mean)
    assert network.instances == 3
    assert not network.groups[0].program.per_row
    torch.testing.assert_close(far.slope, torch.stack([RAYS[1], RAYS[1].flip(1), -RAYS[1]]))
