"""Where the windows of convolutions and pools lie: strides, dilations and padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from farfield.graph.onnx.node import Node
from farfield.graph.onnx.trace import Refusal


@dataclass(frozen=True)
class Windows:
    """Windows over the last dimensions of a value.

    Attributes:
        lengths: How long those dimensions are.
        kernel: How many places a window has.
        strides: How far apart windows start.
        dilations: How far apart the places of a window are.
        begin: How much padding there is before.
        end: How much padding there is after.
    """

    lengths: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def dims(self) -> int:
        """How many dimensions the windows have."""
        return len(self.kernel)

    @property
    def spans(self) -> tuple[int, ...]:
        """How far a window reaches."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return tuple((size - 1) * step + 1 for size, step in pairs)

    @property
    def pad_list(self) -> list[int]:
        """The padding as PyTorch lists it: the last dimension first."""
        return last_first(list(zip(self.begin, self.end, strict=True)))

    def counts(self, *, ceil: bool) -> tuple[int, ...]:
        """How many windows there are; one that starts in the padding after does not count.

        >>> Windows((5,), (2,), (2,), (1,), (0,), (0,)).counts(ceil=True)
        (3,)
        """
        result = []
        for place, span in enumerate(self.spans):
            length, stride = self.lengths[place], self.strides[place]
            room = length + self.begin[place] + self.end[place] - span
            count = (-(-room // stride) if ceil else room // stride) + 1
            if ceil and (count - 1) * stride >= length + self.begin[place]:
                count -= 1
            result.append(count)
        return tuple(result)


def read_windows(
    node: Node, lengths: tuple[int, ...], kernel: tuple[int, ...] | None = None
) -> Windows:
    """Read the attributes that convolutions and pools share.

    Raises:
        Refusal: If they contradict one another or the input.
    """
    sizes = kernel or tuple(node.integers("kernel_shape") or ())
    dims = len(lengths)
    stated = node.integers("kernel_shape")
    if not 1 <= dims <= 3 or len(sizes) != dims or (stated and tuple(stated) != sizes):
        raise Refusal(f"has a window of shape {sizes} on an input with {dims} dimensions to slide")
    strides = _settings(node, "strides", dims)
    dilations = _settings(node, "dilations", dims)
    if min(*sizes, *strides, *dilations) < 1:
        raise Refusal("has a window, stride or dilation below 1")
    windows = Windows(lengths, sizes, strides, dilations, (0,) * dims, (0,) * dims)
    begin, end = _pads(node, windows)
    return replace(windows, begin=begin, end=end)


def last_first(sides: list[tuple[int, int]]) -> list[int]:
    """Padding before and after each dimension as PyTorch lists it."""
    return [side for pair in reversed(sides) for side in pair]


def _settings(node: Node, name: str, dims: int) -> tuple[int, ...]:
    values = tuple(node.integers(name) or (1,) * dims)
    if len(values) != dims:
        raise Refusal(f"has {len(values)} {name} for {dims} dimensions")
    return values


def _pads(node: Node, windows: Windows) -> tuple[tuple[int, ...], tuple[int, ...]]:
    mode = node.text("auto_pad", "NOTSET")
    dims = windows.dims
    if mode == "VALID":
        return (0,) * dims, (0,) * dims
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-length // stride) - 1) * stride + span - length, 0)
            for length, stride, span in zip(
                windows.lengths, windows.strides, windows.spans, strict=True
            )
        ]
        return share(totals, upper=mode == "SAME_UPPER")
    if mode not in ("NOTSET", ""):
        raise Refusal(f"has the unknown auto_pad {mode!r}")
    pads = node.integers("pads") or [0] * (2 * dims)
    if len(pads) != 2 * dims or min(pads) < 0:
        raise Refusal(f"has pads {pads} for {dims} dimensions")
    return tuple(pads[:dims]), tuple(pads[dims:])


def share(totals: list[int], *, upper: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Share padding between both sides; the odd one goes after if ``upper``, else before.

    >>> share([3, 2], upper=True)
    ((1, 1), (2, 1))
    """
    small = tuple(total // 2 for total in totals)
    large = tuple(total - total // 2 for total in totals)
    return (small, large) if upper else (large, small)
