"""Directions in which a layer may deviate from its chord, one for each kink that caused it.

Over a window of ``t`` a unit that passes its threshold deviates from its chord by some function of
``t`` between -1 and 1 times a size. What that does to later layers is the image of one unit vector
under signed linear maps: a *wave*. Convolutions spread a wave by a pixel or two per layer, so that
a young wave is kept as a small *patch* of the image, and only an old one as a whole row.

Waves are kept in single precision; whoever maps them accounts for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

# Covers the rounding of sums of sizes in single precision, for up to 2,000 of them.
SLACK = 1 + 2.0**-12


@dataclass(frozen=True, eq=False)
class Waves:
    """Some waves on one layer.

    Attributes:
        ids: ``(waves,)`` increasing; the same wave has the same number on every layer.
        window: ``(waves,)`` the window that each belongs to.
        parts: ``(waves, *row)``; or patches ``(waves, channels, side, side)``.
        row: The shape of the layer without its rows.
        corner: ``(waves, 2)`` where the patches begin, perhaps outside of the image; ``None`` if
            parts are whole.
    """

    ids: Tensor
    window: Tensor
    parts: Tensor
    row: torch.Size
    corner: Tensor | None = None

    @classmethod
    def none(cls, row: torch.Size, device: torch.device, *, patches: bool = False) -> Waves:
        """No waves."""
        ids = torch.zeros(0, dtype=torch.long, device=device)
        shape = (row[0], 1, 1) if patches else row
        parts = torch.zeros(0, *shape, device=device)
        return cls(ids, ids, parts, row, ids.reshape(0, 1).expand(0, 2) if patches else None)

    @classmethod
    def born(cls, ids: Tensor, sizes: Tensor, places: Tensor, row: torch.Size) -> Waves:
        """One wave for each of some units; a patch of a single pixel if the layer is an image.

        Args:
            ids: ``(waves,)`` their numbers.
            sizes: ``(waves,)`` their sizes.
            places: ``(waves,)`` places in the flattened ``(windows, *row)``.
            row: The shape of the layer.
        """
        count = torch.arange(len(ids), device=ids.device)
        window, unit = places // row.numel(), places % row.numel()
        if len(row) == 3:
            pixel, pixels = unit % (row[1] * row[2]), row[1] * row[2]
            parts = sizes.new_zeros(len(ids), row[0], 1, 1)
            parts[count, unit // pixels, 0, 0] = sizes
            corner = torch.stack([pixel // row[2], pixel % row[2]], dim=1)
            return cls(ids, window, parts, row, corner)
        flat = sizes.new_zeros(len(ids), row.numel())
        flat[count, unit] = sizes
        return cls(ids, window, flat.reshape(len(ids), *row), row)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, kept: Tensor) -> Waves:
        corner = None if self.corner is None else self.corner[kept]
        ids, window = self.ids[kept], self.window[kept]
        return replace(self, ids=ids, window=window, parts=self.parts[kept], corner=corner)

    @property
    def side(self) -> int:
        """The side of the patches."""
        return self.parts.shape[-1]

    @cached_property
    def sizes(self) -> Tensor:
        """The parts without their signs."""
        return self.parts.abs()

    def mass(self, windows: int) -> Tensor:
        """``(windows, *row)`` the sums of sizes in each window, rounded up."""
        sizes = self.sizes
        if self.corner is None:
            total = sizes.new_zeros(windows, *self.row)
            return total.index_add_(0, self.window, sizes).mul_(SLACK)
        side, (channels, height, width) = self.side, self.row
        total = sizes.new_zeros(windows, channels, height + 2 * side, width + 2 * side)
        for place, size in zip(self._places(total, self.window), sizes.unbind(), strict=True):
            place.add_(size)
        return total[:, :, side:-side, side:-side] * SLACK

    def _places(self, images: Tensor, which: Tensor) -> list[Tensor]:
        """Where patches lie in images with a frame as wide as a patch, as views of them."""
        if self.corner is None:
            raise AssertionError("whole rows have no corner")
        step = images.stride()
        beyond = self.corner - self.corner.new_tensor(self.row[1:])
        if bool((self.corner < -self.side).any() | (beyond > 0).any()):
            raise AssertionError("patches beyond the frame of an image")
        top, left = (self.corner + self.side).unbind(dim=1)
        first = (which * step[0] + top * step[2] + left * step[3]).tolist()
        size = (images.shape[1], self.side, self.side)
        # One by one: to gather or scatter them by index takes longer.
        return [torch.as_strided(images, size, step[1:], place) for place in first]

    def weigh(self, weight: Tensor) -> Tensor:
        """``(waves,)`` sums of sizes, each unit with a weight ``(1, *row)``."""
        if self.corner is not None:
            own = self._cut(weight, torch.zeros_like(self.window))
            return (self.sizes * own).flatten(1).sum(dim=1)
        units = self.row.numel()
        return self.sizes.reshape(len(self), units) @ weight.reshape(units)

    def pixels(self, weight: Tensor) -> Tensor:
        """``(waves, side, side)`` the same for each pixel of patches."""
        return (self.sizes * self._cut(weight, torch.zeros_like(self.window))).sum(dim=1)

    def core(self, offset: Tensor, side: int) -> tuple[Waves, Waves]:
        """Cut smaller patches, each at its offset, out of patches; and what is left of those."""
        if self.corner is None:
            raise AssertionError("whole rows have no corner")
        # A patch that counts for nothing may be cut anywhere, but not beyond the image.
        last = self.corner.new_tensor(self.row[1:]) - 1
        corner = torch.minimum((self.corner + offset).clamp(min=1 - side), last)
        top, left = (corner - self.corner).unbind(dim=1)
        at = torch.arange(self.side, device=top.device)
        rows, columns = (
            (at >= start[:, None]) & (at < start[:, None] + side) for start in (top, left)
        )
        inside = rows[:, None, :, None] & columns[:, None, None, :]
        patches = self.parts.unfold(2, side, 1).unfold(3, side, 1)
        count = torch.arange(len(self), device=top.device)
        core = replace(self, parts=patches[count, :, top, left], corner=corner)
        return core, replace(self, parts=self.parts.masked_fill(inside, 0.0))

    def times(self, factor: Tensor) -> Waves:
        """Multiply each unit by the factor ``(windows, *row)`` of its window."""
        whole = self.corner is None
        own = factor[self.window] if whole else self._cut(factor, self.window)
        return replace(self, parts=self.parts * own)

    def _cut(self, images: Tensor, which: Tensor) -> Tensor:
        """Cut the patches of waves out of images ``(images, *row)``; zero outside of them."""
        side = self.side
        if not len(self):
            return self.parts
        return torch.stack(self._places(F.pad(images, (side, side, side, side)), which))

    def mapped(self, function: Callable[[Tensor], Tensor], row: torch.Size) -> Waves:
        """Apply a linear function that treats the units of a pixel, or of a whole row, alike."""
        return replace(self, parts=function(self.parts).float(), row=row)

    def moved(self, by: tuple[int, int], row: torch.Size) -> Waves:
        """Put patches into an image with a frame around it."""
        if self.corner is None:
            raise AssertionError("whole rows have no corner")
        return replace(self, corner=self.corner + self.corner.new_tensor(by), row=row)

    def whole(self) -> Waves:
        """The same waves as whole rows."""
        if self.corner is None:
            return self
        full, side = self.parts.new_zeros(len(self), *self.row), self.side
        for wave, (top, left) in enumerate(self.corner.tolist()):
            bottom, right = min(top + side, self.row[1]), min(left + side, self.row[2])
            inside = self.parts[wave, :, max(0, -top) : bottom - top, max(0, -left) : right - left]
            full[wave, :, max(0, top) : bottom, max(0, left) : right] = inside
        return replace(self, parts=full, corner=None)

    def slid(
        self,
        function: Callable[[Tensor], Tensor],
        kernel: int,
        stride: int,
        padding: int,
        row: torch.Size,
    ) -> Waves:
        """Apply a window that slides over the image, ``kernel >= stride``, to patches.

        Args:
            function: The map, for images without padding.
            kernel: The side of the window.
            stride: Its step.
            padding: The frame of zeros around the image.
            row: The shape of the result.
        """
        if self.corner is None:
            raise AssertionError("whole rows have no corner")
        last = (self.corner + self.side - 1 + padding).div(stride, rounding_mode="floor")
        first = -(kernel - 1 - padding - self.corner).div(stride, rounding_mode="floor")
        side = int((last - first).amax()) + 1
        length = stride * (side - 1) + kernel
        parts = self.parts.new_zeros(len(self), self.row[0], length, length)
        self._place(parts, self.corner - (stride * first - padding))
        image = function(parts).float()
        at = torch.arange(side, device=first.device)
        inside = [
            (first[:, axis, None] + at >= 0) & (first[:, axis, None] + at < row[1 + axis])
            for axis in (0, 1)
        ]
        image *= inside[0][:, None, :, None] & inside[1][:, None, None, :]
        return Waves(self.ids, self.window, image, row, first)

    def _place(self, canvas: Tensor, offset: Tensor) -> None:
        """Write the patches into a canvas, each at its offset."""
        across = canvas.shape[-1]
        flat = offset[:, 0] * across + offset[:, 1]
        for place in torch.unique(flat).tolist():
            top, left = divmod(place, across)
            own = flat == place
            inner = canvas[:, :, top : top + self.side, left : left + self.side]
            if bool(own.all()):
                inner.copy_(self.parts)
            else:
                inner[own] = self.parts[own]

    def spread(self, ids: Tensor, corner: Tensor | None, side: int) -> Tensor:
        """The parts of waves ``ids``, zero for strangers, as patches of another side and corner."""
        where = torch.searchsorted(ids, self.ids)
        if corner is None:
            parts = self.parts.new_zeros(len(ids), *self.row)
            parts[where] = self.parts
            return parts
        if self.corner is None:
            raise AssertionError("whole rows have no corner")
        parts = self.parts.new_zeros(len(ids), self.row[0], side, side)
        own = self.parts.new_zeros(len(self), self.row[0], side, side)
        self._place(own, self.corner - corner[where])
        parts[where] = own
        return parts


def joined(first: Waves, second: Waves) -> Waves:
    """Put different waves of one layer together; patches grow to the larger side."""
    if not len(first) or not len(second):
        return second if len(second) else first
    ids = torch.cat([first.ids, second.ids])
    order = torch.argsort(ids)
    window = torch.cat([first.window, second.window])[order]
    if first.corner is None or second.corner is None:
        parts = torch.cat([first.whole().parts, second.whole().parts])
        return Waves(ids[order], window, parts[order], first.row)
    corner = torch.cat([first.corner, second.corner])[order]
    side = max(first.side, second.side)
    both = [each.spread(each.ids, each.corner, side) for each in (first, second)]
    return Waves(ids[order], window, torch.cat(both)[order], first.row, corner)


def aligned(values: Sequence[Waves]) -> tuple[list[Tensor], Waves]:
    """Bring waves on layers of one shape to the same numbers, corners and sides.

    Returns:
        The parts of each, and the first of them as waves.
    """
    first = values[0]
    if all(_alike(first, each) for each in values[1:]):
        return [each.parts for each in values], first
    ids, order = torch.unique(torch.cat([each.ids for each in values]), return_inverse=True)
    window = torch.empty_like(ids)
    window[order] = torch.cat([each.window for each in values])
    if any(each.corner is None for each in values):
        parts = [each.whole().spread(ids, None, 0) for each in values]
        return parts, Waves(ids, window, parts[0], first.row)
    low = torch.full((len(ids), 2), 1 << 40, device=ids.device)
    high = -low
    for each in values:
        where = torch.searchsorted(ids, each.ids)
        if each.corner is not None:
            low[where] = torch.minimum(low[where], each.corner)
            high[where] = torch.maximum(high[where], each.corner + each.side)
    side = int((high - low).amax()) if len(ids) else 1
    parts = [each.spread(ids, low, side) for each in values]
    return parts, Waves(ids, window, parts[0], first.row, low)


def _alike(first: Waves, second: Waves) -> bool:
    """Whether two have the same numbers, corners and sides."""
    if len(first) != len(second) or not torch.equal(first.ids, second.ids):
        return False
    if first.corner is None or second.corner is None:
        return first.corner is second.corner
    return first.side == second.side and torch.equal(first.corner, second.corner)
