"""Germs that know how far off they may be: which decisions are proven in floating point.

Beside every slope and intercept runs a bound on its rounding error. An affine map with ``n``
products per output turns values ``v`` with errors ``e`` into errors of at most
``|W| e + gamma_n (|W| |v| + |c|)``, ``gamma_n = n u / (1 - n u)``, ``u`` the unit roundoff. A
decision is proven if the value exceeds its bound, or if the value is *structurally* zero (a zero
whose bound is zero as well) and the next part decides. The bounds are themselves rounded, and
products can underflow; the first is covered by slack, the second marks the ray as unproven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.germ import Germ, GermDomain, is_relu, shifted
from farfield.graph.rules import Affine, Pieces, Places, Smooth

ROUNDOFF = 2.0**-53
# Products below this may have lost digits to underflow on the way to the error bound.
UNDERFLOW = 2.0**-900
# Accuracy that PyTorch's special functions are trusted with, in units of roundoff.
FUNCTION_ERROR = 64 * ROUNDOFF


@dataclass(frozen=True, slots=True)
class BoundedGerm(Germ):
    """A germ with a bound on the error of each of its numbers."""

    error: Tensor

    @property
    def error_pair(self) -> Tensor:
        """The bounds as ``(2, rays, ...)``."""
        return self.error.reshape(2, -1, *self.error.shape[1:])


def gamma(terms: int) -> float:
    """Relative error of a sum of ``terms`` products, with slack for rounding the bound itself."""
    n = terms + 4
    return n * ROUNDOFF / (1 - n * ROUNDOFF) * (1 + 8 * n * ROUNDOFF)


class BoundedDomain(GermDomain):
    """The walk at infinity with error bounds.

    Attributes:
        certain: ``(rays,)`` whether every decision so far is proven.
        magnitudes: Absolute values of the weights, kept between chunks.
    """

    def __init__(self, rays: int, like: Tensor, magnitudes: Magnitudes) -> None:
        super().__init__(rays, like)
        self.certain = torch.ones(rays, dtype=torch.bool, device=like.device)
        self.magnitudes = magnitudes

    def constant(self, tensor: Tensor) -> BoundedGerm:
        """A constant is exact."""
        parts = super().constant(tensor).parts
        return BoundedGerm(parts, torch.zeros_like(parts))

    def affine(self, operation: Affine, *values: Germ) -> BoundedGerm:
        """Carry the bound through ``|W|``."""
        bounded = [_bounded(value) for value in values]
        parts = operation.function(*(v.parts for v in bounded), *operation.weights)
        magnitude = operation.magnitude or operation.function
        if operation.terms == 0:
            return BoundedGerm(parts, magnitude(*(v.error for v in bounded)))
        g = gamma(operation.terms)
        slack = 1 + 8 * (operation.terms + 4) * ROUNDOFF
        weights = [self.magnitudes.of(weight) for weight in operation.weights]
        inputs = [(v.error * slack).add_(v.parts.abs(), alpha=g) for v in bounded]
        smallest = [smallest_nonzero(weight) for weight in weights]
        for each in inputs:
            self._doubt_underflow(each, smallest)
        error = magnitude(*inputs, *weights)
        if operation.offset is None:
            return BoundedGerm(parts, error)
        fresh = bool(operation.weights)
        size = (
            operation.offset.abs()
            if isinstance(operation.offset, Tensor)
            else abs(operation.offset)
        )
        return BoundedGerm(
            shifted(parts, operation.offset, fresh=fresh), shifted(error, size * g, fresh=fresh)
        )

    def piecewise(self, value: Germ, pieces: Pieces) -> BoundedGerm:
        """Prove which piece each germ ends up in."""
        bounded = _bounded(value)
        for threshold in pieces.thresholds:
            self._prove_threshold(bounded, float(threshold))
        result = super().piecewise(value, pieces)
        if is_relu(pieces):
            error = torch.where(value.exceeds(0.0), bounded.error_pair, 0.0)
            return BoundedGerm(result.parts, error.flatten(0, 1))
        factor, offset = self._piece_sizes(value, pieces)
        moved = result.pair
        scaled = bounded.error_pair * factor
        rounding = 8 * ROUNDOFF * moved.abs()
        rounding[1] += 8 * ROUNDOFF * offset
        product = value.pair.abs() * factor
        self._doubt_underflow(product.flatten(0, 1) * ROUNDOFF, [])
        return BoundedGerm(result.parts, (scaled * (1 + 8 * ROUNDOFF) + rounding).flatten(0, 1))

    def _piece_sizes(self, value: Germ, pieces: Pieces) -> tuple[Tensor, Tensor]:
        """Sizes of the slope and the intercept of the piece that each germ ends up in."""
        slope = self.number(pieces.slopes[0]).abs()
        offset = self.number(pieces.intercepts[0]).abs()
        for index, threshold in enumerate(pieces.thresholds):
            above = value.exceeds(float(threshold))
            slope = torch.where(above, self.number(pieces.slopes[index + 1]).abs(), slope)
            offset = torch.where(above, self.number(pieces.intercepts[index + 1]).abs(), offset)
        return slope, offset

    def largest(
        self, candidates: Sequence[Germ], sign: int = 1, places: Places | None = None
    ) -> BoundedGerm:
        """Prove which candidate wins; a candidate that is the winner itself needs no proof."""
        best = super().largest(candidates, sign, places).pair * sign
        bounded = [_bounded(candidate) for candidate in candidates]
        error, index = bounded[0].error_pair, torch.zeros_like(best[0], dtype=torch.long)
        pair = bounded[0].pair * sign
        for position, each in enumerate(bounded[1:], start=1):
            rival = each.pair * sign
            better = torch.where(rival[0] == pair[0], rival[1] > pair[1], rival[0] > pair[0])
            pair = torch.where(better, rival, pair)
            error = torch.where(better, each.error_pair, error)
            index = torch.where(better, position, index)
        where = None if places is None else list(places())
        home = None
        if where is not None:
            home = torch.gather(torch.stack([w.expand_as(index) for w in where]), 0, index[None])[0]
        for position, each in enumerate(bounded):
            sure = exceeds_bound(best - each.pair * sign, error + each.error_pair)
            sure = sure | (index == position)
            if where is not None and home is not None:
                sure = sure | (where[position] == home)
            self._require(sure)
        return BoundedGerm((best * sign).flatten(0, 1), error.flatten(0, 1))

    def smooth(self, value: Germ, curve: Smooth) -> BoundedGerm:
        """Prove the direction in which each value moves; at rest the slope of the curve counts."""
        bounded = _bounded(value)
        slope, intercept = bounded.pair
        slope_error, intercept_error = bounded.error_pair
        still = slope == 0
        self._require(torch.where(still, slope_error == 0, slope.abs() > slope_error))
        result = super().smooth(value, curve)
        ends = (self.number(curve.above.slope).abs(), self.number(curve.below.slope).abs())
        factor = torch.where(slope > 0, *ends)
        moved = bounded.error_pair * factor * (1 + 8 * ROUNDOFF) + 8 * ROUNDOFF * result.pair.abs()
        rest = intercept_error * curve.lipschitz * (1 + 8 * ROUNDOFF)
        rest = rest + FUNCTION_ERROR * (intercept.abs() + result.intercept.abs())
        at_rest = torch.stack([torch.zeros_like(rest), rest])
        return BoundedGerm(result.parts, torch.where(still, at_rest, moved).flatten(0, 1))

    def _prove_threshold(self, value: BoundedGerm, threshold: float) -> None:
        pair = value.pair
        if threshold != 0:
            pair = torch.stack([pair[0], pair[1] - threshold])
        self._require(exceeds_bound(pair, value.error_pair, signed=False))

    def _require(self, sure: Tensor) -> None:
        self.certain = self.certain & sure.reshape(self.rays, -1).all(dim=1)

    def _doubt_underflow(self, sizes: Tensor, weights: Sequence[Tensor]) -> None:
        """Mark the rays where a product may have lost digits to underflow."""
        least = torch.where(sizes == 0, torch.inf, sizes)
        least = least.unflatten(0, (2, self.rays, -1)).transpose(0, 1).flatten(1).amin(dim=1)
        for weight in weights:
            least = least * torch.clamp(weight, max=1.0)
        self.certain = self.certain & (least > UNDERFLOW)


def exceeds_bound(pair: Tensor, error: Tensor, *, signed: bool = True) -> Tensor:
    """Whether a germ is proven not to be zero: positive where ``signed``; or proven to be zero.

    The slope decides unless it is structurally zero; then the intercept does.
    """
    size = pair if signed else pair.abs()
    wide = error * (1 + 8 * ROUNDOFF)
    proven = size > wide
    zero = (pair == 0) & (error == 0)
    return proven[0] | (zero[0] & (proven[1] | zero[1]))


def smallest_nonzero(values: Tensor) -> Tensor:
    """The smallest size that is not zero."""
    return torch.where(values == 0, torch.inf, values).amin()


class Magnitudes:
    """Absolute values of weights, computed once for weights that stay between chunks."""

    def __init__(self, lasting: Sequence[Tensor]) -> None:
        self.lasting = {id(tensor): tensor for tensor in lasting}
        self.known: dict[int, Tensor] = {}

    def of(self, weight: Tensor) -> Tensor:
        """``|weight|``."""
        if id(weight) not in self.lasting:
            return weight.abs()
        if id(weight) not in self.known:
            self.known[id(weight)] = weight.abs()
        return self.known[id(weight)]


def _bounded(value: Germ) -> BoundedGerm:
    if not isinstance(value, BoundedGerm):
        raise TypeError("a germ without bounds in a walk with bounds")
    return value
