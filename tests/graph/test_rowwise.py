"""Models that move the rows of a batch about: read one row at a time, by every analysis."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from farfield.errors import CaptureError, UnsupportedOperation
from oracles import germ_by_floats
from saved_programs import check_saved


class Model(nn.Module):
    """Two layers, and whatever is done with them."""

    def __init__(self, how, units=8, inputs=4):
        super().__init__()
        self.how = how
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(inputs, units), nn.Linear(units, 3)
        self.recurrent = nn.RNN(inputs, units, 2, nonlinearity="relu")
        self.token = nn.Parameter(torch.randn(1, 1, units))
        self.places = nn.Parameter(torch.randn(6, 1, units))
        self.double().eval()

    def forward(self, x):
        return self.how(self, x)


def with_token(self, x):
    """A token for every row, before the others; places are added."""
    tokens = torch.cat([self.token.expand(-1, len(x), -1), self.first(x).transpose(0, 1)])
    return self.last(F.relu(tokens + self.places).sum(0))


MOVED = {
    "transposed": ((4,), lambda self, x: self.last(F.relu(self.first(x).t()).t())),
    "one-behind-the-other": (
        (4,),
        lambda self, x: (
            torch.cat([self.last(self.first(x).relu())] * 2).unflatten(0, (2, -1)).mean(0)
        ),
    ),
    "sequence-first": (
        (5, 4),
        lambda self, x: self.last(F.relu(self.first(x.transpose(0, 1)))).mean(0),
    ),
    "recurrent": ((3, 4), lambda self, x: self.last(self.recurrent(x.transpose(0, 1))[0][-1])),
    "token": ((5, 4), with_token),
    "pooled": (
        (8, 4),
        lambda self, x: self.last(
            F.max_pool1d(F.pad(self.first(x).permute(1, 2, 0), (0, 0)), 1).amax(0).t()
        ),
    ),
    "windows-over-the-edge": (
        (5, 4),
        lambda self, x: self.last(F.max_pool1d(self.first(x).permute(1, 0, 2), 3, 1, 1).amax(0)),
    ),
    "larger-of-a-row-and-a-table": (
        (4,),
        lambda self, x: self.last(torch.maximum(self.first(x), self.places).sum(0)),
    ),
    "framed": (
        (4,),
        lambda self, x: self.last(F.pad(self.first(x), (0, 0, 1, 0), value=2.0).amax(0, True)),
    ),
}
# The last of them sees a frame of its own only on a single row: its rows influence one another.
FAITHFUL = [name for name in MOVED if name != "framed"]


def rays(shape, count=6):
    generator = torch.Generator().manual_seed(0)
    origin, direction = torch.randn(2, count, *shape, generator=generator, dtype=torch.float64)
    return origin, direction


@pytest.fixture(scope="module", params=FAITHFUL)
def moved(request):
    shape, how = MOVED[request.param]
    module = Model(how)
    return module, ff.capture(module, rays(shape)[0])


def test_germs_equal_two_evaluations_far_out(moved):
    module, network = moved
    assert network.groups[0].program.per_row
    origin, direction = rays(network.input_shape)
    slope, intercept = germ_by_floats(module, origin, direction, 1e7)
    for certify in (False, True):
        far = ff.at_infinity(network, origin, direction, certify=certify)
        torch.testing.assert_close(far.slope[0], slope, rtol=1e-6, atol=2e-6)
        torch.testing.assert_close(far.intercept[0], intercept, rtol=1e-5, atol=2e-5)
    assert bool(far.certified.all())


def test_whole_rays_and_regions_agree_with_the_model(moved):
    module, network = moved
    (origin, *_), (direction, *_) = rays(network.input_shape)
    line = ff.along(network, origin[None], direction[None])[0]
    for t in (0.0, 0.7, 3.0, 50.0):
        expected = module((origin + t * direction)[None])
        torch.testing.assert_close(line.logits_at(t).reshape(1, 3), expected.detach())
    region = ff.linearize(network, origin[None])
    affine = region.V[0] @ origin.flatten() + region.a[0]
    torch.testing.assert_close(affine, module(origin[None])[0].detach())
    slope = torch.autograd.functional.jacobian(lambda x: module(x[None])[0], origin)
    torch.testing.assert_close(region.V[0], slope.flatten(1))


def test_instances_of_one_make_are_walked_together():
    shape, how = MOVED["sequence-first"]
    one, other = Model(how), Model(how)
    nn.init.normal_(other.first.weight)
    network = ff.capture([one, other], rays(shape)[0])
    assert len(network.groups) == 1
    origin, direction = rays(shape)
    far = ff.at_infinity(network, origin, direction)
    for place, module in enumerate((one, other)):
        slope, _ = germ_by_floats(module, origin, direction, 1e7)
        torch.testing.assert_close(far.slope[place], slope, rtol=1e-6, atol=2e-6)


def test_rows_that_stay_where_they_are_keep_the_plain_walk():
    network = ff.capture(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), np.zeros((1, 4))
    )
    assert not network.groups[0].program.per_row


@pytest.mark.parametrize(
    "how",
    [
        lambda self, x: self.last(self.first(x) - self.first(x).mean(0)),
        lambda self, x: self.last(self.first(x).t().softmax(1).t()),
        MOVED["framed"][1],
    ],
)
def test_rows_that_influence_one_another_are_refused(how):
    with pytest.raises(CaptureError, match=r"influence one another|no rule"):
        ff.capture(Model(how), torch.zeros(2, 4))


def test_a_saved_file_is_read_one_row_at_a_time(tmp_path):
    shape, how = MOVED["sequence-first"]
    check_saved(Model(how), rays(shape)[0], tmp_path / "model.pt2")


@pytest.mark.parametrize(
    ("how", "operation", "kind"),
    [
        (
            lambda self, x: self.last((y := self.first(x)).sin() + y.mul(2).sin() + (-y).sin()),
            "aten.sin x 3",
            "no limit",
        ),
        (lambda self, x: self.last(torch.fmod(self.first(x), 1.0)), "aten.fmod", "no limit"),
        (lambda self, x: self.last(self.first(x).sinh()), "aten.sinh", "has a limit"),
    ],
)
def test_refusals_are_told_once_with_their_number_and_kind(how, operation, kind):
    with pytest.raises(UnsupportedOperation) as caught:
        ff.capture(Model(how), torch.zeros(2, 4))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert operation in lines[1]
    assert kind in lines[1]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_written_out(kind):
    torch.manual_seed(0)
    layer = kind(4, 8, batch_first=True).double()
    module = Model(lambda self, x: self.last(layer(x)[0][:, -1]))
    origin, direction = rays((3, 4))
    far = ff.at_infinity(ff.capture(module, origin), origin, direction)
    expected = module(origin + 1e9 * direction).detach()
    torch.testing.assert_close(far.slope[0], torch.zeros_like(expected))
    torch.testing.assert_close(far.intercept[0], expected, rtol=1e-6, atol=1e-6)


class Blocked(nn.Module):
    """Attention in which places see none that come later."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(0)
        self.how = how
        self.query, self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.register_buffer("later", torch.ones(5, 5, dtype=torch.bool).triu(1))
        self.register_buffer("added", torch.zeros(5, 5).masked_fill(self.later, -torch.inf))
        self.double().eval()

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        return self.how(self, query, key, value).mean(1)


