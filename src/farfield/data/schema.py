"""What somebody knows about the columns of a table, from a small TOML file.

::

    order = ["age", "ward"]      # of the features, as the model expects them

    [features.age]
    min = 0
    max = 120
    unit = "years"

    [features.ward]
    kind = "categorical"         # or "numeric", "ignore"
    values = ["a", "b", "c"]     # in the order of the one-hot code

    [blocks]
    unit = ["unit_icu", "unit_ccu"]   # columns that are a one-hot code already

    [label]
    column = "died"
    classes = ["no", "yes"]      # in the order of the model's outputs

Every key may be left out. Bounds stop rays; values are never scaled.
"""

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from farfield.datasets.column import number_text
from farfield.errors import InputError
from farfield.files import regular

FeatureKind = Literal["categorical", "numeric", "ignore"]


@dataclass(frozen=True)
class FeatureSchema:
    """What is known about one column.

    Attributes:
        low: Its smallest possible value, ``-inf`` if there is none.
        high: Its largest possible value, ``inf`` if there is none.
        unit: For reading, such as ``"mmol/l"``.
        kind: How it enters the model; None leaves it to the content.
        values: Of a category, in the order of its one-hot code; None takes those that occur.
    """

    low: float = -math.inf
    high: float = math.inf
    unit: str | None = None
    kind: FeatureKind | None = None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Schema:
    """What is known about a table; see `read_schema`.

    Attributes:
        features: Column to what is known about it.
        order: Of the features, or None for the order of the file.
        blocks: Name of a category to the columns that are its one-hot code already.
        label: Column of the labels, or None.
        classes: Labels in the order of the model's outputs, or None.
    """

    features: Mapping[str, FeatureSchema] = field(default_factory=dict)
    order: tuple[str, ...] | None = None
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str | None = None
    classes: tuple[str, ...] | None = None

    def __getitem__(self, column: str) -> FeatureSchema:
        return self.features.get(column, FeatureSchema())

    def ignored(self) -> set[str]:
        """Return the columns that are left out."""
        return {name for name, feature in self.features.items() if feature.kind == "ignore"}


def read_schema(path: str | os.PathLike[str]) -> Schema:
    r"""Read a TOML file with bounds, units, kinds, values, order and classes.

    Raises:
        InputError: The file cannot be read, is no TOML, or says something that cannot be:
            unknown keys, a minimum that is not below the maximum, values of a numeric column.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "schema.toml"
    ...     _ = file.write_text("[features.age]\nmin = 0\nmax = 120\nunit = 'years'\n")
    ...     read_schema(file)["age"]
    FeatureSchema(low=0.0, high=120.0, unit='years', kind=None, values=None)
    """
    where = Path(path).name
    try:
        content = regular(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    try:
        return parse_schema(tomllib.loads(content.decode("utf-8-sig")), where)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: a schema is TOML in UTF-8; save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not a TOML file: {error}.") from error


def parse_schema(content: Mapping[str, Any], where: str = "schema") -> Schema:
    """Turn what a TOML file holds into a `Schema`; errors are those of `read_schema`."""
    _known(content, ("features", "order", "blocks", "label"), where)
    features = _table(content.get("features", {}), f"{where}: [features]")
    label = _table(content.get("label", {}), f"{where}: [label]")
    _known(label, ("column", "classes"), f"{where}: [label]")
    order, column = content.get("order"), label.get("column")
    if column is not None and not isinstance(column, str):
        raise InputError(f"{where}: [label] column must be a name, got {column!r}.")
    schema = Schema(
        {name: _feature(given, f"{where}: [features.{name}]") for name, given in features.items()},
        None if order is None else _words(order, f"{where}: order"),
        _blocks(_table(content.get("blocks", {}), f"{where}: [blocks]"), where),
        column,
        _words(label["classes"], f"{where}: [label] classes") if "classes" in label else None,
    )
    clash = sorted(schema.ignored() & {*(schema.order or ())})
    if clash:
        raise InputError(f"{where}: order names columns that are ignored: {clash}.")
    if column is not None and column in (*schema.features, *(schema.order or ())):
        raise InputError(f"{where}: {column!r} is the label, and also described as a feature.")
    within = {name for members in schema.blocks.values() for name in members}
    both = sorted(within & (set(schema.features) | {column}))
    if both:
        raise InputError(f"{where}: columns {both} of [blocks] are described elsewhere too.")
    return schema


def _blocks(given: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    """Read the categories whose one-hot codes are columns already."""
    blocks = {name: _words(columns, f"{where}: [blocks] {name}") for name, columns in given.items()}
    if any(len(columns) < 2 for columns in blocks.values()):
        raise InputError(f"{where}: a one-hot code in [blocks] needs at least two columns.")
    members = [column for columns in blocks.values() for column in columns]
    if len(set(members)) < len(members):
        raise InputError(f"{where}: a column belongs to at most one of [blocks].")
    return blocks


def _feature(given: Any, where: str) -> FeatureSchema:
    """Read the table of one feature."""
    known = _table(given, where)
    _known(known, ("min", "max", "unit", "kind", "values"), where)
    kind, unit = known.get("kind"), known.get("unit")
    if kind is not None and kind not in get_args(FeatureKind):
        options = ", ".join(repr(option) for option in get_args(FeatureKind))
        raise InputError(f"{where} kind must be one of {options}; got {kind!r}.")
    if unit is not None and not isinstance(unit, str):
        raise InputError(f"{where} unit must be text, got {unit!r}.")
    low, high = (_bound(known.get(key), key, where) for key in ("min", "max"))
    if not low < high:
        raise InputError(f"{where} min must be below max, got min = {low:g} and max = {high:g}.")
    values = _words(known["values"], f"{where} values") if "values" in known else None
    if values is not None and kind is None:
        kind = "categorical"
    if values is not None and kind != "categorical":
        raise InputError(f"{where} gives values, which only a categorical feature has.")
    if kind == "categorical" and ("min" in known or "max" in known):
        raise InputError(f"{where} gives bounds, which a categorical feature does not have.")
    return FeatureSchema(low, high, unit, kind, values)


def _bound(value: Any, key: str, where: str) -> float:
    """Read a bound; none is infinite."""
    if value is None:
        return -math.inf if key == "min" else math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} {key} must be a number, got {value!r}.")
    try:
        bound = float(value)
    except OverflowError as error:
        raise InputError(f"{where} {key} is beyond the range of a float.") from error
    if math.isnan(bound):
        raise InputError(f"{where} {key} must be a number, got {value!r}.")
    return bound


def _words(values: Any, where: str) -> tuple[str, ...]:
    """Read a list of different names or values; numbers are written the short way."""
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"{where} must be a list with at least one entry, got {values!r}.")
    wrong = [value for value in values if not isinstance(value, str | int | float)]
    if wrong:
        raise InputError(f"{where} must hold text, numbers or booleans, got {wrong[0]!r}.")
    words = [value if isinstance(value, str) else _text(value) for value in values]
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        raise InputError(f"{where} names {twice} twice.")
    return tuple(words)


def _text(value: float) -> str:
    """Write a number or boolean as the readers do."""
    return number_text(value) if isinstance(value, float) and math.isfinite(value) else str(value)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    """See that TOML holds a table here."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a table of keys, got {value!r}.")
    return value


def _known(content: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    """Refuse keys that mean nothing, which are typing errors."""
    unknown = sorted(set(content) - set(keys))
    if unknown:
        raise InputError(f"{where}: unknown keys {unknown}. The keys are {', '.join(keys)}.")
