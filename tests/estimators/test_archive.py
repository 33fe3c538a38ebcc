"""Files: whole, versioned, and refused when they are not ours."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from sklearn.exceptions import NotFittedError

from farfield.errors import InputError
from farfield.estimators import EnsembleClassifier, ReLUClassifier, load
from farfield.estimators.encoding import decode, encode
from farfield.objectives import Adversarial

SMALL: dict[str, Any] = {"hidden": (4,), "epochs": 2, "random_state": 0}


@pytest.fixture
def saved(moons: Any, tmp_path: Any) -> Any:
    path = tmp_path / "model"
    EnsembleClassifier(members=2, **SMALL).fit(*moons).save(path)
    return path


def rewritten(path: Any, change: Any) -> None:
    """Change the header of a file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["farfield"])
    change(header)
    path.write_bytes(to_bytes(from_bytes(data), metadata={"farfield": json.dumps(header)}))


def test_parameters_come_back(moons: Any, tmp_path: Any) -> None:
    X, y = moons
    objective = Adversarial(epsilon=0.07)
    state = np.random.RandomState(0)
    model = ReLUClassifier(
        hidden=[4, 3],
        objective=objective,
        class_weight={0: 1.0, 1: 2.0},
        schedule=(0.5,),
        epochs=2,
        random_state=state,
        patience=1,
    ).fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == {**model.get_params(), "random_state": None}
    assert again.history_ == model.history_
    assert again.classes_.dtype == model.classes_.dtype


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_refused(share: float, saved: Any) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match="damaged"):
        load(saved)


def test_foreign_files_are_refused(saved: Any, tmp_path: Any) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"PK\x03\x04 something else entirely" * 10)
    with pytest.raises(InputError, match="not a farfield file"):
        load(foreign)
    foreign.write_bytes(to_bytes({"weight": torch.zeros(2)}))
    with pytest.raises(InputError, match="not a farfield file"):
        load(foreign)
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h: h.update(version=2), "format version 2.*update farfield"),
        (lambda h: h.update(version="new"), "damaged"),
        (lambda h: h.pop("estimator"), "damaged"),
        (lambda h: h["estimator"].update({"class": "os.system"}), "does not know"),
        (lambda h: h["estimator"].update({"class": "load"}), "does not know"),
        (lambda h: h["estimator"]["parameters"].update(color=3), "damaged"),
        (lambda h: h["estimator"].update(instances=9), "do not fit"),
        (lambda h: h["estimator"]["network"]["layers"][0].update(out_features=9), "do not fit"),
        (lambda h: h["estimator"]["network"]["layers"][0].update(kind="Evil"), "tag 'Evil'"),
        (lambda h: h["estimator"]["learned"].update(classes_={"pickle": "x"}), "unknown value"),
        (lambda h: h["estimator"]["parameters"].update(objective={"objective": ["x", {}]}), "'x'"),
    ],
)
def test_headers_are_checked(change: Any, match: str, saved: Any) -> None:
    rewritten(saved, change)
    with pytest.raises(InputError, match=match):
        load(saved)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"list": [value]}
    return value


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h: h["estimator"].update(instances=10**9), "do not fit"),
        (lambda h: h["estimator"].update(instances=-1), "instances"),
        (lambda h: h["estimator"].update(instances=None), "either instances"),
        (lambda h: h["estimator"].update(surprise=1), "surprise"),
        (lambda h: h["estimator"]["learned"].update(n_features_in_=10**10), "whole number"),
        (lambda h: h["estimator"]["learned"].update(n_features_in_=2**30), "claims 1073741824"),
        (lambda h: h["estimator"]["learned"].update(__class__=3), "no estimator learns"),
        (lambda h: h["estimator"]["learned"].update(predict=3), "no estimator learns"),
        (lambda h: h["estimator"]["learned"].update(classes_=[1, 2]), "neither plain nor tagged"),
        (lambda h: h["estimator"]["learned"].update(classes_=3), "one dimension"),
        (
            lambda h: h["estimator"]["learned"].update(
                classes_={"array": ["<U999999", [2], ["a", "b"]]}
            ),
            "shorter",
        ),
        (
            lambda h: h["estimator"]["learned"].update(classes_={"array": ["|O", [2], [1, {}]]}),
            "other items",
        ),
        (
            lambda h: h["estimator"]["learned"].update(classes_={"array": ["<i8", [10**12], [1]]}),
            "with 1 items",
        ),
        (lambda h: h["estimator"]["parameters"].update(hidden=deep(100)), "neither plain"),
        (lambda h: h["estimator"]["network"]["layers"][0].update(in_features=2**40), "in_feat"),
        (lambda h: h["estimator"]["learned"].update(history_=deep(3)), "a history has"),
    ],
)
def test_hostile_headers_are_refused_before_anything_is_made(
    change: Any, match: str, saved: Any
) -> None:
    rewritten(saved, change)
    with pytest.raises(InputError, match=match):
        load(saved)


def test_instances_without_weights_are_refused(saved: Any) -> None:
    data = saved.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["farfield"])
    header["estimator"]["instances"] = 10**9
    header["estimator"]["network"] = {"kind": "Sequential", "layers": [{"kind": "ReLU"}]}
    for tensors in ({}, {"0.weight": torch.zeros(10**9, 0)}):
        saved.write_bytes(to_bytes(tensors, metadata={"farfield": json.dumps(header)}))
        with pytest.raises(InputError, match="do not fit"):
            load(saved)


def test_a_failed_write_leaves_the_old_file(saved: Any, moons: Any, monkeypatch: Any) -> None:
    before = saved.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(InputError, match="disk full"):
        ReLUClassifier(**SMALL).fit(*moons).save(saved)
    assert saved.read_bytes() == before
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


def test_only_fitted_estimators_are_saved(tmp_path: Any) -> None:
    with pytest.raises(NotFittedError):
        ReLUClassifier().save(tmp_path / "model")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1,
        "text",
        (1, (2.5, None)),
        [1, "a"],
        {1: "a", "b": (2,)},
        np.array([1, 2], dtype=np.int8),
        np.array(["a", "bc"]),
        np.array([[0.5], [1e-300]]),
        np.array(["x", "y"], dtype=object),
        Adversarial(0.5),
        float("inf"),
    ],
)
def test_values_survive_encoding(value: Any) -> None:
    again = decode(json.loads(json.dumps(encode(value))))
    if isinstance(value, np.ndarray):
        np.testing.assert_array_equal(again, value)
        assert again.dtype == value.dtype
    else:
        assert again == value
        assert type(again) is type(value)


def test_values_that_cannot_be_saved_are_named() -> None:
    with pytest.raises(InputError, match="complex"):
        encode(np.zeros(2, dtype=complex))
    with pytest.raises(InputError, match="neither numbers nor text"):
        encode(np.array([object()]))
    with pytest.raises(InputError, match="bytes"):
        encode(b"raw")
