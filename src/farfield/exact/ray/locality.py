"""Which operations act on patches of an image as they act on the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.exact.ray.kinked import plain_kernel
from farfield.exact.ray.waves import Waves
from farfield.graph.program import Step

aten = torch.ops.aten
POINTWISE = frozenset(
    {
        aten.add.Tensor,
        aten.sub.Tensor,
        aten.mul.Tensor,
        aten.div.Tensor,
        aten.neg.default,
        aten.alias.default,
        aten.clone.default,
        aten.detach.default,
    }
)
SCALES = frozenset({aten.mul.Tensor, aten.div.Tensor})


@dataclass(frozen=True)
class Pointwise:
    """Every pixel alike, and no other pixel."""


@dataclass(frozen=True)
class Sliding:
    """A square window that slides over the image; ``kernel >= stride``."""

    function: Callable[..., Tensor]
    kernel: int
    stride: int
    padding: int

    def apply(self, waves: Waves, weights: tuple[Tensor, ...], row: torch.Size) -> Waves:
        """Slide over patches."""
        return waves.slid(
            lambda parts: self.function(parts, *weights),
            self.kernel,
            self.stride,
            self.padding,
            row,
        )


@dataclass(frozen=True)
class Framed:
    """A frame of zeros around the image, and channels of zeros before and after."""

    by: tuple[int, int]
    channels: tuple[int, int]

    def apply(self, waves: Waves, row: torch.Size) -> Waves:
        """Move patches, and give them the new channels."""
        if any(self.channels):
            waves = waves.mapped(lambda parts: F.pad(parts, (0, 0, 0, 0, *self.channels)), row)
        return waves.moved(self.by, row)


Locality = Pointwise | Sliding | Framed


def locality(step: Step, args: tuple[Any, ...]) -> Locality | None:
    """How a step acts on patches; ``None`` if it needs whole images."""
    data = args[0]
    if len(getattr(data, "shape", ())) != 4 or isinstance(data, Tensor):
        return None
    if step.target in POINTWISE:
        return Pointwise() if _same_pixels(step, args) else None
    if step.target is aten.convolution.default:
        kernel = plain_kernel(args)
        if kernel is None:
            return None
        height, width = kernel.weight.shape[2:]
        step_, frame = kernel.stride, kernel.padding
        if height != width or step_[0] != step_[1] or frame[0] != frame[1] or height < step_[0]:
            return None

        def convolve(parts: Tensor, weight: Tensor) -> Tensor:
            return torch.conv2d(parts, weight, stride=step_)

        return Sliding(convolve, height, step_[0], frame[0])
    if step.target is aten.avg_pool2d.default:
        return _average(args)
    if step.target is aten.constant_pad_nd.default:
        return _frame(args)
    return None


def _same_pixels(step: Step, args: tuple[Any, ...]) -> bool:
    for item in args:
        if isinstance(item, Tensor):
            spread = item.ndim > 0 and (item.ndim < 2 or item.shape[-2:] != (1, 1))
            if step.target in SCALES and spread and item.numel() > 1:
                return False
        elif hasattr(item, "shape") and item.shape[1:] != args[0].shape[1:]:
            return False
    return True


def _average(args: tuple[Any, ...]) -> Sliding | None:
    kernel = list(args[1])
    stride = list(args[2]) if len(args) > 2 and args[2] else kernel
    if len(args) > 3 or len({*kernel}) != 1 or len({*stride}) != 1 or kernel[0] < stride[0]:
        return None

    def average(parts: Tensor) -> Tensor:
        return F.avg_pool2d(parts, kernel[0], stride[0])

    return Sliding(average, kernel[0], stride[0], 0)


def _frame(args: tuple[Any, ...]) -> Framed | None:
    pad = [*args[1], 0, 0, 0, 0, 0, 0][:6]
    if len(args[1]) > 6 or min(pad) < 0 or (len(args) > 2 and args[2] != 0):
        return None
    return Framed((pad[2], pad[0]), (pad[4], pad[5]))
