"""A table and a model that fit, and every way in which they do not."""

import numpy as np
import pandas as pd
import pytest

from farfield.data import open_table
from farfield.errors import InputError

FRAME = pd.DataFrame({"age": [1.0, 2.0, 3.0], "ward": ["b", "a", "b"], "dose": [4.0, 5.0, 6.0]})


def table(y=None, **options):
    return open_table(FRAME, y, **options)


def test_the_right_number_fits():
    fitted = table().fit_to(4)
    assert (fitted.feature_names, fitted.notes) == (("age", "ward=a", "ward=b", "dose"), ())


@pytest.mark.parametrize("names", [("age", "ward=a", "ward=b", "dose"), None])
def test_names_in_order(names):
    np.testing.assert_array_equal(table().fit_to(4, feature_names=names).read().X, table().read().X)


@pytest.mark.parametrize("form", ["ward={}", "ward_{}"])
def test_names_in_another_order_are_put_in_order(form):
    names = ["dose", form.format("b"), "age", form.format("a")]
    fitted = table().fit_to(4, feature_names=names)
    assert fitted.feature_names == ("dose", "ward=b", "age", "ward=a")
    np.testing.assert_array_equal(fitted.read().X, table().read().X[:, [3, 2, 0, 1]])
    np.testing.assert_array_equal(fitted.sample(2).X, table().sample(2).X[:, [3, 2, 0, 1]])
    np.testing.assert_allclose(fitted.summary.mean, fitted.read().X.mean(0))
    np.testing.assert_allclose(fitted.summary.high, fitted.read().X.max(0))
    assert fitted.notes == ("Columns were put in the model's order (4 stood elsewhere).",)
    box = fitted.box()
    assert box is not None
    assert box.categorical == ((3, 1),)
    again = fitted.fit_to(4, feature_names=["age", "ward=a", "ward=b", "dose"])
    np.testing.assert_array_equal(again.read().X, table().read().X)


def test_further_columns_are_left_out_with_a_note():
    fitted = table().fit_to(3, feature_names=["ward=b", "ward=a", "age"])
    np.testing.assert_array_equal(fitted.read().X, table().read().X[:, [2, 1, 0]])
    assert fitted.notes[0] == "Columns that the model does not name were left out: 'dose'."


@pytest.mark.parametrize("value", [1e300, -1e39])
def test_numbers_that_no_model_computes_with_are_named(value):
    huge = open_table(np.array([[1.0, 2.0], [3.0, value]]), features=["a", "b"])
    with pytest.raises(InputError, match=r"X: column 'b' holds .*, beyond the range of float32"):
        huge.fit_to(2)


def test_columns_that_nobody_named_are_taken_as_they_stand():
    plain = open_table(np.arange(6.0).reshape(3, 2))
    assert plain.fit_to(2, feature_names=["b", "a"]).notes == ()
    frame = open_table(pd.DataFrame(np.arange(6.0).reshape(3, 2)))
    np.testing.assert_array_equal(frame.fit_to(2, feature_names=["b", "a"]).read().X[0], [0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 3}, r"takes 3 features, the table gives 4: 2 numeric.*'ward' \(2 values"),
        ({"n_features": 4, "feature_names": ["a"]}, "1 feature names for a model that takes 4"),
        (
            {"n_features": 4, "feature_names": ["age", "ward=a", "ward=c", "dose"]},
            "needs 'ward=c', which the table does not have; the table has 'ward=b'",
        ),
        (
            {"n_features": 3, "feature_names": ["age", "ward=a", "dose"]},
            "the table has 'ward=b', which the model does not know",
        ),
        (
            {"n_features": 5, "feature_names": ["Age", "AGE", "ward=a", "ward=b", "dose"]},
            "the model's input 'AGE' could be 'age'; but for case and punctuation",
        ),
        (
            {"n_features": 5, "feature_names": ["age", "ward=a", "ward=b", "dose", "bmi"]},
            "the model needs 'bmi', which the table does not have",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        table().fit_to(**arguments)
    assert "feature names for" in message or "X" in str(caught.value)


def test_a_forgotten_label_is_guessed():
    frame = FRAME.assign(Outcome=[0, 1, 0])
    with pytest.raises(InputError, match="Is 'Outcome' the label"):
        open_table(frame).fit_to(4)


def test_labels_of_the_model_decide():
    fitted = table(["x", "y", "x"]).fit_to(4, class_labels=["z", "y", "x"])
    assert (fitted.class_names, fitted.class_counts) == (("z", "y", "x"), (0, 1, 2))
    assert fitted.read().y.tolist() == [2, 1, 2]
    numbers = table([7, 9, 7]).fit_to(4, class_labels=np.array([9, 7]))
    assert numbers.read().y.tolist() == [1, 0, 1]
    floats = table([0.0, 1.0, 0.0]).fit_to(4, class_labels=[0.0, 1.0])
    assert floats.read().y.tolist() == [0, 1, 0]
    with pytest.raises(
        InputError, match=r"'y' holds labels that the model does not know: 'x' \(2 rows\), 'y' \(1"
    ):
        table(["x", "y", "x"]).fit_to(4, class_labels=["p", "q"])
    with pytest.raises(InputError, match="2 class labels for a model with 3"):
        table([0, 1, 0]).fit_to(4, n_classes=3, class_labels=[0, 1])


def test_whole_numbers_are_indices_where_they_can_be():
    indices = table([0, 2, 0]).fit_to(4, n_classes=3)
    assert (indices.class_names, indices.read().y.tolist()) == (("0", "1", "2"), [0, 2, 0])
    assert indices.notes == ("Labels were taken as class indices 0 to 2.",)
    ranked = table([1, 2, 1]).fit_to(4, n_classes=2)
    assert (ranked.class_names, ranked.read().y.tolist()) == (("1", "2"), [0, 1, 0])
    texts = table(["no", "yes", "no"]).fit_to(4, n_classes=2)
    assert (texts.class_names, texts.notes) == (("no", "yes"), ())
    named = table([0, 1, 0], class_names=["good", "bad"]).fit_to(4, n_classes=2)
    assert (named.class_names, named.read().y.tolist()) == (("good", "bad"), [0, 1, 0])
    for labels in ([1, 3, 1], ["a", "b", "a"]):
        with pytest.raises(InputError, match=r"has 3 classes.*\(2 rows\).*\[label\] classes"):
            table(labels).fit_to(4, n_classes=3)


def test_targets_and_no_labels_need_no_classes():
    assert table().fit_to(4, n_classes=7).label is None
    target = table([0.1, 0.2, 0.3], label_kind="number").fit_to(4, n_classes=7)
    assert target.label_kind == "number"


def test_constant_columns_are_reported():
    frame = FRAME.assign(dose=2.5)
    constant = open_table(frame)
    assert constant.constant == ("dose",)
    assert constant.notes == ("Columns that hold one value only: 'dose'.",)
