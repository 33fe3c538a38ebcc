"""Two audits: better and worse beyond chance, and nothing else."""

import json
from dataclasses import replace

import pytest

from audit.findings.test_kinds import mistake, plain
from farfield.audit.difference import difference
from farfield.audit.fields.entry import EntryErrors
from farfield.audit.judging import judged
from farfield.estimate import Estimate
from report import sample_audits as samples


def with_share(share):
    family = replace(plain().families[0], name="axes", share=share)
    return judged(plain(families=(family,)), None)


def way(old, new):
    return difference(with_share(old), with_share(new)).changes[0].way


def sampled(low, value, high):
    return Estimate(value, low, high, 0.95, "Clopper-Pearson")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (0.5, 0.5, "same"),
        (0.5, 0.4, "better"),
        (0.4, 0.5, "worse"),
        (sampled(0.3, 0.4, 0.5), sampled(0.45, 0.5, 0.6), "unclear"),
        (sampled(0.3, 0.4, 0.5), sampled(0.51, 0.55, 0.6), "worse"),
        (0.55, sampled(0.3, 0.4, 0.5), "better"),
        (0.45, sampled(0.3, 0.4, 0.5), "unclear"),
        (float("nan"), 0.5, "unclear"),
    ],
)
def test_intervals_that_overlap_say_nothing(old, new, expected):
    assert way(old, new) == expected


def test_more_accuracy_is_better_and_more_error_worse():
    old = samples.tabular()
    numbers = dict(old.health.numbers)
    numbers |= {
        "accuracy": sampled(0.999, 0.9995, 1.0),
        "ece": sampled(0.5, 0.6, 0.7),
    }
    new = replace(old, health=replace(old.health, numbers=numbers))
    ways = {each.what: each.way for each in difference(old, new).changes}
    assert ways["Accuracy"] == "better"
    assert ways["Calibration error (ECE)"] == "worse"
    assert ways["Brier score"] == "same"


def test_what_is_measured_on_one_side_only_is_new_or_gone():
    bare, full = plain(), replace(samples.tabular(), families=())
    ways = {each.what: each.way for each in difference(bare, full).changes}
    assert ways["Accuracy"] == "new"
    assert {each.way for each in difference(full, bare).changes if "Accuracy" in each.what} == {
        "gone"
    }


def test_findings_appear_and_vanish_and_gain_columns():
    def wrong(*columns):
        made = EntryErrors(200, 2, 0.01, tuple(mistake(each, "times 10", 90) for each in columns))
        return judged(plain(entry_errors=made), None)

    clean, one, two = judged(plain(), None), wrong("age"), wrong("age", "sex")
    assert [each.code for each in difference(clean, one).appeared] == ["FF201"]
    assert [each.code for each in difference(one, clean).vanished] == ["FF201"]
    assert difference(one, two).appeared[0].columns == ("age", "sex")
    assert difference(two, one).appeared == ()
    assert difference(clean, one).is_worse
    assert not difference(one, clean).is_worse
    assert not difference(one, one).is_worse


def test_a_guard_counts_by_its_proof():
    old = with_share(1.0)
    guarded = replace(old, verdict=replace(old.verdict, family="all, by the guard", blind=0.0))
    assert difference(old, guarded).changes[0].way == "better"


def test_other_data_is_noted_and_all_of_it_is_json():
    old = with_share(0.2)
    new = replace(old, data=replace(old.data, sha256="other"))
    found = difference(old, new)
    assert "the data is not the same in both" in found.notes
    raw = json.loads(found.to_json())
    assert raw["changes"][0]["way"] == "same"
    assert raw["notes"]
