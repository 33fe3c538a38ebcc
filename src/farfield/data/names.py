"""Names of columns and of a model's inputs: when are two of them one?

``mean radius``, ``Mean_Radius`` and ``mean-radius`` are: case, spaces and punctuation do not
count. A name that is there letter by letter comes first.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence

from farfield.errors import InputError

_LABELS = (
    "y", "label", "labels", "target", "targets", "class", "classes", "outcome", "diagnosis",
)  # fmt: skip


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
    """Return the place of every wanted name, ``None`` where there is none.

    Raises:
        InputError: A name that could be several columns, or several names that are one column.
    """
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
