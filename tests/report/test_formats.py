"""Every format from every audit: valid, harmless, and made without PyTorch or recomputing."""

import re
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

ACCEPTED = {"code": "FF102", "reason": "checked | at <entry>", "until": date(2999, 1, 1)}
POLICY = {"accepted": [ACCEPTED], "fail_on": "error", "help": "https://example.org/findings/"}


def judge(name, policy=None):
    audit = replace(samples.EVERY[name](), at_hand=AtHand(("my model.onnx",), "a.csv", "y"))
    return judged(audit, as_policy(policy))


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
