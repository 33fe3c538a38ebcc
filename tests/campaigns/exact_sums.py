"""Operations that move numbers, or add products of them up, by their definitions."""

import itertools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from campaigns.exact_numbers import Array, Numbers

# Copies: PyTorch moves the numbers of the elements, and we look the elements up.


def copied(target: Any) -> Any:
    def move(_: Numbers, values: Array, *args: Any, **kwargs: Any) -> Any:
        places = torch.arange(values.size, dtype=torch.float64).reshape(values.shape)
        moved = target(places, *args, **kwargs)
        if isinstance(moved, (list, tuple)):
            return [look_up(values, one) for one in moved]
        return look_up(values, moved)

    return move


def look_up(values: Array, places: Tensor) -> Array:
    return values.ravel()[places.long().numpy()]


def padded(numbers: Numbers, values: Array, pad: Any, fill: float = 0.0) -> Array:
    places = torch.arange(values.size, dtype=torch.float64).reshape(values.shape)
    moved = F.pad(places, pad, value=-1.0).long().numpy()
    return np.where(moved < 0, numbers.array(fill), values.ravel()[moved])


def joined(function: Any) -> Any:
    def join(numbers: Numbers, values: Any, dim: int = 0) -> Array:
        return function([numbers.array(one) for one in values], axis=dim)

    return join


# Sums of products.


def linear(numbers: Numbers, values: Array, weight: Any, bias: Any = None) -> Array:
    product = np.matmul(values, np.swapaxes(numbers.array(weight), 0, 1))
    return product if bias is None else product + numbers.array(bias)


def addmm(
    n: Numbers, bias: Any, values: Any, weight: Any, *, beta: float = 1, alpha: float = 1
) -> Array:
    product = np.matmul(n.array(values), n.array(weight))
    return product * n.read(alpha) + n.array(bias) * n.read(beta)


def matmul(numbers: Numbers, left: Any, right: Any) -> Array:
    return np.matmul(numbers.array(left), numbers.array(right))


def einsum(numbers: Numbers, equation: str, operands: Any, **_: Any) -> Array:
    return np.asarray(np.einsum(equation, *(numbers.array(one) for one in operands)), dtype=object)


def convolution(
    numbers: Numbers,
    values: Array,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    kernel = numbers.array(weight)
    dims = kernel.ndim - 2
    stride, padding, dilation, extra = (
        list(one) * (dims // len(one)) for one in (stride, padding, dilation, output_padding)
    )
    sizes = values.shape[2:]
    spans = [d * (k - 1) for d, k in zip(dilation, kernel.shape[2:], strict=True)]
    settings = list(zip(sizes, stride, padding, spans, extra, strict=True))
    if transposed:
        shape = [(n - 1) * s - 2 * p + span + e + 1 for n, s, p, span, e in settings]
        channels = kernel.shape[1] * groups
    else:
        shape = [(n + 2 * p - span - 1) // s + 1 for n, s, p, span, _ in settings]
        channels = kernel.shape[0]
    out = np.empty((values.shape[0], channels, *shape), dtype=object)
    out[:] = numbers.read(0.0)
    ins, outs = values.shape[1] // groups, channels // groups
    for tap in itertools.product(*map(range, kernel.shape[2:])):
        for place in itertools.product(*map(range, sizes if transposed else shape)):
            other = [
                i * s - p + k * d
                for i, s, p, k, d in zip(place, stride, padding, tap, dilation, strict=True)
            ]
            if any(
                not 0 <= o < n for o, n in zip(other, shape if transposed else sizes, strict=True)
            ):
                continue
            source, goal = (place, tuple(other)) if transposed else (tuple(other), place)
            for group in range(groups):
                here, there = (
                    slice(group * ins, (group + 1) * ins),
                    slice(group * outs, (group + 1) * outs),
                )
                taps = kernel[here, :, *tap] if transposed else kernel[there, :, *tap].T
                out[:, there, *goal] = out[:, there, *goal] + values[:, here, *source] @ taps
    return out if bias is None else out + numbers.array(bias).reshape(-1, *[1] * dims)


def scaled(numbers: Numbers, left: Any, right: Any) -> Array:
    return numbers.array(left) * numbers.array(right)


def divided(numbers: Numbers, values: Array, divisor: Any) -> Array:
    """By the reciprocal, rounded once: that is the network as captured."""
    return values * numbers.array(
        1.0 / (divisor.double() if isinstance(divisor, Tensor) else divisor)
    )


def added(sign: int, turned: bool = False) -> Any:
    def add(numbers: Numbers, left: Any, right: Any, alpha: float = 1) -> Array:
        left, right = (right, left) if turned else (left, right)
        return numbers.array(left) + numbers.array(right) * numbers.read(alpha) * sign

    return add
