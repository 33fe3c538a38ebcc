"""Models of raw columns, and tables whose words they do not know."""

import pytest

import farfield as ff
from farfield.audit.raw_columns import behind_one_hot
from farfield.data import open_data
from farfield.errors import InputError

pd = pytest.importorskip("pandas")
xgb = pytest.importorskip("xgboost")


@pytest.mark.parametrize(
    ("names", "said"),
    [(("grün", "rot"), "does not hold the names"), (("a", "b"), "which the model")],
)
def test_words_that_a_model_does_not_know(names, said):
    frame = pd.DataFrame({"size": [0.0, 1.0, 2.0, 3.0] * 9, "hue": pd.Categorical(names * 18)})
    model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    network = ff.capture(model.fit(frame, [0, 1, 1, 0] * 9))
    words = frame.assign(hue="never seen" if names == ("a", "b") else frame["hue"].astype(str))
    with pytest.raises(InputError, match=said):
        behind_one_hot(network, open_data(words))


def test_a_guard_that_no_file_can_hold_is_advised_in_python(tmp_path):
    frame = pd.DataFrame({"size": [0.0, 1.0, 2.0, 3.0] * 9, "hue": pd.Categorical(["a", "b"] * 18)})
    labels = [0, 1, 1, 0] * 9
    model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    for columns, written in ((["size", "hue"], False), (["size"], True)):
        model.fit(frame[columns], labels).save_model(tmp_path / "model.json")
        frame[columns].assign(y=labels).to_csv(tmp_path / "rows.csv", index=False)
        found = ff.audit(tmp_path / "model.json", tmp_path / "rows.csv", "y", directions=20)
        assert found.at_hand.guard("--envelope").startswith("farfield guard") == written
        assert (found.at_hand.guard() == "ff.guard(model, X)") != written
