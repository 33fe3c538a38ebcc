"""Rows of inputs, any number of them, gone through in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from farfield.data.choices import Impute, LabelKind
from farfield.data.encoding import TableColumn
from farfield.data.labels import Label
from farfield.data.scan import batch_rows
from farfield.data.summary import Summary
from farfield.errors import InputError
from farfield.exact.ray.box import Box


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows in memory.

    Attributes:
        X: Inputs, ``(rows, *shape)``.
        y: Class indices (int64), targets (float64), or None without labels.
        index: Where the rows stand in the file, from 0.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, some: NDArray[np.bool_]) -> Rows:
        return Rows(self.X[some], None if self.y is None else self.y[some], self.index[some])


@dataclass(frozen=True)
class Expected:
    """What a model says about its data.

    Attributes:
        features: How many numbers it takes per row.
        names: Of these, or None.
        classes: How many classes it has; None for a regressor.
        labels: Of its classes, or None.
        impute: How missing values are to be filled for a model that takes them; None for one that
            does not.
    """

    features: int
    names: tuple[str, ...] | None = None
    classes: int | None = None
    labels: tuple[Any, ...] | None = None
    impute: Impute | None = None


class Source(ABC):
    """Rows of inputs with what is known about them; tables and images alike.

    Attributes:
        where: Name of the file, for messages and reports.
        shape: Of one input: ``(features,)``, or ``(channels, height, width)``.
        columns: Of a table; empty for images.
        summary: Exact statistics of every input.
        notes: Sentences about what was done to the data.
        random_state: Seed of samples.
    """

    where: str
    shape: tuple[int, ...]
    columns: tuple[TableColumn, ...]
    summary: Summary
    notes: tuple[str, ...]
    random_state: int
    _label: Label | None

    @abstractmethod
    def chunks(
        self, size: int | None = None, dtype: DTypeLike = np.float32
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Yield inputs ``(rows, *shape)`` and labels ``(rows,)`` or None, in the order of the file.

        Args:
            size: At most so many rows at a time; default: about 32 MB, at most 65,536.
            dtype: Of the inputs, float32 or float64.
        """

    @abstractmethod
    def take(self, index: NDArray[np.int64]) -> Rows:
        """Return the rows at these places, which are in increasing order."""

    @abstractmethod
    def box(self) -> Box | None:
        """Return the bounds and categories as a domain, or None if there are none."""

    @abstractmethod
    def fitted(self, expected: Expected) -> Self:
        """Return the data as a model expects it; see `fit_to`."""

    def fit_to(
        self,
        n_features: int,
        *,
        n_classes: int | None = None,
        feature_names: Sequence[str] | None = None,
        class_labels: Sequence[Any] | None = None,
    ) -> Self:
        """Return the data as a model expects it, or say what does not fit.

        Args:
            n_features: Numbers that the model takes per row.
            n_classes: Its outputs. Without ``class_labels``, whole-number labels below it are
                indices; other labels are taken in their order, and must be as many.
            feature_names: Of its inputs, ``column``, ``column=value`` or ``column_value``. The same
                names in another order are put in order, with a note.
            class_labels: Its labels in the order of its outputs.

        Raises:
            InputError: Missing or further columns, by name; labels that the model does not know,
                with their counts.
        """
        names = None if feature_names is None else tuple(feature_names)
        labels = None if class_labels is None else tuple(class_labels)
        return self.fitted(Expected(n_features, names, n_classes, labels))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.summary.count

    @property
    def is_image(self) -> bool:
        """Whether inputs are images."""
        return len(self.shape) == 3

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the inputs: one per entry of a flattened row."""
        if not self.columns:
            return tuple(
                f"pixel {','.join(str(int(i)) for i in place)}" for place in np.ndindex(self.shape)
            )
        names = [""] * self.shape[0]
        for column in self.columns:
            for place, name in zip(column.places, column.feature_names, strict=True):
                names[place] = name
        return tuple(names)

    @property
    def label(self) -> str | None:
        """Name of the column of labels."""
        return None if self._label is None else self._label.name

    @property
    def label_kind(self) -> LabelKind | None:
        """Whether labels are classes or numbers; None without labels."""
        return None if self._label is None else self._label.kind

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes, in the order of their indices."""
        classes = self._label is not None and self._label.kind == "class"
        return self._label.class_names if classes and self._label else None

    @property
    def class_counts(self) -> tuple[int, ...] | None:
        """Rows of every class."""
        classes = self._label is not None and self._label.kind == "class"
        return self._label.counts if classes and self._label else None

    @property
    def missing(self) -> dict[str, int]:
        """Columns with missing values, and how many."""
        return {column.name: column.missing for column in self.columns if column.missing}

    @property
    def fills(self) -> dict[str, float | str]:
        """What these missing values became."""
        return {c.name: c.fill for c in self.columns if c.missing and c.fill is not None}

    @property
    def constant(self) -> tuple[str, ...]:
        """Columns that hold one value only."""
        low, high = self.summary.low, self.summary.high
        return tuple(
            column.name
            for column in self.columns
            if all(low[place] == high[place] for place in column.places)
        )

    def read(self, dtype: DTypeLike = np.float64) -> Rows:
        """Return all rows, in memory."""
        chunks = list(self.chunks(None, dtype))
        labels = [y for _, y in chunks if y is not None]
        inputs = np.concatenate([X for X, _ in chunks])
        return Rows(inputs, np.concatenate(labels) if labels else None, np.arange(len(inputs)))

    def sample(self, k: int, random_state: int | None = None) -> Rows:
        """Draw ``k`` rows uniformly without replacement, in the order of the file.

        The result depends on the seed and the rows only; all rows if there are no more than ``k``.
        """
        return self.take(self._drawn(k, random_state))

    def sample_both(
        self, k: int, others: int, random_state: int | None = None
    ) -> tuple[Rows, Rows]:
        """Draw ``k`` rows as :meth:`sample` does, and other rows, or as many as there are.

        The file is gone through once.
        """
        first = self._drawn(k, random_state)
        generator = np.random.default_rng([self._seed(random_state), len(first)])
        drawn = generator.choice(self.n_rows, min(self.n_rows, others + len(first)), replace=False)
        more = drawn[~np.isin(drawn, first)][:others]
        every = self.take(np.union1d(first, more))
        own = np.isin(every.index, first)
        return every[own], every[~own]

    def _drawn(self, k: int, random_state: int | None) -> NDArray[np.int64]:
        if k < 1:
            raise InputError(f"a sample needs at least one row, got k={k}.")
        if k >= self.n_rows:
            return np.arange(self.n_rows)
        generator = np.random.default_rng(self._seed(random_state))
        return np.sort(generator.choice(self.n_rows, k, replace=False, shuffle=False))

    def _seed(self, random_state: int | None) -> int:
        return self.random_state if random_state is None else random_state

    def _chunk_rows(self, size: int | None) -> int:
        """Return how many rows to hold at a time."""
        if size is not None and size < 1:
            raise InputError(f"a chunk needs at least one row, got size={size}.")
        return size or batch_rows(int(np.prod(self.shape)))


def as_type(inputs: NDArray[Any], dtype: DTypeLike, where: str) -> NDArray[Any]:
    """Convert inputs; refuse numbers that leave the range of float32."""
    wanted = np.dtype(dtype)
    if wanted not in (np.float32, np.float64):
        raise InputError(f"inputs are float32 or float64, got dtype {wanted}.")
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(inputs, dtype=wanted)
    if wanted == np.float32 and not np.isfinite(converted).all():
        largest = float(np.abs(inputs).max())
        raise InputError(
            f"{where}: numbers up to {largest:.3g} leave the range of float32, 3.4e38. "
            "Rescale this column, or read float64."
        )
    return converted
