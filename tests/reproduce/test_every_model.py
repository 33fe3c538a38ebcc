"""The study of every model: no row leaks, means keep what is not known, words follow numbers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from farfield.estimate import Estimate
from farfield.reproduce import every_model, every_model_measures, shifted_tables
from farfield.reproduce.every_model_grid import StudyGrid, change, natural, scaled
from farfield.reproduce.every_model_measures import SCALED
from farfield.reproduce.every_model_tables import all_tables, distance_told
from farfield.reproduce.every_model_words import summary
from farfield.reproduce.findings import ResultTable
from farfield.reproduce.page import to_markdown
from farfield.reproduce.shifted_tables import TABLES, ShiftedTable

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "every-model.md").read_text("utf-8")
RUN = json.loads((DOCS / "results" / "every_model.json").read_text("utf-8"))
SETTINGS = {"seed": 0, "rows": 60, "directions": 10, "resamples": 50}


def cell(blind, auroc, *, sure=(1.0, "exact"), guarded=0.9, nll=0.5, accuracy=0.8, low=None):
    """A result as it is kept."""
    share = {"value": blind, "rays": 4} | ({} if low is None else {"low": low, "high": 1.0})
    sampled = {"value": blind, "low": 0.0, "high": 1.0, "rays": 100}

    def near(value):
        found = {"value": value, "low": value - 0.1, "high": value}
        shifted = {SCALED: found, "abroad": found}
        return {"accuracy": accuracy, "nll": nll, "brier": 0.3, "auroc": shifted}

    after = {"refused": "no"}
    if guarded is not None:
        after = {"after": near(guarded), "proven": True, "unchanged": 1.0, "far confidence": 0.5}
    return {
        "rows": 10,
        "classes": 2,
        "exact": low is None,
        "blind": {"axes": share, "random": sampled},
        "sure from": {"median": sure[0], "how": sure[1]},
        "before": near(auroc),
        **after,
    }


def grid_of(cells):
    tables = list(dict.fromkeys(table for table, _ in cells))
    about = {"features": 2, "classes": 2, "train": 10, "test": 5, "foreign": {SCALED: 5}}
    models = list(dict.fromkeys(model for _, model in cells))
    return StudyGrid(tables, models, cells, dict.fromkeys(tables, about))


@pytest.mark.parametrize("name", ["breast cancer", "wine", "digits"])
def test_no_test_row_is_a_training_row(name):
    data = TABLES[name](None)
    own = {row.tobytes() for row in data.train[0]}
    assert len(own) == len(data.train[0])
    assert not any(row.tobytes() in own for row in data.test[0])


def test_gaps_are_filled_from_training_rows_alone():
    values = np.array([[1.0], [np.nan], [3.0], [1000.0]])
    assert shifted_tables._filled(values, np.array([0, 1, 2]))[1, 0] == 2.0


@pytest.fixture
def small(monkeypatch):
    """A table of one feature, and two models of which all is known."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    data = ShiftedTable((X[:100], y[:100]), (X[100:], y[100:]), {"abroad": X[:20] + 50})
    monkeypatch.setitem(TABLES, "small", lambda _: data)
    fitted = []

    class Seen(LogisticRegression):
        def fit(self, X, y):
            fitted.append(X)
            return super().fit(X, y)

    made = {"prior": DummyClassifier(), "line": LogisticRegression(), "seen": Seen()}
    for name, model in made.items():
        monkeypatch.setitem(every_model_measures.MODELS, name, lambda _, model=model: model)
    monkeypatch.setitem(every_model_measures.MOST_ROWS, "seen", 40)
    return data, fitted


def test_a_line_is_blind_and_a_prior_is_not(small):
    line, prior = (
        every_model_measures.measure("small", name, SETTINGS, None) for name in ("line", "prior")
    )
    assert line["exact"]
    assert line["blind"]["axes"] == {"value": 1.0, "rays": 2}
    assert prior["blind"]["axes"] == {"value": 0.0, "rays": 2}
    assert prior["before"]["auroc"][SCALED]["value"] == 0.5
    assert line["before"]["auroc"]["abroad"]["value"] < 0.1
    assert line["after"]["auroc"]["abroad"]["value"] > 0.9
    assert line["after"]["accuracy"] == line["before"]["accuracy"]
    assert line["proven"]
    assert line["far confidence"] <= 0.51


