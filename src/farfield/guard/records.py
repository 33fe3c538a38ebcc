"""A covered set and its columns as plain data, and made of it again: what all files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from farfield.data.columns import Columns
from farfield.errors import InputError
from farfield.guard.covered import Covered
from farfield.guard.views.registry import VIEWS
from farfield.guard.views.units import Kind, Units
from farfield.guard.views.view import View

T = TypeVar("T")
# What numbers that do not belong together can make of code that counts on them.
DAMAGE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Strict(BaseModel):
    """Exactly the fields that are named, and no change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnsRecord(Strict):
    """What the columns are."""

    shape: tuple[int, ...] = Field(min_length=1, max_length=8)
    names: tuple[str, ...] | None
    blocks: tuple[tuple[int, ...], ...]
    words: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, columns: Columns) -> ColumnsRecord:
        """Write columns down."""
        words = dict(columns.words)
        return cls(shape=columns.shape, names=columns.names, blocks=columns.blocks, words=words)

    def columns(self) -> Columns:
        """The columns again."""
        return Columns(self.shape, self.names, self.blocks, self.words)


class CoveredRecord(Strict):
    """The views of a covered set, and the kinds of its units."""

    views: tuple[str, ...] = Field(min_length=1, max_length=16)
    whitened: Kind
    reduced: Kind | None
    other: tuple[int, ...]


def covered_tensors(covered: Covered) -> dict[str, Tensor]:
    """Every number of a covered set, by name."""
    return {f"covered.{name}": value for name, value in covered.state_dict().items()}


def covered_record(covered: Covered) -> CoveredRecord:
    """Which views there are, and which units."""
    return CoveredRecord(
        views=covered.names,
        whitened=covered.whitened.kind,
        reduced=None if covered.reduced is None else covered.reduced.kind,
        other=tuple(covered.other.tolist()),
    )


def restore_covered(record: CoveredRecord, tensors: dict[str, Tensor]) -> Covered:
    """Make a covered set of its numbers.

    Raises:
        InputError: If a view is unknown, or numbers are missing, superfluous or do not fit.
    """
    left = dict(tensors)

    def take(prefix: str) -> dict[str, Tensor]:
        size = len(prefix)
        names = [name for name in left if name.startswith(prefix) and "." not in name[size:]]
        return {name[size:]: left.pop(name) for name in names}

    whitened = _units(record.whitened, take("covered.whitened."))
    reduced = None if record.reduced is None else _units(record.reduced, take("covered.reduced."))
    views: list[View] = []
    for index, name in enumerate(record.views):
        if name not in VIEWS:
            raise InputError(f"the file names the view {name!r}, not known here")
        numbers = take(f"covered.views.{index}.")
        threshold, width = numbers.pop("threshold"), numbers.pop("width")
        view = VIEWS[name](**numbers)
        view.threshold.copy_(threshold)
        view.width.copy_(width)
        views.append(view)
    rest = take("covered.")
    unit = float(rest.pop("unit"))
    columns = len(rest["fill"])
    if len(set(record.other)) < len(record.other) or not all(
        0 <= place < columns for place in record.other
    ):
        raise InputError("the file's columns are not all there, or there twice")
    covered = Covered(whitened, reduced, views, record.other, **rest, unit=unit)
    if left:
        raise InputError(f"the file holds {sorted(left)[:3]}, which nothing reads")
    check_shapes(covered)
    return covered


def _units(kind: Kind, numbers: dict[str, Tensor]) -> Units:
    needed = {"full": {"matrix"}, "principal": {"matrix", "spread"}}.get(kind, set())
    if set(numbers) != {"mean", "unit"} | needed:
        raise InputError(f"{kind} units are made of other numbers than {sorted(numbers)}")
    return Units(kind, **numbers)


def check_shapes(covered: Covered) -> None:
    """See that all numbers fit together, by looking at one row."""
    columns = covered.columns
    if (
        {"balls", "ranges"}
        - set(covered.names)
        - ({"balls"} if not len(covered.numeric) else set())
    ):
        raise InputError("the file lacks the views that a promise stands on")
    for name, value in covered.named_buffers():
        if value.is_floating_point() and value.dtype != torch.float64:
            raise InputError(f"the file holds {name} as {value.dtype}; a guard is float64")
    row = torch.zeros(1, columns, dtype=torch.float64)
    if any(view.inner for view in covered.each_view[:-1]):
        raise InputError("the file's view of features is not the last")
    inner = covered.inner
    features = None if inner is None else row.new_zeros(1, inner.count)
    with torch.no_grad():
        each = covered.each(row, features)
        covered.worst(row, features)
    if each.shape != (1, len(covered.views)):
        raise InputError("the file's views do not give one distance for each row")


def failing_as_damage(where: str, make: Callable[[], T]) -> T:
    """Whatever goes wrong with the numbers of a file is damage of the file."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"{where!r} cannot be used: {error}") from error
    except DAMAGE as error:
        said = str(error).splitlines()[0] if str(error) else repr(error)
        raise InputError(f"{where!r} is damaged: {said}") from error
