"""Networks around every operation of the rule table, and rays: all from one seed."""

from __future__ import annotations

import dataclasses
import functools
import math
from inspect import isroutine
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import farfield as ff
from campaigns.exact_numbers import Array
from campaigns.exact_operations import CURVES
from farfield.graph.network import InstanceGroup, Network
from farfield.graph.program import Step
from farfield.graph.rules import RULES
from rule_cases import CASES, EXTRA

aten = torch.ops.aten
INPUTS, HIDDEN, CLASSES = 4, 4, 3
INSTANCES, RAYS = 4, 256
# Fewer rays through operations on many elements: one batch of each takes about as long.
ELEMENTS = 2048
KINDS = {
    "normal": 0.3,
    "whole": 0.15,
    "sparse": 0.15,
    "scales": 0.1,
    "tiny": 0.1,
    "denormal": 0.05,
    "huge": 0.05,
    "tied": 0.1,
}
# Weights for which every number can be held against the exact one, and smooth functions be tried.
HARMLESS = ("normal", "whole", "sparse", "tied")
# How many numbers each operation takes, for those that are drawn anew for every case.
PARAMETERS = {
    aten.leaky_relu.default: 1,
    aten.threshold.default: 2,
    aten.clamp.default: 2,
    aten.clamp_min.default: 1,
    aten.clamp_max.default: 1,
    aten.hardtanh.default: 2,
    aten.mul.Scalar: 1,
    aten.div.Scalar: 1,
    aten.add.Scalar: 2,
    aten.sub.Scalar: 2,
    aten.rsub.Scalar: 2,
    aten.softplus.default: 2,
    aten.elu.default: 3,
    aten.celu.default: 1,
}


class Around(nn.Module):
    """A layer into the operation's input shape, the operation, and two layers behind it."""

    def __init__(self, shape: tuple[int, ...], function: Any) -> None:
        super().__init__()
        self.shape, self.function = shape, function
        self.entry = nn.Linear(INPUTS, math.prod(shape), dtype=torch.float64)
        width = self._inside(torch.zeros(2, INPUTS, dtype=torch.float64)).shape[1]
        self.middle = nn.Linear(width, HIDDEN, dtype=torch.float64)
        self.last = nn.Linear(HIDDEN, CLASSES, dtype=torch.float64)

    def _inside(self, x: Tensor) -> Tensor:
        out = self.function(self.entry(x).view(-1, *self.shape))
        return out.flatten(1) if out.ndim > 2 else out

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self._inside(x)).relu())


def name_of(target: Any) -> str:
    """The name of an operation, as PyTorch prints it where it is one of its own."""
    return str(getattr(target, "__name__", target) if isroutine(target) else target)


TEMPLATES = {name_of(target): case for target, case in [*CASES.items(), *EXTRA.items()]}


@functools.cache
def template(name: str) -> tuple[Around, Network]:
    """A module around one operation, and what is captured of it; once."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Around(*TEMPLATES[name])
        return module, ff.capture(module, torch.zeros(1, INPUTS, dtype=torch.float64))


@dataclasses.dataclass(frozen=True)
class Case:
    """A network with weights and rays that follow from one seed."""

    name: str
    kind: str
    network: Network
    origins: Array
    directions: Array
    curved: bool


def make_case(name: str, seed: str, instances: int = INSTANCES, rays: int = RAYS) -> Case:
    """Draw parameters, weights and rays."""
    rng = np.random.default_rng(list(seed.encode()))
    _, network = template(name)
    (group,) = network.groups
    program = group.program.with_steps(tuple(_with_parameters(s, rng) for s in group.program.steps))
    curved = any(step.target in CURVES for step in program.steps)
    kinds = HARMLESS if curved else tuple(KINDS)
    kind = str(rng.choice(kinds, p=_shares([KINDS[each] for each in kinds])))
    constants = [_weights(group.shared, kind, rng) for _ in range(instances)]
    made = dataclasses.replace(network, groups=(InstanceGroup.of(program, constants),))
    return Case(name, kind, made, *_rays(kind, rays, rng), curved)


def _shares(weights: list[float]) -> Array:
    return np.array(weights) / sum(weights)


def _with_parameters(step: Step, rng: np.random.Generator) -> Step:
    """Draw an operation's numbers anew, until they are not refused."""
    count = PARAMETERS.get(step.target)
    if step.constant or count is None or rng.random() < 0.3:
        return step
    for _ in range(20):
        numbers = [_parameter(rng) for _ in range(count)]
        drawn = dataclasses.replace(step, args=(step.args[0], *numbers), kwargs={})
        reason = _refusal(drawn)
        if reason is None:
            return drawn
    return step


def _refusal(step: Step) -> str | None:
    refuse = RULES[step.target].refuse
    return None if refuse is None else refuse(*step.args, **step.kwargs)


def _parameter(rng: np.random.Generator) -> float:
    whole = float(rng.integers(-3, 4))
    return float(rng.choice([whole, rng.normal(), 10 * rng.normal(), 20.0, 0.5]))


def _weights(given: Any, kind: str, rng: np.random.Generator) -> dict[str, Tensor]:
    drawn = {}
    for name, tensor in given.items():
        if not tensor.is_floating_point():
            drawn[name] = tensor
            continue
        values = _numbers(tuple(tensor.shape), kind, rng)
        if kind == "tied" and values.ndim > 0 and len(values) > 1:
            values[-1] = values[0] * rng.choice([1.0, 1.0, -1.0])
        drawn[name] = torch.from_numpy(np.asarray(values)).clone()
    return drawn


def _numbers(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Any:
    normal = rng.normal(size=shape)
    match kind:
        case "whole" | "tied":
            return rng.integers(-2, 3, shape).astype(float)
        case "sparse":
            return normal * rng.integers(0, 2, shape)
        case "scales":
            return normal * 10.0 ** rng.integers(-30, 31, shape)
        case "tiny":
            return normal * 10.0 ** rng.integers(-200, -20, shape)
        case "denormal":
            steps = rng.integers(-3, 4, shape) * 5e-324
            return np.where(
                rng.random(shape) < 0.3, steps, normal * 10.0 ** rng.integers(-320, 3, shape)
            )
        case "huge":
            return normal * 10.0 ** rng.integers(0, 60, shape)
    return normal


def _rays(kind: str, rays: int, rng: np.random.Generator) -> tuple[Array, Array]:
    origins = rng.integers(-2, 3, (rays, INPUTS)).astype(float)
    origins[rays // 2 :] = rng.normal(size=(rays - rays // 2, INPUTS))
    some = rng.integers(-2, 3, (rays, INPUTS)).astype(float)
    normal = rng.normal(size=(rays, INPUTS))
    axes = np.eye(INPUTS)[rng.integers(0, INPUTS, rays)] * rng.choice([-1.0, 1.0], (rays, 1))
    scale = 10.0 ** rng.integers(-20, 21, (rays, INPUTS)) if kind not in HARMLESS else 1.0
    which = rng.integers(0, 4, (rays, 1))
    directions = np.select(
        [which == 0, which == 1, which == 2], [some, axes, normal], normal * scale
    )
    directions[(directions == 0).all(axis=1)] = 1.0
    return origins, directions
