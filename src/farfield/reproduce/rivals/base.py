"""The plain network, as its rivals need it: features, a last layer, and where both end on rays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from farfield.exact import at_infinity
from farfield.graph import capture
from farfield.guard.penultimate import Penultimate, split_last_layer
from farfield.networks.resnet import PreActResNet20
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.rival import in_batches

Lines = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Base:
    """A classifier ``logits = weight @ features + bias``, followed in float64.

    Attributes:
        model: The classifier itself.
        parts: The same, split before its last layer.
        features: Rows to ``(rows, features)``, differentiable.
        task: What it was trained on.
    """

    model: Any
    parts: Penultimate
    features: Callable[[Tensor], Tensor]
    task: GuardTask
    _lines: dict[tuple[Tensor, Tensor], Lines] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, task: GuardTask) -> Base:
        """Capture a classifier."""
        parts = split_last_layer(capture(model, torch.zeros(1, *task.train[0].shape[1:])))
        if isinstance(model, PreActResNet20):
            # Convolutions in double precision take ten times as long.
            return cls(model, parts, lambda rows: _pooled(model, rows), task)
        return cls(model, parts, lambda rows: parts.features.logits(rows)[0], task)

    @property
    def weight(self) -> Tensor:
        """``(classes, features)``."""
        return self.parts.weight.double()

    @property
    def bias(self) -> Tensor:
        """``(classes,)``."""
        return self.parts.bias.double()

    @cached_property
    def known(self) -> Tensor:
        """Features of the training rows, ``(rows, features)``."""
        return in_batches(self.features, torch.from_numpy(self.task.train[0]))

    def logits(self, rows: Tensor) -> Tensor:
        """``(rows, classes)``, differentiable."""
        return self.features(rows) @ self.weight.T + self.bias

    def probabilities(self, rows: Tensor) -> Tensor:
        """``(rows, classes)``, differentiable."""
        return torch.softmax(self.logits(rows), dim=1)

    def line(self, origin: Tensor, rays: Tensor) -> Lines:
        """The lines ``slope * t + intercept`` that features end on, ``(rays, features)`` each."""
        if (origin, rays) not in self._lines:
            far = at_infinity(self.parts.features, origin, rays)
            self._lines[origin, rays] = far.slope[0], far.intercept[0]
        return self._lines[origin, rays]

    def still(self, origin: Tensor, rays: Tensor) -> Tensor:
        """On which rays no feature moves in the end, ``(rays,)``."""
        return (self.line(origin, rays)[0] == 0).all(dim=1)

    def fastest(self, origin: Tensor, rays: Tensor) -> Lines:
        """The slope of the fastest logit, ``(rays,)``, and intercepts: minus infinity elsewhere."""
        slope, intercept = self.line(origin, rays)
        slopes = slope @ self.weight.T
        largest = slopes.amax(dim=1)
        starts = intercept @ self.weight.T + self.bias
        return largest, starts.masked_fill(slopes < largest[:, None], -torch.inf)

    def confidence(self, origin: Tensor, rays: Tensor) -> Tensor:
        """The confidence at infinity, ``(rays,)``."""
        return torch.softmax(self.fastest(origin, rays)[1], dim=1).amax(dim=1)


def _pooled(model: PreActResNet20, rows: Tensor) -> Tensor:
    values = model.units(model.entry(rows.float()))
    return torch.relu(model.last_norm(values)).mean((2, 3)).double()
