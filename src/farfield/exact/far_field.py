"""The far field of a network as a plain result: germs of logits, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.ray.loss import Overtaken, Unsure
from farfield.exact.sure_from import BUDGET, SureFrom, sure_from
from farfield.graph.network import Network
from farfield.scores import score_by_name

if TYPE_CHECKING:
    from farfield.exact.local.assumptions import Assumptions


@dataclass(frozen=True, eq=False)
class FarField:
    """What a network says infinitely far out, for a number of rays.

    Attributes:
        slope: ``(instances, rays, classes)`` growth of each logit.
        intercept: ``(instances, rays, classes)`` where the line that each logit ends on starts.
        reach: ``(instances, rays)`` the ``t`` at which the last unit settles: from there on every
            logit is ``slope * t + intercept``. Infinite where ``asymptotic``.
        asymptotic: ``(instances, rays)`` whether smooth activations only approach their limits.
        undecided: ``(instances, rays)`` whether several limits are possible, and the numbers are
            one of them, or all in equal parts; or none is, where a root or logarithm is taken of
            numbers that have none. Only where :func:`farfield.at_infinity` marks them.
        leading: ``(instances, rays, classes)`` the classes whose logits grow fastest; of a model
            that has probabilities only, those whose probability is not zero.
        certified: ``(instances, rays)`` whether every decision is proven: ``leading``, ``winner``,
            and the piece that every unit ends on; ``None`` if not asked. ``reach`` is a number and
            not a decision: ``reach_bounds`` is what is proven about it.
        reach_bounds: ``(2, instances, rays)`` proven lower and upper bounds of the true reach: zero
            and infinity where nothing is ``certified``; ``None`` if not asked.
        relative: ``(2, instances, rays, classes)`` slopes and intercepts minus the winner's, where
            they are known better than the difference of two rounded numbers; else ``None``.
        shares: ``(instances, rays, classes)`` the probabilities themselves of a model that has no
            logits; ``intercept`` has their logarithms, zero where there is none. Else ``None``.
        rays: The network, the origins and the directions, for what is computed on request.
        growth: ``(powers, instances, rays, classes)`` coefficients of the powers of ``t`` other
            than 1 that are positive, of networks that have any; else ``None``.
        powers: Which powers these are, highest first; 0 stands for the logarithm of ``t``.
        doubtful: ``(instances, rays)`` whether a growing coefficient that rounding alone may have
            made was taken for zero: exactly zero in most models, but not proven; else ``None``.
    """

    slope: Tensor
    intercept: Tensor
    reach: Tensor
    asymptotic: Tensor
    undecided: Tensor
    leading: Tensor
    certified: Tensor | None = None
    reach_bounds: Tensor | None = None
    relative: Tensor | None = field(default=None, repr=False)
    shares: Tensor | None = field(default=None, repr=False)
    rays: tuple[Network, Tensor, Tensor] | None = field(default=None, repr=False)
    growth: Tensor | None = field(default=None, repr=False)
    powers: tuple[float, ...] = field(default=(), repr=False)
    doubtful: Tensor | None = field(default=None, repr=False)

    @property
    def probabilities(self) -> Tensor:
        """``(instances, rays, classes)``: softmax of the intercepts among the leading classes."""
        if self.shares is not None:
            return self.shares
        intercept = self.intercept if self.relative is None else self.relative[1]
        return torch.softmax(intercept.masked_fill(~self.leading, -torch.inf), dim=-1)

    @property
    def confidence(self) -> Tensor:
        """``(rays,)`` largest probability of the mean over instances."""
        return self.probabilities.mean(dim=0).amax(dim=-1)

    @property
    def winner(self) -> Tensor:
        """``(instances, rays)`` the class that each instance ends up with."""
        if self.shares is not None:
            return self.shares.argmax(dim=-1)
        intercept = self.intercept if self.relative is None else self.relative[1]
        return intercept.masked_fill(~self.leading, -torch.inf).argmax(dim=-1)

    @property
    def label(self) -> Tensor:
        """``(rays,)`` the most probable class of the mean over instances."""
        if len(self.slope) == 1:
            return self.winner[0]
        return self.probabilities.mean(dim=0).argmax(dim=-1)

    @property
    def saturates(self) -> Tensor:
        """``(instances, rays)`` whether one logit outgrows all others: confidence tends to 1."""
        return self.leading.sum(dim=-1) == 1

    @property
    def constant(self) -> Tensor:
        """``(instances, rays)`` whether all logits grow alike: the probabilities stay put."""
        alike = (self.slope == self.slope[..., :1]).all(dim=-1)
        if self.growth is None:
            return alike
        return alike & (self.growth == self.growth[..., :1]).all(dim=-1).all(dim=0)

    @property
    def order(self) -> Tensor:
        """``(instances, rays)`` the power of ``t`` with which logits grow.

        0: they converge, or grow by a logarithm alone, which :attr:`powers` shows.
        """
        order = (self.slope != 0).any(dim=-1).to(self.slope)
        for power, part in zip(
            self.powers, () if self.growth is None else self.growth, strict=True
        ):
            some = (part != 0).any(dim=-1) & (order < power)
            order = order.masked_fill(some, power)
        return order

    @property
    def votes(self) -> Tensor:
        """``(rays, classes)`` the share of instances that end up with each class."""
        classes = self.slope.shape[-1]
        return torch.nn.functional.one_hot(self.winner, classes).to(self.slope).mean(dim=0)

    def score(self, name: str) -> Tensor:
        """``(rays,)`` any uncertainty score of :mod:`farfield.scores`, at infinity."""
        result: Tensor = score_by_name(name)(self.probabilities)
        return result

    def jacobian(self) -> Tensor:
        """``(instances, rays, classes, inputs)``: V of the region that each ray ends in."""
        from farfield.exact.local.jacobian import far_jacobian

        return far_jacobian(*self._rays())

    def assumptions(self, tolerance: float = 0.0) -> Assumptions:
        """Check what the limit theorems assume of the region that each ray ends in.

        Args:
            tolerance: Numbers of at most this size count as zero.
        """
        from farfield.exact.local.assumptions import check_assumptions

        return check_assumptions(*self._rays(), tolerance=tolerance)

    def _rays(self) -> tuple[Network, Tensor, Tensor]:
        if self.rays is None:
            raise InputError("this far field does not know its rays; compute it with at_infinity")
        return self.rays

    def distance(self, confidence: float) -> Tensor:
        """From which ``t`` on the winning class never falls below a confidence.

        The last ``t >= 0`` at which an instance gives the class that it ends with less than the
        confidence; 0 if there is none.

        Args:
            confidence: Between 0 and 1.

        Returns:
            ``(instances, rays)``; infinite where the limit is below ``confidence``, NaN where
            a limit above it is only approached and no bound was found. An upper bound where
            :meth:`sure_from`, which gives the same numbers, says so.
        """
        return self.sure_from(confidence).t

    def sure_from(self, confidence: float, *, budget: float = BUDGET) -> SureFrom:
        """From where on the winning class never falls below a confidence, and how well it is known.

        Before ``reach``, rays are walked back piece by piece. What remains is an upper bound,
        ``exact`` false, on rays that cannot be walked: of far fields that do not know their rays,
        where walking costs too much, and of networks with smooth activations or growth orders,
        whose bounds are found as in :meth:`settles`.

        Args:
            confidence: Between 0 and 1.
            budget: How many products of weights and values walking may form, all rays together;
                the default takes some ten seconds if it is used up.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence}")
        return sure_from(self, Unsure(confidence), budget)

    def settles(self, delta: float) -> Tensor:
        """From which ``t`` on every logit stays within ``delta`` of its asymptote.

        The asymptote is ``slope * t + intercept``, with :attr:`growth` times higher powers where
        there are such; the limit itself where logits converge. Where ``reach`` is finite it is
        the answer. Elsewhere values are bounded for all ``t`` from some ``T`` on, by Taylor models
        in ``1 / t``, and the least ``T`` that will do is searched for: sound, but often late.
        Bounds of rounding errors are part of it, but for those of the numbers in ``slope``,
        ``intercept`` and ``growth``, which are told apart from the true ones by rounding only.

        Args:
            delta: Positive.

        Returns:
            ``(instances, rays)`` in double precision; infinite where no such ``T`` was found.

        >>> import farfield as ff
        >>> network = ff.capture(torch.nn.Softplus(), torch.zeros(1, 2))
        >>> far = ff.at_infinity(network, [0.0, 0.0], [[1.0, 2.0]])
        >>> 4.6 < float(far.settles(0.01)) < 20  # log(1 + exp(-4.6)) is 0.01
        True
        """
        from farfield.exact.series.settling import settles

        return settles(self, delta)

    def final_from(self, *, budget: float = BUDGET) -> SureFrom:
        """From where on each instance's predicted class no longer changes.

        Args:
            budget: As for :meth:`sure_from`.
        """
        return sure_from(self, Overtaken(), budget)

    def __len__(self) -> int:
        return self.slope.shape[1]
