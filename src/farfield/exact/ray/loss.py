"""What it means for a class to be lost: its confidence below a level, or another class ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from farfield.exact.ray.confidence import Odds, first_root


class Loss(Protocol):
    """What it means for a class to be lost, given the other logits minus its own."""

    def at(self, gaps: Tensor) -> Tensor:
        """``(points,)`` from ``(points, classes)``: positive where the class is lost."""
        ...

    def found_again(self, gaps: Tensor, growth: Tensor, last: Tensor, limit: Tensor) -> Tensor:
        """The ``u`` from which on ``gaps + growth * u`` is no loss, up to ``last``.

        Args:
            gaps: ``(problems, classes)`` where the class may be lost; minus infinity at itself.
            growth: ``(problems, classes)``, zero at the class itself.
            last: ``(problems,)`` the largest ``u``, perhaps infinite.
            limit: ``(problems,)`` the value of :meth:`at` there, or what it tends to.

        Returns:
            ``(problems,)``; infinite where the class is lost for good.
        """
        ...

    def among_shares(self, shares: Tensor, label: Tensor) -> Tensor:
        """Whether the class is lost, given the probabilities of all."""
        ...


@dataclass(frozen=True)
class Unsure:
    """A class is lost where its confidence is below a level."""

    confidence: float

    @property
    def goal(self) -> float:
        """The log-odds against a class that has just this confidence."""
        return math.log1p(-self.confidence) - math.log(self.confidence)

    def at(self, gaps: Tensor) -> Tensor:
        """The log-odds against the class, minus those at the level."""
        return torch.logsumexp(gaps, dim=-1) - self.goal

    def found_again(self, gaps: Tensor, growth: Tensor, last: Tensor, limit: Tensor) -> Tensor:
        """By Newton's method, which never passes the first root of a convex function."""
        return first_root(Odds(gaps, growth, last, limit + self.goal), self.goal)

    def among_shares(self, shares: Tensor, label: Tensor) -> Tensor:
        """Whether its probability is below the level."""
        return shares.gather(-1, label[..., None])[..., 0] < self.confidence


@dataclass(frozen=True)
class Overtaken:
    """A class is lost where another logit is above its own."""

    def at(self, gaps: Tensor) -> Tensor:
        """By how much another class leads."""
        return gaps.amax(dim=-1)

    def found_again(self, gaps: Tensor, growth: Tensor, last: Tensor, limit: Tensor) -> Tensor:
        """The last crossing with a class that led."""
        crossing = torch.where(growth < 0, -gaps / growth, torch.inf)
        return torch.where(gaps > 0, crossing, 0.0).amax(dim=-1)

    def among_shares(self, shares: Tensor, label: Tensor) -> Tensor:
        """Whether another probability is larger."""
        return shares.gather(-1, label[..., None])[..., 0] < shares.amax(dim=-1)


def others(logits: Tensor, label: Tensor) -> Tensor:
    """All logits minus that of a class, ``(points, classes)``; minus infinity at the class."""
    own = label[..., None]
    level = logits.gather(-1, own)
    # A class that has no probability at all is lost.
    gaps = torch.where(level == -torch.inf, torch.inf, logits - level)
    return gaps.scatter(-1, own, -torch.inf)
