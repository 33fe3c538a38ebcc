"""Findings as SARIF 2.1.0, the format of static analysis that code hosts and editors read.

Every kind of finding is a rule, found or not, with its page as help. The result of a finding points
at the model's file; accepted findings are suppressed, with their reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from farfield.report.content.findings import evidenced
from farfield.report.content.words import harmless
from farfield.report.explained import Explained, Kinds

if TYPE_CHECKING:
    from farfield.audit.findings.finding import Finding
    from farfield.audit.record import Audit

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# A name for each page where nobody has said where the pages are: `farfield explain` has them.
NAMES = "urn:farfield:finding:"
# Where the code goes in an address that does not end with it.
CODE = "{code}"


def sarif(audit: Audit, kinds: Kinds) -> str:
    """Write the findings of an audit as a SARIF log."""
    home = audit.policy.help if audit.policy is not None else ""
    pages = home or NAMES
    order = {code: place for place, code in enumerate(kinds)}
    run = {
        "tool": {
            "driver": {
                "name": "farfield",
                "version": harmless(audit.provenance.farfield),
                **({"informationUri": home.split(CODE)[0]} if home else {}),
                "rules": [_rule(kind, pages) for kind in kinds.values()],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "commandLine": harmless(audit.provenance.command, 2000),
                "exitCode": 0 if audit.passed else 1,
            }
        ],
        "results": [_result(each, audit, order) for each in audit.findings],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _rule(kind: Explained, pages: str) -> dict[str, Any]:
    help_text = f"{kind.why}\n\n{kind.how}\n\n{kind.todo}\n\n{kind.ignore}"
    markdown = (
        f"## Why it matters\n\n{kind.why}\n\n## How it is computed\n\n{kind.how}\n\n"
        f"## What to do\n\n{kind.todo}\n\n## When to ignore it\n\n{kind.ignore}\n"
    )
    return {
        "id": kind.code,
        "name": rule_name(kind.title),
        "shortDescription": {"text": f"{kind.title[0].upper()}{kind.title[1:]}"},
        "fullDescription": {"text": kind.why},
        "help": {"text": help_text, "markdown": markdown},
        "helpUri": pages.replace(CODE, kind.code) if CODE in pages else f"{pages}{kind.code}",
        "defaultConfiguration": {"level": kind.severity},
    }


def rule_name(title: str) -> str:
    """A title as one identifier, without articles.

    >>> rule_name("a theorem's assumption fails")
    'TheoremsAssumptionFails'
    """
    words = re.findall(r"[A-Za-z]+", title.replace("'", ""))
    return "".join(word[0].upper() + word[1:] for word in words if word not in ("a", "an", "the"))


def _result(finding: Finding, audit: Audit, order: dict[str, int]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": harmless(finding.code),
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [_location(finding, audit)],
        "partialFingerprints": {"finding/v1": _fingerprint(finding)},
        "properties": {
            "evidence": [vars(evidenced(each)) for each in finding.evidence],
            "columns": [harmless(each) for each in finding.columns],
            "action": harmless(finding.action, 2000),
            "breaks": finding.breaks,
        },
    }
    if finding.code in order:
        result["ruleIndex"] = order[finding.code]
    if finding.accepted is not None:
        reason = f"{harmless(finding.accepted.reason, 1000)} (until {finding.accepted.until})"
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": reason}
        ]
    return result


def _message(finding: Finding) -> str:
    action = f" Do: {harmless(finding.action, 1000)}" if finding.action else ""
    return f"{harmless(finding.title)}: {harmless(finding.detail, 1000)}{action}"


def _location(finding: Finding, audit: Audit) -> dict[str, Any]:
    files = audit.at_hand.models or (audit.model.source,)
    where = {"artifactLocation": {"uri": address(files[0])}, "region": {"startLine": 1}}
    location: dict[str, Any] = {"physicalLocation": where}
    if finding.columns:
        # Names that are shortened to the same are one place; the schema wants them unique.
        names = dict.fromkeys(harmless(each, 160) for each in finding.columns)
        location["logicalLocations"] = [{"name": each, "kind": "member"} for each in names]
    return location


def address(path: str) -> str:
    """A file as the reference that SARIF asks for.

    >>> address("my models/a.onnx")
    'my%20models/a.onnx'
    """
    return quote(path.replace("\\", "/").encode("utf-8", "replace"), safe="/")


def _fingerprint(finding: Finding) -> str:
    """The same from run to run, as long as the same is wrong with the same columns."""
    text = "\0".join([finding.code, *sorted(finding.columns)])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
