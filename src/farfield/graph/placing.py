"""Rules for values that are put among others: written into slices, scattered, picked, masked.

Which element goes where is constant, so that each of these is linear in all that it is given. What
is put or overwritten may be constant, too. Positions that have a row for each row are the same for
all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from farfield.graph.affine import spread_over
from farfield.graph.refusals import MOVES
from farfield.graph.rowwise import row_dimensions
from farfield.graph.rules import Affine, Domain, V, copies, rule

aten = torch.ops.aten

copies(aten.unfold.default, summary="the values, some of them several times")
copies(aten.diagonal.default, summary="some of the values, picked by constant positions")


def is_value(item: Any) -> bool:
    """Whether an argument of a rule depends on the input."""
    return not isinstance(item, (Tensor, int, float, bool))


def among(domain: Domain[V], item: Any, other: Any) -> Any:
    """A constant as a value with the rows of another one; values as they are."""
    if is_value(item):
        return item
    rows = item.expand(other.shape[0], *item.shape[1:]) if row_dimensions(other) else item
    return domain.constant(rows)


def _both(domain: Domain[V], base: Any, source: Any) -> tuple[Any, Any]:
    """What is overwritten and what is put there, one of which may be constant."""
    other = base if is_value(base) else source
    return among(domain, base, other), among(domain, source, other)


def _for_rows(positions: Tensor, rows: Tensor, lead: int) -> Tensor:
    """Positions for as many rows as there are."""
    positions = positions.to(rows.device)
    if not lead:
        return positions
    return positions[:1].expand(rows.shape[0], *positions.shape[1:])


@rule(aten.copy.default, kind="copy", data=(0, 1), together=True)
def copy(domain: Domain[V], base: Any, source: Any, *_: Any) -> Any:
    """The second value, as large as the first."""
    if is_value(source):
        return spread_over(domain, source, base)
    return domain.constant(source.expand(base.shape))


@rule(aten.slice_scatter.default, kind="copy", data=(0, 1), together=True)
def slice_scatter(domain: Domain[V], base: Any, source: Any, *where: Any, **named: Any) -> V:
    """Some of the values replaced by others."""
    return domain.affine(
        Affine(lambda old, new: aten.slice_scatter(old, new, *where, **named)),
        *_both(domain, base, source),
    )


@rule(aten.diagonal_scatter.default, kind="copy", data=(0, 1), together=True)
def diagonal_scatter(domain: Domain[V], base: Any, source: Any, *where: Any, **named: Any) -> V:
    """The diagonal replaced by other values."""
    return domain.affine(
        Affine(lambda old, new: aten.diagonal_scatter(old, new, *where, **named)),
        *_both(domain, base, source),
    )


def _rows_untouched(_: Any, positions: Sequence[Any], *__: Any) -> str | None:
    """Refuse positions among the rows; where rows are read one at a time there are none."""
    return MOVES if positions and positions[0] is not None else None


@rule(aten.index_put.default, kind="affine", data=(0, 2), together=True, refuse=_rows_untouched)
def index_put(
    domain: Domain[V],
    base: Any,
    positions: Sequence[Tensor | None],
    source: Any,
    accumulate: bool = False,
) -> V:
    """Values put at constant positions, or added to those there."""

    def put(old: Tensor, new: Tensor) -> Tensor:
        made: Tensor = aten.index_put(old, positions, new, accumulate)
        return made

    other = base if is_value(base) else source
    if not is_value(source) and source.ndim == 0:
        source = source.reshape((1,) * len(other.shape))
    terms = 1 + math.prod(source.shape[row_dimensions(other) :]) if accumulate else 0
    return domain.affine(Affine(put, terms=terms), *_both(domain, base, source))


def _scatter(domain: Domain[V], function: Callable[..., Tensor], given: Any, terms: int) -> V:
    base, dim, index, source = given
    lead = row_dimensions(base if is_value(base) else source)

    def put(old: Tensor, new: Tensor) -> Tensor:
        return function(old, dim, _for_rows(index, old, lead), new)

    return domain.affine(Affine(put, terms=terms), *_both(domain, base, source))


@rule(aten.scatter.src, kind="copy", data=(0, 3), together=True)
def scatter(domain: Domain[V], base: Any, dim: int, index: Tensor, source: Any) -> V:
    """Values put at constant positions along a dimension."""
    return _scatter(domain, torch.scatter, (base, dim, index, source), terms=0)


@rule(aten.scatter_add.default, kind="affine", data=(0, 3), together=True)
def scatter_add(domain: Domain[V], base: Any, dim: int, index: Tensor, source: Any) -> V:
    """Values added to those at constant positions along a dimension."""
    given = (base, dim, index, source)
    return _scatter(domain, torch.scatter_add, given, terms=1 + index.shape[dim])


@rule(aten.scatter.value, kind="affine")
def scatter_value(domain: Domain[V], base: Any, dim: int, index: Tensor, number: float) -> V:
    """A number put at constant positions along a dimension."""
    lead = row_dimensions(base)
    blank = base.new_zeros((1,) * lead + tuple(base.shape[lead:]))
    put = Affine(
        lambda old: old.scatter(dim, _for_rows(index, old, lead), 0.0),
        offset=blank.scatter(dim, _for_rows(index, blank, lead), number),
        terms=1,
    )
    return domain.affine(put, base)


@rule(aten.gather.default, kind="copy")
def gather(domain: Domain[V], value: Any, dim: int, index: Tensor, **_: Any) -> V:
    """Some of the values, picked by constant positions."""
    lead = row_dimensions(value)
    return domain.affine(Affine(lambda rows: rows.gather(dim, _for_rows(index, rows, lead))), value)


@rule(aten.where.self, kind="copy", data=(1, 2), together=True)
def where(domain: Domain[V], mask: Tensor, yes: Any, no: Any) -> V:
    """One value or another, by a constant mask; each may be constant."""
    value = yes if is_value(yes) else no
    lead = row_dimensions(value)
    if lead and mask.ndim == len(value.shape):
        mask = mask[:1]
    if is_value(yes) and is_value(no):
        pair = (spread_over(domain, yes, no), spread_over(domain, no, yes))
        pair = tuple(spread_over(domain, each, mask) for each in pair)
        chosen = Affine(lambda one, other: torch.where(mask.to(one.device), one, other))
        return domain.affine(chosen, *pair)
    keeps, constant = (mask, no) if value is yes else (~mask, yes)
    blank = value.new_zeros(())
    constant = torch.as_tensor(constant).to(blank)
    if lead and constant.ndim == len(value.shape):
        constant = constant[:1]
    fill = torch.where(keeps, blank, constant)
    kept = Affine(lambda rows: torch.where(keeps.to(rows.device), rows, 0.0), offset=fill, terms=1)
    return domain.affine(kept, spread_over(domain, value, fill))


@rule(aten.full_like.default, kind="copy")
def full_like(domain: Domain[V], value: Any, number: float, **_: Any) -> V:
    """A number, wherever the values are."""
    return domain.constant(value.new_zeros(tuple(value.shape)) + float(number))


@rule(aten.nan_to_num.default, kind="copy")
def nan_to_num(domain: Domain[V], value: V, *_: Any) -> V:
    """Values on a ray are numbers, and stay as they are."""
    return domain.affine(Affine(lambda rows: rows.clone()), value)


@rule(aten.cumsum.default, kind="affine")
def cumsum(domain: Domain[V], value: Any, dim: int, **_: Any) -> V:
    """Sums of all values so far."""
    return domain.affine(Affine(lambda rows: rows.cumsum(dim), terms=value.shape[dim]), value)
