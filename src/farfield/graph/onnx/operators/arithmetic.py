"""Sums, products, maxima and comparisons of two values, and matrix products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.trace import Data, Known, ProgramBuilder, Refusal, Value, known, plain

aten = torch.ops.aten
# Bounds of this size are how exporters write that there is none.
NO_BOUND = 3.4e38


def scalar(value: Value, beside: Data) -> float | None:
    """The number that a known value is, if it is one and changes no shape."""
    if isinstance(value, Data) or value.other is not None or value.tensor.numel() != 1:
        return None
    if value.tensor.ndim > beside.meta.ndim:
        return None
    number = float(value.tensor.item())
    if abs(number) == float("inf"):
        raise Refusal("computes with constants that are not finite")
    return number


def operand(value: Value) -> Value:
    """A value to compute with: whole numbers become floating-point ones beside data."""
    return as_float(value) if isinstance(value, Known) else value


def beside(value: Value, first: Value) -> Value | float:
    """What stands second in an operation: beside data one number is written as that."""
    if isinstance(first, Known):
        return value
    number = scalar(value, first)
    return operand(value) if number is None else number


def data_first(left: Value, right: Value) -> tuple[Value, Value]:
    """The values of an operation that does not mind their order."""
    return (right, left) if isinstance(left, Known) else (left, right)


def add(trace: ProgramBuilder, left: Value, right: Value) -> Value:
    """``left + right``."""
    first, second = data_first(left, right)
    return trace.apply(aten.add.Tensor, first, beside(second, first))


def multiply(trace: ProgramBuilder, left: Value, right: Value) -> Value:
    """``left * right``."""
    first, second = data_first(left, right)
    return trace.apply(aten.mul.Tensor, first, beside(second, first))


def subtract(trace: ProgramBuilder, left: Value, right: Value) -> Value:
    """``left - right``."""
    if isinstance(left, Data) or isinstance(right, Known):
        return trace.apply(aten.sub.Tensor, left, beside(right, left))
    number = scalar(left, right)
    if number is not None:
        return trace.emit(aten.rsub.Scalar, right, number)
    return trace.emit(aten.sub.Tensor, operand(left), right)


def divide(trace: ProgramBuilder, left: Value, right: Value) -> Value:
    """``left / right``; whole numbers are divided towards zero."""
    if isinstance(right, Known) and bool((right.tensor == 0).any()):
        raise Refusal("divides by zero")
    if isinstance(left, Known) and isinstance(right, Known):
        if left.tensor.is_floating_point():
            return trace.apply(aten.div.Tensor, left, right)
        return trace.apply(aten.div.Tensor_mode, left, right, rounding_mode="trunc")
    if isinstance(left, Known):
        return multiply(trace, trace.apply(aten.reciprocal.default, right), left)
    return trace.emit(aten.div.Tensor, left, beside(right, left))


BINARY: dict[str, Callable[[ProgramBuilder, Value, Value], Value]] = {
    "Add": add,
    "Sub": subtract,
    "Mul": multiply,
    "Div": divide,
}


@operator(*BINARY)
def binary(trace: ProgramBuilder, node: Node) -> Any:
    """The four operations."""
    return BINARY[node.operator](trace, node[0], node[1])


@operator("Sum", "Mean")
def total(trace: ProgramBuilder, node: Node) -> Any:
    """The sum or mean of any number of values."""
    values = node.all()
    result = functools.reduce(functools.partial(add, trace), values)
    if node.operator == "Sum":
        return result
    return multiply(trace, result, known(1.0 / len(values)))


@operator("Max", "Min")
def extreme(trace: ProgramBuilder, node: Node) -> Any:
    """The largest or smallest of any number of values, element by element."""
    largest = node.operator == "Max"

    def step(left: Value, right: Value) -> Value:
        first, second = data_first(left, right)
        other = beside(second, first)
        if isinstance(other, float):
            bounds = (other,) if largest else (None, other)
            return trace.apply(aten.clamp.default, first, *bounds)
        target = aten.maximum.default if largest else aten.minimum.default
        return trace.apply(target, first, other)

    return functools.reduce(step, node.all())


@operator("Clip")
def clip(trace: ProgramBuilder, node: Node) -> Any:
    """Cut off below and above by constant numbers."""
    low, high = _bound(node, "min", 1), _bound(node, "max", 2)
    if low is None and high is None:
        return node[0]
    return trace.apply(aten.clamp.default, node[0], low, high)


def _bound(node: Node, name: str, place: int) -> float | None:
    bound = node.optional(place)
    if bound is None:
        limit = node.attributes.get(name)
        limit = None if limit is None else node.number(name, 0.0)
    else:
        numbers = plain(bound, "bounds")
        if len(numbers) != 1:
            raise Refusal(f"its {name} is not one number")
        limit = float(numbers[0])
    return None if limit is None or abs(limit) >= NO_BOUND else limit


@operator("Pow")
def power(trace: ProgramBuilder, node: Node) -> Any:
    """Powers of constants; of data only the first."""
    base, exponent = node[0], node[1]
    if isinstance(base, Known):
        return trace.apply(aten.pow.Tensor_Tensor, as_float(base), operand(exponent))
    number = scalar(exponent, base)
    if number is None:
        return trace.emit(aten.pow.Tensor_Tensor, base, operand(exponent))
    return base if number == 1 else trace.emit(aten.pow.Tensor_Scalar, base, number)


@operator("Mod")
def modulo(trace: ProgramBuilder, node: Node) -> Any:
    """Remainders of constants, as shape chains make them."""
    if isinstance(node[1], Known) and bool((node[1].tensor == 0).any()):
        raise Refusal("divides by zero")
    target = aten.fmod.Tensor if node.whole("fmod", 0) else aten.remainder.Tensor
    return trace.apply(target, node[0], node[1])


COMPARISONS = {
    "Equal": aten.eq.Tensor,
    "Less": aten.lt.Tensor,
    "LessOrEqual": aten.le.Tensor,
    "Greater": aten.gt.Tensor,
    "GreaterOrEqual": aten.ge.Tensor,
    "And": aten.logical_and.default,
    "Or": aten.logical_or.default,
    "Xor": aten.logical_xor.default,
}


@operator(*COMPARISONS)
def compare(trace: ProgramBuilder, node: Node) -> Any:
    """Comparisons of constants, as shape chains make them, and of what depends on the input."""
    return trace.apply(COMPARISONS[node.operator], node[0], node[1])


@operator("Where")
def where(trace: ProgramBuilder, node: Node) -> Any:
    """A choice between two values, by a mask."""
    return choice(trace, node[0], node[1], node[2])


def choice(trace: ProgramBuilder, mask: Value, left: Value, right: Value) -> Any:
    """One of two values; by a constant mask it is ``m a + (1 - m) b``."""
    if isinstance(mask, Data):
        return trace.emit(aten.where.self, _condition(mask), operand(left), operand(right))
    if isinstance(left, Known) and isinstance(right, Known):
        return trace.apply(aten.where.self, mask, left, right)
    chosen = as_float(mask)
    rest = trace.apply(aten.rsub.Scalar, chosen, 1.0)
    one, other = multiply(trace, operand(left), chosen), multiply(trace, operand(right), rest)
    return add(trace, one, other)


def _condition(mask: Data) -> Data:
    """A mask as the operation wants it: all data is read as floating-point numbers."""
    return Data(mask.name, mask.meta.bool())


@operator("MatMul")
def matrix_product(trace: ProgramBuilder, node: Node) -> Any:
    """``x W`` or ``W x``."""
    left, right = node[0], node[1]
    if isinstance(left, Data) and isinstance(right, Known) and right.tensor.ndim == 2:
        weight = trace.apply(aten.t.default, operand(right))
        return trace.emit(aten.linear.default, left, weight)
    if isinstance(left, Known) and isinstance(right, Known):
        return trace.apply(aten.matmul.default, left, right)
    return trace.emit(aten.matmul.default, operand(left), operand(right))


@operator("Gemm")
def affine_map(trace: ProgramBuilder, node: Node) -> Any:
    """``alpha A' B' + beta C``."""
    left, right, bias = node[0], node[1], node.optional(2)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if left.meta.ndim != 2 if isinstance(left, Data) else left.tensor.ndim != 2:
        raise Refusal("its first input is not a matrix")
    if node.whole("transA", 0):
        left = trace.apply(aten.t.default, left)
    if not node.whole("transB", 0):
        right = trace.apply(aten.t.default, right)
    if alpha != 1:
        right = multiply(trace, right, known(alpha))
    if bias is not None and beta != 1:
        bias = multiply(trace, bias, known(beta))
    if isinstance(bias, Known) and bias.tensor.numel() == right.shape[0]:
        flat = trace.apply(aten.reshape.default, bias, [-1])
        return trace.apply(aten.linear.default, left, operand(right), operand(flat))
    product = trace.apply(aten.linear.default, left, operand(right))
    return product if bias is None else add(trace, product, bias)


@operator("Einsum")
def einsum(trace: ProgramBuilder, node: Node) -> Any:
    """A sum of products with constants."""
    values = [operand(value) for value in node.all()]
    return trace.apply(aten.einsum.default, node.text("equation", ""), values)
