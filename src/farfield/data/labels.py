"""Labels of a table: classes in their order, or targets, and as a model knows them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.data.choices import Choices, LabelKind
from farfield.data.scan import Scan
from farfield.data.stream import Column, category_order, is_number, positions, some, value_text
from farfield.errors import InputError


@dataclass(frozen=True)
class Label:
    """The column of labels or targets.

    Attributes:
        name: Of the column.
        kind: ``"class"`` for class indices, ``"number"`` for the targets of a regression.
        words: Labels as the file has them, in the order of their indices.
        class_names: What to call the classes.
        counts: Rows of each class.
    """

    name: str
    kind: LabelKind
    words: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


def build_label(found: Scan, name: str, choices: Choices, where: str) -> Label:
    """Describe the labels."""
    here = f"{where}: label column {name!r}"
    if found.missing[name]:
        raise InputError(
            f"{here} has {found.missing[name]} missing values, first in data row "
            f"{found.first_missing[name]}. Remove these rows."
        )
    if choices.label_kind == "number":
        if found.kinds[name] != "numeric":
            word = next(iter(found.words[name].counts))
            raise InputError(f"{here} is not numbers: {word!r} in data row 1.")
        return Label(name, "number")
    counts = found.words[name].counts
    if found.stored_as[name] not in ("text", "boolean"):
        fraction = next((word for word in counts if not _whole(word)), None)
        if fraction is not None:
            raise InputError(
                f"{here} holds fractions such as {fraction}, so it names no classes. For "
                "regression pass label_kind='number' (--label-kind number)."
            )
    if found.words[name].overflow:
        raise InputError(
            f"{here} holds more than {len(counts) - 1} different values. For regression pass "
            "label_kind='number' (--label-kind number); otherwise, is it the right column?"
        )
    return _class_label(name, counts, choices.class_names or choices.schema.label.classes, here)


def _class_label(
    name: str, counts: Mapping[str, int], known: tuple[str, ...] | None, here: str
) -> Label:
    """Give classes their order: as known, else numbers by size and text by alphabet."""
    words = known
    if known is None:
        words = tuple(sorted(counts, key=category_order))
        if len(words) < 2:
            raise InputError(
                f"{here} holds one class only: {words[0]!r}. Give all classes in the schema "
                "([label] classes = [...]), or leave the label out."
            )
    assert words is not None
    unknown = {word: n for word, n in counts.items() if word not in words}
    if unknown and set(counts) <= {str(k) for k in range(len(words))}:
        # Indices into the classes that were named.
        words, unknown = tuple(str(k) for k in range(len(words))), {}
    if unknown:
        raise InputError(f"{here} holds {counted(unknown)}; the known classes are {some(words)}.")
    return Label(name, "class", words, known or words, tuple(counts.get(w, 0) for w in words))


def encode_label(label: Label, read: Column, where: str) -> NDArray[Any]:
    """Turn labels into class indices (int64), or leave targets (float64)."""
    if label.kind == "number":
        return read.values.astype(np.float64)
    index = positions(read.as_category(), label.words)
    if (index < 0).any():
        raise InputError(f"{where}: column {label.name!r} changed while the file was read.")
    return index.astype(np.int64)


def fitted_label(
    label: Label | None, n_classes: int | None, labels: Sequence[Any] | None, where: str
) -> tuple[Label | None, tuple[str, ...]]:
    """Return labels as indices of a model's outputs, and notes."""
    if label is None or label.kind == "number" or (n_classes is None and labels is None):
        return label, ()
    counts = dict(zip(label.words, label.counts, strict=True))
    found = {word: n for word, n in counts.items() if n}
    if labels is not None:
        words = tuple(value_text(value).strip() for value in labels)
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


def counted(counts: Mapping[str, int]) -> str:
    """Quote values with the number of their rows, the first few of many."""
    listed = [f"{word!r} ({n} row{'s' if n > 1 else ''})" for word, n in counts.items()]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")


def _whole(word: str) -> bool:
    """Tell whether a number is whole, from its short text."""
    return is_number(word) and math.isfinite(float(word)) and float(word).is_integer()
