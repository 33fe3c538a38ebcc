"""What every guarded model can say about its inputs, whatever is inside."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.data.columns import Columns, one_row
from farfield.errors import InputError
from farfield.guard.certificate import Certificate
from farfield.guard.covered import VALUES, Covered
from farfield.guard.verify import Verification, verify

Floats = NDArray[np.float64]
BATCH = 8192


@dataclass(frozen=True)
class Explanation:
    """Why a row is outside, or that it is not.

    Attributes:
        inside: Whether nothing is changed.
        distance: ``d``; at most 0 inside, 1 where the answer is as good as uniform.
        view: The view that is worst.
        column: The column that is worst in it; empty if none is, as in the view of features.
        reason: In words.
    """

    inside: bool
    distance: float
    view: str
    column: str
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Look:
    """What an envelope says beside a model's outputs, row by row.

    Attributes:
        inside: ``(rows,)`` whether nothing is changed.
        distance: ``(rows,)``.
        view: ``(rows,)`` names of the views that put rows outside most, empty inside; ``"values"``
            where a value is no number.
        column: ``(rows,)`` names of the columns that are worst in them, empty inside.
        guarded: ``(rows, classes)`` guarded probabilities.
    """

    inside: NDArray[np.bool_]
    distance: Floats
    view: NDArray[np.str_]
    column: NDArray[np.str_]
    guarded: Floats


class Guarded:
    """A model with a covered set around its data.

    Attributes:
        covered: The covered set.
        columns: What the columns are.
        certificate: The promise, and the constants that prove it.
    """

    covered: Covered
    columns: Columns
    certificate: Certificate

    def distance(self, X: Any) -> Floats:
        """``d``, ``(rows,)``: at most 0 inside, infinite for values that are no numbers."""
        return self._over(self.covered.distance, self.columns.look(X))

    def temperatures(self, X: Any) -> Floats:
        """``T``, ``(rows,)``: exactly 1 inside."""
        return self.temperatures_of(self.columns.look(X))

    def temperatures_of(self, rows: NDArray[Any]) -> Floats:
        """``T`` of rows that were read already, ``(rows,)``."""
        return self._over(self.covered, rows)

    def is_inside(self, X: Any) -> NDArray[np.bool_]:
        """Whether rows are in the covered set, where nothing is changed, ``(rows,)``."""
        inside: NDArray[np.bool_] = self.distance(X) <= 0.0
        return inside

    def explain(self, row: Any) -> Explanation:
        """Say in words which view and which column put one row outside, and by how much.

        Args:
            row: One row, with or without its batch dimension.
        """
        row = one_row(row)
        rows = torch.from_numpy(self.columns.read(row, "row"))
        if len(rows) != 1:
            raise InputError(f"explain takes one row, got {len(rows)}")
        words = [str(value) for value in row.iloc[0]] if hasattr(row, "columns") else None

        def say(place: int, value: float) -> str:
            return self.columns.say(place, value, *(words or [])[place : place + 1])

        with torch.no_grad():
            distance, view, column, reason = self.covered.explain(rows[0], say)
        inside = distance <= 0.0
        if inside:
            mostly = f", by {self.columns.name(column)}" if column >= 0 else ""
            reason = f"inside: no view puts it outside; it comes closest in {view}{mostly}"
        return Explanation(inside, distance, view, self.columns.name(column), reason)

    def verify(self) -> Verification:
        """Prove the certificate again, from the guard's own numbers."""
        return verify(self.certificate, self)

    def _over(self, function: Callable[[torch.Tensor], torch.Tensor], rows: NDArray[Any]) -> Floats:
        """Values of rows, part by part, so that memory is bounded."""
        parts = [function(part).numpy() for part in self._parts(rows)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _parts(self, rows: NDArray[Any]) -> Iterator[torch.Tensor]:
        device = self.covered.fill.device
        with torch.no_grad():
            for start in range(0, len(rows), BATCH):
                part = rows[start : start + BATCH]
                if not (part.flags.writeable and part.flags.c_contiguous):
                    part = part.copy()  # torch would warn of the one, and refuse some others
                yield torch.from_numpy(part).to(device)


class GuardedProbabilities(Guarded):
    """A classifier with a covered set around its data."""

    @abstractmethod
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Guarded probabilities, ``(rows, classes)``."""

    @abstractmethod
    def own_proba(self, X: Any) -> NDArray[Any]:
        """The model's own probabilities, ``(rows, classes)``."""

    def look(self, X: Any) -> Look:
        """Everything that an envelope says of rows."""
        names = np.array([*self.covered.names, VALUES, ""])
        columns = np.array([*(self.columns.name(place) for place in range(self.columns.width)), ""])
        found = [
            [each.numpy() for each in self.covered.worst(part)]
            for part in self._parts(self.columns.look(X))
        ]
        empty = [[np.zeros(0), np.zeros(0, int), np.zeros(0, int)]]
        distance, view, column = (
            np.concatenate(each) for each in zip(*(found or empty), strict=True)
        )
        return Look(distance <= 0.0, distance, names[view], columns[column], self.predict_proba(X))
