"""Try to break a certificate: gradient ascent on confidence where the promise holds.

Starts are the directions of axes, of training rows and prototypes, and random ones, from just
beyond the certified radius to a million times as far. Ascent runs in whitened units; a step that
enters the covered set's surroundings is pushed out again along its ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.guard.model import GuardedModel

SCALES = (1.0, 1.001, 1.01, 1.1, 1.5, 2.0, 5.0, 10.0, 100.0, 1e4, 1e6)
# For each random direction, so many axes, prototypes and rows are tried; of more, a sample.
SHARE = 4
# Steps shrink from this share of a point's length.
FIRST_STEP = 0.25


@dataclass(frozen=True)
class Falsification:
    """The most confident input that was found where none may be.

    Attributes:
        largest: Its largest class probability.
        allowed: What the certificate allows.
        at: The input, flattened.
        radius: Its distance from the mean, in whitened units.
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
    model: GuardedModel,
    *,
    restarts: int = 64,
    steps: int = 60,
    rows: Tensor | None = None,
    random_state: int = 0,
) -> Falsification:
    """Look for a confident input beyond the certified radius.

    Args:
        model: A guarded model.
        restarts: Random directions, each at every scale; axes, prototypes and rows are at most four
            times as many.
        steps: Steps of gradient ascent from each start.
        rows: Inputs whose directions from the mean are tried too.
        random_state: Seed of the directions.
    """
    if restarts < 1 or steps < 0:
        raise InputError(f"restarts must be positive, got {restarts}, and steps not, got {steps}")
    search = _Search(model)
    found: dict[str, float] = {}
    best: tuple[float, Tensor] | None = None
    count = 0
    for name, directions in _directions(model, restarts, rows, random_state).items():
        starts = torch.cat([directions * model.certificate.radius * s for s in SCALES])
        count += len(starts)
        for part in starts.split(1024):
            value, where = search.climb(part, steps)
            found[name] = max(found.get(name, 0.0), value)
            if best is None or value > best[0]:
                best = (value, where)
    if best is None:
        raise AssertionError("there is at least one start")
    inputs = search.inputs(best[1][None])
    return Falsification(
        best[0],
        model.certificate.largest_probability,
        tuple(inputs.flatten().tolist()),
        float(model.units(inputs).norm()),
        found,
        count,
        steps,
    )


class _Search:
    """Ascent in whitened units."""

    def __init__(self, model: GuardedModel) -> None:
        self.model = model
        self.back, _ = model.metric.inverse()
        self.mean = model.metric.mean
        self.radius = model.certificate.radius * (1 + 1e-6)
        self.distance = model.certificate.distance

    def inputs(self, units: Tensor) -> Tensor:
        """Inputs at whitened places."""
        rows = units @ self.back + self.mean
        return rows.reshape(-1, *self.model.held.input_shape)

    def climb(self, units: Tensor, steps: int) -> tuple[float, Tensor]:
        """Follow the gradient of the confidence; the best point that the promise speaks of."""
        units = self._pushed(units.clone())
        best, where = 0.0, units[0]
        step = FIRST_STEP
        for turn in range(steps + 1):
            units.requires_grad_()
            with torch.enable_grad():
                rows = self.inputs(units)
                confidence = torch.log_softmax(self.model(rows).double(), dim=-1).amax(dim=-1)
                (slope,) = torch.autograd.grad(confidence.sum(), units)
            units = units.detach()
            value = confidence.detach().exp().masked_fill(~self._promised(rows.detach()), 0.0)
            top = int(value.argmax())
            if float(value[top]) > best:
                best, where = float(value[top]), units[top].clone()
            if turn == steps:
                break
            length = slope.norm(dim=1, keepdim=True)
            slope = torch.where(length > 0, slope / length, torch.zeros_like(slope))
            units = self._pushed(units + step * units.norm(dim=1, keepdim=True) * slope)
            step *= 0.93
        return best, where

    def _promised(self, rows: Tensor) -> Tensor:
        """Whether the certificate speaks of rows, as they are in the model's own type."""
        far = self.model.units(rows).norm(dim=1) >= self.model.certificate.radius
        speaks: Tensor = far | (self.model.distance(rows) >= self.distance)
        return speaks

    def _pushed(self, units: Tensor) -> Tensor:
        """Move points that are too near out along their rays."""
        near = (units.norm(dim=1) < self.radius) & (
            self.model.distance(self.inputs(units)) < self.distance
        )
        length = units.norm(dim=1, keepdim=True).clamp(min=1e-300)
        return torch.where(near[:, None], units / length * self.radius, units)


def _directions(
    model: GuardedModel, restarts: int, rows: Tensor | None, seed: int
) -> dict[str, Tensor]:
    """Unit vectors in whitened units, by kind."""
    generator = torch.Generator().manual_seed(seed)
    matrix = model.metric.matrix
    columns = len(matrix)
    picked = torch.randperm(columns, generator=generator)[: SHARE * restarts]
    axes = torch.zeros(len(picked), columns, dtype=torch.float64)
    axes[torch.arange(len(picked)), picked] = 1.0
    # An axis of the input is a column of W in whitened units.
    axes = axes @ matrix.T if matrix.ndim == 2 else axes * matrix
    found = {
        "axes": torch.cat([axes, -axes]),
        "random": torch.randn(restarts, columns, generator=generator, dtype=torch.float64),
    }
    if model.seen is None:
        centres = model.cover.prototypes[: SHARE * restarts]
        found["prototypes"] = torch.cat([centres, -centres])
    if rows is not None:
        found["rows"] = model.units(rows[: SHARE * restarts])
    return {name: _normal(values) for name, values in found.items()}


def _normal(values: Tensor) -> Tensor:
    lengths = values.norm(dim=1, keepdim=True)
    normal: Tensor = (values / lengths.clamp(min=1e-300))[lengths[:, 0] > 0]
    return normal
