"""Scales and shifts become part of the convolutions before them, and values stay as they are."""

import torch
from torch import nn

import farfield as ff
from farfield.exact.piecewise import free_rows
from farfield.exact.ray.folding import fold_scales
from farfield.exact.ray.line import walks
from farfield.graph.program import forward

aten = torch.ops.aten


class Shared(nn.Module):
    """A convolution whose result is read twice, once through a batch norm."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3)

    def forward(self, x):
        y = self.first(x)
        return (self.second(y).relu() + y).flatten(1)


def program_of(module, *shape):
    torch.manual_seed(0)
    for name, buffer in module.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    network = ff.capture(module.double().eval(), torch.zeros(1, *shape, dtype=torch.float64))
    ((_, walk),) = walks(network, None, 1 << 20)
    return free_rows(walk.program), walk.constants


def counts(program):
    return [step.target for step in program.steps].count


def check(program, constants, folded, weights):
    rows = torch.randn(4, *program.input_shape, dtype=torch.float64)
    before, after = forward(program, rows, constants), forward(folded, rows, weights)
    torch.testing.assert_close(after, before, rtol=1e-13, atol=1e-13)


def test_batch_norms_disappear_into_convolutions():
    parts = [nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU()]
    module = nn.Sequential(*parts, nn.Conv2d(3, 2, 3, bias=False), nn.BatchNorm2d(2), nn.Flatten())
    program, constants = program_of(module, 1, 6, 6)
    folded, weights = fold_scales(program, constants)
    assert counts(program)(aten.mul.Tensor) == 2
    assert counts(folded)(aten.mul.Tensor) == counts(folded)(aten.add.Tensor) == 0
    check(program, constants, folded, weights)


def test_what_is_read_elsewhere_or_has_a_bias_stays():
    program, constants = program_of(Shared(), 1, 6, 6)
    folded, weights = fold_scales(program, constants)
    assert len(folded.steps) == len(program.steps)
    check(program, constants, folded, weights)
    biased = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    program, constants = program_of(biased, 1, 6, 6)
    folded, weights = fold_scales(program, constants)
    assert counts(folded)(aten.mul.Tensor) == 1
    check(program, constants, folded, weights)
