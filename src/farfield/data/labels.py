"""Labels of a table: classes in their order, or targets."""

import math
from collections.abc import Mapping

from farfield.data.choices import Choices
from farfield.data.columns import Label
from farfield.data.scan import Scan
from farfield.datasets.column import category_order, is_number, some
from farfield.errors import InputError


def build_label(found: Scan, name: str, choices: Choices, where: str) -> Label:
    """Describe the labels.

    Raises:
        InputError: Missing labels, fractions as classes, one class only, unknown classes.
    """
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
    return _class_label(name, counts, choices.class_names or choices.schema.classes, here)


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


def counted(counts: Mapping[str, int]) -> str:
    """Quote values with the number of their rows, the first few of many."""
    listed = [f"{word!r} ({n} row{'s' if n > 1 else ''})" for word, n in counts.items()]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")


def _whole(word: str) -> bool:
    """Tell whether a number is whole, from its short text."""
    return is_number(word) and math.isfinite(float(word)) and float(word).is_integer()
