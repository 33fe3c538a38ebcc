"""What a remedy is, to a table that compares remedies: a score, probabilities, and its far field.

Rows are float64 tensors ``(rows, *input)``. Scores point one way, higher = more uncertain; both
they and probabilities are differentiable, where the model is, so that an adversary can climb.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Rows = Callable[[Tensor], Tensor]
# Origin and directions of rays to one truth, or one number, for each ray.
Rays = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Rival:
    """A fitted remedy.

    Attributes:
        uncertainty: ``(rows,)``, higher = more uncertain.
        probabilities: ``(rows, classes)``, or ``None`` for scores that only rank.
        far: What it says infinitely far out on rays, ``(rays,)``, in closed form: the confidence,
            or the uncertainty where there are no probabilities. ``None``: only evaluated far out.
        still: On which rays the features stand still, ``(rays,)``, where a proof about the far
            field, or the score itself, needs them to move; else ``None``.
        climbs: What else an adversary may climb, beside minus the uncertainty.
        smooth: Whether there is a slope to climb.
        by_confidence: Whether the uncertainty is one minus the confidence.
        extra: What else is known of it.
    """

    uncertainty: Rows
    probabilities: Rows | None = None
    far: Rays | None = None
    still: Rays | None = None
    climbs: tuple[Rows, ...] = ()
    smooth: bool = True
    by_confidence: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


def of_probabilities(probabilities: Rows, far: Rays | None, **more: Any) -> Rival:
    """A remedy that answers with probabilities; one minus the confidence is its score."""

    def uncertainty(rows: Tensor) -> Tensor:
        return 1.0 - probabilities(rows).amax(dim=1)

    return Rival(uncertainty, probabilities, far, by_confidence=True, **more)


def in_batches(call: Rows, rows: Tensor, size: int = 500) -> Tensor:
    """Evaluate without slopes, a batch at a time."""
    with torch.no_grad():
        return torch.cat([call(part) for part in rows.split(size)])


def answers(rival: Rival, rows: Tensor) -> tuple[Tensor, Tensor | None]:
    """Uncertainties, and probabilities where there are any; evaluated once if one is the other."""
    if rival.probabilities is None:
        return in_batches(rival.uncertainty, rows), None
    p = in_batches(rival.probabilities, rows)
    if rival.by_confidence:
        return 1.0 - p.amax(dim=1), p
    return in_batches(rival.uncertainty, rows), p


def proven_uniform(classes: int) -> Rays:
    """The far field of a remedy with a proof: ``1 / K`` on every ray."""
    return lambda _, rays: torch.full((len(rays),), 1.0 / classes, dtype=torch.float64)
