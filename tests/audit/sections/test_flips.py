"""How little changes the class, as an audit tells it: quantiles over rows, and first values."""

import math

import numpy as np
import pandas
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import farfield as ff
from farfield.audit.record import Audit
from farfield.report.text import format_audit

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.uniform(0.0, 10.0, 400), RNG.normal(size=400)])


def layer():
    """Logit 5 (x - 4): another class from 4 on."""
    made = nn.Linear(2, 1)
    made.weight.data, made.bias.data = torch.tensor([[5.0, 0.0]]), torch.tensor([-20.0])
    return made


@pytest.fixture(scope="module")
def audit():
    return ff.audit(layer(), X, features=["lactate", "b"], directions=5)


def test_half_of_the_rows_need_the_median(audit):
    first, second = audit.flips
    assert (first.column, second.column) == ("lactate", "b")
    assert first.exact
    assert first.ever.value == 1.0
    expected = np.median(np.abs(X[:, 0] - 4.0))
    assert first.half.low <= expected <= first.half.high
    assert first.half.low <= first.half.value <= first.half.high
    assert second.ever.value == 0.0
    assert second.half.value == math.inf
    assert second.sure.value in (0.0, math.inf)


def test_quantiles_of_all_rows_are_exact():
    some = X[:60]
    (first, _) = ff.audit(layer(), some, features=["lactate", "b"], directions=5).flips
    sizes = np.sort(np.abs(some[:, 0] - 4.0))
    assert first.half.value == pytest.approx(sizes[29])
    assert first.half.low == first.half.value == first.half.high
    assert first.within == (sizes <= some[:, 0].std()).mean()


def test_the_first_sure_value_is_not_only_where_it_stays():
    """Sure between two bumps as well, and then for good."""
    net = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1))
    net[0].weight.data = torch.ones(3, 1)
    net[0].bias.data = torch.tensor([0.0, -2.0, -4.0])
    # Logit 10 x up to 2, then down to 0 at 4, then 10 (x - 4).
    net[2].weight.data, net[2].bias.data = torch.tensor([[10.0, -20.0, 20.0]]), torch.zeros(1)
    rows = RNG.uniform(-1.0, 0.0, (40, 1))
    (feature,) = ff.audit(net, rows, features=["x"], directions=5).features
    level = math.log(999) / 10
    assert feature.up.first == pytest.approx((level,) * 3)
    assert feature.up.value == pytest.approx((4 + level,) * 3)


def test_trees_have_first_values_too():
    """Unsure below 4, and sure above."""
    labels = (X[:, 0] > 4) | (np.arange(400) % 2 == 0)
    tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, labels)
    found = ff.audit(tree, X, features=["lactate", "b"], directions=5)
    lactate = found.features[0]
    threshold = tree.tree_.threshold[0]
    assert all(each.exact for each in found.flips)
    assert lactate.up.first[0] == pytest.approx(threshold)
    assert lactate.up.value[0] == pytest.approx(threshold)
    assert lactate.down.first[2] == -math.inf


def test_categories_and_black_boxes():
    frame = pandas.DataFrame({"a": X[:, 0], "city": np.where(X[:, 1] > 0, "x", "y")})

    def model(rows):
        p = np.where(rows["city"] == "x", 0.9, 0.2)
        return np.column_stack([1 - p, p])

    found = {each.column: each for each in ff.audit(model, frame, directions=5).flips}
    assert found["city"].ever.value == 1.0
    assert found["city"].quantiles == ()
    assert not found["a"].exact
    assert found["a"].ever.value == 0.0


def test_reports_tell_both(audit, tmp_path):
    path = tmp_path / "audit.json"
    audit.to_json(path)
    again = Audit.from_json(path)
    assert again.flips == audit.flips
    assert "alf of the rows change class if lactate moves by" in format_audit(again)
    page = again.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Half of the rows flip within" in page
