"""Categories: values, and pairs of values, that no training row had.

``score = pairs + weight unknown``: how many pairs of a row's categories never occurred together,
plus a weight for each variable that holds no known value at all: the number of variables, or what
makes ``d = 1`` where that is more. Combinations of more than two are not counted: with a dozen
variables nearly every new row is a combination of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.guard.views.view import Floats, Place, Say, View

# How far a value may be off by rounding.
TOLERATED = 1e-3
# With more values than this together, pairs are not counted.
MOST_VALUES = 1024
# Values that a reason lists.
MOST_SAID = 8
# More values than this are not compared one by one.
MOST_CATEGORIES = 4096


@final
class Categories(View):
    """How many pairs of categories are new.

    Args:
        places: ``(values,)`` the column that each value is in.
        values: ``(values,)`` what the column holds for it: a code, or 1 in a one-hot block.
        variable: ``(values,)`` the variable that each value belongs to.
        unseen: ``(values, values)`` 1 where two values never occurred together.
        binary: Columns that hold 0 or 1: of one-hot blocks, and by themselves.
        weight: What an unknown value adds to the score; the number of variables if not given.
    """

    name = "categories"
    sees = "values of categories, and pairs of them, that never occurred"
    floor = 1.0
    plain = 2
    places: Tensor
    values: Tensor
    variable: Tensor
    unseen: Tensor
    binary: Tensor
    weight: Tensor
    member: Tensor

    def __init__(
        self,
        places: Tensor,
        values: Tensor,
        variable: Tensor,
        unseen: Tensor,
        binary: Tensor,
        weight: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("places", places.long())
        self.register_buffer("values", values.double())
        self.register_buffer("variable", variable.long())
        self.register_buffer("unseen", unseen.double())
        self.register_buffer("binary", binary.long())
        count = int(variable.max()) + 1
        member = torch.nn.functional.one_hot(self.variable, count).double()
        self.register_buffer("member", member, persistent=False)
        own = torch.tensor(count) if weight is None else weight
        self.register_buffer("weight", own.double())

    @classmethod
    def fit(cls, rows: Floats, blocks: Sequence[Sequence[int]]) -> Categories:
        """List values and pairs.

        Args:
            rows: ``(rows, columns)``.
            blocks: The columns of each variable: one that holds codes, or those of a one-hot block.
        """
        binary = torch.tensor([each for block in blocks if len(block) > 1 for each in block])
        return cls(*occurring(rows, blocks).tensors(), binary)

    def widened(self, parts: Iterable[Floats], blocks: Sequence[Sequence[int]]) -> Categories:
        """Take in values and pairs of further rows: whoever was inside still is.

        Args:
            parts: Rows, part by part.
            blocks: As they were fitted.
        """
        seen = Occurring(
            self.places.numpy(),
            self.values.numpy(),
            self.variable.numpy(),
            self.unseen.numpy() == 0,
        )
        for rows in parts:
            seen = seen.joined(occurring(rows, blocks))
        found = Categories(*seen.tensors(), self.binary, self.weight)
        found.set(float(self.threshold), float(self.width))
        return found

    def with_bits(self, columns: Sequence[int]) -> Categories:
        """Count columns of 0 and 1 as categories too, of which no pair is new.

        Args:
            columns: Their positions.
        """
        binary = torch.cat([self.binary, torch.tensor(columns, dtype=torch.long)])
        found = Categories(
            self.places, self.values, self.variable, self.unseen, binary, self.weight
        )
        found.set(float(self.threshold), float(self.width))
        return found

    @classmethod
    def of_bits(cls, columns: Sequence[int]) -> Categories:
        """Columns of 0 and 1, any other value of which is outside with ``d >= 1``."""
        first = torch.tensor(columns[:1])
        found = cls(
            first.repeat(2),
            torch.tensor([0.0, 1.0]),
            torch.zeros(2, dtype=torch.long),
            torch.zeros(2, 2),
            torch.tensor(columns[1:], dtype=torch.long),
        )
        # Well inside by this view: never the one that a row comes closest in.
        found.set(100.0, cls.floor)
        found.bar_new()
        return found

    @property
    def columns(self) -> Tensor:
        """The columns that it looks at."""
        found: Tensor = torch.cat([self.places, self.binary]).unique()
        return found

    @property
    def count(self) -> int:
        """Number of variables."""
        return int(self.member.shape[1])

    @property
    def new_outside(self) -> bool:
        """Whether one unknown value alone makes ``d >= 1``."""
        return float(self.weight - self.threshold) >= float(self.width)

    def bar_new(self) -> None:
        """Give unknown values a weight that does; pairs count as before."""
        enough = float(self.threshold + self.width) * (1 + 1e-9)
        self.weight.fill_(max(float(self.count), enough))

    def held(self, rows: Tensor) -> Tensor:
        """``(rows, values)``: 1 where a row holds a value."""
        near = (rows.index_select(1, self.places) - self.values).abs() <= TOLERATED
        return near.to(torch.float64)

    def score(self, place: Place) -> Tensor:
        """Count pairs that are new, and variables without a known value."""
        held = self.held(place.rows)
        pairs = ((held @ self.unseen) * held).sum(dim=1) / 2.0
        strange = self._unknown(held).sum(dim=1) + self._neither(place.rows).sum(dim=1)
        return pairs + strange * self.weight

    def blame(self, place: Place) -> Tensor:
        """The columns of what is unknown, or of new pairs."""
        held = self.held(place.rows)
        unknown = self._unknown(held) * float(len(self.places))
        each = (held @ self.unseen) * held
        each = each + unknown.index_select(1, self.variable)
        blame = place.rows.new_zeros(place.rows.shape)
        blame = blame.scatter_reduce(1, self.places.expand(each.shape[0], -1), each, reduce="amax")
        neither = self._neither(place.rows) * float(len(self.places))
        return blame.scatter_reduce(
            1, self.binary.expand(each.shape[0], -1), neither, reduce="amax"
        )

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say which value or pair is new."""
        held = self.held(place.rows)
        said = say(column, float(place.rows[0, column]))
        own = self.variable[self.places == column]
        if len(own) == 0 or bool(self._unknown(held)[0, own[0]] > 0):
            known = self.values[self.places == column].tolist() or [0.0, 1.0]
            some = ", ".join(say(column, each).rpartition(" = ")[2] for each in known[:MOST_SAID])
            more = ", ..." if len(known) > MOST_SAID else ""
            return f"{said} is a category that no training row had; they had {some}{more}"
        pairs = torch.nonzero(self.unseen * held[0][:, None] * held[0])
        first = [each for each in pairs.tolist() if int(self.places[each[0]]) == column][:1]
        if not first:
            return f"{said} is neither one category of its block nor another"
        place_of, value_of = self.places[first[0][1]], self.values[first[0][1]]
        other = say(int(place_of), float(value_of))
        return f"{said} and {other} never occurred together"

    def _unknown(self, held: Tensor) -> Tensor:
        """``(rows, variables)``: 1 where not exactly one known value is held."""
        member: Tensor = self.member
        return ((held @ member) != 1.0).to(torch.float64)

    def _neither(self, rows: Tensor) -> Tensor:
        """``(rows, binary)``: 1 where a column of 0 and 1 holds neither."""
        own = rows.index_select(1, self.binary)
        apart = torch.minimum(own.abs(), (own - 1.0).abs()) > TOLERATED
        return apart.to(torch.float64)


