"""The checker that shares no code: what was tampered with fails, in every field."""

import importlib.util
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.guard.envelope import Envelope

CHECKER = Path(__file__).parents[2] / "tools" / "check_certificate.py"


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("check_certificate", CHECKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A guard of numbers, and one of numbers and categories."""
    place = tmp_path_factory.mktemp("guards")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 5
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    safe = ff.guard(net, rows)
    safe.save(place / "numbers.safetensors")
    safe.to_onnx(place / "numbers.onnx")
    Envelope(safe, net).to_onnx(place / "envelope.onnx")
    rows[:, 3] = rng.integers(0, 3, 300)
    ff.guard(net, rows, categorical=[3]).save(place / "codes.safetensors")
    return place


def check(path):
    """Exit code and first line, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(CHECKER), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr or done.returncode == 2, done.stderr
    return done.returncode, (done.stdout or done.stderr).splitlines()[0]


def fails(checker, path):
    """Whether the checker finds that the promise does not follow; in this process, to be quick."""
    data = path.read_bytes()
    reader = checker.read_onnx if path.suffix == ".onnx" else checker.read_safetensors
    try:
        certificate, covered, numbers, graph = reader(data)
        radius, _ = checker.prove(certificate, covered, numbers)
        checker.attack(certificate, covered, numbers, graph, radius)
    except (checker.BrokenPromise, ArithmeticError, LookupError, TypeError, ValueError):
        return True
    return False


@pytest.mark.parametrize(
    "name", ["numbers.safetensors", "numbers.onnx", "envelope.onnx", "codes.safetensors"]
)
def test_a_guard_passes(folder, name):
    code, said = check(folder / name)
    assert code == 0, said
    assert said.startswith("PASS")


def test_what_holds_no_guard_is_not_checked(tmp_path):
    assert check(tmp_path / "nothing.onnx")[0] == 2
    plain = tmp_path / "plain.safetensors"
    plain.write_bytes(struct.pack("<Q", 2) + b"{}")
    assert check(plain) == (2, f"{plain} holds no guard")


def test_it_is_short_and_shares_no_code():
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 300
    assert "import farfield" not in text
    assert "from farfield" not in text


def rewritten(source, target, change):
    """Write a guard file again with another header, or other numbers."""
    data = source.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    said = json.loads(head["__metadata__"]["farfield"])
    change(said, head, body)
    head["__metadata__"]["farfield"] = json.dumps(said)
    text = json.dumps(head).encode()
    target.write_bytes(struct.pack("<Q", len(text)) + text + bytes(body))
    return target


# The direction in which a claim gets stronger; a weaker one is still true.
STRONGER = {
    "epsilon": 0.5,
    "radius": 0.5,
    "radii": 0.5,
    "data_radius": 0.5,
    "temperature": 2.0,
    "unit": 0.5,
    "classes": 2,
}


@pytest.mark.parametrize("field", STRONGER)
def test_a_claim_that_was_made_stronger_fails(checker, folder, tmp_path, field):
    def change(said, head, body):
        said["certificate"][field] *= STRONGER[field]

    assert fails(checker, rewritten(folder / "numbers.safetensors", tmp_path / "x", change))


@pytest.mark.parametrize("field", ["name", "threshold", "width"])
def test_a_view_that_was_changed_in_the_certificate_fails(checker, folder, tmp_path, field):
    def change(said, head, body):
        value = said["certificate"]["views"][0][field]
        said["certificate"]["views"][0][field] = "none" if field == "name" else value * 0.5

    assert fails(checker, rewritten(folder / "numbers.safetensors", tmp_path / "x", change))


def test_every_number_of_the_guard_is_looked_at(checker, folder, tmp_path):
    source = folder / "numbers.safetensors"
    (size,) = struct.unpack("<Q", source.read_bytes()[:8])
    names = json.loads(source.read_bytes()[8 : 8 + size])
    floats = [n for n in names if n.startswith("covered.") and names[n]["dtype"] == "F64"]
    assert len(floats) > 10
    for name in floats:
        if name == "covered.fill":
            continue

        def change(said, head, body, name=name):
            start = head[name]["data_offsets"][0]
            body[start : start + 8] = struct.pack("<d", float("nan"))

        assert fails(checker, rewritten(source, tmp_path / "x", change)), name


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("views.0.centres", 50.0),
        ("views.0.radii", 50.0),
        ("views.0.threshold", 50.0),
        ("views.0.width", 50.0),
        ("unit", 2.0),
        ("unit", -1.0),
        ("whitened.unit", -1.0),
        ("whitened.matrix", 0.0),
    ],
)
def test_numbers_that_carry_the_proof_cannot_be_changed(checker, folder, tmp_path, name, factor):
    def change(said, head, body):
        start, stop = head[f"covered.{name}"]["data_offsets"]
        values = np.frombuffer(bytes(body[start:stop]), "<f8") * factor
        body[start:stop] = values.tobytes()

    assert fails(checker, rewritten(folder / "numbers.safetensors", tmp_path / "x", change))


@pytest.mark.parametrize("name", ["numbers.onnx", "envelope.onnx"])
def test_nodes_that_were_changed_fail(checker, folder, tmp_path, name):
    onnx = pytest.importorskip("onnx")
    whole = onnx.load(folder / name)
    places = [i for i, node in enumerate(whole.graph.node) if node.name.startswith("farfield/")]
    outcomes = []
    for place in places:
        model = onnx.load(folder / name)
        node = model.graph.node[place]
        if node.op_type in ("Div", "Sub", "Mul", "Max"):
            node.op_type = "Add" if node.op_type != "Max" else "Min"
        elif node.op_type == "Greater":
            node.op_type = "Less"
        else:
            continue
        path = tmp_path / "x.onnx"
        onnx.save(model, path)
        outcomes.append(fails(checker, path))
    # Nodes of views that the promise does not stand on may be changed; those that it does may not.
    assert sum(outcomes) >= len(outcomes) / (4 if name == "numbers.onnx" else 6)


def test_a_graph_that_goes_around_its_guard_fails(folder, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(folder / "numbers.onnx")
    scores = json.loads({p.key: p.value for p in model.metadata_props}["farfield.guard"])["scores"]
    last = next(node for node in model.graph.node if scores in node.output)
    last.output[0] = "farfield/unused"
    model.graph.node.append(onnx.helper.make_node("Identity", ["farfield/own"], [scores]))
    path = tmp_path / "around.onnx"
    onnx.save(model, path)
    assert check(path)[0] == 1


@pytest.mark.parametrize("output", [1, 5])
def test_an_envelope_that_calls_everything_inside_fails(checker, folder, tmp_path, output):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(folder / "envelope.onnx")
    name = model.graph.output[output].name
    last = next(node for node in model.graph.node if name in node.output)
    if output == 1:  # inside
        last.op_type = "Identity"
    else:  # guarded probabilities
        last.output[0] = "farfield/unused"
        model.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], [name]))
    onnx.save(model, tmp_path / "x.onnx")
    assert fails(checker, tmp_path / "x.onnx")


def test_a_damaged_file_proves_nothing(folder, tmp_path):
    data = (folder / "numbers.safetensors").read_bytes()
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(data[: len(data) // 2])
    assert check(cut)[0] == 1
