"""Convolutions, transposed convolutions and batch norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.operators.arithmetic import operand
from farfield.graph.onnx.operators.padding import Windows, last_first, read_windows, share
from farfield.graph.onnx.trace import ProgramBuilder, Refusal

aten = torch.ops.aten


@operator("Conv")
def convolution(trace: ProgramBuilder, node: Node) -> Any:
    """Convolution in 1, 2 or 3 dimensions."""
    value, weight, bias = node[0], operand(node[1]), node.optional(2)
    windows = read_windows(node, value.shape[2:], weight.shape[2:])
    padding = list(windows.begin)
    if windows.begin != windows.end:
        value = trace.apply(aten.constant_pad_nd.default, value, windows.pad_list, 0.0)
        padding = [0] * windows.dims
    return trace.apply(
        aten.convolution.default,
        value,
        weight,
        None if bias is None else operand(bias),
        list(windows.strides),
        padding,
        list(windows.dilations),
        False,
        [0] * windows.dims,
        node.whole("group", 1),
    )


@operator("ConvTranspose")
def transposed_convolution(trace: ProgramBuilder, node: Node) -> Any:
    """Transposed convolution; padding crops the result."""
    value, weight, bias = node[0], operand(node[1]), node.optional(2)
    plain = {key: item for key, item in node.attributes.items() if key != "auto_pad"}
    windows = read_windows(replace(node, attributes=plain), value.shape[2:], weight.shape[2:])
    extra = node.integers("output_padding") or [0] * windows.dims
    if len(extra) != windows.dims or min(extra) < 0:
        raise Refusal(f"has output_padding {extra}")
    begin, end = _crops(node, windows, extra)
    symmetric = begin == end
    result = trace.apply(
        aten.convolution.default,
        value,
        weight,
        None if bias is None else operand(bias),
        list(windows.strides),
        list(begin) if symmetric else [0] * windows.dims,
        list(windows.dilations),
        True,
        extra,
        node.whole("group", 1),
    )
    if symmetric:
        return result
    crop = last_first([(-before, -after) for before, after in zip(begin, end, strict=True)])
    return trace.apply(aten.constant_pad_nd.default, result, crop, 0.0)


def _crops(
    node: Node, windows: Windows, extra: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much of the full result is cut off before and after."""
    mode = node.text("auto_pad", "NOTSET")
    full = [
        (length - 1) * stride + span + more
        for length, stride, span, more in zip(
            windows.lengths, windows.strides, windows.spans, extra, strict=True
        )
    ]
    wanted = node.integers("output_shape")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        pairs = zip(windows.lengths, windows.strides, strict=True)
        wanted = [length * stride for length, stride in pairs]
    if wanted is None:
        return windows.begin, windows.end
    wanted = wanted[-windows.dims :]
    if len(wanted) != windows.dims or any(w > f for w, f in zip(wanted, full, strict=True)):
        raise Refusal(f"asks for the output shape {wanted}, more than the {full} it makes")
    totals = [have - want for have, want in zip(full, wanted, strict=True)]
    return share(totals, upper=mode == "SAME_UPPER")


@operator("BatchNormalization")
def batch_norm(trace: ProgramBuilder, node: Node) -> Any:
    """A scale and a shift per channel, from the statistics of training."""
    if node.whole("training_mode", 0) or not node.whole("spatial", 1):
        raise Refusal("normalises by the batch; export the model in evaluation mode")
    epsilon = node.number("epsilon", 1e-5)
    scale, shift, mean, variance = (
        as_float(node.known(place, "statistics")) for place in (1, 2, 3, 4)
    )
    if bool((variance.tensor + epsilon <= 0).any()):
        raise Refusal("has a variance that is not positive")
    statistics = (scale, shift, mean, variance, False, 0.0, epsilon, False)
    return trace.apply(aten.batch_norm.default, node[0], *statistics)
