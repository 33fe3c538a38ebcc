"""The checker that shares no code: what was tampered with fails, in every field."""

import hashlib
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
from farfield.guard import fit, make
from farfield.guard.envelope import Envelope

CHECKER = Path(__file__).parents[2] / "tools" / "check_certificate.py"


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("check_certificate", CHECKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory, quick_onnx):
    """A guard of numbers, one that looks at features too, and one of numbers and categories."""
    place = tmp_path_factory.mktemp("guards")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 5
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    coded = np.column_stack([rows[:, :3], rng.integers(0, 3, 300)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "FOLDS", 3)
        safe = ff.guard(net, rows)
        ff.guard(net, coded, categorical=[3]).save(place / "codes.safetensors")
        patch.setattr(make, "choose_views", lambda judge, *_: [0, 1, judge.scores.shape[1] - 1])
        inner = ff.guard(net, rows)
    safe.save(place / "numbers.safetensors")
    safe.to_onnx(place / "numbers.onnx")
    Envelope(safe, net).to_onnx(place / "envelope.onnx")
    assert inner.covered.names == ("balls", "ranges", "features")
    inner.save(place / "features.safetensors")
    inner.to_onnx(place / "features.onnx")
    Envelope(inner, net).to_onnx(place / "features beside.onnx")
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


WHOLE = ["numbers.safetensors", "numbers.onnx", "envelope.onnx", "codes.safetensors"]
INNER = ["features.safetensors", "features.onnx", "features beside.onnx"]


@pytest.mark.parametrize("name", ["numbers.safetensors", "features beside.onnx"])
def test_a_guard_passes(folder, name):
    code, said = check(folder / name)
    assert code == 0, said
    assert said.startswith("PASS")


@pytest.mark.parametrize("name", WHOLE + INNER)
def test_a_guard_of_every_kind_passes(checker, folder, name, monkeypatch, capsys):
    """In this process, to be quick."""
    monkeypatch.setattr(sys, "argv", [str(CHECKER), str(folder / name)])
    assert checker.main() == 0
    said = capsys.readouterr()
    assert said.out.startswith("PASS")
    assert not said.err


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
    """Write a guard file again with another certificate, or other numbers by name."""
    if source.suffix == ".onnx":
        return _rewritten_onnx(source, target, change)
    data = source.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    said = json.loads(head["__metadata__"]["farfield"])
    places = {n.removeprefix("covered."): e for n, e in head.items() if n.startswith("covered.")}
    ends = {name: entry["data_offsets"] for name, entry in places.items()}
    numbers = {
        name: np.frombuffer(bytes(body[slice(*ends[name])]), DTYPES[entry["dtype"]]).copy()
        for name, entry in places.items()
    }
    change(said["certificate"], numbers)
    for name, values in numbers.items():
        body[slice(*ends[name])] = values.tobytes()
    head["__metadata__"]["farfield"] = json.dumps(said)
    text = json.dumps(head).encode()
    path = target / f"changed{source.suffix}"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(body))
    return path


def _rewritten_onnx(source, target, change):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(source)
    start = "farfield/covered."
    held = {t.name: t for t in model.graph.initializer if t.name.startswith(start)}
    arrays = {name: onnx.numpy_helper.to_array(tensor).copy() for name, tensor in held.items()}
    numbers = {name.removeprefix(start): array.reshape(-1) for name, array in arrays.items()}
    entry = next(each for each in model.metadata_props if each.key == "farfield.certificate")
    certificate = json.loads(entry.value)
    change(certificate, numbers)
    entry.value = json.dumps(certificate)
    for name, tensor in held.items():
        tensor.CopyFrom(onnx.numpy_helper.from_array(arrays[name], name))
    path = target / "changed.onnx"
    onnx.save(model, path)
    return path


DTYPES = {"F64": "<f8", "I64": "<i8"}
# The direction in which a claim gets stronger; a weaker one is still true.
STRONGER = {
    "epsilon": 0.5,
    "radius": 0.5,
    "radii": 0.5,
    "data_radius": 0.5,
    "temperature": 2.0,
    "unit": 0.5,
    "classes": 2,
    "digest": 2,
}


