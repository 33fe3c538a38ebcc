"""The plain network, as its rivals need it: features, a last layer, and where both end on rays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import farfield as ff
from benchmarks.guard_data import Task
from farfield.graph.network import Network
from farfield.guard.penultimate import Penultimate, split_last_layer


@dataclass(frozen=True, eq=False)
class Base:
    """A classifier ``logits = weight @ features + bias``.

    Attributes:
        model: The classifier itself.
        network: The same, captured in float64.
        parts: The same, split before its last layer.
    """

    model: Any
    network: Network
    parts: Penultimate

    @classmethod
    def of(cls, model: Any, task: Task) -> Base:
        """Capture a classifier."""
        network = ff.capture(model, torch.zeros(1, *task.train[0].shape[1:]))
        return cls(model, network, split_last_layer(network))

    @property
    def weight(self) -> Tensor:
        """``(classes, features)``."""
        return self.parts.weight.double()

    @property
    def bias(self) -> Tensor:
        """``(classes,)``."""
        return self.parts.bias.double()

    def features(self, rows: Tensor) -> Tensor:
        """``(rows, features)``, differentiable."""
        return self.parts.features.logits(rows)[0]

    def logits(self, rows: Tensor) -> Tensor:
        """``(rows, classes)``, differentiable."""
        return self.network.logits(rows)[0]

    def line(self, origin: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]:
        """The lines ``slope * t + intercept`` that features end on, ``(rays, features)`` each."""
        far = ff.at_infinity(self.parts.features, origin, rays)
        return far.slope[0], far.intercept[0]

    def still(self, origin: Tensor, rays: Tensor) -> Tensor:
        """On which rays no feature moves in the end, ``(rays,)``."""
        return (self.line(origin, rays)[0] == 0).all(dim=1)

    def confidence(self, origin: Tensor, rays: Tensor) -> Tensor:
        """The confidence at infinity, ``(rays,)``."""
        return ff.at_infinity(self.network, origin, rays).confidence