@dataclass(frozen=True)
class Occurring:
    """Values of categories that occurred, and pairs.

    Attributes:
        places: ``(values,)`` the column that each value is in.
        values: ``(values,)``.
        variable: ``(values,)`` the variable that each belongs to.
        together: ``(values, values)`` which occurred together; those of one variable never count.
    """

    places: NDArray[np.intp]
    values: Floats
    variable: NDArray[np.intp]
    together: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if len(self.values) > MOST_CATEGORIES:
            places, counts = np.unique(self.places, return_counts=True)
            raise InputError(
                f"columns of categories hold more than {MOST_CATEGORIES} different values, column "
                f"{places[counts.argmax()]} (counted from 0) {counts.max()} of them; leave out "
                "what names rows, group rare values, or pass the column as numbers"
            )

    def joined(self, other: Occurring) -> Occurring:
        """What occurred here or there."""
        same = (other.places[:, None] == self.places) & _near(other.values[:, None], self.values)
        known = same.any(axis=1)
        where = np.where(known, same.argmax(axis=1), len(self.values) + np.cumsum(~known) - 1)
        count = len(self.values) + int((~known).sum())
        together = np.zeros((count, count), dtype=np.bool_)
        together[: len(self.values), : len(self.values)] = self.together
        together[np.ix_(where, where)] |= other.together
        return Occurring(
            np.concatenate([self.places, other.places[~known]]),
            np.concatenate([self.values, other.values[~known]]),
            np.concatenate([self.variable, other.variable[~known]]),
            together,
        )

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Places, values, variables and unseen pairs; no pair is of very many values."""
        apart = self.variable[:, None] != self.variable
        unseen = ~self.together & apart & (len(self.values) <= MOST_VALUES)
        found = self.places, self.values, self.variable, unseen
        places, values, variable, never = (torch.from_numpy(each) for each in found)
        return places, values, variable, never


def occurring(rows: Floats, blocks: Sequence[Sequence[int]]) -> Occurring:
    """List the values and the pairs of rows; NaN is no value."""
    places: list[int] = []
    values: list[float] = []
    variable: list[int] = []
    for index, block in enumerate(blocks):
        own = rows[:, list(block)]
        if len(block) == 1:
            known = np.unique(own[~np.isnan(own)])
            used = [block[0]] * len(known)
        else:
            used = [place for place in block if _near(rows[:, place], 1.0).any()]
            known = np.ones(len(used))
        places += used
        values += known.tolist()
        variable += [index] * len(known)
    where, which = np.array(places, dtype=np.intp), np.array(values)
    together = np.zeros((len(where), len(where)), dtype=np.bool_)
    if len(where) <= MOST_VALUES:
        held = _near(rows[:, where], which).astype(np.float32)
        together = held.T @ held > 0
    return Occurring(where, which, np.array(variable, dtype=np.intp), together)


def _near(values: Any, known: Any) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(values - known) <= TOLERATED
    return near


def are_bits(values: Any) -> NDArray[np.bool_]:
    """Which values are 0 or 1."""
    found: NDArray[np.bool_] = (values == 0) | (values == 1)
    return found
