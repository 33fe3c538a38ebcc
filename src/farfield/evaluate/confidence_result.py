"""The numbers of a confidence table as plain data, to JSON and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from pydantic import TypeAdapter

from farfield.errors import InputError

BINS = 50
VERSION = 1


@dataclass(frozen=True)
class ConfidenceRow:
    """What one model says about one set of points.

    Attributes:
        data: Name of the set.
        points: How many.
        mmc: Mean maximal confidence.
        auroc: Chance that a point of the set is less confident than one of the data, ties counting
            half; ``None`` for the data itself.
        fpr95: Share of the set at least as confident as the data's 5th percentile.
        histogram: Points in each of ``BINS`` equal intervals of confidence from 0 to 1.
    """

    data: str
    points: int
    mmc: float
    auroc: float | None
    fpr95: float | None
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class ModelConfidence:
    """One model's error on its data and its rows, the data first."""

    model: str
    test_error: float
    rows: tuple[ConfidenceRow, ...]

    def __getitem__(self, data: str) -> ConfidenceRow:
        for row in self.rows:
            if row.data == data:
                return row
        raise InputError(f"no row {data!r}; there are {', '.join(row.data for row in self.rows)}")


@dataclass(frozen=True)
class ConfidenceTable:
    """Rows of several models on the same sets, as plain data.

    Attributes:
        in_data: Name of the data that the models should know.
        models: One entry per model.
        attacks: Name of an attacked set to the constants of its attack.
    """

    in_data: str
    models: tuple[ModelConfidence, ...]
    attacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __getitem__(self, model: str) -> ModelConfidence:
        for entry in self.models:
            if entry.model == model:
                return entry
        raise InputError(f"no model {model!r}; there are {', '.join(m.model for m in self.models)}")

    def merge(self, other: Self) -> Self:
        """Return the models of both tables; their sets must be the same.

        Raises:
            InputError: If the tables show different sets.
        """
        mine, theirs = (
            {tuple(row.data for row in m.rows) for m in t.models} for t in (self, other)
        )
        if mine != theirs or self.in_data != other.in_data:
            raise InputError(f"tables of different sets cannot be merged: {mine} and {theirs}")
        return type(self)(self.in_data, self.models + other.models, self.attacks)

    def to_json(self) -> str:
        """Write the table as JSON; ``from_json`` reads it."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote.

        Raises:
            InputError: If the text is something else.
        """
        try:
            content = json.loads(text)
            if content["version"] != VERSION:
                raise InputError(
                    f"the table has format version {content['version']!r}, this farfield reads "
                    f"{VERSION}"
                )
            del content["version"]
            return TypeAdapter(cls).validate_python(content)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this is not a confidence table: {error!r}") from error
