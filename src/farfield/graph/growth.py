"""Operations that change how fast values grow: products, powers, norms, softmax inside, exp, log.

Along a ray, what they make of affine functions of ``t`` is no affine function any more, but it has
an expansion in whole powers of ``t``; ``farfield.exact.series`` follows it. Each operation here
says what is to be done to values; rules make them of the operations of a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from torch import Tensor

Tensors = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Product:
    """A function of two values that is linear in each: ``x * y``, matrix products, contractions.

    Attributes:
        function: The function of two tensors.
        terms: How many products are summed into one output.
    """

    function: Tensors
    terms: int = 1


@dataclass(frozen=True, slots=True)
class Power:
    """``x ** exponent``, element by element; whole and half exponents can be followed."""

    exponent: Fraction


@dataclass(frozen=True, slots=True)
class Normalisation:
    """``x / sqrt(mean(x^2) + epsilon)`` over the last ``dims`` dimensions.

    Layer norm centres its rows before, which is affine.
    """

    dims: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class SharingOut:
    """Softmax over one dimension, counted from the end (negative)."""

    dim: int


@dataclass(frozen=True, slots=True)
class Exponential:
    """``exp(x)``, element by element."""


@dataclass(frozen=True, slots=True)
class Logarithm:
    """``log(x)``, element by element."""


@dataclass(frozen=True, slots=True)
class AtRest:
    """A smooth function, element by element, that has no limit of values that grow.

    Attributes:
        function: The function of a tensor.
        reason: Why there is none.
        lipschitz: A bound on its slope.
        curvature: A bound on its second derivative.
    """

    function: Tensors
    reason: str
    lipschitz: float = float("inf")
    curvature: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class BoxCox:
    """``(x^e - 1) / e`` of positive values, ``log x`` where ``e`` is 0: Box and Cox 1964.

    Attributes:
        exponents: ``(columns,)`` one for each of the last dimension.
    """

    exponents: Tensor


Growth = Product | Power | Normalisation | SharingOut | Exponential | Logarithm | AtRest | BoxCox


def unused(operation: Any) -> AssertionError:
    """What a walk raises that refuses growth before it begins."""
    return AssertionError(f"{type(operation).__name__} is refused before the walk")


def mapped(operation: Growth, over: Callable[[Tensors], Tensors]) -> Growth:
    """The same operation with its function changed, if it has one; ``over`` says how."""
    if isinstance(operation, Product):
        return Product(over(operation.function), operation.terms)
    return operation
