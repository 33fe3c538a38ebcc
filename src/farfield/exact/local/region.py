"""The linear region around a point: its affine map, its facets, how far they are.

Around a point ``x`` a piecewise-affine network is ``f(z) = V z + a`` on a polytope: the
intersection of one half-space for each unit (two between two thresholds), and one for each loser
of a maximum. A point exactly on a threshold belongs to the lower piece, and of equal candidates
the first wins; such a point lies on a facet of its own region, and if opposite units meet there,
that region has no interior.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from farfield.errors import InputError, NumericalOverflow
from farfield.exact.germ import kink
from farfield.exact.jets import Jet, PointDomain
from farfield.exact.local import polytope
from farfield.exact.local.jacobian import jacobian, reverse_chunks
from farfield.exact.piecewise import pick_instance, require_piecewise_affine
from farfield.exact.walking import cut_rows
from farfield.graph.network import Network
from farfield.graph.program import Program, walk
from farfield.graph.rows import as_rows
from farfield.graph.rules import Pieces, Places, Steps

Norm = Literal["l2", "linf"]
# How many numbers the walk over a chunk may keep.
KEPT_ELEMENTS = 1 << 24


class FacetDomain(PointDomain):
    """The walk around points, keeping every half-space on the way.

    Attributes:
        facets: For each decision of the network, ``(numbers, points, units)`` functions that are
            at most zero on the region, and ``(points, units)`` which of them count.
    """

    def __init__(self, numbers: int, rows: int, like: Tensor, values: int = 1) -> None:
        super().__init__(numbers, rows, like, values)
        self.facets: list[tuple[Tensor, Tensor]] = []

    def note_pieces(self, parts: Tensor, pieces: Pieces, above: Sequence[Tensor]) -> None:
        """Keep the thresholds on either side of each unit."""
        kinks = [(i, kink(pieces, i)) for i in range(len(above))]
        kinks = [(i, real) for i, real in kinks if real is not False]
        for place, (index, real) in enumerate(kinks):
            over = above[index]
            keep = torch.ones_like(over)
            if place > 0:
                keep &= over | above[kinks[place - 1][0]]
            if place + 1 < len(kinks):
                keep &= ~over | ~above[kinks[place + 1][0]]
            if isinstance(real, Tensor):
                keep &= real
            gap = self.shifted(parts, -float(pieces.thresholds[index]))
            self.facets.append((torch.where(over, -gap, gap).flatten(2), keep.flatten(1)))

    def note_winner(self, candidates: Tensor, winner: Tensor, places: Places | None) -> None:
        """Keep every loser that is not the winner itself seen twice."""
        best = candidates.gather(0, winner.expand(1, self.numbers, *winner.shape))[0]
        where = None if places is None else torch.stack([p.reshape(1, -1) for p in places()])
        for place, each in enumerate(candidates):
            keep = winner != place
            if where is not None:
                keep &= where[place] != where.expand(-1, *winner.shape).gather(0, winner[None])[0]
            self.facets.append((each - best, keep))

    def note_steps(self, parts: Tensor, steps: Steps, places: Tensor) -> None:
        """Keep the breaks on either side of each column."""
        first, last = steps.offsets[:-1] + places - 1, steps.offsets[:-1] + places
        edges = torch.cat([steps.breaks.to(parts), parts.new_zeros(1)])
        below, above = edges[first], edges[last.clamp(max=len(edges) - 1)]
        self.facets.append((-self.shifted(parts, -below), first >= steps.offsets[:-1]))
        self.facets.append((self.shifted(parts, -above), last < steps.offsets[1:]))


@dataclass(frozen=True)
class Region:
    """The linear region around each of a number of points.

    Attributes:
        x: ``(points, *input)``.
        V: ``(points, classes, inputs)``: the Jacobian of the logits, inputs in one dimension.
        a: ``(points, classes)``: on the region of point i, logits are ``V[i] @ z + a[i]``.
        certified: ``(points,)`` whether the side of every unit is proven, and so the region;
            ``None`` if that was not asked for.
    """

    x: Tensor
    V: Tensor
    a: Tensor
    _program: Program = field(repr=False)
    _constants: Mapping[str, Tensor] = field(repr=False)
    certified: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def halfspaces(self, index: int, *, minimal: bool = False) -> tuple[Tensor, Tensor]:
        """The half-spaces whose intersection is the region of one point: ``A z <= b``.

        Args:
            index: Which point.
            minimal: Leave out half-spaces that the others imply.

        Returns:
            ``A``, ``(half-spaces, inputs)``, and ``b``, ``(half-spaces,)``: one for each unit, in
            the order of the network, and one for each loser of a maximum. A unit that is constant
            on the region has a row of zeros in ``A``, unless ``minimal``.
        """
        x = self.x[index : index + 1] if index >= 0 else self.x[[index]]
        if len(x) != 1:
            raise InputError(f"there is no point {index}; the region has {len(self)} points")
        columns, slack = [], [x.new_zeros(0)]
        for tangents in self._basis(1):
            kept = [facet[:, keep] for facet, keep in self._facets(x, tangents)]
            columns.append(torch.cat([x.new_zeros(0, len(tangents)), *(f[:-1].T for f in kept)]))
            slack = [x.new_zeros(0), *(-facet[-1] for facet in kept)]
        A = torch.cat(columns, dim=1)
        b = torch.cat(slack) + A @ x.flatten()
        if not minimal:
            return A, b
        needed = polytope.facets(
            A.double().cpu().numpy(), b.double().cpu().numpy(), x.flatten().double().cpu().numpy()
        )
        which = torch.from_numpy(needed).to(A.device)
        return A[which], b[which]

    def contains(self, z: Any, *, tolerance: float = 0.0) -> Tensor:
        """Whether points lie in the closed region: every half-space holds, ``A z <= b``.

        Args:
            z: ``(points, *input)``, one row for all regions, or many rows for a single region.
            tolerance: By how much of its terms a half-space may be missed.

        Returns:
            ``(points,)``.
        """
        rows = self._rows(z, "z")
        count = max(len(rows), len(self))
        result = torch.ones(count, dtype=torch.bool, device=self.x.device)
        for part in self._chunks(count, 2):
            x, goal = cut_rows(self.x, part, count), cut_rows(rows, part, count)
            for (there, here), keep in self._facets(x, goal[None], values=2):
                slack = tolerance * (here.abs() + (there - here).abs())
                result[part] &= ((there <= slack) | ~keep).all(dim=1)
        return result

    def distance(self, direction: Any) -> Tensor:
        """How far a ray ``x + t * direction`` stays in the region: the largest such ``t``.

        Args:
            direction: ``(points, *input)``, one row for all regions, or many for a single one.

        Returns:
            ``(points,)``; infinite where the ray never leaves.
        """
        rows = self._rows(direction, "direction")
        if bool((rows == 0).reshape(len(rows), -1).all(dim=1).any()):
            raise InputError("direction has a zero row; a ray needs a direction")
        count = max(len(rows), len(self))
        result = self.x.new_full((count,), torch.inf)
        for part in self._chunks(count, 2):
            x, goal = cut_rows(self.x, part, count), cut_rows(rows, part, count)
            for (change, value), keep in self._facets(x, goal[None]):
                t = (-value / change).masked_fill(~(change > 0) | ~keep, torch.inf)
                result[part] = torch.minimum(result[part], _least(t))
        return result

    def is_bounded(self, direction: Any = None) -> Tensor:
        """Whether the region ends in a direction: whether the ray from ``x`` ever leaves it.

        Args:
            direction: As for :meth:`distance`. If not given: whether the region is bounded in
                every direction, by one linear program for each point.

        Returns:
            ``(points,)`` bool.
        """
        if direction is not None:
            return torch.isfinite(self.distance(direction))
        answers = []
        for index in range(len(self)):
            A, b = (each.double().cpu().numpy() for each in self.halfspaces(index))
            answers.append(polytope.is_bounded(A, b))
        return torch.tensor(answers, device=self.x.device)

    def radius(self, norm: Norm = "l2") -> Tensor:
        """The largest ball around each point that lies in its region: the nearest facet.

        ``min_j (b_j - A_j x) / |A_j|`` with the dual norm of ``A_j``: l2 for l2, l1 for linf.

        Args:
            norm: In which norm balls are balls.

        Returns:
            ``(points,)``; infinite where the region is the whole space.
        """
        if norm not in ("l2", "linf"):
            raise InputError(f"norm must be 'l2' or 'linf', got {norm!r}")
        result = self.x.new_full((len(self),), torch.inf)
        for part in self._chunks(len(self), 2):
            sizes: list[Tensor] = []
            slacks: list[Tensor] = []
            for tangents in self._basis(part.stop - part.start):
                facets = self._facets(self.x[part], tangents)
                each = [f[:-1].square() if norm == "l2" else f[:-1].abs() for f, _ in facets]
                more = [size.sum(dim=0) for size in each]
                sizes = [a + b for a, b in zip(sizes, more, strict=True)] if sizes else more
                slacks = [(-f[-1]).masked_fill(~keep, torch.inf) for f, keep in facets]
            for size, slack in zip(sizes, slacks, strict=True):
                length = size.sqrt() if norm == "l2" else size
                ball = (slack / length).masked_fill(length == 0, torch.inf)
                result[part] = torch.minimum(result[part], _least(ball))
        return result

    def _facets(self, x: Tensor, tangents: Tensor, values: int = 1) -> list[tuple[Tensor, Tensor]]:
        """All facets of some points, with how they change along ``(n, points, *input)``.

        With ``values=2``, the last of the tangents is another point to evaluate them at.
        """
        domain = FacetDomain(len(tangents) + 1, len(x), x, values)
        with torch.no_grad():
            start = Jet(torch.cat([tangents, x[None]]).flatten(0, 1))
            walk(self._program, domain, start, self._constants)
        return domain.facets

    def _basis(self, points: int) -> Iterator[Tensor]:
        """The unit vectors of the input space, ``(n, points, *input)`` at a time."""
        inputs = math.prod(self.x.shape[1:])
        size = max(1, KEPT_ELEMENTS // (self._per_point * points))
        for start in range(0, inputs, size):
            stop = min(start + size, inputs)
            basis = self.x.new_zeros(stop - start, 1, inputs)
            basis[torch.arange(stop - start), 0, torch.arange(start, stop)] = 1
            yield basis.expand(-1, points, -1).unflatten(2, self.x.shape[1:])

    @property
    def _per_point(self) -> int:
        """A bound on how many numbers a walk keeps for each point and tangent."""
        return self._program.width * max(1, len(self._program.steps))

    def _chunks(self, count: int, factor: int) -> Iterator[slice]:
        size = max(1, KEPT_ELEMENTS // (self._per_point * factor))
        for start in range(0, count, size):
            yield slice(start, min(start + size, count))

    def _rows(self, values: Any, what: str) -> Tensor:
        rows = as_rows(values, tuple(self.x.shape[1:]), self.x.dtype, self.x.device, what)
        if len(rows) != len(self) and 1 not in (len(rows), len(self)):
            raise InputError(
                f"{what} has {len(rows)} rows for the regions of {len(self)} points; give as many "
                "rows as points, or one"
            )
        return rows


def _least(values: Tensor) -> Tensor:
    """The smallest of each row; infinite where there is none."""
    return torch.cat([values, values.new_full((len(values), 1), torch.inf)], dim=1).amin(dim=1)


def linearize(
    network: Network, x: Any, *, instance: int | None = None, certify: bool = False
) -> Region:
    """Find the linear region around each point, and the affine map on it.

    Args:
        network: From :func:`farfield.capture`, piecewise affine.
        x: ``(points, *input)``.
        instance: Which instance, if the network has several: each has regions of its own.
        certify: Prove on which side of every unit each point lies, or say for which it is not
            proven: ``region.certified``. Needs a float64 network without jumps.

    Returns:
        ``V`` and ``a`` of every point, and its facets on request.

    Raises:
        InputError: For shapes that do not fit, NaN, infinity, or several instances and no choice.
        UnsupportedOperation: Listing the network's smooth operations, if it has any.
        NumericalOverflow: If a logit or a derivative leaves the range of the analysis type.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 2))
    >>> region = linearize(network, [[3.0, -4.0]])
    >>> region.V[0].tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    >>> region.radius().item(), region.contains([[9.0, -9.0], [1.0, 1.0]]).tolist()
    (3.0, [True, False])
    """
    require_piecewise_affine(network, "the region around a point")
    program, constants = pick_instance(network, instance)
    rows = network.rows(x)
    inputs = math.prod(network.input_shape)
    V = rows.new_zeros(len(rows), network.classes, inputs)
    logits = rows.new_zeros(len(rows), network.classes)
    for part in reverse_chunks(program, len(rows)):
        point = rows[part].clone().requires_grad_()
        domain = PointDomain(1, len(point), rows)
        with torch.enable_grad():
            out = walk(program, domain, Jet(point), constants).parts
        V[part], logits[part] = jacobian(network, out, point)
    a = logits - (V @ rows.reshape(len(rows), inputs, 1))[..., 0]
    # Of a model without logits, the logarithm of a probability that is zero.
    none = (a == -torch.inf) & (network.link == "identity")
    if not bool((torch.isfinite(a) | none).all()):
        raise NumericalOverflow(
            f"a logit or a derivative left the range of {rows.dtype}; bring inputs or weights to a "
            "moderate scale"
        )
    if not certify:
        return Region(rows, V, a, program, constants)
    # Rational arithmetic takes a while to load.
    from farfield.exact.alike import proven_rows
    from farfield.exact.ray.proof import check_provable

    check_provable(network, clipped=False)
    with torch.no_grad():
        proven = proven_rows(program, constants, rows)
    return Region(rows, V, a, program, constants, proven)
