"""What of scikit-learn can be read: one table of classifiers, one of transformers.

A reader writes what a fitted object does with its input into a program. Everything that composes
others (pipelines, column transformers, votes, stacks, calibration) asks :func:`classify`,
:func:`probabilities`, :func:`decide` and :func:`transform` for its parts, so whatever is in the
tables composes. Readers that compose pass tables on; readers that look at numbers take
``table.value``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.program import CodePlace
from farfield.graph.reading import InputColumn, Link, Wire, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.softmax import SOFTMAX
from farfield.graph.scikit.sources import note_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

# Packages whose classes are read by their names; a class of the same name elsewhere is another.
OWN = ("sklearn", "imblearn")
PACKAGES = (*OWN, "xgboost", "lightgbm", "catboost", "skorch", "farfield")


@dataclass(frozen=True)
class Table:
    """A value of a program, and what is known of its columns.

    Attributes:
        held: ``(rows, columns)``; columns with categories hold codes.
        columns: One for each.
        reader: The model that looks at it.
    """

    held: Wire
    columns: tuple[InputColumn, ...]
    reader: Any = None

    @property
    def value(self) -> Wire:
        """The columns as numbers; asking for them says that they are."""
        gaps = self.reader is None or takes_gaps(self.reader)
        for column in self.columns:
            note_numbers(column, kind_of(self.reader), takes_gaps=gaps)
        return self.held

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.held.width

    @property
    def names(self) -> tuple[str | None, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class ClassScores:
    """What a classifier gives: a number per class, and what the numbers are."""

    value: Wire
    link: Link


ReadClassifier = Callable[[Writer, Table, Any], ClassScores]
ReadTransformer = Callable[[Writer, Table, Any], Table]
ReadDecision = Callable[[Writer, Table, Any], Wire]
CLASSIFIERS: dict[str, ReadClassifier] = {}
TRANSFORMERS: dict[str, ReadTransformer] = {}
DECISIONS: dict[str, ReadDecision] = {}
R = TypeVar("R", bound=Callable[..., Any])


def classifier(*names: str) -> Callable[[R], R]:
    """Register the reader of classifiers by the names of their classes."""
    return _register(CLASSIFIERS, names)


def transformer(*names: str) -> Callable[[R], R]:
    """Register the reader of transformers by the names of their classes."""
    return _register(TRANSFORMERS, names)


def decision(*names: str) -> Callable[[R], R]:
    """Register the reader of ``decision_function`` by the names of the classifiers' classes."""
    return _register(DECISIONS, names)


def _register(table: dict[str, Any], names: tuple[str, ...]) -> Callable[[R], R]:
    def register(read: R) -> R:
        for name in names:
            if name in table:
                raise ValueError(f"{name} has a reader already")
            table[name] = read
        return read

    return register


def kind_of(model: Any) -> str:
    """The name of the class that a model is read as: its own, never that of a parent.

    Classes that others derive from scikit-learn's may override anything.
    """
    return type(model).__name__


def is_scikit(model: Any) -> bool:
    """Whether a model is of scikit-learn's own classes, or of imbalanced-learn's."""
    return _package(model) in OWN