@pytest.mark.parametrize(
    "how",
    [
        lambda self, q, k, v: (q @ k.mT).masked_fill(self.later, -torch.inf).softmax(-1) @ v,
        lambda self, q, k, v: (q @ k.mT + self.added).softmax(-1) @ v,
        lambda self, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=self.added),
    ],
    ids=["filled", "added", "fused"],
)
def test_places_that_are_blocked_never_win(how):
    module = Blocked(how)
    origin, direction = rays((5, 4))
    far = ff.at_infinity(ff.capture(module, origin), origin, direction)
    with torch.no_grad():
        slope = (module(origin + 2e6 * direction) - module(origin + 1e6 * direction)) / 1e6
    torch.testing.assert_close(far.slope[0], slope, rtol=1e-6, atol=1e-6)


def test_growth_is_followed_one_row_at_a_time_where_rows_are_folded():
    def how(self, x):
        folded = F.layer_norm(self.first(x.reshape(-1, 4)), (8,))
        return self.last(folded.reshape(x.shape[0], -1, 8).mean(1))

    module = Model(how)
    origin, direction = rays((5, 4))
    network = ff.capture(module, origin)
    assert network.groups[0].program.per_row
    limit = module(origin + 1e9 * direction).detach()
    torch.testing.assert_close(
        ff.at_infinity(network, origin, direction).intercept[0], limit, rtol=1e-6, atol=1e-6
    )
