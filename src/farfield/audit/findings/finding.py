"""A finding: one thing that is wrong, with a code that stays, numbers, and what to do about it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Literal

from farfield.estimate import Estimate

Severity = Literal["error", "warning", "note"]
# Worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
Known = Literal["exact", "interval", "at most", "seen", "sample", "limit"]


@dataclass(frozen=True)
class Measure:
    """One number that speaks for a finding.

    Attributes:
        what: What was measured.
        value: The number; an estimate carries its interval.
        known: How it is known: ``exact`` (counted or proven), ``interval``, ``at most`` (a proven
            bound), ``seen`` (by evaluating only), ``sample`` (of the rows that were looked at), or
            ``limit`` (set by the user).
        share: Whether it is a share, to be written in per cent.
        unit: Its unit, or nothing.
    """

    what: str
    value: float | Estimate
    known: Known
    share: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Acceptance:
    """A finding that somebody lives with.

    Attributes:
        code: Of the finding.
        reason: Why it is accepted.
        until: The last day on which it is.
        columns: The columns for which it is; all if there are none.
    """

    code: str
    reason: str
    until: datetime.date
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One finding of an audit.

    Attributes:
        code: Stays the same from version to version, such as ``FF101``.
        severity: ``error``, ``warning`` or ``note``.
        title: What is wrong, in a few words.
        detail: The same for this model, in a sentence or two.
        evidence: The numbers behind it.
        columns: The columns that it is about, worst first; none if it is about all of the model.
        action: A command, or a line of Python, that does something about it.
        accepted: Who lives with it, why and until when; ``None`` if nobody does.
        lapsed: An acceptance that is over, if there was one.
        breaks: Whether the audit fails for it.
    """

    code: str
    severity: Severity
    title: str
    detail: str
    evidence: tuple[Measure, ...]
    columns: tuple[str, ...]
    action: str
    accepted: Acceptance | None = None
    lapsed: Acceptance | None = None
    breaks: bool = False
