"""farfield guard: a file in, a guarded file with its certificate out."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import farfield as ff
from farfield.cli import farfield as command
from farfield.errors import InputError
from saved_programs import save

pytestmark = pytest.mark.usefixtures("short_attack", "quick_onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("guard")
    data = ff.datasets.half_moons(0, points=100)
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
    arguments += ["--out", tmp_path / "audit", "--directions", 5, "--samples", 20]
    assert CliRunner().invoke(command, [str(each) for each in arguments]).exit_code == 0


def test_objects_that_are_guarded_by_their_answers_name_a_way_out(folder, tmp_path):
    skops = pytest.importorskip("skops.io", reason="a file of scikit-learn's objects")
    model = RandomForestClassifier(3, max_depth=2, random_state=0)
    with np.load(folder / "train.npz") as data:
        model.fit(data["X"], data["y"])
    skops.dump(model, tmp_path / "forest.skops")
    arguments = ["guard", tmp_path / "forest.skops", "--data", folder / "train.npz"]
    arguments += ["-o", tmp_path / "safe.onnx"]
    result = CliRunner().invoke(command, [str(each) for each in arguments])
    assert isinstance(result.exception, InputError)
    assert "guard that .onnx file, or call ff.guard in Python" in str(result.exception)


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


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """README's own files: model.onnx, and a table with its label column."""
    pytest.importorskip("skl2onnx")
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier

    home = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = MLPClassifier((8,), solver="lbfgs", max_iter=5000, random_state=0).fit(X, y)
    (home / "model.onnx").write_bytes(to_onnx(model, X[:1]).SerializeToString())
    lines = [
        "a,b,c,outcome",
        *(",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)),
    ]
    (home / "train.csv").write_text("\n".join(lines) + "\n")
    return home


def command_line(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


def audited(model, data, out):
    """No direction of the guarded file is blind."""
    where = ("audit", model, "--data", data, "--label", "outcome", "--out", out)
    few = ("--directions", 10, "--samples", 40)
    shown = command_line(*where, "--max-blind", 0, *few, "--quiet")
    assert shown.exit_code == 0, shown.output


@pytest.fixture(scope="module")
def guarded(readme):
    """README's model behind a guard, and what the command said."""
    model, data, out = (readme / name for name in ("model.onnx", "train.csv", "safe.onnx"))
    result = command_line("guard", model, "--data", data, "-o", out)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_the_lines_of_the_readme(readme, guarded, tmp_path):
    out, said = guarded
    model, data = readme / "model.onnx", readme / "train.csv"
    assert "column 'outcome' was taken for it" in said
    before, after = (onnxruntime.InferenceSession(path) for path in (model, out))
    assert [i.name for i in before.get_inputs()] == [i.name for i in after.get_inputs()]
    assert [o.name for o in before.get_outputs()] == [o.name for o in after.get_outputs()]
    rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    feed = {before.get_inputs()[0].name: rows}
    assert before.run(None, feed)[0].tolist() == after.run(None, feed)[0].tolist()
    verified = command_line("verify", out)
    assert verified.exit_code == 0, verified.output
    assert verified.output.startswith("verified")
    audited(out, data, tmp_path / "audit")
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert found["verdict"]["blind"] == 0.0
    assert found["model"]["source"] == str(out)


def test_forests_are_guarded_and_audited(readme, tmp_path):
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier

    table = np.genfromtxt(readme / "train.csv", delimiter=",", skip_header=1, dtype=np.float32)
    forest = RandomForestClassifier(3, random_state=0).fit(table[:, :3], table[:, 3].astype(int))
    model, out = tmp_path / "forest.onnx", tmp_path / "safe.onnx"
    model.write_bytes(to_onnx(forest, table[:1, :3]).SerializeToString())
    result = command_line(
        "guard", model, "--data", readme / "train.csv", "-o", out, "--label", "outcome"
    )
    assert result.exit_code == 0, result.output
    assert command_line("verify", out, "--json").exit_code == 0
    audited(out, readme / "train.csv", tmp_path / "audit")


def test_envelopes_of_files(readme, tmp_path):
    """The file's own outputs to the bit, the table's own names, the share that was asked for."""
    out = tmp_path / "safe.onnx"
    model, data = readme / "model.onnx", readme / "train.csv"
    arguments = ("--data", data, "--label", "outcome", "--envelope", "--keep", 0.9)
    result = command_line("guard", model, *arguments, "-o", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["keep"] == 0.9
    assert command_line("verify", out).exit_code == 0
    before, after = (onnxruntime.InferenceSession(path) for path in (model, out))
    rows = np.random.default_rng(1).normal(size=(500, 3)).astype(np.float32)
    rows[0] = [0, 50, 0]
    feed = {before.get_inputs()[0].name: rows}
    own, beside = before.run(None, feed), after.run(None, feed)
    assert own[0].tolist() == beside[0].tolist()
    assert own[1] == beside[1]
    names = [output.name for output in after.get_outputs()]
    said = dict(zip(names, beside, strict=True))
    assert names[2:] == ["inside", "distance", "view", "column", "guarded"]
    assert said["column"][0] == "b"
    assert said["guarded"][0].max() <= 0.51
    assert said["inside"].mean() >= 0.85
    audited(out, data, tmp_path / "audit")
    result = command_line("guard", model, *arguments, "-o", tmp_path / "safe.safetensors")
    assert ".onnx or .pt2" in str(result.exception)


def test_envelopes_of_programs(tmp_path):
    """A .pt2 file in, a .pt2 file out, which says to the bit what the first one says."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    X = np.random.default_rng(0).normal(size=(150, 3)).astype(np.float32)
    np.savez(tmp_path / "train.npz", X=X, y=(X[:, 0] > 0).astype(int))
    save(net, torch.zeros(2, 3), tmp_path / "model.pt2")
    out = tmp_path / "safe.pt2"
    arguments = (tmp_path / "model.pt2", "--data", tmp_path / "train.npz", "--envelope", "-o", out)
    result = command_line("guard", *arguments)
    assert result.exit_code == 0, result.output
    assert "The model's own outputs stay as they are." in result.stdout
    verified = command_line("verify", out)
    assert verified.output.startswith("verified"), verified.output
    rows = torch.from_numpy(np.vstack([X, 100 * X]))
    said = torch.export.load(out).module()(rows)
    assert torch.equal(said["output"], net(rows))
    assert said["inside"][:150].float().mean() > 0.95
    assert not said["inside"][150:].all()


def test_files_that_take_words_are_refused_by_name(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    table = pd.DataFrame({"site": ["north", "south"] * 100, "age": np.arange(200.0)})
    encode = make_column_transformer((OneHotEncoder(), ["site"]), remainder="passthrough")
    old = (table["age"] > 100).astype(int)
    model = make_pipeline(encode, LogisticRegression()).fit(table, old)
    kinds = [("site", StringTensorType([None, 1])), ("age", FloatTensorType([None, 1]))]
    path = tmp_path / "model.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, initial_types=kinds).SerializeToString())
    table.assign(old=old).to_csv(tmp_path / "train.csv", index=False)
    arguments = (path, "--data", tmp_path / "train.csv", "--label", "old")
    result = command_line("guard", *arguments, "-o", tmp_path / "safe.onnx")
    assert isinstance(result.exception, InputError)
    assert "takes words in site" in str(result.exception)


def test_tampered_files_are_refused_everywhere(readme, guarded, tmp_path):
    import onnx

    out = tmp_path / "tampered.onnx"
    arguments = ("--data", readme / "train.csv", "--label", "outcome")
    model = onnx.load(str(guarded[0]))
    (unit,) = [t for t in model.graph.initializer if t.name == "farfield/covered.unit"]
    unit.CopyFrom(onnx.numpy_helper.from_array(np.array(1e30), unit.name))
    onnx.save(model, str(out))
    assert command_line("verify", out).exit_code == 1
    result = command_line("audit", out, *arguments, "--out", tmp_path / "audit")
    assert isinstance(result.exception, InputError)
    assert "does not keep its promise" in str(result.exception)


def test_verify_says_what_it_cannot_read(tmp_path, folder):
    (tmp_path / "nothing.onnx").write_text("text")
    for path in (tmp_path / "nothing.onnx", tmp_path / "none", folder / "model.safetensors"):
        result = command_line("verify", path)
        assert isinstance(result.exception, InputError), result.output
