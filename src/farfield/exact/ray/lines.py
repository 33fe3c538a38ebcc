"""What a network does along rays, as plain results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.ray import confidence as single
from farfield.exact.ray import mean_confidence as mean
from farfield.exact.ray.broken import Broken
from farfield.exact.ray.first_change import first_change
from farfield.exact.ray.knots import Trace, together
from farfield.exact.ray.pieces import AffinePieces, per_ray, pieces_of

if TYPE_CHECKING:
    from farfield.exact.ray.proof import LineProof


@dataclass(frozen=True, eq=False)
class Line:
    """One ray: where its pieces begin and end, and the logits there.

    With several instances the breakpoints are those of all of them, and arrays of logits have
    instances first; :meth:`instance` gives one instance with its own breakpoints.

    Attributes:
        traces: The logits of each instance along the ray.
        proofs: What is proven about the breakpoints of each instance, if that was asked for.
    """

    traces: tuple[Trace | Broken, ...]
    proofs: tuple[LineProof, ...] = ()

    @cached_property
    def _merged(self) -> list[Trace | Broken]:
        return together(self.traces)

    @property
    def edges(self) -> Tensor:
        """``(pieces + 1,)`` where pieces begin and end: 0, the breakpoints, and ``stop``."""
        grid = self._merged[0].grid
        if bool(grid.open[0]):
            return torch.cat([grid.t, grid.t.new_full((1,), torch.inf)])
        return grid.t if len(grid.t) > 1 else grid.t.repeat(2)

    @property
    def breakpoints(self) -> Tensor:
        """``(breakpoints,)`` each ``t`` between 0 and ``stop`` at which a decision changes."""
        return self.edges[1:-1]

    @property
    def logits(self) -> Tensor:
        """``(breakpoints, classes)`` logits at the breakpoints; several instances come first."""
        last = len(self.edges) - 1
        return self._shaped([trace.places().start[1:last] for trace in self._merged])

    @property
    def slope(self) -> Tensor:
        """``(pieces, classes)`` growth of the logits on each piece.

        The last one of a ray without an end is its germ at infinity. Others are differences of
        logits over lengths, so those of very short pieces have few digits.
        """
        return self._shaped([trace.lines(self.edges)[0] for trace in self._merged])

    @property
    def intercept(self) -> Tensor:
        """``(pieces, classes)`` where the line of each piece meets ``t = 0``."""
        return self._shaped([trace.lines(self.edges)[1] for trace in self._merged])

    def _shaped(self, found: list[Tensor]) -> Tensor:
        return found[0] if len(found) == 1 else torch.stack(found)

    def instance(self, index: int) -> Line:
        """The line of one instance, with its own breakpoints."""
        proofs = (self.proofs[index],) if self.proofs else ()
        return Line((self.traces[index],), proofs)

    def logits_at(self, t: Any) -> Tensor:
        """Logits anywhere on the line, ``(instances, points, classes)``.

        Raises:
            InputError: For a ``t`` that is not on the line.
        """
        places = self._on_the_line(t)
        return torch.stack([trace.at(places) for trace in self.traces])

    def _on_the_line(self, t: Any) -> Tensor:
        places = torch.as_tensor(t, dtype=torch.float64, device=self.edges.device).reshape(-1)
        edges = self.edges
        if not bool(((places >= edges[0]) & (places <= edges[-1])).all()):
            raise InputError(
                f"t must lie between {float(edges[0])} and {float(edges[-1])}, the ends of this "
                f"line; got {float(places.min())} to {float(places.max())}"
            )
        return places

    def probabilities_at(self, t: Any) -> Tensor:
        """Probabilities anywhere on the line, ``(instances, points, classes)``."""
        places = self._on_the_line(t)
        return torch.stack([trace.probabilities_at(places) for trace in self.traces])

    @property
    def limit(self) -> Tensor:
        """``(instances, classes)`` probabilities at the end of the line, or what they tend to."""
        if bool(self._merged[0].grid.open[0]):
            return pieces_of(self._merged).limit[:, -1]
        return torch.stack([trace.places().limit[-1] for trace in self._merged])

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __repr__(self) -> str:
        return f"Line({len(self)} pieces up to t = {float(self.edges[-1]):g})"


@dataclass(frozen=True, eq=False)
class Lines:
    """What a network does along a number of rays. Made by :func:`farfield.along`.

    ``lines[i]`` is one ray. Questions about confidence concern the mean over instances.

    Attributes:
        traces: The logits of each instance along all rays.
        stop: ``(rays,)`` where each ray ends.
        proofs: For each instance and ray, what is proven about the breakpoints, if that was asked
            for.
    """

    traces: tuple[Trace | Broken, ...]
    stop: Tensor
    proofs: tuple[tuple[LineProof, ...], ...] = ()

    @cached_property
    def _pieces(self) -> AffinePieces:
        return pieces_of(together(self.traces))

    def __len__(self) -> int:
        return len(self.stop)

    def __getitem__(self, index: int) -> Line:
        place = range(len(self))[index]
        proofs = tuple(each[place] for each in self.proofs)
        return Line(tuple(trace.rays(place, place + 1) for trace in self.traces), proofs)

    def __iter__(self) -> Iterator[Line]:
        return (self[index] for index in range(len(self)))

    def instance(self, index: int) -> Lines:
        """The lines of one instance."""
        proofs = (self.proofs[range(len(self.traces))[index]],) if self.proofs else ()
        return Lines((self.traces[index],), self.stop, proofs)

    @property
    def certified(self) -> Tensor | None:
        """``(instances, rays)`` whether lines are proven; ``None`` if that was not asked for."""
        if not self.proofs:
            return None
        return torch.tensor([[proof.certified for proof in each] for each in self.proofs])

    @property
    def counts(self) -> Tensor:
        """``(instances, rays)`` how many pieces each ray has."""
        grids = [trace.grid for trace in self.traces]
        return torch.stack([(g.starts.diff() - (~g.open).long()).clamp(min=1) for g in grids])

    def first_reaching(self, confidence: float) -> Tensor:
        """Find the smallest ``t >= 0`` with a confidence, whatever the class.

        Args:
            confidence: Strictly between 0 and 1.

        Returns:
            ``(rays,)``, to a relative accuracy of 1e-10; infinite where the confidence is never
            reached, which includes one that is only approached. A mean of several instances counts
            as having it where the two are the same number.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence}")
        pieces, rays = self._pieces, len(self)
        if pieces.at_rest:
            reached = pieces.confidence >= confidence
            return per_ray(pieces.t[reached], pieces.ray[reached], rays, "amin", torch.inf)
        solve = single.first_reaching if len(self.traces) == 1 else mean.first_reaching
        return solve(pieces, rays, confidence)

    def first_change(self) -> Tensor:
        """Find where the predicted class first changes.

        Returns:
            ``(rays,)`` the infimum of all ``t`` with another class than at the origin; infinite
            where the class never changes. For several instances, to a relative accuracy of 1e-11,
            and but for leads of at most 1e-13 inside of a piece.
        """
        return first_change(self._pieces, len(self))

    def highest_confidence(self) -> Tensor:
        """Find the supremum of the confidence on ``[0, stop]``, ``(rays,)``.

        The limit at infinity counts. For several instances, to 1e-13.
        """
        pieces, rays = self._pieces, len(self)
        if pieces.at_rest:
            return per_ray(pieces.confidence, pieces.ray, rays, "amax", 0.0)
        solve = single.highest if len(self.traces) == 1 else mean.highest
        return solve(pieces, rays)

    def __repr__(self) -> str:
        return f"Lines({len(self)} rays, {int(self.counts.sum())} pieces)"
