"""Which errors of data entry fit a column, and what they make of its values."""

import numpy as np
import pytest

from farfield.data import TableColumn
from farfield.evaluate.entry_kinds import errors_of


def made(name, values, unit=""):
    column = TableColumn(name, (0,), unit)
    rows = np.asarray(values, dtype=float)[:, None]
    found = {each.name: each for each in errors_of(column, rows)}
    return {
        key: each.wrong(rows)[:, 0].tolist() for key, each in found.items() if len(each.places) == 1
    }


def test_digits_signs_and_points():
    found = made("x", [12.5, -3.25, 40.0])
    assert found["times 10"] == [125.0, -32.5, 400.0]
    assert found["a hundredth"] == pytest.approx([0.125, -0.0325, 0.4])
    assert found["sign lost"] == [12.5, 3.25, 40.0]
    assert found["decimal point lost"] == [125.0, -325.0, 40.0]
    assert "sign lost" not in made("x", [1.0, 2.0])
    assert "decimal point lost" not in made("x", [1.0, 2.0])


def test_points_of_single_precision_are_found_and_those_of_computed_numbers_are_not():
    entered = np.array([12.1, 3.7, 8.25], dtype=np.float32).astype(float)
    assert made("x", entered)["decimal point lost"] == pytest.approx([121, 37, 825], rel=1e-6)
    assert "decimal point lost" not in made("x", np.random.default_rng(0).normal(size=50))


def test_sentinels_unless_the_data_holds_them():
    found = made("age", [30.0, 99.0])
    assert found["999"] == [999.0, 999.0]
    assert found["1e+20"] == [1e20, 1e20]
    assert "99" not in found
    assert "1900-01-01 (1)" not in found
    assert made("birth_date", [20000.0, 30000.0])["1900-01-01 (-25567)"] == [-25567.0] * 2


@pytest.mark.parametrize(
    ("name", "unit", "errors"),
    [
        ("weight", "", {"kg as lb", "lb as kg"}),
        ("weight", "kg", {"kg as lb", "kg as g"}),
        ("weight_lb", "", {"lb as kg"}),
        ("body", "kg", {"kg as lb", "kg as g"}),
        ("temperature", "°C", {"c as f"}),
        ("glucose", "mg/dl", {"mg/dl as mmol/l"}),
        ("sodium", "mg/dl", set()),
        ("income", "", set()),
        ("height", "m", {"m as ft"}),
        ("occupancy", "%", {"% as share"}),
        ("occupancy", "share", {"share as %"}),
        ("systolic pressure", "mmHg", {"mmhg as kpa"}),
        ("length_cm", "", {"cm as in"}),
        ("a", "", set()),
        ("c", "", set()),
    ],
)
def test_units_that_fit(name, unit, errors):
    assert {key for key in made(name, [70.0, 80.0], unit) if " as " in key} == errors


def test_units_are_converted_both_ways():
    assert made("temperature", [37.0])["c as f"] == pytest.approx([98.6])
    assert made("temperature", [98.6])["f as c"] == pytest.approx([37.0])
    assert made("glucose", [90.08])["mg/dl as mmol/l"] == pytest.approx([5.0])
    assert made("creatinine", [1.0])["mg/dl as µmol/l"] == pytest.approx([88.42])


def test_a_unit_takes_the_place_of_the_factor_that_it_is():
    found = made("occupancy", [40.0], "%")
    assert found["% as share"] == [0.4]
    assert "a hundredth" not in found
    assert "times 100" in found


def test_points_are_lost_in_rows_that_were_not_looked_at_before():
    column = TableColumn("x", (0,))
    seen = np.array([[1.5], [2.25]])
    (lost,) = [each for each in errors_of(column, seen) if each.name == "decimal point lost"]
    assert lost.wrong(np.array([[0.125], [np.pi], [7.0]]))[:, 0].tolist() == [125.0, np.pi, 7.0]


def test_swaps_and_categories():
    one, other = TableColumn("a", (0,)), TableColumn("b", (1,))
    city = TableColumn("city", (2, 3), values=("x", "y"))
    *_, swap = errors_of(one, np.ones((2, 1)), [other])
    assert swap.name == "swapped with b"
    assert swap.wrong(np.array([[1.0, 2.0]])).tolist() == [[2.0, 1.0]]
    (unknown,) = errors_of(city, np.eye(2))
    assert unknown.name == "unknown category"
    assert unknown.wrong(np.eye(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
