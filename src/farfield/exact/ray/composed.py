"""Two convolutions with a function between them, as one map: what cancels in both is not lost.

A box that goes through ``|B|`` after ``|A|`` forgets twice which signs cancel. With slopes ``D`` of
the function between them, ``|B D A|`` forgets once: in a network with 64 channels that is a factor
of four. Its entries are formed once; a slope that changes is a product of one column and one row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.exact.ray.kinked import Kernel, plain_kernel
from farfield.graph.program import Program, Ref, Step
from farfield.graph.rules import RULES

aten = torch.ops.aten
# With fewer products in a sum than this, too little cancels.
LEAST_TERMS = 256
# How many entries a map may have.
MOST_ENTRIES = 1 << 23
# After how many additions to an entry all of them are formed anew: rounding adds up.
MOST_ADDITIONS = 1 << 14
# Slopes are taken for zero or one if they are this close.
DECIDED = 0.25
# From this share of units on, entries are changed by products of whole matrices.
MANY = 1 / 16


class Composed:
    """``B D A`` for slopes ``D`` of zero and one, in single precision.

    Args:
        first: The kernel of ``A``; square, like its stride and padding.
        second: The kernel of ``B``; likewise.
        middle: ``(channels, height, width)`` between them.
        pixels: ``(height, width)`` of the result.

    Attributes:
        weights: Those of ``A`` and of ``B``.
        slopes: ``(*middle,)`` each zero or one.
        additions: How many numbers were added up in an entry at most; zero before the first slopes.
        terms: How many entries a result has.
    """

    def __init__(
        self, first: Kernel, second: Kernel, middle: tuple[int, ...], pixels: tuple[int, ...]
    ) -> None:
        self.weights = first.weight, second.weight
        self.first, self.second = first.weight.float(), second.weight.float()
        self.stride, self.frame = second.stride[0], second.padding[0]
        self.step, self.reach = first.stride[0], first.padding[0]
        self.side = self.first.shape[-1] + self.step * (self.second.shape[-1] - 1)
        self.padding = first.padding[0] + self.step * self.frame
        self.middle, self.pixels = middle, pixels
        self.terms = self.side**2 * self.first.shape[1]
        self.additions = 0
        self.slopes = self.first.new_zeros(middle)
        self._entries = self.first.new_zeros(0)

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self.pixels[0] * self.pixels[1] * self.terms * len(self.second)

    def nearby(self, values: Tensor) -> Tensor:
        """``(windows, 1, *pixels)`` the largest of those that each pixel of ``A`` looks at."""
        most = values.amax(dim=1, keepdim=True)
        frame, side = self.reach, self.first.shape[-1]
        return F.max_pool2d(F.pad(most, (frame, frame, frame, frame)), side, self.step)

    def size(self, box: Tensor) -> Tensor:
        """Apply ``|B D A|`` to ``(windows, *row)``, but for rounding."""
        windows, inputs = len(box), self.first.shape[1]
        rows = F.unfold(box, self.side, padding=self.padding, stride=self.step * self.stride)
        rows = rows.reshape(windows, inputs, self.side**2, -1).permute(3, 0, 2, 1)
        found = rows.reshape(-1, windows, self.terms) @ self._entries.abs()
        return found.permute(1, 2, 0).reshape(windows, len(self.second), *self.pixels)

    def follow(self, slopes: Tensor) -> float:
        """Take other slopes ``(*middle,)``, rounded to zero or one; say how many products it took.

        Those about halfway between the two stay as they are.
        """
        if self.additions == 0 or self.additions > MOST_ADDITIONS:
            shape = (self.pixels[0] * self.pixels[1], self.terms, len(self.second))
            self._entries = self.first.new_zeros(shape)
            self.slopes, self.additions = torch.zeros_like(self.slopes), 0
        nearest = (slopes > 0.5).float()
        decided = ((slopes - nearest).abs() < DECIDED) | (self.additions == 0)
        target = torch.where(decided, nearest, self.slopes)
        change, self.slopes = target - self.slopes, target
        units = torch.nonzero(change.reshape(-1)).flatten()
        if not len(units):
            return 0.0
        if len(units) > MANY * change.numel():
            return self._change_all(change)
        return self._change(units, change.reshape(-1)[units])

    def _change_all(self, change: Tensor) -> float:
        """Add products of all columns and rows, each with a change ``(*middle,)``."""
        channels, side = len(self.first), self.side
        height, width = self.pixels
        blocks = self._entries.view(height, width, side, side, -1, len(self.second))
        products = 0.0
        for tap, rows, columns in self._taps():
            part = change[:, rows[1], columns[1]].permute(1, 2, 0)
            for place, offset in self._offsets(tap):
                row = self.first[:, :, place[0], place[1]]
                left = part[..., None, :] * row.T
                blocks[rows[0], columns[0], offset[0], offset[1]] += (
                    left @ self.second[:, :, tap[0], tap[1]].T
                )
                products += left.numel() * len(self.second)
        # A sum over channels for every tap, which is then added.
        self.additions += (channels + 1) * self.second.shape[-1] ** 2
        return products

    def _change(self, units: Tensor, change: Tensor) -> float:
        """Add products of some columns and rows, ``(units,)`` each with its change."""
        _, height, width = self.middle
        channel, place = units // (height * width), units % (height * width)
        at = torch.stack([place // width, place % width])
        taps, products = self.first.shape[-1], 0.0
        blocks = self._entries.view(-1, self.first.shape[1], len(self.second))
        inner = torch.cartesian_prod(*[torch.arange(taps, device=units.device)] * 2).T
        for tap in self._outer():
            to = at + self.frame - at.new_tensor(tap)[:, None]
            fits = (to >= 0) & (to % self.stride == 0)
            to = to // self.stride
            fits &= to < to.new_tensor(self.pixels)[:, None]
            own = torch.nonzero(fits.all(dim=0)).flatten()
            if not len(own):
                continue
            pixel = to[0, own] * self.pixels[1] + to[1, own]
            offset = inner + self.step * inner.new_tensor(tap)[:, None]
            block = pixel[:, None] * self.side**2 + offset[0] * self.side + offset[1]
            row = self.first[channel[own]].flatten(2).transpose(1, 2) * change[own, None, None]
            column = self.second[:, channel[own], tap[0], tap[1]].T
            both = row[..., None] * column[:, None, None, :]
            blocks.index_add_(0, block.flatten(), both.flatten(0, 1))
            products += both.numel()
        # Each is a product and a sum.
        self.additions += 2 * len(units)
        return products

    def _outer(self) -> Iterator[tuple[int, int]]:
        """The taps of the second kernel."""
        side = self.second.shape[-1]
        return ((row, column) for row in range(side) for column in range(side))

    def _offsets(self, tap: tuple[int, int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The taps of the first kernel, and where they are in the composed one."""
        for row in range(self.first.shape[-1]):
            for column in range(self.first.shape[-1]):
                offset = (self.step * tap[0] + row, self.step * tap[1] + column)
                yield (row, column), offset

    def _taps(self) -> Iterator[tuple[tuple[int, int], list[slice], list[slice]]]:
        """Taps of the second kernel: which pixels of the result have them, and on what."""
        for tap in self._outer():
            ranges = []
            for axis in (0, 1):
                shift = tap[axis] - self.frame
                first = max(0, -(shift // self.stride))
                end = (self.middle[1 + axis] - 1 - shift) // self.stride
                last = min(self.pixels[axis] - 1, end)
                begin, end = first * self.stride + shift, last * self.stride + shift + 1
                ranges.append([slice(first, last + 1), slice(begin, end, self.stride)])
            if all(pixels.stop > pixels.start for pixels, _ in ranges):
                yield tap, ranges[0], ranges[1]


def composed_pairs(program: Program, constants: Mapping[str, Tensor]) -> dict[int, Composed]:
    """Find convolutions whose results go through one function, then one other convolution only.

    Returns:
        What they are together, for the ``id`` of the weights of the first.
    """
    if program.per_row:
        return {}
    shared = Counter(id(tensor) for tensor in constants.values())
    own = {name: tensor for name, tensor in constants.items() if shared[id(tensor)] == 1}
    users: dict[str, list[Step]] = defaultdict(list)
    for step in program.steps:
        for name in step.refs():
            users[name].append(step)
    found: dict[int, Composed] = {}
    for step in program.steps:
        first = _kernel(step, own, users)
        between = None if first is None else _only(users, step, program)
        last = None if between is None else _only(users, between, program)
        if first is None or between is None or last is None or not _bends(between):
            continue
        second = _kernel(last, own, users)
        if second is None or step.shape is None or last.shape is None:
            continue
        pair = Composed(first, second, step.shape[1:], last.shape[2:])
        if pair.entries <= MOST_ENTRIES and pair.second[0].numel() >= LEAST_TERMS:
            found[id(pair.weights[0])] = pair
    return found


def _bends(step: Step) -> bool:
    """Whether a step is a function with kinks."""
    return step.target in RULES and RULES[step.target].kind == "piecewise affine"


def _only(users: Mapping[str, list[Step]], step: Step, program: Program) -> Step | None:
    """The one step that uses the result of a step."""
    some = users.get(step.name, [])
    return some[0] if len(some) == 1 and step.name != program.output else None


def _kernel(
    step: Step, constants: Mapping[str, Tensor], users: Mapping[str, list[Step]]
) -> Kernel | None:
    """The kernel of a plain square convolution whose weights nobody else uses."""
    if step.target is not aten.convolution.default or step.kwargs:
        return None
    weight = step.args[1]
    if not isinstance(weight, Ref) or weight.name not in constants or len(users[weight.name]) > 1:
        return None
    names: dict[str, Any] = {name: constants.get(name) for name in step.refs()}
    kernel = plain_kernel(step.bind(names)[0])
    if kernel is None or kernel.weight.shape[2] != kernel.weight.shape[3]:
        return None
    square = kernel.stride[0] == kernel.stride[1] and kernel.padding[0] == kernel.padding[1]
    return kernel if square else None