# ONNX files hold probabilities of classes; of a regressor nothing but numbers is written.
OTHER_KINDS = [
    ("numbers.safetensors", {"task": "regression"}),
    ("numbers.safetensors", {"task": "other"}),
    ("numbers.safetensors", {"format": 3}),
    ("numbers.onnx", {"task": "regression", "classes": 0}),
]


@pytest.mark.parametrize(("name", "changed"), OTHER_KINDS)
def test_a_promise_of_another_kind_fails(checker, folder, tmp_path, name, changed):
    path = rewritten(folder / name, tmp_path, lambda certificate, _: certificate.update(changed))
    assert fails(checker, path)


@pytest.mark.parametrize("name", ["numbers.safetensors", *INNER])
def test_a_claim_that_was_made_stronger_fails(checker, folder, tmp_path, name):
    for field, factor in STRONGER.items():

        def change(certificate, _, field=field, factor=factor):
            certificate[field] *= factor

        assert fails(checker, rewritten(folder / name, tmp_path, change)), field


@pytest.mark.parametrize("name", [each for each in INNER if each.endswith(".onnx")])
def test_fewer_classes_than_the_file_has_fail(checker, folder, tmp_path, name):
    """A weaker claim, but of another file."""

    def change(certificate, _):
        certificate["classes"] -= 1

    assert fails(checker, rewritten(folder / name, tmp_path, change))


@pytest.mark.parametrize("name", ["numbers.safetensors", *INNER])
def test_a_view_that_was_changed_in_the_certificate_fails(checker, folder, tmp_path, name):
    for field in ("name", "threshold", "width"):
        for place in (0, 1, 2):

            def change(certificate, _, field=field, place=place):
                value = certificate["views"][place][field]
                certificate["views"][place][field] = "none" if field == "name" else value * 0.5

            assert fails(checker, rewritten(folder / name, tmp_path, change)), (field, place)


@pytest.mark.parametrize("name", ["numbers.safetensors", *INNER])
@pytest.mark.parametrize("value", [np.nan, 1e3])
def test_every_number_of_the_guard_is_looked_at(checker, folder, tmp_path, name, value):
    found = []
    rewritten(folder / name, tmp_path, lambda _, numbers: found.extend(numbers))
    assert len(found) > 10
    for number in found:

        def change(_, numbers, number=number):
            numbers[number].flat[-1] = value

        if value == value or number != "fill":
            assert fails(checker, rewritten(folder / name, tmp_path, change)), number


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
    """Not even by whoever writes the digest of the changed numbers into the certificate."""

    def change(certificate, numbers):
        numbers[name] *= factor

    source = folder / "numbers.safetensors"
    path = rewritten(source, tmp_path, change)
    _, _, numbers, _ = checker.read_safetensors(path.read_bytes())

    def change_both(certificate, own):
        change(certificate, own)
        certificate["digest"] = digest(numbers)

    path = rewritten(source, tmp_path, change_both)
    assert fails(checker, path)
    with pytest.raises(checker.BrokenPromise, match=r"^(?!.*certified)"):
        checker.prove(*checker.read_safetensors(path.read_bytes())[:3])


def digest(numbers):
    found = hashlib.sha256()
    for name, values in sorted(numbers.items()):
        found.update(f"{name} {values.dtype.str} {values.shape}".encode() + values.tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("name", ["numbers.onnx", "envelope.onnx", *INNER[1:]])
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
    assert sum(outcomes) >= len(outcomes) / (4 if name == "numbers.onnx" else 6), outcomes


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
    cut.write_bytes(struct.pack("<Q", 4000) + b"\xff" * 4000)
    code, said = check(cut)
    assert code == 1
    assert len(said) < 300


def test_programs_are_not_checked(tmp_path):
    """A sound file of a kind that it does not read is not called broken."""
    (tmp_path / "safe.pt2").write_bytes(b"PK\x03\x04")
    code, said = check(tmp_path / "safe.pt2")
    assert code == 2
    assert "no .pt2" in said
