"""A label that was forgotten, and columns that a model does not know."""

import pandas as pd
import pytest

from farfield.data import Expected, open_table

FRAME = pd.DataFrame(
    {
        "id": [f"p{k}" for k in range(300)],
        "age": [float(k) for k in range(300)],
        "bmi": [k / 7 for k in range(300)],
        "died": ["no", "yes", "no"] * 100,
    }
)


def opened(frame, expected, tmp_path=None, **options):
    if tmp_path is None:
        return open_table(frame, expected=expected, **options)
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    return open_table(path, expected=expected, **options)


@pytest.mark.parametrize("file", [True, False])
def test_names_tell_inputs_and_label(file, tmp_path):
    """An identifier would be refused; the model does not ask for it."""
    expected = Expected(2, ("BMI", "age"), 2, ("no", "yes"))
    table = opened(FRAME, expected, tmp_path if file else None)
    assert table.label == "died"
    assert "column 'died' was taken for it" in table.notes[0]
    assert table.notes[1] == "Columns that the model does not name were left out: 'id'."
    assert table.fit_to(2, feature_names=expected.names).feature_names == ("bmi", "age")


def test_a_label_that_was_named_is_left_alone():
    table = opened(FRAME, Expected(2, ("age", "bmi"), 2), label="died")
    assert (table.label, len(table.notes)) == ("died", 1)


@pytest.mark.parametrize("name", ["died", "Target", "y"])
def test_the_number_of_inputs_tells_the_label(name):
    frame = FRAME.rename(columns={"died": name})[["age", name, "bmi"]]
    table = opened(frame, Expected(2, None, 2))
    assert table.label == name
    assert table.feature_names == ("age", "bmi")


def test_what_fits_has_no_label_and_what_is_not_clear_is_not_guessed():
    numbers = FRAME[["age", "bmi"]].rename(columns={"bmi": "y"})
    assert opened(numbers, Expected(2, None, 2)).label is None
    twice = FRAME[["age", "died"]].assign(lived=FRAME["died"])
    assert opened(twice, Expected(3, None, 2)).label is None
    both = FRAME[["age", "died"]].assign(y=FRAME["died"], target=FRAME["died"])
    assert opened(both, Expected(1, ("age",), 2)).label is None


def test_a_regressor_takes_a_column_that_is_called_a_target():
    frame = FRAME[["age", "bmi"]].assign(target=FRAME["age"] * 2)
    table = opened(frame, Expected(2, None, None), label_kind="number")
    assert table.label == "target"
