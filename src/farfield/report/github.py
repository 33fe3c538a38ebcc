"""Findings as annotations of GitHub Actions: lines that its runner reads from the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.report.content.findings import counted, lived_with
from farfield.report.content.words import harmless

if TYPE_CHECKING:
    from farfield.audit.findings.finding import Finding
    from farfield.audit.record import Audit

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def github(audit: Audit) -> str:
    """Write one annotation for each finding; those that somebody accepted are notices."""
    files = audit.at_hand.models or (audit.model.source,)
    lines = [_line(each, files[0]) for each in audit.findings]
    total = f"farfield: {counted(audit.findings)}"
    return "\n".join([*lines, f"::notice title=farfield::{_data(total)}"]) + "\n"


def _line(finding: Finding, file: str) -> str:
    command = COMMANDS.get(finding.severity, "notice") if finding.accepted is None else "notice"
    title = _property(f"{harmless(finding.code)} {harmless(finding.title)}")
    action = harmless(finding.action, 1000) if finding.action else ""
    told = [harmless(finding.detail, 1000), lived_with(finding), action]
    text = _data("\n".join(filter(None, told)))
    return f"::{command} file={_property(harmless(file, 500))},title={title}::{text}"


def _data(text: str) -> str:
    """Escape what is told."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property, which ends at a comma or a colon.

    >>> _property("50%, a:b")
    '50%25%2C a%3Ab'
    """
    return _data(text).replace(":", "%3A").replace(",", "%2C")
