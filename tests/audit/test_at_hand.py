"""Commands with the files at hand."""

from pathlib import Path

import numpy as np

from farfield.audit.at_hand import AtHand, at_hand


def test_files_and_options_become_a_command_that_a_shell_takes():
    files = at_hand(
        [Path("a b.onnx"), "c.onnx"], "train.csv", None, "y", schema=Path("s.toml"),
        categorical=["ward"], ignore=(), delimiter=";", impute=None, max_blind=0.0, guard=True,
        show_rows=False, class_names="",
    )  # fmt: skip
    data = "--data train.csv --label y --schema s.toml --categorical ward --delimiter ';'"
    assert files.audit() == f"farfield audit 'a b.onnx' c.onnx {data} --max-blind 0.0 --guard"
    assert files.guard() == f"farfield guard 'a b.onnx' c.onnx {data} -o safe.onnx"
    assert files.train("rbf") == f"farfield train rbf {data} -o rbf.safetensors"
    filled = AtHand((), "d.csv", "y").train("rbf", gaps=True)
    assert filled == "farfield train rbf --data d.csv --label y --impute median -o rbf.safetensors"
    told = AtHand((), "d.csv", "y", reading=("--impute", "mean")).train("rbf", gaps=True)
    assert told.count("--impute") == 1


def test_a_guard_does_not_replace_the_model():
    assert AtHand(("safe.onnx",), "d.csv").guard().endswith("-o new-safe.onnx")


def test_models_that_a_guard_cannot_write_are_guarded_in_python():
    files = AtHand(("m.skops",), "d.csv", "y")
    assert files.guard() == "ff.guard(model, X)"
    assert files.guard("--envelope") == "ff.envelope(model, X)"
    assert files.audit() == "farfield audit m.skops --data d.csv --label y"
    assert AtHand(("m.json",), "d.csv").guard().startswith("farfield guard m.json")


def test_objects_have_no_names():
    files = at_hand(object(), np.zeros((2, 2)), np.zeros(2), None)
    assert files == AtHand()
    assert files.guard() == "ff.guard(model, X)"
    assert files.train("rbf", python="ff.RBFClassifier().fit(X, y)").startswith("ff.")


def test_labels_are_a_column_or_a_file(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("1\n")
    assert at_hand("m.onnx", "d.csv", "outcome", None).label == "outcome"
    apart = at_hand("m.onnx", "d.csv", str(path), None)
    assert (apart.label, apart.labels) == ("", str(path))
