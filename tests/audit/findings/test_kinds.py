"""Kinds of findings: what each says of an audit, their pages, and that codes are taken once."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from farfield.audit.at_hand import AtHand
from farfield.audit.fields.arithmetic import Arithmetic, Lapse
from farfield.audit.fields.depth import FarDepth
from farfield.audit.fields.entry import EntryErrors, Mistake
from farfield.audit.fields.features import Collapse
from farfield.audit.findings import KINDS
from farfield.audit.findings.document import pages
from farfield.audit.findings.kind import registered
from farfield.audit.judging import judged
from farfield.estimate import Estimate, clopper_pearson
from farfield.report.content.findings import counted
from report import sample_audits as samples

DOCS = Path(__file__).parents[3] / "docs" / "findings"
FILES = AtHand(("net work.onnx",), "train.csv", "outcome")


def plain(**more):
    """A table and a classifier with files at hand, and nothing wrong with it."""
    base = samples.tabular()
    families = tuple(replace(each, share=0.0, unanswered=0.0) for each in base.families)
    calm = {
        "families": families,
        "features": (),
        "detection": (),
        "health": None,
        "entry_errors": None,
        "verdict": replace(base.verdict, passed=None, max_blind=None),
        "at_hand": FILES,
    }
    return replace(base, **(calm | more))


def codes(audit):
    return [each.code for each in judged(audit, None).findings]


def finding(audit, code):
    return next(each for each in judged(audit, None).findings if each.code == code)


def mistake(column, error, silent, rows=200, slips=0):
    share = clopper_pearson(silent, rows)
    return Mistake(
        column, error, rows, share, share, share, share, clopper_pearson(slips, rows), {}
    )


def test_nothing_is_found_where_nothing_is_wrong():
    assert codes(plain()) == []


def test_certain_in_every_direction_or_in_many():
    base = plain()
    every = replace(base.families[0], share=1.0)
    some = replace(base.families[0], share=Estimate(0.4, 0.3, 0.5, 0.95, "Clopper-Pearson"))
    few = replace(base.families[0], share=0.05)
    assert codes(replace(base, families=(every, some))) == ["FF101"]
    assert codes(replace(base, families=(some, few))) == ["FF103"]
    assert codes(replace(base, families=(few,))) == []
    found = finding(replace(base, families=(some,)), "FF103").evidence[0]
    assert found.known == "interval"
    assert found.value == some.share
    assert finding(replace(base, families=(every,)), "FF101").evidence[0].known == "exact"


def test_commands_name_the_files_at_hand_for_a_shell():
    found = finding(plain(families=(replace(plain().families[0], share=1.0),)), "FF101")
    assert found.action == (
        "farfield guard 'net work.onnx' --data train.csv --label outcome -o safe.onnx"
    )
    of_objects = finding(
        plain(families=(replace(plain().families[0], share=1.0),), at_hand=AtHand()), "FF101"
    )
    assert of_objects.action == "ff.guard(model, X)"


def test_one_feature_makes_the_model_certain():
    base = samples.tabular()
    found = finding(plain(features=base.features), "FF102")
    sure = [
        each.name
        for each in base.features
        if any(e is not None and e.bound is None and e.blind >= 0.5 for e in (each.down, each.up))
    ]
    assert sorted(found.columns) == sorted(sure)
    assert f"{len(sure)} features of {len(base.features)}" in found.detail
    assert {each.known for each in found.evidence} == {"exact"}
    first = min(base.features, key=lambda each: each.soonest)
    assert found.columns[0] == first.name
    assert found.evidence[0].value in (first.down.value[1], first.up.value[1])
    bounded = [replace(each, up=None, down=replace(each.down, bound=0.0)) for each in base.features]
    assert "FF102" not in codes(plain(features=tuple(bounded)))


def test_errors_and_sentinels_are_kept_apart():
    made = EntryErrors(
        200, 2, 0.01,
        (mistake("age", "times 10", 90), mistake("age", "999", 50), mistake("sex", "a tenth", 2)),
    )  # fmt: skip
    found = judged(plain(entry_errors=made), None).findings
    assert [(each.code, each.columns) for each in found] == [
        ("FF201", ("age",)), ("FF202", ("age",)),
    ]  # fmt: skip
    assert "age, times 10, for 45% of the rows" in found[0].detail
    assert isinstance(found[0].evidence[0].value, Estimate)
    assert found[0].action.endswith("--envelope -o safe.onnx")


def test_shares_of_all_rows_are_exact():
    exact = replace(mistake("age", "times 10", 90), silent=0.02)
    made = EntryErrors(200, 1, 0.01, (exact, replace(exact, column="sex", silent=0.01)), of=200)
    found = finding(plain(entry_errors=made), "FF201")
    assert found.columns == ("age",)
    assert (found.evidence[0].value, found.evidence[0].known) == (0.02, "exact")


def test_the_guard_of_a_guarded_model_notices():
    made = EntryErrors(200, 1, 0.01, (mistake("age", "times 10", 90, slips=0),))
    audit = plain(entry_errors=made)
    guarded = replace(audit, verdict=replace(audit.verdict, family="all, by the guard"))
    assert codes(audit) == ["FF201"]
    assert codes(guarded) == []
    slipping = EntryErrors(200, 1, 0.01, (mistake("age", "times 10", 90, slips=50),))
    found = finding(replace(guarded, entry_errors=slipping), "FF201")
    assert found.action == "farfield explain FF201"
    assert "in any score or from the guard" in found.detail


def test_members_that_agree_and_spreads_that_collapse():
    base = plain()
    agreeing = replace(base.families[0], disagreeing=0.2)
    several = replace(base.model, instances=5)
    assert codes(replace(base, model=several, families=(agreeing,))) == ["FF301"]
    assert codes(replace(base, families=(agreeing,))) == []
    collapsing = (Collapse("x", "up", 0.9, -1.0, 0.0), Collapse("y", "up", 0.1, -1.0, 0.0))
    regressor = plain(task="regression", collapses=collapsing)
    assert finding(regressor, "FF302").columns == ("x",)


def test_quality_counts_intervals():
    base = samples.tabular()
    numbers = dict(base.health.numbers)
    near = Estimate(0.06, 0.04, 0.08, 0.95, "bootstrap")
    far = Estimate(0.06, 0.051, 0.08, 0.95, "bootstrap")
    for ece, expected in ((near, []), (far, ["FF401"])):
        health = replace(base.health, numbers=numbers | {"ece": ece}, baseline=0.1)
        assert codes(plain(health=health)) == expected
    worse = replace(base.health, numbers=numbers | {"ece": near}, baseline=0.9999)
    assert codes(plain(health=worse)) == ["FF403"]


def test_a_distance_must_win_beyond_the_intervals():
    base = samples.tabular()
    own = next(each for each in base.detection if not each.reference)
    reference = next(each for each in base.detection if each.reference)
    own = replace(own, dataset="a", auroc=Estimate(0.7, 0.65, 0.75, 0.95, "b"))
    near = replace(reference, dataset="a", auroc=Estimate(0.78, 0.74, 0.8, 0.95, "b"))
    far = replace(near, auroc=Estimate(0.9, 0.85, 0.95, 0.95, "b"))
    assert codes(plain(detection=(own, near))) == []
    assert codes(plain(detection=(own, far))) == ["FF402"]
    assert codes(plain(detection=(own, replace(far, dataset="b")))) == []


def test_arithmetic_that_gives_out():
    lapses = (
        Lapse("age up", "age", False, 1e20, 1.2e21),
        Lapse("income down", "income", True, 1e9, -1e12, 0.31, 0.99),
    )
    found = judged(plain(arithmetic=Arithmetic("float32", 8, 1e35, None, lapses)), None).findings
    assert [(each.code, each.columns) for each in found] == [
        ("FF501", ("age",)), ("FF502", ("income",)),
    ]  # fmt: skip
    assert "in float32" in found[0].detail
    assert "31%" in found[1].detail
    assert "99%" in found[1].detail


def test_what_was_only_seen_says_so():
    base = plain()
    seen = replace(base, verdict=replace(base.verdict, seen_to=1e6))
    assert codes(seen) == ["FF602"]
    assert finding(seen, "FF602").action.endswith("--label outcome --evidence exact")


@pytest.mark.parametrize("name", samples.EVERY)
def test_every_audit_can_be_judged_and_rendered(name):
    audit = judged(samples.EVERY[name](), None)
    assert [each.code for each in audit.findings if each.code not in KINDS] == []
    assert f"Findings: {counted(audit.findings)}" in str(audit)
    assert all(each.code in str(audit) for each in audit.findings)


def test_a_code_is_taken_once():
    one = next(iter(KINDS.values()))
    with pytest.raises(ValueError, match=rf"{one.code} is '{one.title}' already, .* 'other'"):
        registered([one, replace(one, title="other")])


def test_codes_are_well_formed_and_pages_are_complete():
    assert all(re.fullmatch(r"FF\d{3}", code) for code in KINDS)
    for kind in KINDS.values():
        for text in (kind.why, kind.how, kind.todo, kind.ignore):
            assert text.endswith(".")
            assert "  " not in text


def test_the_documents_are_those_that_explain_prints():
    written = {path.name: path.read_text("utf-8") for path in DOCS.glob("*.md")}
    assert written == pages(), "run make docs"


def test_findings_are_told_without_pytorch():
    code = (
        "import sys; from farfield.audit.findings.document import pages; pages();"
        "import farfield.audit.record; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_cap_on_confidence_is_noted():
    audit = plain()
    capped = finding(replace(audit, model=replace(audit.model, cap=0.84)), "FF604")
    assert capped.severity == "note"
    assert capped.evidence[0].value == 0.84


def test_weights_without_a_part_are_noted_from_half_of_them_on():
    audit = plain()
    shallow = finding(replace(audit, depth=FarDepth(4, 1000, 700)), "FF605")
    assert shallow.severity == "note"
    assert shallow.evidence[0].value == 0.7
    assert "1,000 weights" in shallow.detail
    deep = judged(replace(audit, depth=FarDepth(4, 1000, 400)), None)
    assert "FF605" not in {each.code for each in deep.findings}
