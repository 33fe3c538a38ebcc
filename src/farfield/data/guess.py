"""A table for a model that is known: which columns are its inputs, and which is the label?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from farfield.data.choices import Choices
from farfield.data.columns import TableColumn
from farfield.data.fit import label_text
from farfield.data.names import names_a_label, spare
from farfield.data.scan import scan
from farfield.datasets.column import Impute, some
from farfield.datasets.stream import Stream


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


def by_names(
    stream: Stream, choices: Choices, expected: Expected
) -> tuple[Choices, tuple[str, ...]]:
    """Leave out the columns that the model does not name; one of them may be the label."""
    if expected.names is None or not stream.named or choices.like is not None:
        return choices, ()
    label = choices.label_of(stream)
    known = {label, *choices.ignore, *choices.schema.ignored()}
    rest = spare([name for name in stream.names if name not in known], expected.names)
    notes: tuple[str, ...] = ()
    if label is None and (found := _likely(stream, rest, expected)) is not None:
        choices, notes = replace(choices, label=found), (_taken(found),)
        rest.remove(found)
    if not rest:
        return choices, notes
    note = f"Columns that the model does not name were left out: {some(rest)}."
    return replace(choices, ignore=(*choices.ignore, *rest)), (*notes, note)


def by_number(
    stream: Stream, columns: Sequence[TableColumn], expected: Expected
) -> tuple[str | None, tuple[str, ...]]:
    """Return the column without which the table has as many inputs as the model, if one stands out.

    It is called what labels are called, or it is the only one that holds the model's classes.
    """
    width = sum(len(column.features) for column in columns)
    over = [c.name for c in columns if width - len(c.features) == expected.features]
    found = _likely(stream, over, expected)
    return found, () if found is None else (_taken(found),)


def _likely(stream: Stream, names: Sequence[str], expected: Expected) -> str | None:
    """The one that is called what labels are called, else the only one that holds the classes."""
    named = [name for name in names if names_a_label(name)]
    if len(named) == 1:
        return named[0]
    if expected.classes is None:
        return None
    holding = [name for name in named or names if _holds_classes(stream, name, expected)]
    return holding[0] if len(holding) == 1 else None


def _holds_classes(stream: Stream, name: str, expected: Expected) -> bool:
    words = scan(stream, [name], {name: "categorical"}, {}).words[name].counts
    if expected.labels is not None:
        return set(words) <= {label_text(label) for label in expected.labels}
    return len(words) == expected.classes


def _taken(name: str) -> str:
    return (
        f"No label was named; column {name!r} was taken for it. Name another with label (--label), "
        "or leave the column out with ignore (--ignore)."
    )
