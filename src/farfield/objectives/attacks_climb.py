"""The state of a climb: where every point is, what is best so far, and which points are done."""

import torch
from torch import Tensor

from farfield.objectives.attacks_values import Value


class OffsetBox:
    """Offsets from centres in units of the features, kept inside of a box."""

    def __init__(
        self, centre: Tensor, low: Tensor | float, high: Tensor | float, scale: Tensor | float
    ) -> None:
        self._centre, self.scale = centre, scale
        self._low = torch.as_tensor(low, dtype=centre.dtype)
        self._high = torch.as_tensor(high, dtype=centre.dtype)
        self._plain = isinstance(scale, int | float) and scale == 1

    def place(self, offset: Tensor) -> Tensor:
        """Return the point at an offset, or the nearest in the box."""
        point = self._centre + (offset if self._plain else offset * self.scale)
        return point.clamp(self._low, self._high)

    def offset(self, point: Tensor) -> Tensor:
        """Return where a point is; a feature of scale zero never moves."""
        gap = point - self._centre
        return gap if self._plain else torch.nan_to_num(gap / self.scale, nan=0.0)

    def keep(self, left: Tensor) -> None:
        """Forget the centres of points that are done."""
        self._centre = self._centre[left]


class Climb:
    """Points on their way up.

    Attributes:
        points: Where they are, those that are not done.
        values: Their values.
        slope: The slopes there.
        share: How much of a step each takes.
    """

    def __init__(self, value: Value, points: Tensor) -> None:
        self._value = value
        self.points = points
        self.values, self.slope = _slope(value, points)
        self.share = torch.ones_like(self.values)
        self._best, self._best_values = points, self.values
        self._done: tuple[Tensor, Tensor] | None = None
        self._left: Tensor | None = None

    def move(self, points: Tensor, *, last: bool) -> Tensor:
        """Go there, remember what is better, and return which points are."""
        self.points = points
        if last:
            with torch.no_grad():
                self.values = self._value(points)
        else:
            self.values, self.slope = _slope(self._value, points)
        better = self.values > self._best_values
        self._best_values = torch.where(better, self.values, self._best_values)
        self._best = torch.where(spread(better, points), points, self._best)
        return better

    def back_to_best(self, better: Tensor, *, last: bool) -> None:
        """Let points that got no better go on from their best with half the step."""
        self.share = torch.where(better, self.share, self.share / 2)
        self.points = self._best
        if not last and not bool(better.all()):
            self.slope = _slope(self._value, self.points)[1]

    def go_on(self, box: OffsetBox, ceiling: float, *, apart: bool) -> bool:
        """Set points aside that reached the ceiling; tell whether any are left.

        Args:
            box: The box, which forgets them too.
            ceiling: The value that cannot be exceeded.
            apart: Whether some points can go on without the others.
        """
        below = self._best_values < ceiling
        count = int(below.sum())
        if count == 0:
            return False
        # Smaller batches pay only if they are a good deal smaller.
        if not apart or count > 0.9 * below.numel():
            return True
        left = below.nonzero()[:, 0]
        self._settle()
        self._left = left if self._left is None else self._left[left]
        box.keep(left)
        self.points, self.values, self.slope, self.share, self._best, self._best_values = (
            tensor[left]
            for tensor in (
                self.points,
                self.values,
                self.slope,
                self.share,
                self._best,
                self._best_values,
            )
        )
        return True

    def finish(self) -> tuple[Tensor, Tensor]:
        """Return the best points and their values, all of them in their order."""
        self._settle()
        assert self._done is not None
        return self._done

    def _settle(self) -> None:
        """Write what is best so far to where it belongs."""
        if self._done is None or self._left is None:
            self._done = self._best.clone(), self._best_values.clone()
            return
        self._done[0][self._left] = self._best
        self._done[1][self._left] = self._best_values


def spread(values: Tensor, points: Tensor) -> Tensor:
    """Add dimensions at the end, so that one value meets all features of a point."""
    return values.view(*values.shape, *[1] * (points.dim() - values.dim()))


def unit(directions: Tensor, lead: int) -> Tensor:
    """Scale every point's direction to length one; zero stays."""
    length = torch.linalg.vector_norm(directions.flatten(lead), dim=lead)
    shortest = torch.finfo(directions.dtype).tiny
    return directions / spread(length.clamp_min(shortest), directions)


def _slope(value: Value, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return values and their slopes."""
    with torch.enable_grad():
        leaf = points.detach().requires_grad_()
        values = value(leaf)
        (slope,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), slope
