"""An audit is judged: its findings, which of them somebody lives with, and which of them break it.

An acceptance that names columns splits a finding in two: what it says of these columns, and of all
others. Both are told from the audit as if it had no other columns.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from farfield.audit.findings import KINDS, budgets
from farfield.audit.findings.finding import SEVERITIES, Acceptance, Finding
from farfield.audit.findings.kind import FindingKind
from farfield.audit.policy import Policy

if TYPE_CHECKING:
    from farfield.audit.record import Audit


def judged(audit: Audit, policy: Policy | None, today: datetime.date | None = None) -> Audit:
    """The audit with its findings, worst first.

    Args:
        audit: The audit; findings that it has are made again.
        policy: What it is held to.
        today: The day on which acceptances count; that of the audit if ``None``.
    """
    held = replace(audit, policy=policy)
    day = today or _day(audit)
    found = [each for kind in KINDS.values() for each in _of_kind(kind, held, policy, day)]
    found.sort(key=_badness)
    return replace(held, findings=tuple(found))


def _day(audit: Audit) -> datetime.date:
    """When an audit was made; what nobody can know lies beyond every acceptance."""
    try:
        return datetime.datetime.fromisoformat(audit.provenance.made).date()
    except ValueError:
        return datetime.date.max


def _badness(finding: Finding) -> tuple[bool, bool, int, str]:
    """To sort by: what breaks the audit first, what is accepted last."""
    place = SEVERITIES.index(finding.severity)
    return finding.accepted is not None, not finding.breaks, place, finding.code


def _of_kind(
    kind: FindingKind, audit: Audit, policy: Policy | None, day: datetime.date
) -> Iterator[Finding]:
    """What a kind finds, split by what is accepted."""
    whole = kind.on(audit)
    if whole is None:
        return
    said = () if policy is None else [each for each in policy.accepted if each.code == kind.code]
    left = frozenset(whole.columns)
    for each in said:
        named = left.intersection(each.columns) if each.columns else left
        part = kind.on(_only(audit, named)) if each.columns else kind.on(audit)
        if (each.columns and not named) or part is None:
            continue
        yield _weighed(part, policy, each, day)
        left -= named
        if not each.columns:
            return
    # Rays along more than one feature belong to no column.
    rest = whole if left == frozenset(whole.columns) else kind.on(_only(audit, left | {""}))
    if rest is not None:
        yield _weighed(rest, policy, None, day)


def _only(audit: Audit, columns: Collection[str]) -> Audit:
    """The audit as if it had no other columns."""
    errors, arithmetic = audit.entry_errors, audit.arithmetic
    return replace(
        audit,
        features=tuple(each for each in audit.features if each.name in columns),
        collapses=tuple(each for each in audit.collapses if each.feature in columns),
        entry_errors=None
        if errors is None
        else replace(
            errors, mistakes=tuple(each for each in errors.mistakes if each.column in columns)
        ),
        arithmetic=None
        if arithmetic is None
        else replace(
            arithmetic, lapses=tuple(each for each in arithmetic.lapses if each.column in columns)
        ),
    )


def _weighed(
    finding: Finding, policy: Policy | None, said: Acceptance | None, day: datetime.date
) -> Finding:
    """Give a finding its severity, its acceptance if that still counts, and whether it breaks."""
    severity = finding.severity
    worst = None
    if policy is not None:
        severity, worst = policy.severity.get(finding.code, severity), policy.fail_on
    holds = said is not None and day <= said.until
    bad = finding.code in budgets.CODES or (
        worst is not None and SEVERITIES.index(severity) <= SEVERITIES.index(worst)
    )
    return replace(
        finding,
        severity=severity,
        accepted=said if holds else None,
        lapsed=None if holds else said,
        breaks=bad and not holds,
    )
