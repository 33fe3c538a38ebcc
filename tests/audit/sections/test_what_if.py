"""Typical rows with one column moved: the model's own answers, its limits, and the guard's."""

import math

import numpy as np
import pandas
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.audit.record import Audit

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "lactate": RNG.uniform(0.0, 10.0, 80),
        "b": RNG.normal(size=80),
        "smoker": RNG.integers(0, 2, 80),
        "ward": np.array(["icu", "er"])[RNG.integers(0, 2, 80)],
    }
)


def model():
    """Logit lactate - 4 - smoker."""
    made = nn.Linear(5, 1)
    made.weight.data = torch.tensor([[1.0, 0.0, -1.0, 0.0, 0.0]])
    made.bias.data = torch.tensor([-4.0])
    return made


@pytest.fixture(scope="module")
def audit(short_attack):
    schema = ff.data.Schema({"lactate": ff.data.FeatureSchema(low=0.0)})
    return ff.audit(model(), FRAME, schema=schema, directions=5, guard=True)


def test_curves_are_the_models_own_answers(audit):
    found = audit.what_if
    names = [column.name for column in found.columns]
    assert sorted(names) == ["b", "lactate", "smoker", "ward"]
    assert [row.title for row in found.rows] == ["the median row", "typical of 0", "typical of 1"]
    at = names.index("lactate")
    column, row = found.columns[at], found.rows[0]
    smoker = row.values[names.index("smoker")]
    for value, label, sure in zip(
        column.values, row.curves[at].label, row.curves[at].confidence, strict=True
    ):
        p = 1 / (1 + math.exp(-min(value - 4 - smoker, 700.0)))
        assert sure == pytest.approx(max(p, 1 - p), abs=1e-5)
        assert label == int(p > 0.5)


def test_places_run_from_end_to_end_and_hold_the_rows_own(audit):
    columns = {column.name: column for column in audit.what_if.columns}
    assert columns["lactate"].values[0] == 0.0
    assert columns["lactate"].values[-1] == math.inf
    assert columns["b"].values[0] == -math.inf
    assert columns["smoker"].options == ("0", "1")
    for row in audit.what_if.rows:
        for column, value in zip(audit.what_if.columns, row.values, strict=True):
            assert value in column.values
            assert list(column.values) == sorted(column.values)


def test_the_guard_knows_nothing_at_infinity(audit):
    names = [column.name for column in audit.what_if.columns]
    for row in audit.what_if.rows:
        curve = row.curves[names.index("lactate")]
        assert curve.confidence[-1] == 1.0
        assert curve.guarded[-1] == 0.5
        assert len(curve.guarded) == len(curve.confidence)


def test_it_is_saved_and_shown(audit, tmp_path):
    path = tmp_path / "audit.json"
    audit.to_json(path)
    again = Audit.from_json(path)
    assert again.what_if == audit.what_if
    page = again.to_html(tmp_path / "page.html")
    assert page.stat().st_size < 5_000_000
    assert 'id="what-if"' in page.read_text(encoding="utf-8")


def test_rows_of_the_data_only_where_they_may_be_shown(audit):
    own = FRAME["lactate"].round(12).tolist()
    at = [column.name for column in audit.what_if.columns].index("lactate")
    assert all(round(row.values[at], 12) not in own for row in audit.what_if.rows[:1])
    shown = ff.audit(model(), FRAME, directions=5, samples=30, show_rows=True).what_if
    assert shown.rows[-1].title.startswith("the row of the data")
    assert shown.rows[-1].guarded is None
