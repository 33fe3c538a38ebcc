"""Arithmetic of power series ``a_0 + a_1 s + a_2 s^2 + ...``, as lists of coefficients.

Every function takes lists of equally shaped tensors and returns as many coefficients as it is
given. Powers, exponentials and logarithms follow from the differential equation that each solves
(Knuth, The Art of Computer Programming, volume 2, section 4.7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Coefficients = list[Tensor]


def times(a: Sequence[Tensor], b: Sequence[Tensor]) -> Coefficients:
    """The product of two series."""
    return [_sum(a[i] * b[k - i] for i in range(k + 1)) for k in range(len(a))]


def power(a: Sequence[Tensor], exponent: float) -> Coefficients:
    """A power of a series whose first coefficient is not zero.

    >>> root = power([torch.tensor(4.0), torch.tensor(4.0)], 0.5)  # (4 + 4 s)^(1/2)
    >>> [float(each) for each in root]
    [2.0, 1.0]
    """
    found = [a[0] ** exponent]
    for k in range(1, len(a)):
        parts = ((exponent * i - (k - i)) * a[i] * found[k - i] for i in range(1, k + 1))
        found.append(_sum(parts) / (k * a[0]))
    return found


def exponential(a: Sequence[Tensor]) -> Coefficients:
    """``exp`` of a series."""
    found = [torch.exp(a[0])]
    for k in range(1, len(a)):
        found.append(_sum(i * a[i] * found[k - i] for i in range(1, k + 1)) / k)
    return found


def logarithm(a: Sequence[Tensor]) -> Coefficients:
    """``log`` of a series whose first coefficient is positive."""
    found = [torch.log(a[0])]
    for k in range(1, len(a)):
        rest = (i * found[i] * a[k - i] for i in range(1, k))
        found.append((a[k] - _sum(rest, a[0]) / k) / a[0])
    return found


def composed(function: Callable[[Tensor], Tensor], a: Sequence[Tensor]) -> Coefficients:
    """A smooth function of a series, by its derivatives at the first coefficient.

    >>> series = composed(torch.sigmoid, [torch.tensor(0.0), torch.tensor(4.0)])
    >>> [float(each) for each in series]
    [0.5, 1.0]
    """
    found = [function(a[0])] + [torch.zeros_like(a[0]) for _ in a[1:]]
    if len(a) == 1:
        return found
    step = [torch.zeros_like(a[0]), *a[1:]]
    raised, factorial = [torch.ones_like(a[0]), *(torch.zeros_like(a[0]) for _ in a[1:])], 1.0
    for order in range(1, len(a)):
        function = derivative(function)
        slope = function(a[0]).detach()
        raised, factorial = times(raised, step), factorial * order
        for k in range(order, len(a)):
            found[k] = found[k] + slope * raised[k] / factorial
    return found


def derivative(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The derivative of a function of each element, which has one again."""

    def derived(at: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = at if at.requires_grad else at.detach().clone().requires_grad_()
            value = function(leaf)
            if not value.requires_grad:
                return torch.zeros_like(at)
            (slope,) = torch.autograd.grad(
                value.sum(), leaf, create_graph=True, materialize_grads=True
            )
        return slope

    return derived


def _sum(parts: object, zero: Tensor | None = None) -> Tensor:
    """Add tensors; none are zero."""
    total: Tensor | None = None
    for each in parts:  # type: ignore[attr-defined]  # a generator
        total = each if total is None else total + each
    if total is None:
        assert zero is not None
        return torch.zeros_like(zero)
    return total
