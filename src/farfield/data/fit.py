"""A table and a model: which columns are its inputs, which is the label, and what does not fit.

``mean radius``, ``Mean_Radius`` and ``mean-radius`` are one name: case, spaces and punctuation do
not count. A name that is there letter by letter comes first.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from farfield.data.choices import Choices
from farfield.data.encoding import TableColumn
from farfield.data.scan import scan
from farfield.data.source import Expected, Source
from farfield.data.stream import Stream, some, value_text
from farfield.errors import InputError

_LABELS = (
    "y", "label", "labels", "target", "targets", "class", "classes", "outcome", "diagnosis",
)  # fmt: skip


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
    width = sum(len(column.places) for column in columns)
    over = [c.name for c in columns if width - len(c.places) == expected.features]
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
        return set(words) <= {value_text(label) for label in expected.labels}
    return len(words) == expected.classes


def _taken(name: str) -> str:
    return (
        f"No label was named; column {name!r} was taken for it. Name another with label (--label), "
        "or leave the column out with ignore (--ignore)."
    )


def fitted_columns(
    source: Source, expected: Expected
) -> tuple[tuple[TableColumn, ...], list[int], tuple[str, ...]]:
    """Return columns with their places in the model's inputs, the order of inputs, and notes."""
    _check_range(source)
    given, n_features = source.feature_names, expected.features
    if expected.names is None:
        if len(given) != n_features:
            raise InputError(_wrong_number(source, n_features))
        return source.columns, list(range(n_features)), ()
    wanted = [str(name) for name in expected.names]
    if len(wanted) != n_features:
        raise InputError(f"{len(wanted)} feature names for a model that takes {n_features}.")
    found = find(wanted, _places(source.columns), source.where)
    missing = [name for name, place in zip(wanted, found, strict=True) if place is None]
    order = [place for place in found if place is not None]
    kept = [column for column in source.columns if set(column.places) & set(order)]
    needed = {place for column in kept for place in column.places}
    extra = [name for place, name in enumerate(given) if place not in order]
    if missing or needed != set(order):
        raise InputError(_differences(source, missing, extra))
    notes = []
    if extra:
        notes.append(f"Columns that the model does not name were left out: {some(extra)}.")
    to = {old: new for new, old in enumerate(order)}
    columns = tuple(replace(c, places=tuple(to[f] for f in c.places)) for c in kept)
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
        places |= dict(zip(column.feature_names, column.places, strict=True))
        for value, place in zip(column.values, column.places, strict=False):
            places.setdefault(f"{column.name}_{value}", place)
    return places


def _wrong_number(source: Source, n_features: int) -> str:
    """Say how many inputs the table gives, from which columns."""
    numeric = [column for column in source.columns if not column.categorical]
    spread = [column for column in source.columns if column.categorical]
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
    """Say which inputs are missing and which are too many.

    Values of a category that the model knows as a whole are neither, if other columns are.
    """
    whole = {column.name: column.feature_names for column in source.columns if column.categorical}
    if set(missing) - set(whole):
        known = {value for name in missing for value in whole.get(name, ())}
        missing = [name for name in missing if name not in whole]
        extra = [name for name in extra if name not in known]
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


def plain(name: str) -> str:
    """A name without case, spaces and punctuation; the name itself if nothing else is left.

    >>> plain("Mean_Radius") == plain("mean radius"), plain("+") == plain("-")
    (True, False)
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    return re.sub(r"[\W_]+", "", text) or text


def names_a_label(name: str) -> bool:
    """Whether a column is called what labels are called."""
    return plain(name) in _LABELS


def find(wanted: Sequence[str], places: Mapping[str, int], where: str) -> list[int | None]:
    """Return the place of every wanted name, ``None`` where there is none."""
    alike: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for name, place in places.items():
        alike[plain(name)].setdefault(place, name)
    exact = {places[name] for name in wanted if name in places}
    found: list[int | None] = []
    for name in wanted:
        if name in places:
            found.append(places[name])
            continue
        others = {place: other for place, other in alike[plain(name)].items() if place not in exact}
        if len(others) > 1 or (others and set(others) <= set(found)):
            several = " or ".join(map(repr, others.values()))
            raise InputError(
                f"{where}: the model's input {name!r} could be {several}; but for case and "
                "punctuation, more than one name is the same. Rename the columns."
            )
        found.append(next(iter(others), None))
    return found


def spare(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the columns that no input of the model comes from; none if an input has no column.

    An input is a column, or one of its values: ``ward=icu``, ``ward_icu``.

    >>> spare(["id", "Age", "ward"], ["age", "ward_icu", "ward_er"]), spare(["id"], ["age"])
    (['id'], [])
    """
    direct = {plain(name) for name in names}
    kept = {name for name in names if plain(name) in {plain(each) for each in wanted}}
    for each in wanted:
        if plain(each) in direct:
            continue
        of = [
            n for n in names if each.casefold().startswith((f"{n}=".casefold(), f"{n}_".casefold()))
        ]
        if not of:
            return []
        kept |= set(of)
    return [name for name in names if name not in kept]
