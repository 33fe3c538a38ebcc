"""The smallest change of one column that changes the class, and the smallest that makes it sure.

Models of pieces and of trees are walked along every column, both ways, from every row: the first
place with another class is exact. Other models are looked at in places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.evaluate.single_changes import Ask, Asker, Entries, Flags, Floats
from farfield.exact import along
from farfield.graph.network import Network
from farfield.levels import SURE

if TYPE_CHECKING:
    from farfield.data import TableColumn


@dataclass(frozen=True, eq=False)
class SmallestFlip:
    """The smallest changes of single columns. Made by :func:`farfield.smallest_flip`.

    ``np.asarray`` of it is ``change``.

    Attributes:
        columns: Names of the columns.
        change: ``(rows, columns)`` what to add to a number so that the class changes; infinite if
            nothing does. Of a category 1 if one of its other values changes the class.
        sure: ``(rows, columns)`` what to add so that some class has ``level``; 0 if one has.
        label: ``(rows, columns)`` the class after ``change``; -1 if there is none.
        choice: ``(rows, columns)`` of a category the index of the value that changes the class, the
            surest of several; -1 for numbers, and if there is none.
        values: The values of every column; nothing for numbers.
        ways: ``(rows, columns, 2)`` how far a number has to go up, and down, for ``level``;
            infinite if that is never so. NaN for categories.
        exact: ``(rows, columns)`` whether no smaller change does it. If not, the model was only
            looked at in places: what was found does change the class, but a smaller one may too.
        level: The confidence of ``sure``.
    """

    columns: tuple[str, ...]
    change: Floats
    sure: Floats
    label: NDArray[np.int64]
    choice: NDArray[np.int64]
    values: tuple[tuple[str, ...], ...]
    ways: Floats
    exact: Flags
    level: float

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.change, dtype=dtype)

    def __getitem__(self, place: Any) -> Any:
        return self.change[place]

    def __len__(self) -> int:
        return len(self.change)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.change.shape

    def __repr__(self) -> str:
        rows, columns = self.shape
        flips = np.isfinite(self.change).mean() if self.change.size else 0.0
        return f"SmallestFlip({rows} rows, {columns} columns, {flips:.0%} of them flip)"


def smallest_changes(
    model: Any,
    ask: Ask,
    rows: Floats,
    columns: Sequence[TableColumn],
    scale: Floats,
    level: float = SURE,
) -> SmallestFlip:
    """Find the smallest changes of every column in every row.

    Args:
        model: A network that can be walked, or anything else to look at in places only.
        ask: From rows to the model's own probabilities, ``(rows, classes)``.
        rows: ``(rows, inputs)``.
        columns: To be changed, one at a time, within their bounds.
        scale: ``(inputs,)`` a standard deviation.
        level: The confidence to reach.
    """
    shape = len(rows), len(columns)
    change, sure = np.full(shape, np.inf), np.full(shape, np.inf)
    label, choice = np.full(shape, -1), np.full(shape, -1)
    exact, ways = np.ones(shape, dtype=bool), np.full((*shape, 2), np.nan)
    before = ask(rows)
    seeker = _Seeker(model, Asker(ask, rows, before, scale, level))
    numeric = [at for at, column in enumerate(columns) if not column.discrete]
    if numeric and len(rows):
        found = seeker.numbers([columns[at] for at in numeric])
        change[:, numeric], sure[:, numeric] = found.change, found.sure
        label[:, numeric], exact[:, numeric] = found.label, found.exact
        ways[:, numeric] = found.ways
    for at, column in enumerate(columns):
        if column.discrete and len(rows):
            change[:, at], sure[:, at], label[:, at], choice[:, at] = seeker.category(column)
    names = tuple(column.name for column in columns)
    values = tuple(column.options for column in columns)
    return SmallestFlip(names, change, sure, label, choice, values, ways, exact, level)


@dataclass(frozen=True, eq=False)
class _Found:
    """Changes of numbers, ``(rows, columns)`` each."""

    change: Floats
    sure: Floats
    label: NDArray[np.int64]
    ways: Floats
    exact: Flags


@dataclass(frozen=True, eq=False)
class _Seeker:
    """Looks for changes from rows of which the answers are known."""

    model: Any
    asker: Asker

    def numbers(self, columns: Sequence[TableColumn]) -> _Found:
        """Columns of numbers, the nearer way of each."""
        asker, entries = self.asker, self._entries(columns)
        walks = isinstance(self.model, Network)
        if walks:
            flips, sures = self._walked(entries)
        else:
            flips, sures = (asker.look(entries, holds) for holds in (asker.flips, asker.is_sure))
        flip, kept = asker.confirmed(entries, flips, asker.flips)
        sure, held = asker.confirmed(entries, sures, asker.is_sure)
        exact = kept & held & walks & self._agrees()[entries.row]
        return _nearer(entries, len(columns), flip, sure, asker.labels(entries, flip), exact)

    def _agrees(self) -> Flags:
        """Which rows the network that is walked puts into the same class as the model itself."""
        if not isinstance(self.model, Network):
            return np.ones(len(self.asker.rows), dtype=bool)
        walked = own_answers(self.model)(self.asker.rows).argmax(axis=1)
        return np.asarray(walked == self.asker.before.argmax(axis=1))

    def _entries(self, columns: Sequence[TableColumn]) -> Entries:
        """Every row, every column, both ways."""
        places = np.array([column.places[0] for column in columns])
        row, column, way = np.meshgrid(
            np.arange(len(self.asker.rows)),
            np.arange(len(columns)),
            np.array([0, 1]),
            indexing="ij",
        )
        row, column, way = row.ravel(), column.ravel(), way.ravel()
        value = self.asker.rows[row, places[column]]
        low = np.array([each.low for each in columns])[column]
        high = np.array([each.high for each in columns])[column]
        stop = np.where(way == 0, high - value, value - low)
        return Entries(row, places[column], 1.0 - 2.0 * way, np.maximum(stop, 0.0))

    def _walked(self, entries: Entries) -> tuple[Floats, Floats]:
        """The infimum of all distances at which the class is another, or the model sure."""
        flips, sures = np.full(len(entries), np.inf), np.full(len(entries), np.inf)
        moving = np.flatnonzero(entries.stop > 0)
        for part in self.asker.blocks(len(moving)):
            chosen = moving[part]
            some = entries[chosen]
            directions = np.zeros((len(some), self.asker.rows.shape[1]))
            directions[np.arange(len(some)), some.place] = some.sign
            lines = along(self.model, self.asker.rows[some.row], directions, stop=some.stop)
            flips[chosen] = lines.first_change().numpy()
            sures[chosen] = lines.first_reaching(self.asker.level).numpy()
        sures[self.asker.before.max(axis=1)[entries.row] >= self.asker.level] = 0.0
        return flips, sures

    def category(self, column: TableColumn) -> tuple[Floats, Floats, Any, Any]:
        """Every other value of a category: whether one flips, or makes sure, and which."""
        count = len(self.asker.rows)
        own = self.asker.before.argmax(axis=1)
        best = np.full(count, -1.0)
        label, choice = np.full(count, -1), np.full(count, -1)
        highest = self.asker.before.max(axis=1)
        change, sure = np.full(count, np.inf), np.where(highest >= self.asker.level, 0.0, np.inf)
        for index in range(len(column.options)):
            moved = column.put(self.asker.rows, index)
            p = np.concatenate([self.asker.ask(moved[part]) for part in self.asker.blocks(count)])
            here, confidence = p.argmax(axis=1), p.max(axis=1)
            better = (here != own) & (confidence > best)
            best[better], label[better], choice[better] = confidence[better], here[better], index
            change[better] = 1.0
            sure[(confidence >= self.asker.level) & (sure > 0)] = 1.0
        return change, sure, label, choice


def _nearer(
    entries: Entries,
    columns: int,
    flip: Floats,
    sure: Floats,
    label: NDArray[np.int64],
    exact: Flags,
) -> _Found:
    """The nearer way of every row and column, with its sign."""
    shape = -1, columns, 2

    def chosen(t: Floats) -> tuple[Floats, NDArray[np.int64]]:
        pair = t.reshape(shape)
        way = pair.argmin(axis=2)[..., None]
        least = np.take_along_axis(pair, way, axis=2)[..., 0]
        sign = np.take_along_axis(entries.sign.reshape(shape), way, axis=2)[..., 0]
        return np.where(np.isfinite(least), sign * least, np.inf), way

    change, way = chosen(flip)
    return _Found(
        change,
        chosen(sure)[0],
        np.take_along_axis(label.reshape(shape), way, axis=2)[..., 0],
        sure.reshape(shape),
        np.asarray(exact.reshape(shape).all(axis=2)),
    )


def own_answers(model: Any) -> Ask:
    """The mean probabilities of a network or a model that can be asked."""

    def ask(rows: Floats) -> Floats:
        p: torch.Tensor = model.probabilities(rows).mean(dim=0)
        found: Floats = np.nan_to_num(p.double().numpy(), nan=0.0)
        return found

    return ask
