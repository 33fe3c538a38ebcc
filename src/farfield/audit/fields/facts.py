"""What was audited, on what, and what it takes to do it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelFacts:
    """What was audited.

    Attributes:
        source: Where it came from, such as a file name.
        kind: How it was read: ``onnx``, ``pt2``, ``estimator``, ``module`` and so on.
        instances: How many networks vote.
        inputs: The shape of one row.
        classes: Names of the classes; for a regressor, of the outputs.
        parameters: How many weights, all instances together.
        notes: What reading it did that the user may want to know.
        sha256: Of the model's file, if it was one.
        cap: The largest confidence that the model's form allows, whatever the input; ``None`` if
            nothing is known.
    """

    source: str
    kind: str
    instances: int
    inputs: tuple[int, ...]
    classes: tuple[str, ...]
    parameters: int
    notes: tuple[str, ...] = ()
    sha256: str | None = None
    cap: float | None = None


@dataclass(frozen=True)
class DataFacts:
    """The data that the model was audited on.

    Attributes:
        source: Where it came from.
        rows: How many rows.
        features: How many columns the model sees.
        class_counts: Name of a class to its number of rows; empty without labels.
        missing: Name of a column to how many values were missing and imputed.
        constant: Columns that hold one value only.
        sampled: How many rows the distances and curves were computed from.
        sha256: Of the file, if it was one.
        notes: What reading it did that the user may want to know.
    """

    source: str
    rows: int
    features: int
    class_counts: Mapping[str, int]
    missing: Mapping[str, int]
    constant: tuple[str, ...]
    sampled: int
    sha256: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """What is needed to do it again; ``command`` is the command line, or the call."""

    farfield: str
    versions: Mapping[str, str]
    machine: str
    seed: int
    seconds: float
    made: str
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
