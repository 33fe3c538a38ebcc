"""Findings as JUnit XML: one test for every kind of finding.

A test fails for a finding that breaks the audit, or that is an error and that nobody has accepted.
Accepted findings are skipped tests; warnings and notes pass, with what was found as their output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from farfield.report.content.findings import evidenced, lived_with
from farfield.report.content.words import harmless

if TYPE_CHECKING:
    from farfield.audit.findings.finding import Finding
    from farfield.audit.record import Audit
    from farfield.report.explained import Explained, Kinds

HEAD = '<?xml version="1.0" encoding="UTF-8"?>'


def junit(audit: Audit, kinds: Kinds) -> str:
    """Write the findings of an audit as the result of a test suite."""
    suite = Xml.Element("testsuite", name="farfield")
    for kind in kinds.values():
        _case(suite, kind, [each for each in audit.findings if each.code == kind.code], audit)
    for name, tag in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(kinds)))
    suite.set("errors", "0")
    suite.set("time", f"{audit.provenance.seconds:g}")
    suite.set("timestamp", harmless(audit.provenance.made))
    top = Xml.Element("testsuites")
    top.append(suite)
    Xml.indent(top)
    return f"{HEAD}\n{Xml.tostring(top, encoding='unicode')}\n"


def _case(suite: Xml.Element, kind: Explained, found: Sequence[Finding], audit: Audit) -> None:
    case = Xml.SubElement(
        suite,
        "testcase",
        name=f"{kind.code} {kind.title}",
        classname=f"farfield.{harmless(audit.model.source)}",
    )
    failing = [each for each in found if each.breaks or _is_error(each)]
    accepted = [each for each in found if each.accepted is not None]
    if failing:
        failure = Xml.SubElement(case, "failure", message=harmless(failing[0].detail, 600))
        failure.set("type", harmless(failing[0].severity))
        failure.text = "\n\n".join(map(_text, failing))
    elif accepted:
        Xml.SubElement(case, "skipped", message=lived_with(accepted[0]))
    rest = [each for each in found if each not in failing]
    if rest:
        Xml.SubElement(case, "system-out").text = "\n\n".join(map(_text, rest))


def _is_error(finding: Finding) -> bool:
    return finding.severity == "error" and finding.accepted is None


def _text(finding: Finding) -> str:
    measures = map(evidenced, finding.evidence)
    lines = [
        harmless(finding.detail, 1000),
        lived_with(finding),
        *(f"{each.what}: {each.value} ({each.known})" for each in measures),
        harmless(finding.action, 1000) if finding.action else "",
    ]
    return "\n".join(filter(None, lines))
