"""Leading orders: ``t^m (a_0 + a_1 / t + ...)`` with ``m`` of every element's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.exact.series.value import SAFETY, Series, Terms, beside, per_ray

if TYPE_CHECKING:
    from farfield.exact.series.domain import SeriesDomain

# The order of a value that shows none.
NONE = -(10**6)


def leading_order(domain: SeriesDomain, value: Series) -> tuple[Tensor, Tensor]:
    """The order of each element's leading coefficient, and where there is none among the known.

    A coefficient that may be rounding counts as none, and its ray as doubtful.
    """
    order = torch.full(tuple(value.shape), NONE, dtype=torch.int64, device=value.device)
    for each in value.orders:
        part = value.terms[each]
        some = part.abs() > SAFETY * beside(value.noise_of(each), part)
        doubt = (part != 0) & ~some & (order == NONE)
        domain.doubtful |= per_ray(doubt).any(dim=1)
        order = torch.where((order == NONE) & some, int(each), order)
    return order, order == NONE


def shifted(value: Series, order: Tensor, count: int) -> list[Tensor]:
    """``a_0, a_1, ...`` of every element, from its own order downwards."""
    found = []
    for place in range(count):
        part = value.new_zeros(tuple(value.shape))
        for each in value.orders:
            part = torch.where(order - place == int(each), value.terms[each], part)
        found.append(part)
    return found


def placed(series: Sequence[Tensor], order: Tensor, zero: Tensor, floor: int) -> Terms:
    """Coefficients of ``t^order (a_0 + a_1 s + ...)`` by their orders, down to the floor."""
    highest = int(order.masked_fill(zero, floor).max())
    terms: Terms = {}
    for each in range(highest, floor - 1, -1):
        part = torch.zeros_like(series[0])
        for place, coefficient in enumerate(series):
            part = torch.where(order - place == each, coefficient, part)
        terms[each] = part
    return terms or {0: torch.zeros_like(series[0])}
