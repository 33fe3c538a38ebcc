"""CEDA and ACET on networks small enough to work out by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.networks.streams import Purpose, Streams
from farfield.objectives import ACET, CEDA, Batch, name_of, resolve
from farfield.objectives.likelihood import Bernoulli, Categorical, Gaussian, Likelihood


def streams(members: int = 1, seed: int = 0) -> Streams:
    return Streams(seed, members, Purpose.NOISE)


def batch(inputs: Tensor, targets: Tensor, likelihood: Likelihood, **options: Any) -> Batch:
    data = inputs.flatten(0, 1)
    weights = torch.full(inputs.shape[:2], 1 / inputs.shape[1])
    return Batch(inputs, targets, weights, data.amin(0), data.amax(0), likelihood, **options)


class Watched:
    """A constant network that remembers what it was shown."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.calls: list[tuple[Tensor, bool]] = []

    def __call__(self, inputs: Tensor, *, training: bool = True) -> Tensor:
        self.calls.append((inputs.detach(), training))
        flat = inputs.flatten(2).sum(2, keepdim=True)
        return self.logits.expand(*inputs.shape[:2], -1) + 0 * flat


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 3), (0.5, 2), (2.0, 6), (0.01, 1)])
def test_the_batch_is_mixed_as_the_paper_does(ratio: float, count: int) -> None:
    logits = torch.tensor([1.0, 0.0, -1.0])
    network = Watched(logits)
    rows = batch(torch.randn(2, 3, 4), torch.eye(3).expand(2, 3, 3), Categorical(3))
    loss = CEDA(ratio=ratio)(network, rows, streams(2))
    ((shown, training),) = network.calls
    assert training
    assert shown.shape == (2, 3 + count, 4)
    assert torch.equal(shown[:, :3], rows.inputs)
    logs = logits.log_softmax(0)
    expected = (-float(logs.sum()) + count * float(logs.max())) / (3 + count)
    assert loss.tolist() == pytest.approx([expected] * 2, rel=1e-6)
    assert not torch.equal(shown[0, 3:], shown[1, 3:])


def test_weights_of_rows_stay_in_the_loss() -> None:
    logits = torch.tensor([1.0, 0.0])
    inputs, targets = torch.randn(1, 2, 3), torch.eye(2)[None]
    weights = torch.tensor([[0.75, 0.25]])
    rows = Batch(inputs, targets, weights, inputs[0, 0], inputs[0, 1], Categorical(2))
    logs = logits.log_softmax(0)
    expected = (2 * -(0.75 * logs[0] + 0.25 * logs[1]) + 2 * logs[0]) / 4
    assert CEDA()(Watched(logits), rows, streams()).item() == pytest.approx(float(expected))


def test_one_logit_and_draws_in_front() -> None:
    rows = batch(torch.randn(1, 2, 3), torch.tensor([[[0.0], [1.0]]]), Bernoulli())

    def network(inputs: Tensor, *, training: bool = True) -> Tensor:
        draws = torch.tensor([2.0, -3.0]).view(2, 1, 1, 1)
        return draws.expand(2, 1, inputs.shape[1], 1)

    def mean(z: float) -> float:
        nll = math.log1p(math.exp(z)) + math.log1p(math.exp(-z))
        return (nll - 2 * math.log1p(math.exp(-abs(z)))) / 4

    expected = (mean(2.0) + mean(-3.0)) / 2
    assert CEDA()(network, rows, streams()).tolist() == pytest.approx([expected])


def test_acet_attacks_in_evaluation_mode_and_trains_on_what_it_finds() -> None:
    network = Watched(torch.tensor([1.0, 0.0]))
    rows = batch(torch.randn(1, 4, 3), torch.eye(2)[[0, 1, 0, 1]][None], Categorical(2))
    ACET(steps=5, epsilon=0.2)(network, rows, streams())
    modes = [training for _, training in network.calls]
    assert modes == [False] * 6 + [True]


