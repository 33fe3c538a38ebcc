"""Findings in words: numbers with how they are known, counts by severity, what broke the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.estimate import Estimate
from farfield.report.content.words import harmless, number, percent, plural

if TYPE_CHECKING:
    from farfield.audit.findings.finding import Acceptance, Finding, Measure, Severity
    from farfield.audit.record import Audit

# How a number is known, in words.
KNOWN = {
    "exact": "exact",
    "at most": "at most",
    "seen": "seen by evaluating",
    "sample": "of the sample",
    "limit": "the limit that was set",
}
# How many findings are shown in full; the rest is folded.
IN_FULL = 3


@dataclass(frozen=True)
class Evidenced:
    """One number of a finding in words: what, how much, and how it is known."""

    what: str
    value: str
    known: str


def evidenced(measure: Measure) -> Evidenced:
    """Write one number; an interval and an exact number never look alike."""
    write = percent if measure.share else number
    value = measure.value
    if isinstance(value, Estimate):
        known = f"{write(value.low)} to {write(value.high)}, {percent(value.level)} confidence"
        value = value.value
    else:
        known = KNOWN.get(measure.known, measure.known)
    unit = f" {harmless(measure.unit, 40)}" if measure.unit else ""
    return Evidenced(harmless(measure.what, 160), f"{write(value)}{unit}", known)


def counted(findings: Sequence[Finding]) -> str:
    """How many findings of each severity there are; those that somebody accepted apart.

    >>> counted([])
    'nothing found'
    """
    open_ones = Counter(each.severity for each in findings if each.accepted is None)
    told = [
        plural(open_ones[name], name) for name in ("error", "warning", "note") if open_ones[name]
    ]
    accepted = sum(each.accepted is not None for each in findings)
    if accepted:
        told.append(f"{accepted} accepted")
    return ", ".join(told) or "nothing found"


def lived_with(finding: Finding) -> str:
    """Who accepted a finding, or that the acceptance is over; empty if nobody ever did."""
    if finding.accepted is not None:
        return f"Accepted until {finding.accepted.until}: {_reason(finding.accepted)}"
    if finding.lapsed is not None:
        return (
            f"Was accepted until {finding.lapsed.until}, and counts again: "
            f"{_reason(finding.lapsed)}"
        )
    return ""


def _reason(said: Acceptance) -> str:
    return harmless(said.reason, 300)


def broken(audit: Audit) -> list[str]:
    """One line for each finding that the audit fails for."""
    return [
        f"{harmless(each.code)} {harmless(each.title)}: {harmless(each.detail, 600)}"
        for each in audit.findings
        if each.breaks
    ]


def told(audit: Audit, most: int = IN_FULL) -> list[tuple[Severity, str]]:
    """The findings as text, each with its severity: the first in full, the others in a line."""
    full = [(each.severity, _in_full(each)) for each in audit.findings[:most]]
    rest = [_in_short(each) for each in audit.findings[most:]]
    return [*full, ("note", "\n".join(rest))] if rest else full


def _in_short(finding: Finding) -> str:
    accepted = ", accepted" if finding.accepted is not None else ""
    columns = f" ({plural(len(finding.columns), 'column')})" if finding.columns else ""
    return (
        f"{harmless(finding.code)} {finding.severity}{accepted}: {harmless(finding.title)}{columns}"
    )


def _in_full(finding: Finding) -> str:
    lines = [
        _in_short(finding),
        harmless(finding.detail, 600),
        lived_with(finding),
        harmless(finding.action, 300) if finding.action else "",
    ]
    return "\n  ".join(filter(None, lines))
