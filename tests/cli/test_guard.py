"""farfield guard: a file in, a guarded file with its certificate out."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from click.testing import CliRunner

import farfield as ff
from farfield.cli import farfield as command
from farfield.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("guard")
    data = ff.datasets.half_moons(0)
    model = ff.ReLUClassifier(hidden=(8,), epochs=15, random_state=0).fit(data.X, data.y)
    model.save(home / "model.safetensors")
    np.savez(home / "train.npz", X=data.X, y=data.y)
    return home


def invoke(folder, out, *more):
    arguments = ["guard", folder / "model.safetensors", "--data", folder / "train.npz", "-o", out]
    return CliRunner().invoke(command, [str(each) for each in (*arguments, *more)])


def test_onnx_runs_elsewhere_with_the_same_numbers(folder, tmp_path):
    result = invoke(folder, tmp_path / "safe.onnx")
    assert result.exit_code == 0, result.output
    assert "no class of any input exceeds 1/2 + 0.01" in result.output
    session = onnxruntime.InferenceSession(tmp_path / "safe.onnx")
    name = session.get_inputs()[0].name
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    (far,) = session.run(None, {name: np.array([[1e4, -1e4]], dtype=kind)})
    p = torch.softmax(torch.from_numpy(far), dim=-1)
    assert float(p.max()) <= 0.51
    certificate = ff.guard.read_certificate(tmp_path / "safe.onnx")
    assert json.loads(certificate)["epsilon"] == 0.01


def test_a_saved_guard_can_be_loaded_and_audited(folder, tmp_path):
    out = tmp_path / "safe.safetensors"
    result = invoke(folder, out, "--radii", 4, "--json")
    assert json.loads(result.stdout)["radii"] <= 4.0 + 1e-9
    assert ff.guard.load(out).certificate.verify(ff.guard.load(out))
    arguments = ["audit", out, "--data", folder / "train.npz", "--max-blind", 0, "--quiet"]
    arguments += ["--out", tmp_path / "audit", "--directions", 10]
    assert CliRunner().invoke(command, [str(each) for each in arguments]).exit_code == 0


def test_promises_and_places_that_cannot_be(folder, tmp_path):
    for out, more, message in (
        (tmp_path / "safe.txt", (), "format"),
        (tmp_path / "safe.onnx", ("--epsilon", -1), "epsilon"),
        (tmp_path / "safe.onnx", ("--radii", 0), "radii"),
    ):
        result = invoke(folder, out, *more)
        assert isinstance(result.exception, InputError), result.output
        assert message in str(result.exception)
        assert not out.exists()
