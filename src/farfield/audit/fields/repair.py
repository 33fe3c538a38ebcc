"""What can be done, and what a guard gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Remedy:
    """Something that can be done.

    Attributes:
        name: What it is called.
        what: What it would give for this model.
        proven: Whether it carries a proof about all directions.
        command: How to do it.
    """

    name: str
    what: str
    proven: bool
    command: str


@dataclass(frozen=True)
class GuardedFeature:
    """One numeric feature before and after the guard; every pair is for going down and up.

    Attributes:
        name: Its name.
        unit: Its unit, or nothing.
        before: Median confidence at the end, without the guard; ``None`` if there is no such end.
        after: The same with the guard; infinitely far out it is ``1 / K``.
        certified: The value from which on, all else as in the median row, no class can exceed what
            the certificate allows; ``None`` at bounds.
    """

    name: str
    unit: str
    before: tuple[float | None, float | None]
    after: tuple[float | None, float | None]
    certified: tuple[float | None, float | None]


@dataclass(frozen=True)
class BeforeAfter:
    """Before and after the guard.

    Attributes:
        promise: What the certificate says, in words.
        rows: Name of a quantity to its value before and after.
        certificate: The certificate's numbers.
        features: Every numeric feature of a table.
    """

    promise: str
    rows: Mapping[str, tuple[float, float]]
    certificate: Mapping[str, float | str]
    features: tuple[GuardedFeature, ...] = ()
