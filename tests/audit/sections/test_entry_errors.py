"""What errors of data entry do, in a model of which every answer is known."""

import json

import numpy as np
import pandas
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

import farfield as ff
from farfield.audit.record import Audit
from farfield.report.text import format_audit

RNG = np.random.default_rng(0)
# Nine in ten rows are safely negative, and nothing depends on b.
X = np.column_stack([RNG.uniform(1.0, 2.0, 300), RNG.uniform(-1.0, 1.0, 300)])
X[::10, 0] += 8.0


def sure(rows):
    """Positive above 5, and 99.9% sure of whatever it says."""
    positive = np.where(np.asarray(rows)[:, 0] > 5, 0.999, 0.001)
    return np.column_stack([1 - positive, positive])


@pytest.fixture(scope="module")
def audit(short_attack):
    labels = (X[:, 0] > 5).astype(int)
    return ff.audit(sure, X, labels, features=["a", "b"], directions=5, guard=True)


def error(audit, column, name):
    (found,) = [e for e in audit.entry_errors.mistakes if (e.column, e.error) == (column, name)]
    return found


def test_every_change_is_counted(audit):
    sampled = audit.entry_errors.sampled
    assert sampled == 200
    found = error(audit, "a", "times 10")
    assert found.rows == sampled
    # All but the tenth that is above 5 already.
    assert found.flips.value == pytest.approx(0.9, abs=0.03)
    assert found.silent == found.flips
    assert found.certain.value == 1.0
    assert found.rises.value == 0.0
    assert found.noticed["one_minus_max_probability"].value == 0.0
    # Beyond 10 a range check and the guard see it.
    assert found.noticed["range"].value > 0.9
    assert found.noticed["guard"].value > 0.9
    assert found.slips.value < 0.1


def test_an_error_within_the_range_slips_through(audit):
    found = error(audit, "a", "9")
    assert found.flips.value == pytest.approx(0.9, abs=0.03)
    assert found.noticed["range"].value == 0.0
    assert found.slips.value > 0.5
    assert "entered as 9: 0 (99.9%) becomes 1 (99.9%)" in found.example


def test_columns_without_effect_change_nothing(audit):
    own = [e for e in audit.entry_errors.mistakes if e.column == "b"]
    assert own
    assert all(e.flips.value == 0.0 and e.example == "" for e in own)
    assert audit.entry_errors.mistakes[0].column == "a"


def test_reports_show_the_worst(audit, tmp_path):
    assert "Errors of data entry, worst first" in format_audit(audit)
    path = tmp_path / "audit.json"
    audit.to_json(path)
    again = Audit.from_json(path)
    assert again.entry_errors == audit.entry_errors
    assert json.loads(path.read_text())["entry_errors"]["alarms"] == 0.01
    page = again.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Errors of data entry" in page
    assert "Noticed by the guard" in page


def test_a_model_without_an_answer_is_noticed():
    def broken(rows):
        p = sure(rows)
        p[np.asarray(rows)[:, 0] > 100] = np.nan
        return p

    audit = ff.audit(broken, X, features=["a", "b"], directions=5)
    found = error(audit, "a", "999")
    assert found.flips.value == 0.0
    assert found.noticed["one_minus_max_probability"].value == 1.0


def test_all_rows_are_counted_where_asked():
    audit = ff.audit(sure, X, features=["a", "b"], directions=5, entry_rows="all")
    found = error(audit, "a", "times 10")
    assert audit.entry_errors.exact
    assert audit.entry_errors.sampled == 300
    assert found.flips == 0.9
    assert "all 300 rows, exact" in format_audit(audit)
    # Nobody is told which row it is, unless that was asked for.
    assert not any(" in row " in text for text in audit.entry_errors.worst)
    shown = ff.audit(sure, X, features=["a", "b"], directions=5, entry_rows="all", show_rows=True)
    assert any(" in row " in text for text in shown.entry_errors.worst)


def test_categories_that_nobody_knows():
    """All zeros are unknown to a model of one-hot codes."""
    city = RNG.integers(0, 2, 300)
    frame = pandas.DataFrame({"a": X[:, 0], "city": np.where(city == 0, "x", "y")})
    layer = nn.Linear(3, 1)
    layer.weight.data = torch.tensor([[0.0, 2.0, 2.0]])
    layer.bias.data = torch.tensor([-1.0])
    found = error(ff.audit(layer, frame, directions=5), "city", "unknown category")
    # So few rows are all looked at.
    assert found.flips == 1.0
    assert found.noticed["range"] == 1.0


def pipeline(frame, city, **encoder):
    steps = make_column_transformer((OneHotEncoder(**encoder), ["city"]), remainder="passthrough")
    return make_pipeline(steps, LogisticRegression()).fit(frame, city)


@pytest.mark.parametrize("evidence", ["auto", "sampled"])
def test_categories_that_nobody_knows_in_raw_columns(evidence):
    """What a pipeline from raw columns says of them is what it says of a word it never saw."""
    city = RNG.integers(0, 2, 100)
    frame = pandas.DataFrame({"a": X[:100, 0], "city": np.where(city == 0, "x", "y")})
    model = pipeline(frame, city, handle_unknown="ignore")
    audit = ff.audit(model, frame, directions=5, entry_rows="all", evidence=evidence)
    found = error(audit, "city", "unknown category")
    new = model.predict(frame.assign(city="elsewhere"))
    assert found.flips == (new != model.predict(frame)).mean()
    assert 0 < found.flips < 1


def test_models_that_refuse_unknown_categories():
    city = RNG.integers(0, 2, 60)
    frame = pandas.DataFrame({"a": X[:60, 0], "city": np.where(city == 0, "x", "y")})
    model = pipeline(frame, city)
    followed = ff.audit(model, frame, directions=5).entry_errors
    assert followed.refused == ("city",)
    assert {each.column for each in followed.mistakes} == {"a"}
    asked = ff.audit(model, frame, directions=5, evidence="sampled")
    found = error(asked, "city", "unknown category")
    assert found.flips == 0.0
    assert found.noticed["predictive_entropy"] == 1.0


def test_categories_of_wide_tables_are_tried_too():
    wide = pandas.DataFrame(RNG.normal(size=(60, 45))).add_prefix("n")
    wide["city"] = np.where(RNG.integers(0, 2, 60) == 0, "x", "y")
    layer = nn.Linear(47, 2)
    found = ff.audit(layer, wide, directions=5, samples=60).entry_errors
    assert "city" in {each.column for each in found.mistakes}
    assert found.columns == 41


def test_swaps_are_told_with_both_values():
    def larger(rows):
        positive = np.where(np.asarray(rows)[:, 0] > np.asarray(rows)[:, 2], 0.999, 0.001)
        return np.column_stack([1 - positive, positive])

    rows = np.column_stack([np.full(40, 3.0), np.linspace(70, 90, 40), np.full(40, 2.0)])
    rows[:, [0, 2]] += np.linspace(0, 4, 40)[:, None]
    found = ff.entry_errors(larger, rows, features=["a", "b", "c"])
    swaps = {(each.column, each.error): each for each in found.mistakes}
    assert swaps["a", "swapped with c"].flips == 1.0
    assert swaps["a", "swapped with b"].flips == 0.0
    example = swaps["b", "swapped with c"].example
    assert example == "b 70 swapped with c 2 in row 1: 1 (99.9%) becomes 0 (99.9%)"
    # a and b, b and c are neighbours; a and c look alike.
    assert found.swaps == (3, 3)