def _package(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def takes_gaps(model: Any) -> bool:
    """Whether a model says that it takes missing values; if it says nothing, it may."""
    if not hasattr(model, "__sklearn_tags__"):
        return True
    from sklearn.utils import get_tags  # whoever has such a model has loaded it already

    return bool(get_tags(model).input_tags.allow_nan)


def classify(writer: Writer, table: Table, model: Any, name: str = "") -> ClassScores:
    """Write what a fitted classifier does with its columns.

    Args:
        writer: What to write into.
        table: What goes in.
        model: The fitted classifier.
        name: What a composition calls it.

    Raises:
        NotFollowed: If nothing can read it.
        CaptureError: If it is not fitted, or fitted on other columns.
    """
    from sklearn.base import is_regressor

    if is_regressor(model):
        raise CaptureError(
            f"{kind_of(model)} predicts numbers (a regressor), and gives no probabilities of "
            "classes; pass a classifier"
        )
    with _at(writer, model, name):
        try:
            read = _reader(CLASSIFIERS, model, "a classifier that has no exact far field yet")
            check_fitted(model, table)
            check_single(model)
            return read(writer, replace(table, reader=model), model)
        except NotFollowed as refusal:
            _note(writer, refusal)
            width = len(getattr(model, "classes_", (0, 1)))
            return ClassScores(_blank(writer, width), "identity")


def probabilities(writer: Writer, table: Table, model: Any, name: str = "") -> Wire:
    """Write the probabilities of a fitted classifier: those of its logits if it gives these."""
    scores = classify(writer, table, model, name)
    return as_probabilities(writer, scores)


def as_probabilities(writer: Writer, scores: ClassScores) -> Wire:
    """Write probabilities of scores."""
    if scores.link == "identity":
        return scores.value
    logits = scores.value
    if logits.width == 1:
        logits = writer.linear(logits, [[0.0], [1.0]])
    return writer.apply(logits, SOFTMAX, logits.width)


def decide(writer: Writer, table: Table, model: Any, name: str = "") -> Wire:
    """Write the ``decision_function`` of a fitted classifier: one column for two classes."""
    with _at(writer, model, name):
        try:
            words = "a classifier whose decision_function cannot be followed yet"
            read = _reader(DECISIONS, model, words)
            check_fitted(model, table)
            return read(writer, replace(table, reader=model), model)
        except NotFollowed as refusal:
            _note(writer, refusal)
            classes = len(getattr(model, "classes_", (0, 1)))
            return _blank(writer, 1 if classes == 2 else classes)


def transform(writer: Writer, table: Table, model: Any, name: str = "") -> Table:
    """Write what a fitted transformer does with its columns."""
    with _at(writer, model, name):
        try:
            read = _reader(TRANSFORMERS, model, "a transformer that cannot be followed yet")
            check_fitted(model, table)
            return read(writer, replace(table, reader=model), model)
        except NotFollowed as refusal:
            _note(writer, refusal)
            width = _outputs(model, table)
            return Table(_blank(writer, width), tuple(InputColumn() for _ in range(width)))


def _reader(table: dict[str, R], model: Any, words: str) -> R:
    if _package(model) not in PACKAGES:
        raise NotFollowed(
            f"{type(model).__module__}.{kind_of(model)} is a class of its own, which may do "
            "anything; use scikit-learn's classes."
        )
    read = table.get(kind_of(model))
    if read is None:
        raise NotFollowed(f"{kind_of(model)} is {words}.")
    return read


def _note(writer: Writer, refusal: NotFollowed) -> None:
    """Go on in order to list all refusals at once, if somebody collects them."""
    if writer.refusals is None:
        raise refusal
    reason = f"{writer.source.module}: {refusal.reason}"
    writer.refusals.append(NotFollowed(reason, refusal.advice))


def _blank(writer: Writer, width: int) -> Wire:
    """Stand in for what cannot be read, in a program that nobody will run."""
    return writer.take_steps(writer.input, Steps.of([(0, [], [0.0], 0.0)] * width))


def _outputs(model: Any, table: Table) -> int:
    """How many columns a transformer makes."""
    try:
        return len(model.get_feature_names_out())
    except Exception:
        return table.width


@contextmanager
def _at(writer: Writer, model: Any, name: str) -> Iterator[None]:
    """Say in messages which part of a model a step belongs to."""
    before = writer.source
    path = f"{before.module} > " if before.module else ""
    own = f"{name} ({kind_of(model)})" if name else kind_of(model)
    writer.source = replace(CodePlace(), module=f"{path}{own}")
    try:
        yield
    finally:
        writer.source = before


def check_fitted(model: Any, table: Table) -> None:
    """See that a model was fitted, and on as many columns as it gets."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise CaptureError(f"{kind_of(model)} is not fitted; call fit first") from error
    wanted = getattr(model, "n_features_in_", None)
    if wanted is not None and int(wanted) != table.width:
        raise CaptureError(
            f"{kind_of(model)} was fitted on {wanted} columns and gets {table.width}"
        )


def check_single(model: Any) -> None:
    """See that a classifier tells classes that exclude one another.

    Raises:
        CaptureError: For regressors, several outputs at once, several labels, a single class.
    """
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise CaptureError(
            f"{kind_of(model)} has no classes; farfield reads classifiers, pass one that was fitted"
        )
    several = isinstance(classes, list) or bool(getattr(model, "multilabel_", False))
    if several or np.asarray(classes).ndim != 1:
        raise CaptureError(
            f"{kind_of(model)} has several outputs (multi-output or multi-label); farfield reads "
            "classifiers whose classes exclude one another: capture one for each output"
        )
    if len(classes) < 2:
        only = np.asarray(classes).tolist()[0]
        raise CaptureError(
            f"{kind_of(model)} was fitted on a single class, {only!r}; it has nothing to tell"
        )
