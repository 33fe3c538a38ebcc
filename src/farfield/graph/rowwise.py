"""Programs that read one row at a time, walked on many rows at once.

A model may move the rows of a batch about: transpose them, fold them into another dimension and
unfold them again. Such a model is traced on a single row, where there is nothing to keep apart, and
each of its steps is mapped over the rows. To a rule a value then has the shape of its single row;
behind that stand the rows of any other walk, first as everywhere. So one wrapper around a domain
serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.graph.growth import Growth, mapped
from farfield.graph.rules import Affine, Domain, Pieces, Places, RowFunction, Smooth, Steps

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RowView(Generic[V]):
    """A value of a walk, as a rule for single rows sees it."""

    value: V

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        value: Any = self.value
        return tuple(value.shape[1:])

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        value: Any = self.value
        found: torch.device = value.device
        return found

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros to build constants from."""
        value: Any = self.value
        zeros: Tensor = value.new_zeros(shape)
        return zeros


def row_dimensions(value: Any) -> int:
    """How many dimensions of a value's shape are rows: one, or none where it shows a single row."""
    return 0 if isinstance(value, RowView) else 1


class RowwiseDomain(Generic[V]):
    """Another walk, for rules that speak of single rows.

    Args:
        inner: The walk.
        rows: How many rows its values have.
    """

    def __init__(self, inner: Domain[V], rows: int) -> None:
        self.inner = inner
        self.rows = rows

    def constant(self, tensor: Tensor) -> RowView[V]:
        """Give a constant to every row."""
        return RowView(self.inner.constant(tensor.expand(self.rows, *tensor.shape)))

    def affine(self, operation: Affine, *values: RowView[V]) -> RowView[V]:
        """Map the operation over the rows; its weights are the same for all."""
        lanes = (0,) * len(values) + (None,) * len(operation.weights)
        magnitude = operation.magnitude
        mapped = replace(
            operation,
            function=torch.vmap(operation.function, in_dims=lanes),
            magnitude=None if magnitude is None else torch.vmap(magnitude, in_dims=lanes),
        )
        return RowView(self.inner.affine(mapped, *(each.value for each in values)))

    def piecewise(self, value: RowView[V], pieces: Pieces) -> RowView[V]:
        """Elements do not care which row they are in."""
        return RowView(self.inner.piecewise(value.value, pieces))

    def largest(
        self, candidates: Sequence[RowView[V]], sign: int = 1, places: Places | None = None
    ) -> RowView[V]:
        """Elements do not care which row they are in."""
        return RowView(self.inner.largest([each.value for each in candidates], sign, places))

    def smooth(self, value: RowView[V], curve: Smooth) -> RowView[V]:
        """Elements do not care which row they are in."""
        return RowView(self.inner.smooth(value.value, curve))

    def choice(self, mask: RowView[V], yes: RowView[V], no: RowView[V]) -> RowView[V]:
        """Elements do not care which row they are in."""
        return RowView(self.inner.choice(mask.value, yes.value, no.value))

    def grow(self, operation: Growth, *values: RowView[V]) -> RowView[V]:
        """Map products over the rows; everything else counts its dimensions from the end."""
        return RowView(self.inner.grow(mapped(operation, torch.vmap), *(v.value for v in values)))

    def steps(self, value: RowView[V], steps: Steps) -> RowView[V]:
        """Only readers of tables write steps, and these keep rows first."""
        raise UnsupportedOperation("steps in a program of single rows cannot be followed")

    def row_function(self, value: RowView[V], function: RowFunction) -> RowView[V]:
        """Only readers of tables write functions of rows, and these keep rows first."""
        raise UnsupportedOperation(
            f"{type(function).__name__} in a program of single rows cannot be followed"
        )


def lower_rowwise(
    lower: Callable[..., Any], domain: Domain[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Apply a rule for single rows to the values of a walk."""
    rows = next(iter(_values((args, tuple(kwargs.values()))))).shape[0]
    wrapped = RowwiseDomain(domain, rows)
    named = {key: _change(item, _view) for key, item in kwargs.items()}
    result = lower(wrapped, *(_change(item, _view) for item in args), **named)
    return _change(result, lambda item: item.value if isinstance(item, RowView) else item)


def _is_value(item: Any) -> bool:
    """Whether something is a value of a walk: these have a shape and are no tensors."""
    return hasattr(item, "shape") and not isinstance(item, Tensor)


def _view(item: Any) -> Any:
    return RowView(item) if _is_value(item) else item


def _values(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple)):
        return [value for item in tree for value in _values(item)]
    return [tree] if _is_value(tree) else []


def _change(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)(_change(item, change) for item in tree)
    return change(tree)
