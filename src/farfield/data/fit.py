"""Does a table fit a model? Columns and classes compared, everything that differs named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.data.columns import Label, TableColumn
from farfield.data.labels import counted
from farfield.data.names import find, names_a_label
from farfield.datasets.column import number_text, some
from farfield.errors import InputError

if TYPE_CHECKING:
    from farfield.data.source import Source


def fitted_columns(
    source: Source, n_features: int, names: Sequence[str] | None
) -> tuple[tuple[TableColumn, ...], list[int], tuple[str, ...]]:
    """Return columns with their places in the model's inputs, the order of inputs, and notes."""
    _check_range(source)
    given = source.feature_names
    if names is None:
        if len(given) != n_features:
            raise InputError(_wrong_number(source, n_features))
        return source.columns, list(range(n_features)), ()
    wanted = [str(name) for name in names]
    if len(wanted) != n_features:
        raise InputError(f"{len(wanted)} feature names for a model that takes {n_features}.")
    found = find(wanted, _places(source.columns), source.where)
    missing = [name for name, place in zip(wanted, found, strict=True) if place is None]
    order = [place for place in found if place is not None]
    kept = [column for column in source.columns if set(column.features) & set(order)]
    needed = {place for column in kept for place in column.features}
    extra = [name for place, name in enumerate(given) if place not in order]
    if missing or needed != set(order):
        raise InputError(_differences(source, missing, extra))
    notes = []
    if extra:
        notes.append(f"Columns that the model does not name were left out: {some(extra)}.")
    to = {old: new for new, old in enumerate(order)}
    columns = tuple(replace(c, features=tuple(to[f] for f in c.features)) for c in kept)
    if order != sorted(order):
        moved = sum(place != at for place, at in zip(order, sorted(order), strict=True))
        notes.append(f"Columns were put in the model's order ({moved} stood elsewhere).")
    return columns, order, tuple(notes)


def _check_range(source: Source) -> None:
    """Refuse numbers that no model computes with: beyond the range of float32."""
    most = float(np.finfo(np.float32).max)
    for name, low, high in zip(
        source.feature_names, source.summary.low, source.summary.high, strict=True
    ):
        if max(-low, high) > most:
            worst = high if high > most else low
            raise InputError(
                f"{source.where}: column {name!r} holds {worst:g}, beyond the range of float32 "
                "(3.4e38), in which models compute. Repair the value, or leave it empty and fill "
                "it with impute (--impute)."
            )


def _places(columns: Sequence[TableColumn]) -> dict[str, int]:
    """Return where inputs stand, by every name that models give them."""
    places: dict[str, int] = {}
    for column in columns:
        places |= dict(zip(column.feature_names, column.features, strict=True))
        for value, place in zip(column.values, column.features, strict=False):
            places.setdefault(f"{column.name}_{value}", place)
    return places


def _wrong_number(source: Source, n_features: int) -> str:
    """Say how many inputs the table gives, from which columns."""
    numeric = [column for column in source.columns if column.kind == "numeric"]
    spread = [column for column in source.columns if column.kind == "categorical"]
    parts = [f"{len(numeric)} numeric columns"] if numeric else []
    parts += [f"{column.name!r} ({len(column.values)} values)" for column in spread[:10]]
    parts += [f"{len(spread) - 10} more categorical columns"] if len(spread) > 10 else []
    advice = (
        "Leave columns out with ignore (--ignore COLUMN), or give all values of a category in the "
        "schema (--schema)."
    )
    likely = [c.name for c in source.columns if names_a_label(c.name)]
    if source.label is None and source.shape[0] > n_features and likely:
        advice = f"Is {likely[0]!r} the label? Then name it with label (--label). {advice}"
    names = some(source.feature_names)
    return (
        f"{source.where}: the model takes {n_features} features, the table gives "
        f"{source.shape[0]}: {', '.join(parts)}. They are {names}. {advice}"
    )


def _differences(source: Source, missing: Sequence[str], extra: Sequence[str]) -> str:
    """Say which inputs are missing and which are too many."""
    parts = []
    if missing:
        parts.append(f"the model needs {some(missing)}, which the table does not have")
    if extra:
        parts.append(f"the table has {some(extra)}, which the model does not know")
    advice = (
        "Rename columns, leave them out with ignore (--ignore COLUMN), or give a schema (--schema)."
    )
    likely = [name for name in extra if names_a_label(name)]
    if likely and source.label is None:
        advice = f"Is {likely[0]!r} the label? Then name it with label (--label). {advice}"
    return f"{source.where}: {'; '.join(parts)}. {advice}"


def fitted_label(
    label: Label | None, n_classes: int | None, labels: Sequence[Any] | None, where: str
) -> tuple[Label | None, tuple[str, ...]]:
    """Return labels as indices of a model's outputs, and notes."""
    if label is None or label.kind == "number" or (n_classes is None and labels is None):
        return label, ()
    counts = dict(zip(label.words, label.counts, strict=True))
    found = {word: n for word, n in counts.items() if n}
    if labels is not None:
        words = tuple(label_text(value) for value in labels)
        if n_classes is not None and len(words) != n_classes:
            raise InputError(f"{len(words)} class labels for a model with {n_classes} outputs.")
        unknown = {word: n for word, n in found.items() if word not in words}
        if unknown:
            raise InputError(
                f"{where}: label column {label.name!r} holds labels that the model does not know: "
                f"{counted(unknown)}. The model knows {some(words)}."
            )
        return _relabelled(label, words, counts, words), ()
    assert n_classes is not None
    return _by_number(label, n_classes, found, counts, where)


def _by_number(
    label: Label, n_classes: int, found: dict[str, int], counts: dict[str, int], where: str
) -> tuple[Label, tuple[str, ...]]:
    """Fit labels to a model that only says how many classes it has."""
    indices = tuple(str(k) for k in range(n_classes))
    if label.class_names != label.words or not set(found) <= set(indices):
        if len(label.words) == n_classes:
            return label, ()
        raise InputError(
            f"{where}: the model has {n_classes} classes and does not name them; label column "
            f"{label.name!r} holds {counted(found)}, known as {len(label.words)} classes. Name the "
            "model's classes in order: [label] classes = [...] in the schema."
        )
    names = label.class_names if len(label.words) == n_classes else indices
    notes = (
        ()
        if len(found) == n_classes
        else (f"Labels were taken as class indices 0 to {n_classes - 1}.",)
    )
    return _relabelled(label, indices, counts, names), notes


def _relabelled(
    label: Label, words: tuple[str, ...], counts: dict[str, int], names: tuple[str, ...]
) -> Label:
    """Give labels new indices."""
    return replace(
        label, words=words, class_names=names, counts=tuple(counts.get(word, 0) for word in words)
    )


def label_text(value: Any) -> str:
    """Write a model's label as the readers write labels."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and np.isfinite(plain):
        return number_text(plain)
    return plain.decode() if isinstance(plain, bytes) else str(plain)
