"""Functions of one number, applied to every element; softmax, which only a head may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.operators.arithmetic import add, choice, multiply
from farfield.graph.onnx.trace import Data, Known, ProgramBuilder, Refusal, known

aten = torch.ops.aten
# Those without a rule are here for constants; on data the check of the program lists them.
UNARY: dict[str, Callable[..., Any]] = {
    "Relu": aten.relu.default,
    "Sigmoid": aten.sigmoid.default,
    "Tanh": aten.tanh.default,
    "Softsign": F.softsign,
    "Mish": aten.mish.default,
    "HardSwish": aten.hardswish.default,
    "Neg": aten.neg.default,
    "Abs": aten.abs.default,
    "Exp": aten.exp.default,
    "Log": aten.log.default,
    "Sqrt": aten.sqrt.default,
    "Erf": aten.erf.default,
    "Reciprocal": aten.reciprocal.default,
    "Floor": aten.floor.default,
    "Ceil": aten.ceil.default,
    "Not": aten.logical_not.default,
    "Sign": aten.sign.default,
}


@operator(*UNARY)
def unary(trace: ProgramBuilder, node: Node) -> Any:
    """Functions without parameters."""
    return trace.apply(UNARY[node.operator], node[0])


@operator("Softplus")
def softplus(trace: ProgramBuilder, node: Node) -> Any:
    """``log(1 + exp(x))``."""
    return trace.apply(aten.softplus.default, node[0])


@operator("LeakyRelu")
def leaky_relu(trace: ProgramBuilder, node: Node) -> Any:
    """A small slope below 0."""
    return trace.apply(aten.leaky_relu.default, node[0], node.number("alpha", 0.01))


@operator("Shrink")
def shrink(trace: ProgramBuilder, node: Node) -> Any:
    """Nothing near 0; elsewhere the value, moved towards 0."""
    value, size, bias = node[0], node.number("lambd", 0.5), node.number("bias", 0.0)
    found: Any = multiply(trace, value, known(0.0))
    for relation, sign in ((aten.lt.Tensor, -1.0), (aten.gt.Tensor, 1.0)):
        mask = trace.apply(relation, value, known(sign * size))
        moved = add(trace, value, known(-sign * bias))
        found = choice(trace, mask, moved, found)
    return found


@operator("PRelu")
def prelu(trace: ProgramBuilder, node: Node) -> Any:
    """Learnt slopes below 0, one for all or one per channel."""
    value, slope = node[0], as_float(node.known(1, "slopes"))
    rank = len(value.shape)
    if slope.tensor.ndim > rank:
        raise Refusal("its slopes have more dimensions than its input")
    if slope.tensor.numel() == 1:
        return trace.apply(aten.leaky_relu.default, value, float(slope.tensor.item()))
    lead = [1] * (rank - slope.tensor.ndim)
    weight = trace.apply(aten.reshape.default, slope, [*lead, *slope.shape])
    if weight.shape[0] != 1:
        raise Refusal("its slopes differ between rows")
    return trace.apply(aten._prelu_kernel.default, value, weight)


@operator("ThresholdedRelu")
def thresholded_relu(trace: ProgramBuilder, node: Node) -> Any:
    """``x`` above a threshold, 0 at and below it."""
    return trace.apply(aten.threshold.default, node[0], node.number("alpha", 1.0), 0.0)


@operator("Elu")
def elu(trace: ProgramBuilder, node: Node) -> Any:
    """``alpha (exp(x) - 1)`` below 0."""
    return trace.apply(aten.elu.default, node[0], node.number("alpha", 1.0))


@operator("Celu")
def celu(trace: ProgramBuilder, node: Node) -> Any:
    """``alpha (exp(x / alpha) - 1)`` below 0."""
    alpha = node.number("alpha", 1.0)
    if alpha <= 0:
        raise Refusal(f"has alpha = {alpha}, which is not positive")
    return trace.apply(aten.celu.default, node[0], alpha)


@operator("Selu")
def selu(trace: ProgramBuilder, node: Node) -> Any:
    """ELU times a scale; both are ONNX's own roundings of what they should be."""
    alpha = node.number("alpha", 1.67326319217681884765625)
    return trace.apply(
        aten.elu.default, node[0], alpha, node.number("gamma", 1.05070102214813232421875)
    )


@operator("Gelu")
def gelu(trace: ProgramBuilder, node: Node) -> Any:
    """Both forms of GELU."""
    form = node.text("approximate", "none")
    if form not in ("none", "tanh"):
        raise Refusal(f"has the unknown form {form!r}")
    return trace.apply(aten.gelu.default, node[0], approximate=form)


@operator("Swish")
def swish(trace: ProgramBuilder, node: Node) -> Any:
    """``x sigmoid(alpha x)``, which is ``silu(alpha x) / alpha``."""
    alpha = node.number("alpha", 1.0)
    if alpha == 0:
        return multiply(trace, node[0], known(0.5))
    inner = node[0] if alpha == 1 else multiply(trace, node[0], known(alpha))
    result = trace.apply(aten.silu.default, inner)
    return result if alpha == 1 else multiply(trace, result, known(1 / alpha))


@operator("HardSigmoid")
def hard_sigmoid(trace: ProgramBuilder, node: Node) -> Any:
    """``alpha x + beta``, cut off below 0 and above 1."""
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return trace.apply(aten.hardsigmoid.default, node[0])
    scaled = trace.apply(aten.mul.Tensor, node[0], alpha)
    return trace.apply(aten.clamp.default, trace.apply(aten.add.Tensor, scaled, beta), 0.0, 1.0)


@operator("Softmax", "LogSoftmax")
def softmax(trace: ProgramBuilder, node: Node) -> Any:
    """Probabilities over the classes; only as the end of a classifier."""
    value = node[0]
    log = node.operator == "LogSoftmax"
    target = aten.log_softmax.int if log else aten.softmax.int
    axis = node.whole("axis", -1 if node.version >= 13 else 1)
    if isinstance(value, Known):
        return trace.apply(target, value, axis)
    return _over_classes(trace, target, value, axis % max(1, len(value.shape)))


def _over_classes(trace: ProgramBuilder, target: Any, value: Data, axis: int) -> Any:
    shape = value.shape
    if axis == 0:
        raise Refusal("is taken over the rows of the batch")
    if len(shape) > 2 and axis == 1 and set(shape[2:]) == {1}:
        flat = trace.view(value, shape[:2])
        return trace.view(trace.emit(target, flat, 1), shape)
    return trace.emit(target, value, axis)
