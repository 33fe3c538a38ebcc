"""Rules for products of two values, powers, roots, exponentials and logarithms.

ATen has one operation for ``x * w`` with a weight and for ``x * y`` with two values. The second
kind is rewritten to operations of its own, so that what an operation is can be told by its name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from farfield.graph.affine import ADD
from farfield.graph.contraction import terms
from farfield.graph.growth import Exponential, Logarithm, Power, Product
from farfield.graph.program import Program, Step
from farfield.graph.rules import Affine, Domain, Pieces, V, rule

aten = torch.ops.aten
BOTH = (0, 1)
# Powers of t down to its fourth root are followed.
FINEST = 4


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """``x * y``."""
    return torch.mul(left, right)


def divide(left: Any, right: Tensor) -> Tensor:
    """``x / y``."""
    return torch.div(left, right)


def multiply_matrices(left: Tensor, right: Tensor) -> Tensor:
    """``x y``."""
    return torch.matmul(left, right)


def add_product(
    offset: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """``beta c + alpha x y``."""
    return beta * offset + alpha * torch.matmul(left, right)


def contract(equation: str, operands: Sequence[Tensor], **_: Any) -> Tensor:
    """A sum of products of several values."""
    return torch.einsum(equation, *operands)


OF_TWO_VALUES: dict[Any, Any] = {
    aten.mul.Tensor: multiply,
    aten.div.Tensor: divide,
    aten.mm.default: multiply_matrices,
    aten.bmm.default: multiply_matrices,
    aten.matmul.default: multiply_matrices,
    aten.mv.default: multiply_matrices,
    aten.addmm.default: add_product,
    aten.baddbmm.default: add_product,
    aten.einsum.default: contract,
}


def read_products(program: Program) -> Program:
    """Give products of two values a name of their own.

    Args:
        program: With its constant steps marked.
    """
    varying = {program.input} | {step.name for step in program.steps if not step.constant}
    return program.with_steps(tuple(_renamed(step, varying) for step in program.steps))


def _renamed(step: Step, varying: set[str]) -> Step:
    target = OF_TWO_VALUES.get(step.target)
    if target is None or step.constant:
        return step
    factors = step.args[-2:] if target is add_product else step.args
    count = sum(name in varying for name in _mentions(factors))
    if target is divide:
        count += any(name in varying for name in _mentions(step.args[1:2]))
    return replace(step, target=target) if count > 1 else step


def _mentions(tree: Any) -> list[str]:
    """All names in arguments, as often as they stand there."""
    if isinstance(tree, (list, tuple)):
        return [name for each in tree for name in _mentions(each)]
    return [tree.name] if hasattr(tree, "name") else []


def is_value(item: Any) -> bool:
    """Whether an argument of a rule depends on the input."""
    return not isinstance(item, (Tensor, int, float, bool, str))


@rule(multiply, kind="growth", data=BOTH, together=True)
def product(domain: Domain[V], left: V, right: V) -> V:
    """``x * y`` of two values."""
    return domain.grow(Product(torch.mul), left, right)


@rule(divide, kind="growth", data=BOTH, together=True)
def quotient(domain: Domain[V], left: Any, right: V) -> V:
    """``x / y`` of two values, or of a constant and a value."""
    inverse = domain.grow(Power(Fraction(-1)), right)
    if is_value(left):
        return domain.grow(Product(torch.mul), left, inverse)
    return scaled(domain, inverse, left)


def scaled(domain: Domain[V], value: V, factor: Tensor | float) -> V:
    """A value times a constant."""
    weight = torch.as_tensor(factor, dtype=torch.float64)
    return domain.affine(Affine(torch.mul, (weight,), terms=1), value)


@rule(multiply_matrices, kind="growth", data=BOTH, together=True)
def matrix_product(domain: Domain[V], left: Any, right: Any) -> V:
    """``x y``, matrices of two values."""
    return domain.grow(Product(torch.matmul, left.shape[-1]), left, right)


@rule(add_product, kind="growth", data=(0, 1, 2), together=True)
def sum_with_product(
    domain: Domain[V], offset: Any, left: Any, right: Any, *, beta: float = 1, alpha: float = 1
) -> V:
    """``beta c + alpha x y``, matrices of two values."""
    found = domain.grow(Product(torch.matmul, left.shape[-1]), left, right)
    found = found if alpha == 1 else scaled(domain, found, alpha)
    if beta == 0:
        return found
    if not is_value(offset):
        return domain.affine(Affine(lambda t: t, offset=beta * offset, terms=1), found)
    other = offset if beta == 1 else scaled(domain, offset, beta)
    return domain.affine(ADD, found, other)


def _needs_letters(equation: str, operands: Sequence[Any], **__: Any) -> str | None:
    if len(operands) > 2 and ("..." in equation or "->" not in equation):
        return "contracts more than two values at once; name every dimension, or take two steps"
    return None


@rule(contract, kind="growth", data=(1,), together=True, refuse=_needs_letters)
def contraction(domain: Domain[V], equation: str, operands: Sequence[Any], **_: Any) -> V:
    """A sum of products of several values, two at a time."""
    plain = equation.replace(" ", "")
    value: Any = operands[0]
    if len(operands) == 2:
        value = _contracted(domain, plain, value, operands[1])
    else:
        given, wanted = plain.split("->")
        value = _one_by_one(domain, given.split(","), wanted, operands)
    found: V = value
    return found


def _one_by_one(domain: Domain[V], names: list[str], wanted: str, operands: Sequence[Any]) -> Any:
    """Contract the first two values, what comes of it with the third, and so on."""
    value, letters = operands[0], names[0]
    for place, item in enumerate(operands[1:], start=1):
        later = {*wanted, *"".join(names[place + 1 :])}
        kept = [each for each in dict.fromkeys(letters + names[place]) if each in later]
        # Rows stand in front of what is made on the way, too.
        kept.sort(key=lambda each: each != wanted[:1])
        left = "".join(kept) if place + 1 < len(operands) else wanted
        value = _contracted(domain, f"{letters},{names[place]}->{left}", value, item)
        letters = left
    return value


def _contracted(domain: Domain[V], equation: str, left: Any, right: Any) -> Any:
    """A sum of products of two values, of a value and a constant, or of two constants."""
    added = terms(equation, [left.shape, right.shape])

    def summed(x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum(equation, x, y)

    if is_value(left) and is_value(right):
        return domain.grow(Product(summed, added), left, right)
    if is_value(left):
        return domain.affine(Affine(summed, (right,), terms=added), left)
    if is_value(right):
        return domain.affine(Affine(lambda x, y: summed(y, x), (left,), terms=added), right)
    return summed(left, right)


def _needs_simple(_: Any, exponent: Any, *__: Any) -> str | None:
    if not isinstance(exponent, (int, float)):
        return None  # a constant tensor is looked at below
    if exponent == 0 or _simple(exponent).denominator > FINEST or abs(exponent) > 16:
        return f"a power of {exponent} is no fraction with a denominator up to {FINEST}, up to 16"
    return None


def _simple(exponent: float) -> Fraction:
    """An exponent as it was meant: the float next to a third is a third.

    >>> _simple(1 / 3), _simple(-0.5), _simple(0.7).denominator > FINEST
    (Fraction(1, 3), Fraction(-1, 2), True)
    """
    third = Fraction(round(3 * exponent), 3)
    return third if float(third) == exponent else Fraction(exponent)


@rule(aten.pow.Tensor_Scalar, kind="growth", refuse=_needs_simple)
def raise_to(domain: Domain[V], value: V, exponent: float) -> V:
    """A power by a multiple of a quarter or a third."""
    return domain.grow(Power(_simple(exponent)), value)


@rule(aten.square.default, kind="growth")
def square(domain: Domain[V], value: V) -> V:
    """``x^2``."""
    return domain.grow(Power(Fraction(2)), value)


@rule(aten.sqrt.default, kind="growth")
def square_root(domain: Domain[V], value: V) -> V:
    """The square root of a value that grows with an even power, such as sums of squares."""
    return domain.grow(Power(Fraction(1, 2)), value)


@rule(aten.rsqrt.default, kind="growth")
def inverse_root(domain: Domain[V], value: V) -> V:
    """One over the square root."""
    return domain.grow(Power(Fraction(-1, 2)), value)


@rule(aten.reciprocal.default, kind="growth")
def reciprocal(domain: Domain[V], value: V) -> V:
    """One over a value that does not vanish."""
    return domain.grow(Power(Fraction(-1)), value)


@rule(aten.exp.default, kind="growth")
def exp(domain: Domain[V], value: V) -> V:
    """0 where the value falls for ever, the function itself at rest; never of what grows."""
    return domain.grow(Exponential(), value)


@rule(aten.expm1.default, kind="growth")
def expm1(domain: Domain[V], value: V) -> V:
    """``exp(x) - 1``."""
    return domain.affine(Affine(lambda t: t, offset=-1.0, terms=1), exp(domain, value))


@rule(aten.log.default, kind="growth")
def log(domain: Domain[V], value: V) -> V:
    """The logarithm of a value that is positive far out; ``log t`` where it grows."""
    return domain.grow(Logarithm(), value)


@rule(aten.log1p.default, kind="growth")
def log1p(domain: Domain[V], value: V) -> V:
    """``log(1 + x)`` of a value that is above -1 far out; ``log t`` where it grows."""
    return domain.grow(Logarithm(), domain.affine(Affine(lambda t: t, offset=1.0, terms=1), value))


def _needs_plain_norm(_: Any, order: float = 2, *__: Any, **___: Any) -> str | None:
    return None if order in (1, 2) else f"is a norm of order {order}; 1 and 2 are followed"


@rule(aten.linalg_vector_norm.default, kind="growth", refuse=_needs_plain_norm)
def vector_norm(
    domain: Domain[V],
    value: Any,
    order: float = 2,
    dims: Any = None,
    keepdim: bool = False,
    **_: Any,
) -> V:
    """The length of rows: the root of a sum of squares, or the sum of absolute values."""
    places = list(range(1, len(value.shape))) if dims is None else dims
    places = [places] if isinstance(places, int) else list(places)
    count = math.prod(value.shape[place] for place in places)
    add = Affine(lambda t: t.sum(places, keepdim), terms=count)
    if order == 1:
        return domain.affine(add, domain.piecewise(value, Pieces.hinge(-1.0)))
    total = domain.affine(add, domain.grow(Power(Fraction(2)), value))
    return domain.grow(Power(Fraction(1, 2)), total)