def test_distances_are_those_of_the_logit(small):
    data, _ = small
    model = LogisticRegression().fit(data.train[0][:60], data.train[1][:60])
    found = every_model_measures.measure("small", "line", SETTINGS, None)["sure from"]
    X = data.train[0][:60]
    centre = float(np.median(X))
    logit = math.log(0.999 / 0.001)
    w, b = float(model.coef_[0, 0]), float(model.intercept_[0])
    ends = sorted((abs((sign * logit - b) / w - centre)) / X.std() for sign in (-1, 1))
    assert found["how"] == "exact"
    assert found["median"] == pytest.approx(ends[1], rel=1e-6)


def test_kinds_with_a_cap_get_fewer_rows(small):
    data, fitted = small
    found = every_model_measures.measure("small", "seen", SETTINGS, None)
    assert found["rows"] == 40
    assert np.array_equal(fitted[0], data.train[0][:40])


def test_means_keep_infinity_and_intervals():
    cells = {("a", "m"): cell(1.0, 0.2, nll=math.inf), ("b", "m"): cell(0.0, 0.6)}
    grid = grid_of(cells)
    assert grid.mean("m", lambda r: r["before"]["nll"]) == math.inf
    assert grid.mean("m", change("nll")) == 0.0
    assert grid.mean("m", scaled("before")) == pytest.approx(0.4)
    assert grid.mean("m", natural("after")) == pytest.approx(0.9)
    assert grid.blind("m", "axes") == 0.5
    sampled = grid.blind("m", "random")
    assert isinstance(sampled, Estimate)
    width = math.sqrt(math.log(40) / 2 * (0.01 + 0.01) / 4)
    assert (sampled.low, sampled.high) == pytest.approx((0.5 - width, 0.5 + width))
    table = {table.name: table for table in all_tables(grid)}["models"]
    assert dict(zip(table.columns, table.rows[0], strict=True))["NLL"] == "infinite on 1 of 2"


def test_distances_say_how_well_they_are_known():
    cells = {
        ("a", "m"): cell(1.0, 0.2, sure=(1.0, "exact")),
        ("b", "m"): cell(1.0, 0.2, sure=(math.inf, "exact")),
        ("c", "m"): cell(1.0, 0.2, sure=(3.0, "at most")),
    }
    assert grid_of(cells).sure_from("m") == (3.0, "at most")
    assert distance_told((math.inf, "exact")) == "never"
    assert distance_told((math.inf, "seen")) == "not seen"


def test_the_best_are_chosen_by_test_accuracy():
    cells = {
        ("a", "dull"): cell(0.0, 1.0, accuracy=0.7),
        ("a", "sharp"): cell(1.0, 0.0, accuracy=0.9),
        ("a", "fair"): cell(1.0, 0.0, accuracy=0.8),
    }
    grid = grid_of(cells)
    assert grid.best(2) == ["sharp", "fair"]
    table = {table.name: table for table in all_tables(grid)}["models"]
    assert [row[0] for row in table.rows[-2:]] == ["sharp, guarded", "fair, guarded"]


def test_words_follow_the_numbers():
    cells = {
        ("a", "sure"): cell(1.0, 0.1),
        ("a", "torn"): cell(0.5, 0.5),
        ("a", "open"): cell(0.0, 0.95, guarded=None),
        ("a", "asked"): cell(0.25, 0.7, low=0.1),
    }
    text = "\n".join(summary(grid_of(cells)))
    assert "sure (100%): grow certain" in text
    assert "torn (50%), asked (25%): do so for a part" in text
    assert "open (0%): do so hardly ever" in text
    assert "best by open (AUROC 0.950), worst by sure (0.100); 1 of 4" in text
    assert "made for 3 of 4" in text
    assert "Refused: open on a." in text
    assert "Only looked at, on some table: asked." in text


@pytest.mark.parametrize(("name", "digits"), [("models", 3), ("guards", 4), ("one-feature", 3)])
def test_the_page_has_the_numbers_of_the_run(name, digits):
    table = RUN["tables"][name]
    rows = [[round(v, digits) if isinstance(v, float) else v for v in row] for row in table["rows"]]
    assert to_markdown(ResultTable(name, "", table["columns"], rows)) in PAGE


def test_the_page_has_the_words_of_the_run():
    assert all(f"* {sentence}" in PAGE for sentence in RUN["summary"])


def test_tables_without_their_file_are_left_out_and_named(tmp_path):
    settings = {**every_model.settings(True, 0), "tables": ["a", "ICU"], "models": ["m"]}
    about = {"features": 1, "classes": 2, "train": 1, "test": 1, "foreign": {}}
    found = every_model.present(settings, {"a: data": about, "a: m": cell(1.0, 0.1)})
    assert found.summary[-1] == "Left out, because their files were not given: ICU."
