"""The largest, the mean and the sum: of windows, of dimensions and of everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.operators.padding import Windows, read_windows
from farfield.graph.onnx.operators.selecting import place
from farfield.graph.onnx.trace import Known, ProgramBuilder, Refusal
from farfield.graph.padded_pooling import padded_max_pool

aten = torch.ops.aten
MAX_POOLS = (aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
MEAN_POOLS = (aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)


@operator("MaxPool")
def max_pool(trace: ProgramBuilder, node: Node) -> Any:
    """The largest in each window."""
    value = node[0]
    ceil = bool(node.whole("ceil_mode", 0))
    windows = read_windows(node, value.shape[2:])
    _check_overlap(windows, ceil)
    simple = _symmetric(windows, ceil)
    shape, dilations = (list(windows.kernel), list(windows.strides)), list(windows.dilations)
    if simple is not None:
        target = MAX_POOLS[windows.dims - 1]
        return trace.apply(target, value, *shape, simple[0], dilations, simple[1])
    still = [0] * windows.dims
    around = _filled(windows, ceil).pad_list
    return trace.apply(padded_max_pool, value, around, *shape, still, dilations, False)


@operator("AveragePool")
def mean_pool(trace: ProgramBuilder, node: Node) -> Any:
    """The mean of each window, of its own places or of those in the input."""
    value = node[0]
    ceil = bool(node.whole("ceil_mode", 0))
    inclusive = bool(node.whole("count_include_pad", 0))
    windows = read_windows(node, value.shape[2:])
    if max(windows.dilations) > 1:
        raise Refusal("averages over windows with gaps")
    _check_overlap(windows, ceil)
    simple = _symmetric(windows, ceil)
    target, shape = MEAN_POOLS[windows.dims - 1], (list(windows.kernel), list(windows.strides))
    if simple is not None and (not inclusive or simple[1] == ceil):
        return trace.apply(target, value, *shape, *simple, inclusive)
    padded = trace.apply(aten.constant_pad_nd.default, value, windows.pad_list, 0.0)
    mean = trace.apply(target, padded, *shape, [0] * windows.dims, ceil)
    if inclusive:
        return mean
    ones = torch.ones((1, 1, *windows.lengths), dtype=torch.float64)
    share = target(aten.constant_pad_nd(ones, windows.pad_list, 0.0), *shape, 0, ceil)
    return trace.apply(aten.mul.Tensor, mean, Known(1 / share))


@operator("GlobalMaxPool", "GlobalAveragePool")
def global_pool(trace: ProgramBuilder, node: Node) -> Any:
    """The largest or the mean of every channel."""
    value = node[0]
    dims = list(range(2, len(value.shape)))
    if not dims:
        raise Refusal("has no dimensions to pool over")
    largest = node.operator == "GlobalMaxPool"
    return trace.apply(aten.amax.default if largest else aten.mean.dim, value, dims, True)


def _check_overlap(windows: Windows, ceil: bool) -> None:
    """Refuse windows that lie outside the input, whose result would be infinite or undefined."""
    counts = windows.counts(ceil=ceil)
    for dim, span in enumerate(windows.spans):
        last = (counts[dim] - 1) * windows.strides[dim] - windows.begin[dim]
        if counts[dim] < 1 or windows.begin[dim] >= span or last >= windows.lengths[dim]:
            raise Refusal("has windows that lie outside its input")


def _symmetric(windows: Windows, ceil: bool) -> tuple[list[int], bool] | None:
    """Padding and rounding that give the same windows in PyTorch, if any do."""
    if any(2 * pad > size for pad, size in zip(windows.begin, windows.kernel, strict=True)):
        return None
    if windows.begin == windows.end:
        return list(windows.begin), ceil
    wanted = windows.counts(ceil=ceil)
    even = replace(windows, end=windows.begin)
    for rounding in (False, True):
        if even.counts(ceil=rounding) == wanted:
            return list(windows.begin), rounding
    return None


def _filled(windows: Windows, ceil: bool) -> Windows:
    """The same windows with as much padding after as the last of them reaches."""
    ends = []
    for dim, count in enumerate(windows.counts(ceil=ceil)):
        reach = (count - 1) * windows.strides[dim] + windows.spans[dim]
        ends.append(max(reach - windows.lengths[dim] - windows.begin[dim], 0))
    return replace(windows, end=tuple(ends))


REDUCTIONS = {
    "ReduceSum": aten.sum.dim_IntList,
    "ReduceMean": aten.mean.dim,
    "ReduceMax": aten.amax.default,
    "ReduceMin": aten.amin.default,
    "ReduceL1": aten.sum.dim_IntList,
    "ReduceL2": aten.linalg_vector_norm.default,
    "ReduceSumSquare": aten.sum.dim_IntList,
    "ReduceLogSumExp": aten.logsumexp.default,
}


@operator(*REDUCTIONS)
def reduce(trace: ProgramBuilder, node: Node) -> Any:
    """Over the named dimensions, or over all."""
    value = node[0]
    axes = node.integers("axes", 1)
    if not axes:
        if node.whole("noop_with_empty_axes", 0):
            return value
        axes = list(range(len(value.shape)))
    places = sorted({place(axis, value) for axis in axes})
    keep = bool(node.whole("keepdims", 1))
    if node.operator == "ReduceL2":
        return trace.apply(aten.linalg_vector_norm.default, value, 2, places, keep)
    if node.operator == "ReduceL1":
        value = trace.apply(aten.abs.default, value)
    if node.operator == "ReduceSumSquare":
        value = trace.apply(aten.pow.Tensor_Scalar, value, 2)
    return trace.apply(REDUCTIONS[node.operator], value, places, keep)
