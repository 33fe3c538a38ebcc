"""Try to break a certificate: climb the confidence wherever the promise holds.

Starts are the directions of axes, of training rows and prototypes, and random ones, from just
beyond the certified radius to a million times as far; and, for every view, places where that view
alone has just reached ``d = 1``. Modules are climbed by their gradient, functions by random steps.
A step that leaves the region of the promise is pushed out again along its ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.guard.covered import Covered
from farfield.guard.function import GuardedFunction
from farfield.guard.model import GuardedModel

SCALES = (1.0, 1.001, 1.01, 1.1, 1.5, 2.0, 5.0, 10.0, 100.0, 1e4, 1e6)
# For each random direction, so many axes, prototypes and rows are tried; of more, a sample.
SHARE = 4
# Steps shrink from this share of a point's length.
FIRST_STEP = 0.25
# Along a ray, a view's edge is looked for at so many places.
LOOKS = 60


@dataclass(frozen=True)
class Falsification:
    """The most confident input that was found where none may be.

    Attributes:
        largest: Its largest class probability.
        allowed: What the certificate allows.
        at: The input, flattened.
        radius: Its distance from the mean, as the certificate measures it.
        families: Largest probability from each kind of start.
        starts: Number of starts.
        steps: Number of steps from each.
    """

    largest: float
    allowed: float
    at: tuple[float, ...]
    radius: float
    families: Mapping[str, float]
    starts: int
    steps: int

    @property
    def holds(self) -> bool:
        """Whether the certificate survived."""
        return self.largest <= self.allowed


def falsify(
    model: GuardedModel | GuardedFunction,
    *,
    restarts: int = 64,
    steps: int = 60,
    rows: Any = None,
    random_state: int = 0,
) -> Falsification:
    """Look for a confident input where the certificate allows none.

    Args:
        model: A guarded model.
        restarts: Random directions, each at every scale; axes, prototypes and rows are at most four
            times as many.
        steps: Steps from each start.
        rows: Inputs whose directions from the mean are tried too.
        random_state: Seed of the directions.
    """
    if restarts < 1 or steps < 0:
        raise InputError(f"restarts must be positive, got {restarts}, and steps not, got {steps}")
    generator = torch.Generator().manual_seed(random_state)
    search = _Search(model, generator)
    families = _starts(model, restarts, rows, generator)
    climbed = [search.climb(part, steps) for part in torch.cat([*families.values()]).split(1024)]
    top, where = (torch.cat(each) for each in zip(*climbed, strict=True))
    parts = top.split([len(starts) for starts in families.values()])
    best = int(top.argmax())
    return Falsification(
        float(top[best]),
        model.certificate.largest_probability,
        tuple(where[best].tolist()),
        float(model.covered.length(where[best][None])),
        {name: float(part.max()) for name, part in zip(families, parts, strict=True) if len(part)},
        len(top),
        steps,
    )


class _Search:
    """Ascent from places where the promise holds, in units of each column."""

    def __init__(self, model: GuardedModel | GuardedFunction, generator: torch.Generator) -> None:
        self.model, self.generator = model, generator
        self.covered = model.covered
        self.mean, self.unit = _middle(self.covered)

    def climb(self, rows: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Go up from rows; the best that each finds where the promise holds, and the place."""
        rows, step = self._pushed(rows), FIRST_STEP
        top = torch.zeros(len(rows), dtype=torch.float64)
        kept = rows.clone()
        for turn in range(steps + 1):
            value, slope = self._look(rows)
            value = value.masked_fill(~self._promised(rows), 0.0)
            better = value > top
            top, kept = torch.where(better, value, top), torch.where(better[:, None], rows, kept)
            if turn == steps:
                break
            base = kept if slope is None else rows
            way = self._random(len(rows)) if slope is None else slope
            size = ((base - self.mean) / self.unit).norm(dim=1, keepdim=True)
            rows = self._pushed(base + step * size * way * self.unit)
            step *= 0.93
        return top, kept

    def _look(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Confidence, and for modules the direction in which it grows, in units."""
        if isinstance(self.model, GuardedFunction):
            p = self.model.predict_proba(rows.reshape(-1, *self.model.columns.shape).numpy())
            return torch.from_numpy(np.asarray(p, dtype=np.float64).max(axis=1)), None
        inputs = rows.clone().requires_grad_()
        with torch.enable_grad():
            logits = self.model(inputs.reshape(-1, *self.model.columns.shape))
            confidence = torch.log_softmax(logits.double(), dim=-1).amax(dim=-1)
            (slope,) = torch.autograd.grad(confidence.sum(), inputs)
        way = (slope * self.unit).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        length = way.norm(dim=1, keepdim=True)
        return confidence.detach().exp(), way / length.clamp(min=1e-300)

    def _random(self, count: int) -> Tensor:
        way: Tensor = torch.randn(
            count, len(self.mean), generator=self.generator, dtype=torch.float64
        )
        return torch.nn.functional.normalize(way, dim=1)

    def _promised(self, rows: Tensor, length: Tensor | None = None) -> Tensor:
        """Whether the certificate speaks of rows; most are far enough away for that."""
        with torch.no_grad():
            length = self.covered.length(rows) if length is None else length
            speaks = length >= self.model.certificate.radius
            near = torch.nonzero(~speaks).flatten()
            if len(near):
                speaks[near] = self.covered.distance(rows[near]) >= 1.0
        return speaks

    def _pushed(self, rows: Tensor) -> Tensor:
        """Move points of which nothing is promised out along their rays."""
        with torch.no_grad():
            length = self.covered.length(rows)
        outer = self.model.certificate.radius * (1 + 1e-6)
        grown = self.mean + (rows - self.mean) * (outer / length.clamp(min=1e-300))[:, None]
        return torch.where(self._promised(rows, length)[:, None], rows, grown)


def _middle(covered: Covered) -> tuple[Tensor, Tensor]:
    """Mean and unit of every column."""
    mean, unit = torch.zeros_like(covered.fill), covered.ranges.unit.amax(dim=0)
    mean[covered.numeric] = covered.whitened.mean
    mean[covered.other] = covered.centre
    return mean, unit


def _starts(
    model: GuardedModel | GuardedFunction, restarts: int, rows: Any, generator: torch.Generator
) -> dict[str, Tensor]:
    """Inputs to start from, by kind."""
    covered = model.covered
    mean, unit = _middle(covered)
    columns = len(mean)
    picked = torch.randperm(columns, generator=generator)[: SHARE * restarts]
    axes = torch.nn.functional.one_hot(picked, columns).double() * unit
    random = torch.randn(restarts, columns, generator=generator, dtype=torch.float64) * unit
    ways = {"axes": torch.cat([axes, -axes]), "random": random}
    if len(covered.other) == 0:
        centres = covered.whitened.inputs(covered.balls.centres)[: SHARE * restarts] - mean
        ways["prototypes"] = torch.cat([centres, -centres])
    if rows is not None:
        given = torch.from_numpy(model.columns.read(rows)[: SHARE * restarts])
        ways["rows"] = given - mean
    found = {name: _beyond(model, mean, way) for name, way in ways.items()}
    edges = _edges(covered, mean, torch.cat([ways["axes"], random]))
    return found | {f"edge of {name}": edge for name, edge in edges.items()}


def _beyond(model: GuardedModel | GuardedFunction, mean: Tensor, ways: Tensor) -> Tensor:
    """Places along directions from just beyond the radius to a million times as far."""
    with torch.no_grad():
        lengths = model.covered.length(mean + ways)
    ways = ways[lengths > 0] / lengths[lengths > 0][:, None]
    return torch.cat([mean + ways * model.certificate.radius * scale for scale in SCALES])


def _edges(covered: Covered, mean: Tensor, ways: Tensor) -> dict[str, Tensor]:
    """Places along directions where each view has just reached ``d = 1``, of those that do."""
    t = torch.logspace(-2, 3, LOOKS, dtype=torch.float64)
    found: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for way in ways:
            along = mean + t[:, None] * way
            reached = covered.each(along) >= 1.0
            for name, each in zip(covered.names, reached.T, strict=True):
                if bool(each.any()):
                    found.setdefault(name, []).append(along[int(torch.nonzero(each)[0])])
    return {name: torch.stack(places) for name, places in found.items()}
