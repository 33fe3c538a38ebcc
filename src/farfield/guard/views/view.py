"""What every view is: a score of rows, and the threshold above which it counts as outside.

``d = (score - threshold) / width``: at most 0 inside, 1 where the view alone makes the answer as
good as uniform. The threshold is conformal; the width is what the threshold is above the usual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.guard.views.units import Units

Floats = NDArray[np.float64]
# A column and its value, as the user knows them: "age = 40".
Say = Callable[[int, float], str]


class Place(NamedTuple):
    """Rows in the coordinates that views measure in, all float64.

    Attributes:
        rows: ``(rows, columns)`` as they are, finite.
        standard: ``(rows, numeric)`` numeric columns in their standard deviations.
        whitened: ``(rows, numeric)`` in units without a kernel.
        reduced: ``(rows, units)`` the same, or principal components of wide inputs.
        features: ``(rows, features)`` what the network makes of them, if a view looks at that.
    """

    rows: Tensor
    standard: Tensor
    whitened: Tensor
    reduced: Tensor
    features: Tensor | None = None


class View(nn.Module, ABC):
    """One way of being outside.

    Attributes:
        name: What reports and files call it.
        sees: What it notices, in words.
        grows: Whether ``d`` grows without limit in every direction, so that a promise can stand
            on it.
        floor: The least width, in units of the score.
        plain: How much its reasons say to a reader; the largest is heard first.
        inner: Whether it looks at what the network makes of rows, and can blame no column.
    """

    name: ClassVar[str]
    sees: ClassVar[str]
    grows: ClassVar[bool] = False
    floor: ClassVar[float] = 1e-3
    plain: ClassVar[int] = 0
    inner: ClassVar[bool] = False
    threshold: Tensor
    width: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("threshold", torch.zeros((), dtype=torch.float64))
        self.register_buffer("width", torch.ones((), dtype=torch.float64))

    @abstractmethod
    def score(self, place: Place) -> Tensor:
        """How unusual rows are, ``(rows,)``; higher is more unusual."""

    @abstractmethod
    def blame(self, place: Place) -> Tensor:
        """How much each column has to do with it, ``(rows, columns)``; the largest is worst."""

    @abstractmethod
    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say in words why one row is outside."""

    def attach(self, whitened: Units, reduced: Units) -> None:
        """Learn about the units that the view's places are in, if that is of use to reasons."""

    def forward(self, place: Place) -> Tensor:
        """``d``, ``(rows,)``: at most 0 inside."""
        return (self.score(place) - self.threshold) / self.width

    def set(self, threshold: float, width: float) -> None:
        """Calibrate."""
        self.threshold.fill_(threshold)
        self.width.fill_(max(width, self.floor))

    def arrays(self) -> Mapping[str, Tensor]:
        """Everything that the view is made of."""
        return dict(self.named_buffers())


def plainly(value: float) -> str:
    """A number as people write it.

    >>> plainly(126.0), plainly(0.123456), plainly(1e7)
    ('126', '0.1235', '1e+07')
    """
    return f"{value:.4g}"
