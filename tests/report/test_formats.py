"""Every format from every audit: valid, harmless, and made without PyTorch or recomputing."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import date
from typing import get_args
from xml.etree import ElementTree as Xml

import pytest
import yaml

from farfield.audit.at_hand import AtHand
from farfield.audit.findings import KINDS
from farfield.audit.judging import judged
from farfield.audit.policy import as_policy
from farfield.cli.report import FORMATS
from farfield.errors import InputError
from farfield.report.formats import REPORT_FORMATS, ReportFormat
from report import sample_audits as samples

jsonschema = pytest.importorskip("jsonschema", reason="checks documents against schemas")
ACCEPTED = {"code": "FF102", "reason": "checked | at <entry>", "until": date(2999, 1, 1)}
POLICY = {"accepted": [ACCEPTED], "fail_on": "error", "help": "https://example.org/findings/"}


def judge(name, policy=None):
    audit = replace(samples.EVERY[name](), at_hand=AtHand(("my model.onnx",), "a.csv", "y"))
    return judged(audit, as_policy(policy))


def object_of(required=(), **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "minLength": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = object_of(["text"], text=TEXT, markdown=TEXT)
# What the specification (OASIS SARIF 2.1.0) says of the objects that are used here.
LOG = object_of(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": object_of(
            ["tool"],
            tool=object_of(
                ["driver"],
                driver=object_of(
                    ["name"],
                    name=TEXT,
                    version=TEXT,
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": object_of(
                            ["id"], id=TEXT, name=TEXT, shortDescription=MESSAGE,
                            fullDescription=MESSAGE, help=MESSAGE,
                            helpUri={"type": "string", "pattern": r"^[a-z][a-z0-9+.-]*:\S+$"},
                            defaultConfiguration=object_of(level=LEVEL),
                        ),
                    },
                ),
            ),
            invocations={
                "type": "array",
                "items": object_of(
                    ["executionSuccessful"], executionSuccessful={"type": "boolean"},
                    commandLine={"type": "string"}, exitCode={"type": "integer"},
                ),
            },
            results={
                "type": "array",
                "items": object_of(
                    ["message"],
                    ruleId=TEXT,
                    ruleIndex={"type": "integer", "minimum": -1},
                    level=LEVEL,
                    message=MESSAGE,
                    locations={
                        "type": "array",
                        "items": object_of(
                            physicalLocation=object_of(
                                artifactLocation=object_of(
                                    uri={"type": "string", "pattern": r"^[\w%./~-]+$"}
                                ),
                                region=object_of(startLine={"type": "integer", "minimum": 1}),
                            ),
                            logicalLocations={
                                "type": "array",
                                "uniqueItems": True,
                                "items": object_of(name=TEXT, kind=TEXT),
                            },
                        ),
                    },
                    suppressions={
                        "type": "array",
                        "items": object_of(
                            ["kind"], kind={"enum": ["inSource", "external"]},
                            status={"enum": ["accepted", "underReview", "rejected"]},
                            justification=TEXT,
                        ),
                    },
                    partialFingerprints={
                        "type": "object", "additionalProperties": {"type": "string"},
                    },
                    properties={"type": "object"},
                ),
            },
        ),
    },
)  # fmt: skip


def test_every_format_is_named_and_there():
    assert tuple(REPORT_FORMATS) == get_args(ReportFormat) == FORMATS
    with pytest.raises(InputError, match="there is no report format 'pdf'; there are html, text"):
        samples.tabular().render("pdf")


@pytest.mark.parametrize("name", samples.EVERY)
def test_every_audit_has_every_report(name):
    audit = judge(name, POLICY)
    for kind in get_args(ReportFormat):
        text = audit.render(kind)
        assert text.endswith("\n") or kind == "html"
        assert "\x1b" not in text
        text.encode("utf-8", "replace" if kind == "json" else "strict")


def test_addresses_of_pages_may_hold_the_code_anywhere():
    audit = judge("tabular", POLICY | {"help": "https://example.org/findings/{code}.html"})
    rules = json.loads(audit.render("sarif"))["runs"][0]["tool"]["driver"]["rules"]
    assert rules[0]["helpUri"] == "https://example.org/findings/FF001.html"


@pytest.mark.parametrize("name", samples.EVERY)
def test_sarif_is_valid_and_has_every_rule(name):
    audit = judge(name, POLICY)
    log = json.loads(audit.render("sarif"))
    jsonschema.validate(log, LOG)
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [each["id"] for each in rules] == list(KINDS)
    assert rules[0]["helpUri"] == "https://example.org/findings/FF001"
    assert len(run["results"]) == len(audit.findings)
    for result, finding in zip(run["results"], audit.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        assert ("suppressions" in result) is (finding.accepted is not None)
        where = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert where == "my%20model.onnx"


def test_fingerprints_stay_while_numbers_change():
    audit = judge("tabular")
    other = judged(replace(audit, families=audit.families[:1]), None)
    prints = [
        {
            each["ruleId"]: each["partialFingerprints"]
            for each in json.loads(one.render("sarif"))["runs"][0]["results"]
        }
        for one in (audit, other)
    ]
    shared = set(prints[0]) & set(prints[1])
    assert shared
    assert all(prints[0][code] == prints[1][code] for code in shared)


@pytest.mark.parametrize("name", samples.EVERY)
def test_junit_counts_what_it_holds(name):
    audit = judge(name, POLICY)
    suite = Xml.fromstring(audit.render("junit")).find("testsuite")
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.get("tests")) == len(KINDS)
    failed = {each.get("name")[:5] for each in cases if each.find("failure") is not None}
    assert failed == {
        each.code
        for each in audit.findings
        if each.breaks or (each.severity == "error" and each.accepted is None)
    }
    assert int(suite.get("failures")) == len(failed)
    skipped = {each.get("name")[:5] for each in cases if each.find("skipped") is not None}
    assert skipped <= {"FF102"}


@pytest.mark.parametrize("name", samples.EVERY)
def test_annotations_are_one_line_each_and_cannot_be_broken_out_of(name):
    audit = judge(name, POLICY)
    lines = audit.render("github").splitlines()
    assert len(lines) == len(audit.findings) + 1
    form = re.compile(r"::(error|warning|notice) (?:file=[^,:]*,)?title=[^,:]*::[^\r\n]+")
    assert all(form.fullmatch(line) for line in lines)
    accepted = [each for each in audit.findings if each.accepted is not None]
    assert all(f"title={each.code} " in "".join(lines) for each in accepted)


@pytest.mark.parametrize("name", samples.EVERY)
def test_a_card_has_all_headings_and_no_markup_of_others(name):
    text = judge(name, POLICY).render("card")
    front = yaml.safe_load(text.split("---")[1])
    assert "farfield" in front["tags"]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Model Details",
        "## Uses",
        "## Bias, Risks, and Limitations",
        "## How to Get Started with the Model",
        "## Training Details",
        "## Evaluation",
        "## Far-field behaviour",
        "## Validation memo",
    ]
    assert not re.search(r"(?<!\\)<[a-z/!]", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_formats_need_no_pytorch(tmp_path):
    judge("tabular").to_json(tmp_path / "audit.json")
    code = (
        "import sys; from farfield.audit import Audit; from farfield.report.formats import *;"
        "from typing import get_args; audit = Audit.from_json(sys.argv[1]);"
        "[audit.render(kind) for kind in get_args(ReportFormat)];"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "audit.json"], check=True)
