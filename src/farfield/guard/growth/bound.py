"""How far two logits can be apart, for every input: ``|z_i - z_j| <= offset + slope |u|``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.exact.bounded import SLACK
from farfield.exact.piecewise import free_rows
from farfield.graph.network import Network
from farfield.graph.program import SIZE, Program, Step
from farfield.graph.rules import RULES, Affine
from farfield.guard.growth.domain import GrowthDomain
from farfield.guard.growth.form import Form, start
from farfield.guard.whitening import Whitening

Method = Literal["operator norms", "affine forms", "direction cones", "given"]
# How many numbers the matrices of one value may hold before only norms are followed.
ROOM = 1 << 22
# With more classes, differences are bounded by the sum of two classes' bounds.
MOST_PAIRED_CLASSES = 64
LINEARS = (F.linear, torch.matmul)


@dataclass(frozen=True)
class Growth:
    """A bound on logits that holds for every input, in whitened units.

    ``|z_i(x) - z_j(x)| <= offset + slope |u(x)|`` for all pairs of classes, and, where differences
    are known to be Lipschitz, they change by at most ``slope |u - v|`` between any two inputs.

    Attributes:
        method: How it was found.
        offset: Largest difference at the mean of the data.
        slope: Growth of differences for each whitened unit.
        lipschitz: Whether ``slope`` bounds the change between any two inputs.
        error_offset: How far the model's floating-point evaluation can be off, a difference of
        error_slope: logits, at the mean and for each whitened unit.
    """

    method: Method
    offset: float
    slope: float
    lipschitz: bool
    error_offset: float = 0.0
    error_slope: float = 0.0

    def joined(self, other: Growth) -> Growth:
        """A bound for both of two models, and for the logarithm of their mean probability.

        ``log(sum_m p_im / sum_m p_jm)`` lies between the smallest and the largest
        ``z_im - z_jm``, so the mean of an ensemble grows no faster than its fastest member.
        """
        return Growth(
            self.method,
            max(self.offset, other.offset),
            max(self.slope, other.slope),
            self.lipschitz and other.lipschitz,
            max(self.error_offset, other.error_offset),
            max(self.error_slope, other.error_slope),
        )


def bound_growth(
    network: Network, metric: Whitening, roundoff: float, *, room: int = ROOM
) -> Growth:
    """Bound how differences of logits change between any two inputs.

    Args:
        network: From :func:`farfield.capture`, in float64.
        metric: Whitened units.
        roundoff: Unit roundoff of the type in which the model is evaluated.
        room: How many numbers a value's matrices may hold; 0 leaves the product of norms.

    Returns:
        The bound, for all instances.

    >>> import farfield as ff
    >>> import numpy as np
    >>> from farfield.guard.whitening import fit_whitening
    >>> layer = torch.nn.Linear(2, 2, bias=False)
    >>> layer.weight.data = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> metric = fit_whitening(np.array([[-1.0, -1.0], [1.0, 1.0]]), "isotropic")
    >>> network = ff.capture(layer, torch.zeros(1, 2))
    >>> growth = bound_growth(network, metric, 2.0**-53)
    >>> round(growth.offset, 6), round(growth.slope, 6)
    (0.0, 5.0)
    """
    found: Growth | None = None
    with torch.no_grad():
        for group in network.groups:
            program = free_rows(group.program)
            for index in range(len(group.members)):
                weights = {
                    name: value.double() if value.is_floating_point() else value
                    for name, value in group.instance(index).items()
                }
                one = _bound(program, weights, network, metric, roundoff, room)
                found = one if found is None else found.joined(one)
    if found is None:
        raise AssertionError("a network has at least one instance")
    return found


def _bound(
    program: Program,
    weights: Mapping[str, Tensor],
    network: Network,
    metric: Whitening,
    roundoff: float,
    room: int,
) -> Growth:
    """Walk one instance."""
    directions, missed = metric.inverse()
    shape = network.input_shape
    tracked = directions.shape[1] * max(program.width, directions.shape[1]) <= room
    form, block = start(
        metric.mean.reshape(1, *shape), directions.reshape(-1, *shape), missed, tracked
    )
    domain = _Paired(block, roundoff, room, program, 1 if network.one_logit else network.classes)
    out = follow(program, domain, form, weights)
    rates, values = out.rates(domain.blocks).flatten(), out.centre.flatten().abs()
    error = [2 * math.sqrt(2.0) * each * SLACK for each in out.error]
    if domain.paired or network.one_logit:
        offset, slope = values.max(), rates.max()
    else:
        top = rates.topk(2).values.sum()
        offset, slope = out.centre.max() - out.centre.min(), top
    return Growth(
        "affine forms" if tracked else "operator norms",
        float(offset) * SLACK,
        float(slope) * SLACK,
        True,
        error[0],
        error[1],
    )


class _Paired(GrowthDomain):
    """Reads the last layer as all differences of logits: ``|w_i - w_j|``, not the sum of two."""

    def __init__(
        self, block: Any, roundoff: float, room: int, program: Program, classes: int
    ) -> None:
        super().__init__(block, roundoff, room)
        self.last, self.classes, self.paired = program.output, classes, False

    def affine(self, operation: Affine, *values: Form) -> Form:
        """Replace the last layer's weights."""
        last = self.step is not None and self.step[0].name == self.last
        several = 1 < self.classes <= MOST_PAIRED_CLASSES
        if not (last and several and operation.function in LINEARS):
            return super().affine(operation, *values)
        self.paired = True
        pairs = _differences(self.classes)
        weight, offset = operation.weights[0], operation.offset
        weight = pairs @ weight if operation.function is F.linear else weight @ pairs.T
        offset = offset.double() @ pairs.T if isinstance(offset, Tensor) else offset
        return super().affine(replace(operation, weights=(weight,), offset=offset), *values)


def _differences(classes: int) -> Tensor:
    """``(pairs, classes)``: one class minus another."""
    one = torch.eye(classes, dtype=torch.float64)
    return torch.stack([one[i] - one[j] for i, j in combinations(range(classes), 2)])


def follow(
    program: Program, domain: GrowthDomain, value: Form, weights: Mapping[str, Tensor]
) -> Form:
    """Walk a program, telling the domain where it is."""
    environment: dict[str, Any] = {**weights, program.input: value}
    for step, freed in zip(program.steps, program.last_uses, strict=True):
        environment[step.name] = _take(step, domain, environment)
        for name in freed:
            del environment[name]
    result: Form = environment[program.output]
    return result


def _take(step: Step, domain: GrowthDomain, environment: Mapping[str, Any]) -> Any:
    args, kwargs = step.bind(environment)
    if step.target is SIZE:
        return args[0].shape[args[1]]
    if step.constant:
        return step.target(*args, **kwargs)
    domain.step = (step, args)
    return RULES[step.target].lower(domain, *args, **kwargs)
