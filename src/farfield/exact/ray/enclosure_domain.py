"""How a network acts on enclosures: the rules of :mod:`farfield.graph.rules` over windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from farfield.exact.bounded import gamma
from farfield.exact.piecewise import OnlyPieces
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.composed import Composed
from farfield.exact.ray.enclosure import Echo, Enclosure, grown, sorted_alike
from farfield.exact.ray.locality import Framed, Locality, Pointwise
from farfield.exact.ray.remainder import Adjoint, Remainder
from farfield.exact.ray.waves import SLACK, Waves, aligned, joined
from farfield.graph.rules import (
    Affine,
    Pieces,
    Places,
)

ROUNDOFF32 = 2.0**-24
# The smallest number that single precision holds to all of its digits.
SMALLEST = 2.0**-126
# Rounding of a few operations in double precision, relative to the largest number in them.
TINY = 2.0**-50
# Products that underflow in single precision lose less than this.
UNDERFLOW = 1e-30
# Units closer to a kink than this, relative to others of their layer, count alike.
NEAR = 0.05


class EnclosureDomain(OnlyPieces[Enclosure]):
    """The walk over several windows at a time.

    Attributes:
        windows: How many windows.
        most: How many waves each may have.
        local: How the operation at hand acts on patches, set by the walk.
        weight: ``(1, *row)`` how much a unit of the result at hand counts in the end, if known.
        allowance: ``(windows,)`` how much of what counts may still be put into boxes.
        slopes: What each function with kinks so far multiplied its input by, and how close units
            are to a kink; for a single window only.
        sites: What each multiplied by, with signs, or which candidate it followed; likewise.
        reference: If given, what the network does with fixed slopes.
        remainder: What those slopes miss in the windows at hand; with a reference only.
        waves: How many waves there were so far.
        kinks: ``(windows,)`` how many units met a kink so far.
        products: How many products of weights and values were formed so far.
        pairs: Pairs of convolutions that boxes go through at once, by the ``id`` of the weights of
            the first.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.pairs: Mapping[int, Composed] = {}
        self.products = 0.0
        self.reference: Adjoint | None = None
        self._bends: dict[Pieces, Bend] = {}
        self._single: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def start(self, chord: Tensor, size: Tensor) -> Enclosure:
        """Begin with chords ``(2 * windows, *input)``, rounded from numbers of a size."""
        self.windows = len(chord) // 2
        self.local: Locality | None = None
        self.weight: Tensor | None = None
        self.allowance = torch.zeros(self.windows, device=chord.device)
        self.slopes: list[tuple[Tensor, Tensor]] = []
        self.sites: list[Tensor] = []
        self.waves = 0
        self.kinks = torch.zeros(self.windows, dtype=torch.long, device=chord.device)
        none = Waves.none(chord.shape[1:], chord.device)
        box = _single(TINY * size).expand(self.windows, *chord.shape[1:])
        self.remainder: Remainder | None = None
        if self.reference is not None:
            self.remainder = Remainder(self.reference, self.windows)
            self.remainder.begin(_most(box))
        return Enclosure(chord, box, none)

    def constant(self, tensor: Tensor) -> Enclosure:
        """A constant does not move."""
        row = tensor[:1].double()
        chord = row.expand(2 * self.windows, *row.shape[1:])
        none = Waves.none(row.shape[1:], row.device)
        return Enclosure(chord, torch.zeros_like(chord[: self.windows]).float(), none)

    def single(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """A weight in single precision, and its size rounded up; kept for the next window."""
        if id(weight) not in self._single:
            low = weight.float()
            size = low.abs()
            # What single precision cannot hold is lost from waves: the size makes up for it, so
            # that even its rounding error, a share of 2^-24 or more, is as large as the weight.
            lost = (weight != 0) & (weight.abs() < SMALLEST)
            size = torch.where(lost, size.new_tensor(SMALLEST * 2**24), size)
            # The weight itself is kept as well, so that no other takes its place in memory.
            self._single[id(weight)] = (low, size * SLACK, weight)
        return self._single[id(weight)][:2]

    def affine(self, operation: Affine, *values: Enclosure) -> Enclosure:
        """Act on the chord, with signs on waves, with sizes on the box."""
        function, terms = operation.function, operation.terms
        magnitude = operation.magnitude or function
        chord = function(*(value.chord for value in values), *operation.weights)
        weights = [self.single(weight) for weight in operation.weights]
        sizes = [size for _, size in weights]
        values = sorted_alike(values, self.local)
        old, young = self._carry(operation, values, tuple(low for low, _ in weights), chord)
        if operation.weights:
            self._count(terms, chord.shape[1:], old, young)
        masses = [value.mass for value in values]
        if self.remainder is not None:
            self._lose(operation, values, chord)
        # Where nothing is added up, sums of sizes need no second look.
        known = act(magnitude, masses, sizes) * SLACK if terms <= 1 and len(values) == 1 else None
        if terms == 0:
            box = act(magnitude, [value.box for value in values], sizes)
            return grown(Enclosure(chord, box, old, young, known))
        g, g32 = gamma(terms), gamma32(terms)
        boxes, composed = [value.box for value in values], None
        if len(values) == 1:
            boxes[0], composed = self._compose(operation, values[0])
        noise = [
            g32 * mass + _single(g * value.size) for value, mass in zip(values, masses, strict=True)
        ]
        inputs = [(box + own) * SLACK for box, own in zip(boxes, noise, strict=True)]
        box = act(magnitude, inputs, sizes) * (SLACK + 2 * g32)
        echo = self._echo(operation, boxes[0], noise[0], box) if len(values) == 1 else None
        if composed is not None:
            box = (box + composed) * SLACK
        result = Enclosure(chord, box, old, young, known, echo)
        if operation.offset is not None:
            result = replace(result, chord=chord + operation.offset)
            result = replace(result, box=result.box + _single(g * result.size))
        return grown(result)

    def _compose(self, operation: Affine, value: Enclosure) -> tuple[Tensor, Tensor | None]:
        """Take the image of an earlier box out of a box, and through two convolutions at once.

        Returns:
            What is left of the box, and a bound on what was taken out, behind both.
        """
        echo = value.echo
        if echo is None or echo.slope is None or not operation.weights:
            return value.box, None
        pair, slope = echo.pair, echo.slope
        if operation.weights[0] is not pair.weights[1]:
            return value.box, None
        self.products += pair.follow(slope[len(slope) // 2]) + pair.entries * self.windows
        # Slopes differ from those of the pair, whose entries are rounded, and may underflow.
        apart = (slope - pair.slopes).abs() + gamma32(pair.additions)
        box = (echo.rest(value.box) + apart * echo.image) * SLACK
        composed = pair.size(echo.source) * (SLACK + 2 * gamma32(pair.terms))
        return box, composed + UNDERFLOW * pair.terms * (1 + _most(echo.source))

    def _echo(self, operation: Affine, source: Tensor, noise: Tensor, image: Tensor) -> Echo | None:
        """Remember a box before the first of two convolutions, and what rounding adds to it."""
        weights = operation.weights
        pair = self.pairs.get(id(weights[0])) if weights else None
        if pair is None:
            return None
        norm = float(self.single(weights[0])[1].double().flatten(1).sum(dim=1).amax())
        return Echo(pair, source, image, pair.nearby(noise) * (norm * SLACK), image)

    def _carry(
        self,
        operation: Affine,
        values: Sequence[Enclosure],
        weights: tuple[Tensor, ...],
        chord: Tensor,
    ) -> tuple[Waves, Waves | None]:
        """Carry waves through a linear map."""
        row = chord.shape[1:]
        parts, waves = aligned([value.old for value in values])
        old = waves.mapped(lambda _: act(operation.function, parts, weights), row)
        if all(value.young is None for value in values):
            return old, None
        empty = Waves.none(values[0].row, chord.device, patches=True)
        nears = [empty if value.young is None else value.young for value in values]
        if isinstance(self.local, Pointwise):
            parts, waves = aligned(nears)
            return old, waves.mapped(lambda _: operation.function(*parts, *weights), row)
        if isinstance(self.local, Framed):
            return old, self.local.apply(nears[0], row)
        if self.local is None:
            raise AssertionError("patches were made whole before")
        return old, self.local.apply(nears[0], weights, row)

    def _lose(self, operation: Affine, values: Sequence[Enclosure], chord: Tensor) -> None:
        """Note what rounding takes from chords, and from the way back."""
        if self.remainder is None:
            return
        size = max(_most(value.chord) for value in values) if operation.terms else 0.0
        radius = max(_most(value.mass) + _most(value.box) for value in values)
        offset = operation.offset
        added = _most(offset) if isinstance(offset, Tensor) else abs(float(offset or 0.0))
        units = chord.shape[1:].numel()
        self.remainder.linear(operation.terms, units, size, radius * SLACK, added)

    def _count(self, terms: int, row: torch.Size, old: Waves, young: Waves | None) -> None:
        self.products += terms * row.numel() * (3 * self.windows + len(old))
        if young is not None:
            self.products += terms * young.parts.numel()

    def piecewise(self, value: Enclosure, pieces: Pieces) -> Enclosure:
        """Replace the function by a line where a unit may meet a kink."""
        if any(isinstance(slope, Tensor) for slope in pieces.slopes):
            return self.bend(value, Bend.of(pieces, value.chord))
        if pieces not in self._bends:
            self._bends[pieces] = Bend.of(pieces, value.chord)
        return self.bend(value, self._bends[pieces])

    def bend(self, value: Enclosure, bend: Bend) -> Enclosure:
        """Do the same for a function that may differ from unit to unit."""
        bounds = value.bounds()
        slope, shift, reach = bend.lines(*bounds)
        if self.remainder is not None:
            radius = ((value.mass + value.box) * SLACK).double()
            self.remainder.bend(bend, value.ends, bounds, radius, (slope, shift, reach))
        ends = value.ends * slope
        if shift is not None:
            ends = ends + shift
        factor = slope.float()
        steep = factor.abs()
        if self.windows == 1:
            self.sites.append(slope)
            self.slopes.append((steep, _close(bend, value.chord.mean(dim=0, keepdim=True))))
        box = value.box * steep * SLACK
        if shift is not None:
            exact = ((slope == 0) | (slope == 1)) & (shift == 0)
            size = TINY * (ends.abs().amax(dim=0) + shift.abs())
            loss = 4 * ROUNDOFF32 * (value.mass + value.box) * steep + _single(size)
            box = box + torch.where(exact, 0.0, loss)
        groups = [waves.times(factor) for waves in value.groups]
        total = value.mass * steep * SLACK
        young = groups[1] if len(groups) > 1 else None
        echo = None if value.echo is None else value.echo.times(factor)
        result = Enclosure(ends.flatten(0, 1), box, groups[0], young, total, echo)
        return self._birth(result, reach)

    def largest(
        self, candidates: Sequence[Enclosure], sign: int = 1, places: Places | None = None
    ) -> Enclosure:
        """Follow one candidate, and let the others exceed it by as much as they may."""
        whole = [candidate.whole() for candidate in candidates]
        parts, waves = aligned([each.old for each in whole])
        leader = sign * torch.stack([each.ends.sum(dim=0) for each in whole])
        leader = leader.argmax(dim=0)
        ends = led(leader, [each.ends for each in whole])
        box, mass = (led(leader, [getattr(e, name) for e in whole]) for name in ("box", "mass"))
        own = led(leader[waves.window], parts)
        excess = torch.zeros_like(ends[0])
        for place, (each, part) in enumerate(zip(whole, parts, strict=True)):
            apart = replace(waves, parts=part - own, row=each.row).mass(self.windows)
            apart = apart + each.box + box + ROUNDOFF32 * (each.mass + mass)
            noise = TINY * (each.ends.abs() + ends.abs()).amax(dim=0)
            gap = (sign * (each.ends - ends)).amax(dim=0)
            over = (gap + noise + (apart * SLACK).double()).clamp(min=0.0)
            excess = torch.maximum(excess, torch.where(leader == place, 0.0, over))
        if self.windows == 1:
            self.sites.append(leader)
        if self.remainder is not None:
            radii = [((each.mass + each.box) * SLACK).double() for each in whole]
            size = max(_most(each.chord) for each in whole)
            self.remainder.largest(leader, radii, excess, size)
        ends = ends + sign * excess / 2
        loss = torch.where(excess > 0, TINY * ends.abs().amax(dim=0), 0.0)
        old = replace(waves, parts=own, row=whole[0].row)
        result = Enclosure(ends.flatten(0, 1), box + _single(loss), old)
        return self._birth(result, excess / 2)

    def _birth(self, value: Enclosure, reach: Tensor) -> Enclosure:
        """Make waves, or parts of the box, of distances from lines ``(windows, *row)``."""
        places = torch.nonzero(reach.reshape(-1)).flatten()
        if not len(places):
            return value
        sizes = _single(reach.reshape(-1)[places])
        window = places // value.row.numel()
        self.kinks += torch.bincount(window, minlength=self.windows)
        weight = sizes
        if self.weight is not None:
            weight = sizes * self.weight.reshape(-1)[places % value.row.numel()]
        kept = ~self.spend(weight, window) if self.weight is not None else weight >= 0
        count = torch.bincount(window[kept], minlength=self.windows)
        for waves in value.groups:
            count += torch.bincount(waves.window, minlength=self.windows)
        # A window with too many waves is given up: its box grows, and nothing is proven.
        kept &= (count <= self.most)[window]
        box = value.box.clone()
        box.view(-1)[places[~kept]] += sizes[~kept]
        places, sizes = places[kept], sizes[kept]
        total = value.mass.clone()
        total.view(-1)[places] += sizes
        ids = torch.arange(self.waves, self.waves + len(places), device=places.device)
        self.waves += len(places)
        fresh = Waves.born(ids, sizes, places, value.row)
        value = replace(value, box=box * SLACK, total=total * SLACK)
        if fresh.corner is None:
            return replace(value, old=joined(value.old, fresh))
        young = fresh if value.young is None else joined(value.young, fresh)
        return grown(replace(value, young=young))

    def spend(self, weight: Tensor, window: Tensor) -> Tensor:
        """Choose the things that count least, as many as the allowance permits, and pay.

        Args:
            weight: ``(things,)`` how much each counts.
            window: ``(things,)`` the window that each belongs to.

        Returns:
            ``(things,)`` whether each was chosen.
        """
        order = torch.argsort(weight)
        order = order[torch.argsort(window[order], stable=True)]
        total = weight[order].double().cumsum(dim=0)
        first = torch.searchsorted(window[order], torch.arange(self.windows, device=window.device))
        before = torch.cat([total.new_zeros(1), total])[first]
        paid = total - before[window[order]]
        fits = paid <= self.allowance[window[order]]
        chosen = torch.zeros_like(fits)
        chosen[order] = fits
        spent = torch.zeros_like(self.allowance).index_add_(0, window[chosen], weight[chosen])
        self.allowance = self.allowance - spent
        return chosen


def act(
    function: Callable[..., Tensor], data: Sequence[Tensor], weights: Sequence[Tensor] = ()
) -> Tensor:
    """Apply a function of rows; a single row goes twice, lest its dimension be squeezed away."""
    if weights or len(data[0]) != 1:
        return function(*data, *weights)
    return function(*(rows.repeat(2, *[1] * (rows.ndim - 1)) for rows in data))[:1]


def gamma32(terms: int) -> float:
    """Bound the relative error of a sum of products in single precision, weights rounded too."""
    n = terms + 8
    return n * ROUNDOFF32 / (1 - n * ROUNDOFF32)


def led(leader: Tensor, values: Sequence[Tensor]) -> Tensor:
    """For each unit the value of the candidate that leads."""
    best = values[0]
    for place, other in enumerate(values[1:], start=1):
        best = torch.where(leader == place, other, best)
    return best


def _close(bend: Bend, middle: Tensor) -> Tensor:
    """One over the distance of units from their next kink, in units of the mean distance."""
    if not bend.thresholds:
        return torch.zeros_like(middle).float()
    gaps = torch.stack([(middle - limit).abs().expand_as(middle) for limit in bend.thresholds])
    gap = gaps.amin(dim=0)
    scale = gap[torch.isfinite(gap)].mean()
    return (1 / (gap + NEAR * scale)).nan_to_num(0.0, 0.0, 0.0).float()


def _most(values: Tensor) -> float:
    """The largest of some numbers, without their signs."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)
    return max(-float(low), float(high))


def _single(sizes: Tensor) -> Tensor:
    """Bring sizes to single precision, rounded up, and well above numbers that underflow."""
    return sizes.float() * SLACK + UNDERFLOW
