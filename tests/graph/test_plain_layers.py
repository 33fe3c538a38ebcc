"""Plain layers read as they stand, beside what PyTorch makes of them when it takes them apart."""

import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import CaptureError
from farfield.graph.decompose import take_apart
from farfield.graph.export import (
    _decomposed,
    export_module,
    kept_whole,
    quiet_export,
    read_exported,
)
from farfield.graph.program import Ref

LAYERS = {
    "curves": (
        *(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.LeakyReLU(0.1), nn.ELU(2.0), nn.SELU()),
        *(nn.CELU(2.0), nn.GELU(), nn.SiLU(), nn.Mish(), nn.Softplus(2.0), nn.Sigmoid()),
        *(nn.Tanh(), nn.Hardtanh(-2, 3), nn.Hardsigmoid(), nn.Hardswish(), nn.Linear(4, 2)),
        nn.LogSoftmax(1),
    ),
    "norms": (
        *(nn.Dropout(0.2), nn.BatchNorm1d(3), nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False)),
        *(nn.ReLU(), nn.Dropout(), nn.Linear(4, 2), nn.Softmax(-1)),
    ),
}


def told(program):
    """All of a program but names."""
    return [
        (step.target, step.shape, step.source, [a for a in step.args if not isinstance(a, Ref)])
        for step in program.steps
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_they_are_what_taking_them_apart_makes_of_them(name):
    exported = export_module(nn.Sequential(*LAYERS[name]), torch.zeros(2, 3))
    assert _decomposed(exported) is exported
    plain, constants, names, *_ = read_exported(exported)
    with quiet_export():
        taken, others, other_names, *_ = read_exported(take_apart(exported, kept_whole()))
    assert told(plain) == told(taken)
    assert (plain.width, plain.output_shape) == (taken.width, taken.output_shape)
    assert sorted(names.values()) == sorted(other_names.values())
    assert constants.keys() == others.keys()


def test_other_layers_are_taken_apart():
    exported = export_module(nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), torch.zeros(2, 2, 3))
    assert _decomposed(exported) is not exported


def test_batch_norm_without_running_statistics_is_still_refused():
    norm = nn.BatchNorm1d(4, track_running_stats=False)
    with pytest.raises(CaptureError, match="statistics of the batch"):
        ff.capture(nn.Sequential(nn.Linear(3, 4), norm, nn.Linear(4, 2)), torch.zeros(2, 3))
