"""What of scikit-learn can be read: one table of classifiers, one of transformers.

A reader writes what a fitted object does with its input into a program. Everything that composes
others (pipelines, column transformers, votes, stacks, calibration) asks :func:`classify`,
:func:`probabilities` and :func:`transform` for its parts, so whatever is in the tables composes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.program import CodePlace
from farfield.graph.reading import InputColumn, Link, Value, Writer
from farfield.graph.scikit.softmax import SOFTMAX

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Table:
    """A value of a program, and what is known of its columns.

    Attributes:
        value: ``(rows, columns)``.
        columns: One for each; columns with categories hold codes.
    """

    value: Value
    columns: tuple[InputColumn, ...]

    @property
    def names(self) -> tuple[str | None, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class Scores:
    """What a classifier gives: a number per class, and what the numbers are."""

    value: Value
    link: Link


ReadClassifier = Callable[[Writer, Table, Any], Scores]
ReadTransformer = Callable[[Writer, Table, Any], Table]
CLASSIFIERS: dict[str, ReadClassifier] = {}
TRANSFORMERS: dict[str, ReadTransformer] = {}
R = TypeVar("R", bound=Callable[..., Any])


def classifier(*names: str) -> Callable[[R], R]:
    """Register the reader of classifiers by the names of their classes."""
    return _register(CLASSIFIERS, names)


def transformer(*names: str) -> Callable[[R], R]:
    """Register the reader of transformers by the names of their classes."""
    return _register(TRANSFORMERS, names)


def _register(table: dict[str, Any], names: tuple[str, ...]) -> Callable[[R], R]:
    def register(read: R) -> R:
        for name in names:
            if name in table:
                raise ValueError(f"{name} has a reader already")
            table[name] = read
        return read

    return register


def kind_of(model: Any) -> str:
    """The name of the class that a model is read as: its own, or that of a parent.

    Classes from outside of scikit-learn are read as the scikit-learn class that they derive from
    only where they override nothing; so only their own names count.
    """
    return type(model).__name__


def is_scikit(model: Any) -> bool:
    """Whether a model is one of scikit-learn's own classes."""
    return type(model).__module__.split(".")[0] == "sklearn"


def classify(writer: Writer, table: Table, model: Any) -> Scores:
    """Write what a fitted classifier does with its columns.

    Raises:
        NotFollowed: If nothing can read it.
        CaptureError: If it is not fitted, or fitted on other columns.
    """
    read = CLASSIFIERS.get(kind_of(model))
    if read is None:
        raise NotFollowed(f"{type(model).__name__} is a classifier that has no exact far field yet")
    check_fitted(model, table)
    with _at(writer, model):
        return read(writer, table, model)


def probabilities(writer: Writer, table: Table, model: Any) -> Value:
    """Write the probabilities of a fitted classifier: those of its logits if it gives these."""
    scores = classify(writer, table, model)
    if scores.link == "identity":
        return scores.value
    logits = scores.value
    if logits.width == 1:
        logits = writer.linear(logits, [[0.0], [1.0]])
    return writer.apply(logits, SOFTMAX, logits.width)


def transform(writer: Writer, table: Table, model: Any) -> Table:
    """Write what a fitted transformer does with its columns."""
    read = TRANSFORMERS.get(kind_of(model))
    if read is None:
        raise NotFollowed(f"{type(model).__name__} is a transformer that cannot be followed yet")
    check_fitted(model, table)
    with _at(writer, model):
        return read(writer, table, model)


@contextmanager
def _at(writer: Writer, model: Any) -> Iterator[None]:
    """Say in messages which part of a model a step belongs to."""
    before = writer.source
    path = f"{before.module} > " if before.module else ""
    writer.source = replace(CodePlace(), module=f"{path}{type(model).__name__}")
    try:
        yield
    finally:
        writer.source = before


def check_fitted(model: Any, table: Table) -> None:
    """See that a model was fitted, and on as many columns as it gets."""
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise CaptureError(f"{type(model).__name__} is not fitted; call fit first") from error
    wanted = getattr(model, "n_features_in_", None)
    if wanted is not None and int(wanted) != table.value.width:
        raise CaptureError(
            f"{type(model).__name__} was fitted on {wanted} columns and gets {table.value.width}"
        )
