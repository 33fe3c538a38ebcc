"""Networks that were built to have an answer which is known, and which sampling cannot see."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor, nn

import farfield as ff
from farfield.graph.network import InstanceGroup, Network

INPUTS = 3


class Cone(nn.Module):
    """Confident inside a narrow cone around one direction, undecided everywhere else.

    ``relu(u.x - sharp * sum |v_i.x|)`` with ``v_i`` orthogonal to ``u``: positive only where x
    leans to the sides by less than one part in ``sharp``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.across = nn.Linear(INPUTS, INPUTS, dtype=torch.float64)
        self.gather = nn.Linear(INPUTS, 1, dtype=torch.float64)
        self.last = nn.Linear(1, 2, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        along, *sides = self.across(x).split(1, 1)
        leaning = torch.cat([along, *(side.abs() for side in sides)], 1)
        return self.last(self.gather(leaning).relu())


class Approach(nn.Module):
    """A jump at the very limit of a saturating function, which it never reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, 1, dtype=torch.float64)
        self.turn = nn.Parameter(torch.ones(1, dtype=torch.float64))
        self.shift = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.tanh(self.first(x)) * self.turn + self.shift
        return torch.cat([F.threshold(inner, 1.0, 5.0), x[:, :1] * 0], 1)


@functools.cache
def captured(kind: type[nn.Module]) -> Network:
    with torch.random.fork_rng(devices=[]):
        return ff.capture(kind(), torch.zeros(1, INPUTS, dtype=torch.float64))


def with_weights(kind: type[nn.Module], weights: dict[str, Any]) -> Any:
    """The captured network with weights given by the names of its modules."""
    network = captured(kind)
    (group,) = network.groups
    given = {
        f"p_{name.replace('.', '_')}": torch.from_numpy(np.array(value, dtype=float))
        for name, value in weights.items()
    }
    assert given.keys() <= group.shared.keys()
    shared = {**group.shared, **given}
    return dataclasses.replace(network, groups=(InstanceGroup.of(group.program, [shared]),))


def blind_cone(rng: np.random.Generator) -> str:
    """Blind along ``u``; at rest one part in 2**40 beside it."""
    u, v = rng.integers(-9, 10, (2, INPUTS)).astype(float)
    v = np.cross(u, v)
    w = np.cross(u, v)
    if not v.any():
        return ""
    sharp = 2.0 ** rng.integers(20, 35)
    network = with_weights(
        Cone,
        {
            "across.weight": [u, v, w],
            "across.bias": rng.normal(size=INPUTS),
            "gather.weight": [[1.0, -sharp, -sharp]],
            "gather.bias": rng.normal(size=1),
            "last.weight": [[-1.0], [1.0]],
            "last.bias": [3.0, 0.0],
        },
    )
    beside = u + v * 2.0**-18 + w * 2.0**-18
    far = ff.at_infinity(network, rng.normal(size=INPUTS), [u, beside, -u], certify=True)
    if not far.certified.all():
        return "not certified"
    if far.saturates[0].tolist() != [True, False, False] or far.label.tolist() != [1, 0, 0]:
        return f"saturates {far.saturates[0].tolist()}, labels {far.label.tolist()}"
    return ""


def planted_tie(rng: np.random.Generator) -> str:
    """Slopes that are equal in exact arithmetic and not in floats; intercepts one ulp apart."""
    first, row = rng.normal(size=(5, INPUTS)), np.abs(rng.normal(size=5))
    order = rng.permutation(5)
    # The same sum in another order of units: floats round it differently.
    double = np.concatenate([first, first[order]])
    bias = float(rng.normal())
    higher = np.nextafter(bias, np.inf)
    network = _doubled(double, row, order, (bias, higher))
    directions = rng.normal(size=(8, INPUTS))
    far = ff.at_infinity(network, np.zeros(INPUTS), directions, certify=True)
    if not far.certified.all():
        return "not certified"
    active = np.maximum(first @ directions.T, 0).sum(axis=0) > 0
    expected = [[True, True, False] if on else [True, True, True] for on in active]
    if far.leading[0].tolist() != expected:
        return f"leading {far.leading[0].tolist()}, not {expected}"
    winners = [1] * 8
    return "" if far.winner[0].tolist() == winners else f"winners {far.winner[0].tolist()}"


class Doubled(nn.Module):
    """Ten units, the last five of them the first five in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, 10, dtype=torch.float64)
        self.last = nn.Linear(10, 3, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu())


def _doubled(units: Any, row: Any, order: Any, biases: tuple[float, float]) -> Any:
    empty = np.zeros(5)
    return with_weights(
        Doubled,
        {
            "first.weight": units,
            "first.bias": np.zeros(10),
            "last.weight": [
                np.concatenate([row, empty]),
                np.concatenate([empty, row[order]]),
                np.zeros(10),
            ],
            "last.bias": [*biases, min(biases) - 1.0],
        },
    )


def approached_jump(rng: np.random.Generator) -> str:
    """``tanh`` stays below 1 for ever, and ``2 - tanh`` above it; other ends are far from 1."""
    row = rng.normal(size=INPUTS)
    turn, shift, expected = [(1.0, 0.0, [5.0, 5.0]), (-1.0, 2.0, [1.0, 3.0])][rng.integers(2)]
    network = with_weights(
        Approach,
        {
            "first.weight": [row],
            "first.bias": rng.normal(size=1),
            "turn": [turn],
            "shift": [shift],
        },
    )
    far = ff.at_infinity(network, rng.normal(size=INPUTS), [row, -row], certify=True)
    found = far.intercept[0, :, 0].tolist()
    if not far.certified.all():
        return "not certified"
    return "" if found == expected else f"limits {found}, not {expected}"


PLANTED = {"blind cone": blind_cone, "tie": planted_tie, "approached jump": approached_jump}


def run_planted(seed: str, tally: Any) -> None:
    """Plant one of each kind, and see whether it is found."""
    for name, plant in PLANTED.items():
        tally.planted += 1
        reason = plant(np.random.default_rng(list(f"{seed}/{name}".encode())))
        if reason:
            tally.wrong.append(f"planted {name} seed={seed!r}: {reason}")
