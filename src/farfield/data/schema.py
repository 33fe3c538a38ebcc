"""What somebody knows about the columns of a table, from a small TOML file.

::

    order = ["age", "ward"]      # of the features, as the model expects them

    [features.age]
    min = 0
    max = 120
    unit = "years"
    missing = [-1, 999]          # values that mean that there is none

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError

from farfield.data.stream import value_text
from farfield.errors import InputError
from farfield.files import regular

FeatureKind = Literal["categorical", "numeric", "ignore"]
_STRICT = ConfigDict(extra="forbid")


def _words(values: Any) -> Any:
    """Write the entries of a list as the readers do; refuse what is none, or names one twice."""
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(f"must be a list with at least one entry, got {values!r}")
    wrong = [value for value in values if not isinstance(value, str | int | float)]
    if wrong:
        raise ValueError(f"must hold text, numbers or booleans, got {wrong[0]!r}")
    words = tuple(value_text(value) for value in values)
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        raise ValueError(f"names {twice} twice")
    return words


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


@dataclass(frozen=True)
class FeatureSchema:
    """What is known about one column.

    Attributes:
        low: Its smallest possible value, ``-inf`` if there is none.
        high: Its largest possible value, ``inf`` if there is none.
        unit: For reading, such as ``"mmol/l"``.
        kind: How it enters the model; None leaves it to the content.
        values: Of a category, in the order of its one-hot code; None takes those that occur.
        missing: Values that stand for missing, such as -999.
    """

    low: Annotated[float, Strict(), Field(validation_alias="min")] = -math.inf
    high: Annotated[float, Strict(), Field(validation_alias="max")] = math.inf
    unit: str | None = None
    kind: FeatureKind | None = None
    values: Words | None = None
    missing: Words | None = None

    __pydantic_config__: ClassVar = _STRICT

    def __post_init__(self) -> None:
        if not self.low < self.high:
            got = f"got min = {self.low:g} and max = {self.high:g}"
            raise InputError(f"min must be below max, {got}")
        if self.values is not None and self.kind is None:
            object.__setattr__(self, "kind", "categorical")
        if self.values is not None and self.kind != "categorical":
            raise InputError("gives values, which only a categorical feature has")
        if self.kind == "categorical" and (self.low, self.high) != (-math.inf, math.inf):
            raise InputError("gives bounds, which a categorical feature does not have")


@dataclass(frozen=True)
class LabelSchema:
    """What is known about the labels.

    Attributes:
        column: That holds them, or None.
        classes: Labels in the order of the model's outputs, or None.
    """

    column: str | None = None
    classes: Words | None = None

    __pydantic_config__: ClassVar = _STRICT


@dataclass(frozen=True)
class Schema:
    """What is known about a table; see `read_schema`.

    Attributes:
        features: Column to what is known about it.
        order: Of the features, or None for the order of the file.
        blocks: Name of a category to the columns that are its one-hot code already.
        label: Column and classes of the labels.
    """

    features: Mapping[str, FeatureSchema] = field(default_factory=dict)
    order: Words | None = None
    blocks: Mapping[str, Words] = field(default_factory=dict)
    label: LabelSchema = field(default_factory=LabelSchema)

    __pydantic_config__: ClassVar = _STRICT

    def __getitem__(self, column: str) -> FeatureSchema:
        return self.features.get(column, FeatureSchema())

    def __post_init__(self) -> None:
        column, order = self.label.column, set(self.order or ())
        members = [name for names in self.blocks.values() for name in names]
        clash = sorted(self.ignored() & order)
        if clash:
            raise InputError(f"order names columns that are ignored: {clash}")
        if column is not None and column in order | set(self.features):
            raise InputError(f"{column!r} is the label, and also described as a feature")
        if any(len(names) < 2 for names in self.blocks.values()):
            raise InputError("a one-hot code in [blocks] needs at least two columns")
        if len(set(members)) < len(members):
            raise InputError("a column belongs to at most one of [blocks]")
        both = sorted({*members} & {*self.features, column})
        if both:
            raise InputError(f"columns {both} of [blocks] are described elsewhere too")

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
    FeatureSchema(low=0.0, high=120.0, unit='years', kind=None, values=None, missing=None)
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
    try:
        return TypeAdapter(Schema).validate_python(content)
    except ValidationError as error:
        troubles = [_trouble(each) for each in error.errors(include_url=False)]
        raise InputError(f"{where}: {'; '.join(troubles)}.") from error


_TABLES = ("dataclass_type", "dict_type", "mapping_type")
_KEYS = {"features": "min, max, unit, kind, values, missing", "label": "column, classes"}


def _trouble(error: Any) -> str:
    """Say what is wrong, and where: ``[features.age] min: should be a valid number``."""
    *tables, key = [str(part) for part in error["loc"]] or [""]
    place = f"[{'.'.join(tables)}] {key}: " if tables else f"{key}: " if key else ""
    if error["type"] == "unexpected_keyword_argument":
        keys = _KEYS[tables[0]] if tables else "features, order, blocks, label"
        return f"{place}no such key; the keys are {keys}"
    if error["type"] == "value_error":
        return f"{place}{error['ctx']['error']}"
    said = "should be a table of keys" if error["type"] in _TABLES else error["msg"]
    return f"{place}{said.replace('Input should', 'should')}, got {error['input']!r:.60}"
