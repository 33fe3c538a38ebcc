"""A schema proposed from data: what it says, and that it can be read."""

import tomllib

import numpy as np
import pandas
import pytest

import farfield.data as data
from farfield.errors import InputError

RNG = np.random.default_rng(0)
ROWS = 60


def table(**columns):
    return pandas.DataFrame(columns)


def proposed(frame, **options):
    text = data.propose_schema(frame, **options)
    return text, data.parse_schema(tomllib.loads(text))


def test_kinds_bounds_and_units():
    _, schema = proposed(
        table(
            age=RNG.integers(20, 90, ROWS),
            weight_kg=RNG.uniform(40, 120, ROWS),
            occupancy_share=RNG.uniform(0, 1, ROWS),
            saturation_percent=RNG.uniform(80, 100, ROWS),
            glucose_mg_dl=RNG.uniform(60, 200, ROWS),
            visits=RNG.integers(0, 40, ROWS),
            balance=RNG.normal(size=ROWS),
            city=np.where(RNG.random(ROWS) > 0.5, "x", "y"),
        )
    )
    assert (schema["age"].low, schema["age"].unit) == (0.0, "years")
    assert (schema["weight_kg"].low, schema["weight_kg"].unit) == (0.0, "kg")
    assert (schema["occupancy_share"].low, schema["occupancy_share"].high) == (0.0, 1.0)
    assert (schema["saturation_percent"].high, schema["saturation_percent"].unit) == (100.0, "%")
    assert schema["glucose_mg_dl"].unit == "mg/dl"
    assert schema["visits"].low == 0.0
    assert schema["city"].values == ("x", "y")
    assert "balance" not in schema.features


def test_codes_for_missing_are_comments_and_break_no_bound():
    lactate = np.round(RNG.uniform(0.5, 6.0, ROWS), 1)
    lactate[:3], weight = -1.0, RNG.uniform(50.0, 90.0, ROWS)
    weight[:4] = 999.0
    frame = table(lactate=lactate, weight=weight)
    text, schema = proposed(frame)
    assert "# missing = [-1]  # in 3 rows" in text
    assert "# missing = [999]  # in 4 rows" in text
    assert schema["weight"].missing is None
    data.open_table(frame, schema=schema)


def test_a_value_that_stands_for_missing_is_missing():
    frame = table(age=[30.0, 999.0, 50.0], city=["x", "?", "y"])
    schema = data.parse_schema(
        {"features": {"age": {"missing": [999]}, "city": {"missing": ["?"]}}}
    )
    with pytest.raises(InputError, match="missing values in 2 of 2 columns"):
        data.open_table(frame, schema=schema)
    found = data.open_table(frame, schema=schema, impute="mean")
    assert found.missing == {"age": 1, "city": 1}
    assert found.read().X[:, 0].tolist() == [30.0, 40.0, 50.0]
    assert found.columns[1].values == ("x", "y")
    again = data.open_table(table(age=[999.0], city=["x"]), like=found)
    assert again.read().X.tolist() == [[40.0, 1.0, 0.0]]


def test_small_codes_are_no_sentinels():
    text, _ = proposed(table(grade=RNG.integers(0, 4, ROWS), zero=RNG.integers(0, 9, ROWS)))
    assert "missing" not in text
    assert "are they codes?" in text


def test_what_is_not_moved_is_said():
    text, schema = proposed(
        table(
            smoker=RNG.integers(0, 2, ROWS),
            site=np.ones(ROWS),
        )
    )
    assert "# 0 and 1 only" in text
    assert "# holds 1 only" in text
    assert schema["smoker"].kind is None


def test_identifiers_are_left_out():
    _, schema = proposed(table(name=[f"n{row}" for row in range(300)], x=np.arange(300.0) / 7))
    assert schema["name"].kind == "ignore"


def test_the_label_is_named(tmp_path):
    path = tmp_path / "odd name.csv"
    path.write_text('"a ""b""",outcome\n1.5,yes\n2.5,no\n')
    text, schema = proposed(path)
    assert schema.label.column == "outcome"
    assert 'classes = ["no", "yes"]' in text
    assert proposed(path, label="outcome")[1].label.column == "outcome"
    with pytest.raises(InputError, match="no column 'nothing' for the label"):
        data.propose_schema(path, label="nothing")
    empty = tmp_path / "empty.csv"
    empty.write_text("a,b\n")
    with pytest.raises(InputError, match="no data rows"):
        data.propose_schema(empty)


def test_binary_columns_are_categories_unless_told_otherwise():
    frame = table(smoker=RNG.integers(0, 2, ROWS), x=RNG.normal(size=ROWS))
    found = data.open_table(frame)
    smoker = found.columns[0]
    assert smoker.binary
    assert smoker.discrete
    assert (smoker.low, smoker.high, smoker.options) == (0.0, 1.0, ("0", "1"))
    assert any("taken for categories" in note for note in found.notes)
    assert found.shape == (2,)
    told = data.Schema({"smoker": data.FeatureSchema(kind="numeric")})
    assert not data.open_table(frame, schema=told).columns[0].binary
    assert not data.open_table(frame[:5]).columns[0].binary
    rows = smoker.put(np.zeros((2, 2)), 1)
    assert rows.tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_gaps_in_binary_columns_do_not_make_them_numbers():
    smoker = RNG.integers(0, 2, ROWS).astype(float)
    smoker[::7] = np.nan
    (found, *_) = data.open_table(table(smoker=smoker), impute="mean").columns
    assert found.binary
    assert 0 < found.fill < 1
    assert (found.low, found.high) == (0.0, 1.0)
