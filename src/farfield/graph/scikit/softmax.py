"""From scores to probabilities inside of a model, with the limits of scores that move."""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.graph.rules import RowFunction


class Softmax(RowFunction):
    """Probabilities of logits; of one logit ``f``, those of ``(0, f)`` are two columns."""

    continuous = True
    by_order = True

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        return torch.softmax(rows, dim=-1)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Share one among the logits that grow fastest, by their intercepts."""
        leading = slope == slope.amax(dim=-1, keepdim=True)
        return torch.softmax(intercept.masked_fill(~leading, -torch.inf), dim=-1)

    def settles(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """From the start where all logits grow alike; never elsewhere."""
        alike = (slope == slope[:, :1]).all(dim=-1)
        return torch.where(alike, 0.0, torch.inf).to(slope)

    @property
    def error(self) -> float:
        """Some roundings of numbers of at most one."""
        return 1e-14


class Normalised(RowFunction):
    """Numbers that are not negative, divided by their sum; the same for all if that is zero.

    Asked at rest alone: what comes in are probabilities.

    Args:
        least: Sums up to this count as zero.
    """

    def __init__(self, least: float = 0.0) -> None:
        self.least = least

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        total = rows.sum(dim=-1, keepdim=True)
        return torch.where(total <= self.least, 1.0 / rows.shape[-1], rows / total)

    def steady(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Everywhere but at zero."""
        return (slope == 0).all(dim=-1) & (intercept.sum(dim=-1) > self.least)

    @property
    def error(self) -> float:
        """Some roundings of numbers of at most one."""
        return 1e-14


SOFTMAX = Softmax()
NORMALISED = Normalised()
# Behind curves that are zero on whole intervals, sums of rounding alone are zero, too.
NORMALISED_CURVES = Normalised(1e-12)
