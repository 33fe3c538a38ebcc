"""Findings as SARIF: valid by the schema of version 2.1.0 itself, whatever names and texts say.

The schema is that of Microsoft's ``sarif-2.1.0.json`` (the npm package
``@microsoft/sarif-multitool-linux`` 5.7.0), which is under the MIT licence beside it.
"""

import json
import re
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.audit.at_hand import AtHand
from farfield.audit.findings import KINDS
from farfield.audit.findings.finding import SEVERITIES, Acceptance, Finding, Measure
from farfield.audit.judging import judged
from farfield.audit.policy import as_policy
from farfield.evaluate import Estimate
from farfield.report.sarif import address
from report import sample_audits as samples

jsonschema = pytest.importorskip("jsonschema", reason="checks documents against schemas")
ACCEPTED = {"code": "FF102", "reason": "checked | at <entry>", "until": date(2999, 1, 1)}
POLICY = {"accepted": [ACCEPTED], "fail_on": "error", "help": "https://example.org/findings/"}
REFERENCE = re.compile(r"[\w%./~-]*", re.ASCII)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:\S+")


@cache
def held():
    """The schema, made once; as an argument it would fill the messages of hypothesis."""
    text = (Path(__file__).parent / "sarif-2.1.0.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.fixture
def schema():
    return held()


def logged(audit):
    return json.loads(audit.render("sarif"))


def judge(name, policy=POLICY):
    audit = replace(samples.EVERY[name](), at_hand=AtHand(("my model.onnx",), "a.csv", "y"))
    return judged(audit, as_policy(policy))


@pytest.mark.parametrize("name", samples.EVERY)
def test_sarif_is_valid_and_has_every_rule(name, schema):
    audit = judge(name)
    log = logged(audit)
    schema.validate(log)
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [each["id"] for each in rules] == list(KINDS)
    assert rules[0]["helpUri"] == "https://example.org/findings/FF001"
    assert run["tool"]["driver"]["informationUri"] == "https://example.org/findings/"
    assert len(run["results"]) == len(audit.findings)
    for result, finding in zip(run["results"], audit.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        assert ("suppressions" in result) is (finding.accepted is not None)
        where = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert where == "my%20model.onnx"


def test_addresses_of_pages_may_hold_the_code_anywhere(schema):
    log = logged(judge("tabular", POLICY | {"help": "https://example.org/findings/{code}.html"}))
    schema.validate(log)
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["rules"][0]["helpUri"] == "https://example.org/findings/FF001.html"
    assert driver["informationUri"] == "https://example.org/findings/"


def test_the_schema_refuses(schema):
    log = logged(judge("tabular"))
    del log["runs"][0]["results"][0]["message"]
    with pytest.raises(jsonschema.ValidationError, match="'message' is a required property"):
        schema.validate(log)


def test_rules_have_names_in_one_word_each():
    rules = logged(judge("bare"))["runs"][0]["tool"]["driver"]["rules"]
    names = [each["name"] for each in rules]
    assert len(set(names)) == len(names)
    assert "TheoremsAssumptionFails" in names
    assert "SentinelIsTakenForValue" in names
    assert all(re.fullmatch(r"([A-Z]+[a-z]+)+", each) for each in names)
    assert all(ADDRESS.fullmatch(each["helpUri"]) for each in rules)


TEXTS = st.text(max_size=40)
SHARES = st.floats(0, 1)
MEASURES = st.builds(
    Measure,
    TEXTS,
    st.floats() | SHARES.map(lambda x: Estimate(x, x, x, 0.95, "bootstrap")),
    st.sampled_from(["exact", "interval", "at most", "seen", "sample", "limit"]),
    st.booleans(),
    TEXTS,
)
FINDINGS = st.builds(
    Finding,
    st.sampled_from([*KINDS, "FF999", ""]),
    st.sampled_from(SEVERITIES),
    TEXTS,
    TEXTS,
    st.lists(MEASURES, max_size=2).map(tuple),
    st.lists(TEXTS | st.sampled_from(["x" * 200, "x" * 201]), max_size=4).map(tuple),
    TEXTS,
    st.none() | st.builds(Acceptance, st.just("FF101"), TEXTS, st.dates()),
)


@settings(max_examples=40)
@given(st.lists(FINDINGS, max_size=3), TEXTS, TEXTS)
def test_no_text_makes_it_invalid(findings, file, command):
    base = samples.bare()
    audit = replace(
        base,
        findings=tuple(findings),
        at_hand=AtHand((file,), "a.csv", "y"),
        provenance=replace(base.provenance, command=command, farfield=command),
    )
    log = logged(audit)
    held().validate(log)
    for result in log["runs"][0]["results"]:
        where = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert REFERENCE.fullmatch(where)


def test_fingerprints_stay_while_numbers_change():
    audit = judge("tabular")
    other = judged(replace(audit, families=audit.families[:1]), None)
    prints = [
        {each["ruleId"]: each["partialFingerprints"] for each in logged(one)["runs"][0]["results"]}
        for one in (audit, other)
    ]
    shared = set(prints[0]) & set(prints[1])
    assert shared
    assert all(prints[0][code] == prints[1][code] for code in shared)


def test_paths_of_other_systems_are_references_too():
    assert address("C:\\models\\my net.onnx") == "C%3A/models/my%20net.onnx"
