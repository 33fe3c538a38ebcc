"""Policies: what is accepted, until when and for which columns; what breaks an audit."""

import datetime
from dataclasses import replace

import pytest

import farfield as ff
from audit.findings.test_kinds import mistake, plain
from farfield.audit.fields.entry import EntryErrors
from farfield.audit.judging import judged
from farfield.audit.policy import as_policy, read_policy
from farfield.errors import InputError

DAY = datetime.date(2026, 11, 17)
REASON = {"reason": "checked at entry", "until": DAY}


def wrong(**more):
    made = EntryErrors(
        200, 3, 0.01,
        (mistake("age", "times 10", 90), mistake("age", "times 100", 80),
         mistake("sex", "a tenth", 40)),
    )  # fmt: skip
    return plain(entry_errors=made, **more)


def judge(audit, policy, day=DAY):
    return judged(audit, as_policy(policy), day)


def test_an_accepted_finding_stays_and_is_last():
    blind = (replace(plain().families[0], share=1.0),)
    found = judge(wrong(families=blind), {"accepted": [{"code": "FF101", **REASON}]}).findings
    assert [(each.code, each.accepted is not None) for each in found] == [
        ("FF201", False), ("FF101", True),
    ]  # fmt: skip
    assert found[1].accepted.reason == "checked at entry"


def test_an_acceptance_ends():
    policy = {"accepted": [{"code": "FF201", **REASON}], "fail_on": "error"}
    assert judge(wrong(), policy).passed
    late = judge(wrong(), policy, DAY + datetime.timedelta(days=1))
    assert not late.passed
    assert late.findings[0].accepted is None
    assert late.findings[0].lapsed.until == DAY


def test_columns_are_accepted_one_by_one():
    policy = {"accepted": [{"code": "FF201", "columns": ["age"], **REASON}], "fail_on": "error"}
    rest, accepted = judge(wrong(), policy).findings
    assert (rest.columns, accepted.columns) == (("sex",), ("age",))
    assert "2 errors of data entry in 1 column" in accepted.detail
    assert rest.breaks
    assert not accepted.breaks


def test_a_column_that_is_not_concerned_changes_nothing():
    policy = {"accepted": [{"code": "FF201", "columns": ["height"], **REASON}]}
    assert judge(wrong(), policy).findings == judge(wrong(), None).findings


def test_severity_can_be_set_and_fails_from_there_on():
    assert judge(wrong(), {"severity": {"FF201": "note"}, "fail_on": "warning"}).passed
    assert not judge(wrong(), {"severity": {"FF201": "warning"}, "fail_on": "warning"}).passed
    assert judge(wrong(), None).passed


def test_budgets_break_and_hold():
    family = replace(plain().families[0], share=0.3)
    audit = wrong(families=(family,))
    for budgets, expected in (
        ({"blind": 0.3, "entry_errors": 0.45}, set()),
        ({"blind": 0.29}, {"FF001"}),
        ({"blind": {family.name: 0.1}, "entry_errors": 0.4}, {"FF001", "FF002"}),
        ({"accuracy": 0.9}, {"FF005"}),
        ({"blind": {"elsewhere": 0.5}}, {"FF005"}),
    ):
        found = judge(audit, {"budgets": budgets})
        assert {each.code for each in found.findings if each.breaks} == expected
        assert found.passed is (not expected)


def test_budgets_of_quality():
    from report.sample_audits import tabular

    audit = replace(tabular(), at_hand=plain().at_hand)
    numbers = audit.health.numbers
    accuracy, ece = numbers["accuracy"].value, numbers["ece"].value
    kept = judge(audit, {"budgets": {"accuracy": accuracy, "ece": ece}})
    assert not {"FF003", "FF004"} & {each.code for each in kept.findings}
    over = judge(audit, {"budgets": {"accuracy": accuracy + 1e-6, "ece": ece - 1e-6}})
    assert {"FF003", "FF004"} <= {each.code for each in over.findings if each.breaks}


def test_max_blind_is_a_budget_too():
    base = plain(families=(replace(plain().families[0], share=0.3),))
    audit = replace(base, verdict=replace(base.verdict, max_blind=0.1, passed=False))
    assert [each.code for each in judge(audit, None).findings if each.breaks] == ["FF001"]


def test_judged_audits_are_plain_data(tmp_path):
    policy = {"accepted": [{"code": "FF201", "columns": ["age"], **REASON}], "budgets": {"ece": 1}}
    audit = judge(wrong(), policy)
    audit.to_json(tmp_path / "audit.json")
    again = ff.Audit.from_json(tmp_path / "audit.json")
    assert (again.findings, again.policy) == (audit.findings, audit.policy)
    assert again.to_json() == audit.to_json()


def test_audits_from_before_there_were_findings_get_theirs(tmp_path):
    import json

    audit = judge(wrong(), None)
    raw = json.loads(audit.to_json())
    for name in ("findings", "policy", "at_hand", "arithmetic"):
        del raw[name]
    (tmp_path / "old.json").write_text(json.dumps(raw))
    old = ff.Audit.from_json(tmp_path / "old.json")
    assert [each.code for each in old.findings] == [each.code for each in audit.findings]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budgets = ", "is not TOML"),
        ("[budget]\nblind = 1", "farfield.toml: budget: there is no such setting"),
        ("[budgets]\nblnd = 1", "budgets.blnd: there is no such setting"),
        ("[budgets]\naccuracy = 95", "budgets: accuracy is a share from 0 to 1, got 95"),
        ("[budgets.blind]\naxes = -1", "blind.axes is a share from 0 to 1, got -1"),
        ('[severity]\nFF101 = "bad"', "severity.FF101: Input should be 'error', 'warning'"),
        ('[severity]\nFF999 = "note"', "there is no finding FF999; there are FF001"),
        ('[[accepted]]\ncode = "FF101"\nuntil = 2027-01-01', "accepted.0.reason: is missing"),
        ('[[accepted]]\ncode = "FF101"\nreason = "x"', "accepted.0.until: is missing"),
        (
            '[[accepted]]\ncode = "FF101"\nreason = " "\nuntil = 2027-01-01',
            "FF101 is accepted without a reason",
        ),
        ('[[accepted]]\ncode = "FF101"\nreason = "x"\nuntil = "soon"', "accepted.0.until: "),
        ('source = "x"', "source is where it is"),
    ],
)
def test_bad_policies_are_one_clear_line(tmp_path, text, message):
    path = tmp_path / "farfield.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_policy(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