def test_acet_finds_the_confident_corner() -> None:
    layer = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(0.2 * torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]]))

    class Remembering(Watched):
        def __call__(self, inputs: Tensor, *, training: bool = True) -> Tensor:
            self.calls.append((inputs.detach(), training))
            return layer(inputs)

    rows = batch(torch.randn(1, 8, 3), torch.eye(2)[[0, 1] * 4][None], Categorical(2))
    quiet, loud = Remembering(torch.zeros(2)), Remembering(torch.zeros(2))
    CEDA()(quiet, rows, streams())
    ACET(epsilon=0.5, steps=20, step_size=0.1)(loud, rows, streams())
    noise, moved = quiet.calls[-1][0][0, 8:], loud.calls[-1][0][0, 8:]
    logits = layer(noise)[:, 0]
    # The random start moves a logit by at most 0.3, so these do not change sides.
    sure = logits.abs() > 0.3
    step = 0.5 * torch.tensor([1.0, -1.0, 1.0]) * logits.sign()[:, None]
    torch.testing.assert_close(moved[sure], (noise + step)[sure], atol=1e-5, rtol=0)
    assert bool(sure.any())


def test_images_stay_in_the_unit_box() -> None:
    network = Watched(torch.tensor([1.0, 0.0]))
    images = torch.rand(1, 4, 1, 6, 6)
    rows = batch(images, torch.eye(2)[[0, 1, 0, 1]][None], Categorical(2))
    ACET(steps=3, epsilon=0.9)(network, rows, streams())
    shown = network.calls[-1][0]
    assert shown.shape == (1, 8, 1, 6, 6)
    assert 0 <= float(shown.min()) <= float(shown.max()) <= 1
    bad = batch(255 * images, rows.targets, Categorical(2))
    with pytest.raises(InputError, match="divide them by 255"):
        CEDA()(network, bad, streams())


def test_noise_comes_from_all_training_data_when_it_is_known() -> None:
    network = Watched(torch.zeros(2))
    far = torch.tensor([[100.0, 100.0], [101.0, 101.0]])
    rows = batch(torch.zeros(1, 1, 2), torch.eye(2)[None, :1], Categorical(2), data=far)
    CEDA(noise="permuted")(network, rows, streams())
    assert float(network.calls[0][0][0, 1:].min()) >= 100


def test_the_default_noise_is_the_papers_for_images_and_gaussian_for_tables() -> None:
    for inputs, named in ((torch.rand(1, 4, 1, 6, 6), "mixed"), (torch.randn(1, 4, 3), "gaussian")):
        rows = batch(inputs, torch.eye(2)[[0, 1, 0, 1]][None], Categorical(2))
        shown = []
        for objective in (CEDA(), CEDA(noise=named)):
            network = Watched(torch.zeros(2))
            objective(network, rows, streams())
            shown.append(network.calls[0][0])
        assert torch.equal(*shown)


def test_a_batch_of_one_row_is_fine_where_the_noise_allows_it() -> None:
    network = Watched(torch.zeros(2))
    one = batch(torch.zeros(1, 1, 2), torch.eye(2)[None, :1], Categorical(2))
    assert torch.isfinite(CEDA(noise="uniform")(network, one, streams())).all()
    with pytest.raises(InputError, match="two columns and two rows"):
        CEDA(noise="permuted")(network, one, streams())


def test_regression_has_no_confidence() -> None:
    rows = batch(torch.randn(1, 2, 2), torch.zeros(1, 2, 1), Gaussian())
    with pytest.raises(InputError, match="Gaussian has none; use objective='nll'"):
        CEDA()(Watched(torch.zeros(2)), rows, streams())


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        (CEDA, {"ratio": 0}, "ratio must be a positive number, got 0"),
        (CEDA, {"noise": "pink"}, "noise for tables must be one of"),
        (CEDA, {"widen": -1}, "widen"),
        (CEDA, {"smallest_sigma": 5}, "sigma"),
        (ACET, {"epsilon": -1}, "epsilon must be a number >= 0, got -1"),
        (ACET, {"steps": 0}, "steps must be a positive integer, got 0"),
        (ACET, {"ratio": -1}, "ratio"),
    ],
)
def test_bad_constants_are_named(kind: Any, options: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        kind(**options)


def test_names_and_the_papers_constants() -> None:
    assert resolve("ceda") == CEDA(ratio=1.0, smallest_sigma=1.0, largest_sigma=2.5)
    acet = resolve("acet")
    assert acet == ACET(ratio=1.0, epsilon=0.3, steps=40, step_size=0.0075)
    assert name_of(acet) == "acet"
