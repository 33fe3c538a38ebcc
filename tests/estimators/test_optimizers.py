"""Optimisers over flat buffers, against torch's own."""

import pytest
import torch

from farfield.estimators.optimizers import SGD, Adam
from farfield.networks.stack import Parameters

SIZES = {"small": 7, "at the limit": Adam.SMALL, "below it": Adam.SMALL - 1}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_steps_are_those_of_torch(name: str, size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    parameters = Parameters([(2, size)])
    start = parameters.values.normal_(generator=generator).clone()
    theirs = start.clone().requires_grad_()
    adam = name == "adam"
    ours = Adam(parameters) if adam else SGD(parameters, 0.9)
    reference = torch.optim.Adam([theirs]) if adam else torch.optim.SGD([theirs], momentum=0.9)
    for step in range(40):
        gradient = torch.randn(2 * size, generator=generator) * 10.0 ** (step % 5 - 3)
        gradient[::3] = 0
        parameters.gradient.copy_(gradient)
        theirs.grad = gradient.clone()
        rate = 0.01 if step < 20 else 0.001
        reference.param_groups[0]["lr"] = rate
        reference.step()
        ours.step(rate)
    torch.testing.assert_close(parameters.values, theirs.detach(), rtol=1e-5, atol=1e-6)
    assert torch.equal(parameters.values[::3], start[::3])


def test_members_are_trained_as_if_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    gradients = torch.randn(30, 5, 900, generator=generator)
    values = torch.randn(5, 900, generator=generator)

    def run(members: slice) -> torch.Tensor:
        own = values[members]
        parameters = Parameters([(len(own), 900)])
        parameters.values.copy_(own.flatten())
        adam = Adam(parameters)
        for gradient in gradients:
            parameters.gradient.copy_(gradient[members].flatten())
            adam.step(0.01)
        return parameters.values.view_as(own).clone()

    together = run(slice(None))
    for member in range(5):
        torch.testing.assert_close(together[member : member + 1], run(slice(member, member + 1)))


@pytest.mark.parametrize("size", [7, Adam.SMALL], ids=["small", "large"])
def test_what_fades_is_cleared_before_it_is_slow(size: int) -> None:
    parameters = Parameters([(1, size)])
    adam = Adam(parameters)
    parameters.gradient.fill_(1e-3)
    adam.step(0.01)
    before = parameters.values.clone()
    parameters.gradient[::2] = 0
    smallest = torch.finfo(torch.float32).tiny
    for _ in range(16 * Adam.CLEAR_EVERY):
        adam.step(0.01)
        mean = adam.state()["mean"].abs()
        assert not ((mean > 0) & (mean < smallest)).any()
    assert not mean[::2].any()
    assert mean[1::2].all()
    assert (parameters.values[::2] < before[::2]).all()  # it faded, and was not forgotten at once
