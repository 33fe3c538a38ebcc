"""Enclosures of a network over a window of ``t``: chord, waves, and a remainder.

Over ``t0 <= t <= t1`` the value of a unit is enclosed by

    ``chord(t) + sum_b wave_b * e_b(t) + r(t)``,  ``|e_b(t)| <= 1``,  ``|r(t)| <= box``,

where ``e_b`` are unknown functions that all units share. An affine map acts on the ends of the
chord, with its signs on waves, and with ``|W|`` on the box, which also takes in the rounding of all
three. A function with kinks is replaced, where the unit may meet one, by a line ``slope x + c`` and
the largest distance from it; that distance is a new wave, or goes into the box.

A box alone would not do: through twenty layers ``|W|`` blows it up by ten orders of magnitude,
because it forgets which signs cancel. Waves remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from farfield.exact.ray.composed import Composed
from farfield.exact.ray.locality import Locality
from farfield.exact.ray.waves import SLACK, Waves, joined

# Covers what a box loses when something small is added to it a few times.
LOST = 2.0**-20


@dataclass(frozen=True, eq=False)
class Echo:
    """Where a box came from: part of it is a signed image of the box before a convolution.

    The remainder is ``slope * A r + q``, with ``|r| <= source``, ``|slope * A r| <= part`` and
    ``|q| <= box - part + lost``.

    Attributes:
        pair: The convolution, and the one that comes next.
        source: ``(windows, *row)`` the box before it.
        image: ``(windows, *row)`` a bound on ``|A| source``.
        lost: ``(windows, 1, *pixels)`` what rounding lost at most on the way.
        slope: ``(windows, *row)`` what the function in between multiplied by; ``None`` before it.
        part: ``(windows, *row)`` the part of the box.
    """

    pair: Composed
    source: Tensor
    image: Tensor
    lost: Tensor
    part: Tensor
    slope: Tensor | None = None

    def times(self, slope: Tensor) -> Echo | None:
        """Multiply by the slopes of a function; a second one is not followed."""
        if self.slope is not None:
            return None
        steep = slope.abs()
        lost = self.lost * float(steep.amax())
        return replace(self, slope=slope, part=self.part * steep, lost=lost)

    def rest(self, box: Tensor) -> Tensor:
        """A bound on what is no image: of a box that was rounded a few times on the way."""
        return ((box - self.part).clamp(min=0.0) + LOST * box + self.lost) * SLACK


@dataclass(frozen=True, eq=False)
class Enclosure:
    """What a layer may be over several windows.

    Attributes:
        chord: ``(2 * windows, *row)`` starts of the chords, then their ends.
        box: ``(windows, *row)`` bounds on the remainder, single precision.
        old: Waves that are kept as whole rows.
        young: Waves that are kept as patches.
        total: ``(windows, *row)`` a bound on the sums of the waves' sizes, if one is known.
        echo: What part of the box is an image of an earlier one, if that is known.
    """

    chord: Tensor
    box: Tensor
    old: Waves
    young: Waves | None = None
    total: Tensor | None = None
    echo: Echo | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape of the chords."""
        return self.chord.shape

    @property
    def row(self) -> torch.Size:
        """The shape of the layer without its rows."""
        return self.chord.shape[1:]

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.chord.device

    @property
    def groups(self) -> tuple[Waves, ...]:
        """Old waves, then young ones if there are any."""
        return (self.old,) if self.young is None else (self.old, self.young)

    @cached_property
    def mass(self) -> Tensor:
        """``(windows, *row)`` the sums of the waves' sizes, or a bound on them."""
        if self.total is not None:
            return self.total
        first, *rest = (w.mass(len(self.box)) for w in self.groups if len(w) or w is self.old)
        return first + rest[0] if rest else first

    @property
    def size(self) -> Tensor:
        """``(windows, *row)`` the larger end of each chord, without its sign."""
        return self.ends.abs().amax(dim=0)

    @property
    def ends(self) -> Tensor:
        """``(2, windows, *row)`` the ends of the chords."""
        return self.chord.reshape(2, *self.box.shape)

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the chord's type and on its device."""
        return self.chord.new_zeros(shape)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Bounds ``(windows, *row)`` over each window, in double precision."""
        radius = ((self.mass + self.box) * SLACK).double()
        start, stop = self.ends
        return torch.minimum(start, stop) - radius, torch.maximum(start, stop) + radius

    def whole(self) -> Enclosure:
        """The same with all waves as whole rows."""
        if self.young is None:
            return self
        return replace(self, old=joined(self.old, self.young.whole()), young=None)

    def without(self, dropped: Tensor) -> Enclosure:
        """Put some waves, marked by their numbers, into the box."""
        box, groups = self.box, []
        for waves in self.groups:
            gone = dropped[waves.ids]
            if bool(gone.any()):
                box = (box + waves[gone].mass(len(box))) * SLACK
                groups.append(waves[~gone])
            else:
                groups.append(waves)
        young = groups[1] if len(groups) > 1 else None
        return grown(Enclosure(self.chord, box, groups[0], young, echo=self.echo))


def grown(value: Enclosure) -> Enclosure:
    """Keep patches only as long as they are much smaller than the image."""
    young = value.young
    if young is None or not len(young):
        return value if young is None else replace(value, young=None)
    if 4 * (young.side + 2) ** 2 < 3 * value.row[1] * value.row[2]:
        return value
    return value.whole()


def sorted_alike(values: Sequence[Enclosure], local: Locality | None) -> tuple[Enclosure, ...]:
    """See that a wave is old in all of several values, or in none."""
    if local is None or len(values) == 1:
        return tuple(value.whole() for value in values) if local is None else tuple(values)
    ids = torch.cat([value.old.ids for value in values])
    found = []
    for value in values:
        young = value.young
        if young is None:
            found.append(value)
            continue
        late = torch.isin(young.ids, ids)
        old = joined(value.old, young[late].whole())
        found.append(replace(value, old=old, young=young[~late]))
    return tuple(found)
