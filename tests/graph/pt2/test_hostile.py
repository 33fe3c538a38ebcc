"""Archives that would run code, exhaust memory or be read in two ways: refused, nothing happens.

Every file here carries a payload that creates a file if anything in it is executed.
"""

import json
import pickle
import shutil
import struct
import sys
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import CaptureError
from saved_programs import rewritten, save


class Creates:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture
def marker(tmp_path):
    path = tmp_path / "executed"
    pickle.loads(pickle.dumps(Creates(path))).close()
    assert path.exists(), "the payload works"
    path.unlink()
    yield path
    assert not path.exists(), "something in the file was executed"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "model.pt2"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save(nn.Linear(2, 3), torch.zeros(2, 2), path)
    return path


@pytest.fixture
def saved(original, tmp_path):
    return shutil.copy(original, tmp_path / "model.pt2")


def add(path, name, data):
    """Put another member into the archive."""
    target = path.with_name("added.pt2")
    shutil.copy(path, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of duplicate names
        with zipfile.ZipFile(target, "a") as archive:
            archive.writestr(name, data)
    return target


def edited(path, member, change, into="changed.pt2"):
    """Change the JSON of one member."""

    def apply(name, data):
        if not name.endswith(member):
            return data
        tree = json.loads(data)
        change(tree)
        return json.dumps(tree).encode()

    return rewritten(path, apply, into)


def pickled(marker):
    return pickle.dumps(Creates(marker))


@pytest.mark.parametrize(
    "name",
    [
        "data/weights/model.pt",
        "data/constants/model.pt",
        "data/constants/opaque_obj_0",
        "data/constants/custom_obj_0",
        "data/aotinductor/model/code.so",
        "data/weights/weight_0.pkl",
        "serialized_state_dict.pt",
        "version",
        "extra/other",
        "../../executed",
        "models/second.json",
    ],
)
def test_members_that_are_not_known(saved, marker, name):
    with pytest.raises(CaptureError, match="never loaded"):
        ff.capture(add(saved, f"model/{name}", pickled(marker)))


def test_the_examples_are_never_opened(saved, marker):
    path = rewritten(saved, lambda name, data: pickled(marker) if "sample_inputs" in name else data)
    expected = ff.capture(saved).logits(torch.ones(2, 2))
    assert torch.equal(ff.capture(path).logits(torch.ones(2, 2)), expected)


def test_legacy_weights_in_place_of_the_new_ones(saved, marker):
    def change(name, data):
        return None if "weights" in name else data

    path = add(rewritten(saved, change), "model/data/weights/model.pt", pickled(marker))
    with pytest.raises(CaptureError, match="never loaded"):
        ff.capture(path)


def test_the_layout_before_2_8(tmp_path, marker):
    path = tmp_path / "old.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.2")
        archive.writestr("serialized_exported_program.json", "{}")
        for name in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{name}.pt", pickled(marker))
    with pytest.raises(CaptureError, match=r"before 2\.8"):
        ff.capture(path)


@pytest.mark.parametrize("name", ["data/weights/weight_0", "models/model.json", "byteorder"])
def test_members_that_are_there_twice(saved, marker, name):
    with pytest.raises(CaptureError, match="twice"):
        ff.capture(add(saved, f"model/{name}", pickled(marker)))


def test_members_in_a_second_folder(saved, marker):
    with pytest.raises(CaptureError, match="two places"):
        ff.capture(add(saved, "other/data/weights/weight_0", pickled(marker)))


def test_pickled_weights_and_opaque_constants(saved, marker):
    def opaque(tree):
        tree["config"]["x"] = {
            "path_name": "opaque_obj_0",
            "is_param": False,
            "use_pickle": False,
            "tensor_meta": None,
        }

    def use_pickle(tree):
        tree["config"]["weight"]["use_pickle"] = True

    with pytest.raises(CaptureError, match="use_pickle"):
        ff.capture(edited(saved, "weights_config.json", use_pickle))
    with pytest.raises(CaptureError, match=r"config\.x\.tensor_meta"):
        ff.capture(edited(saved, "constants_config.json", opaque))


def test_a_weight_may_not_be_read_from_a_member_that_is_not_a_tensor(saved, marker):
    def elsewhere(tree):
        tree["config"]["weight"]["path_name"] = "../sample_inputs/model.pt"

    with pytest.raises(CaptureError, match="does not hold"):
        ff.capture(edited(saved, "weights_config.json", elsewhere))


def test_compressed_members(saved, marker):
    with pytest.raises(CaptureError, match="compressed"):
        ff.capture(rewritten(saved, lambda _, data: data, compression=zipfile.ZIP_DEFLATED))


def test_members_that_share_bytes(saved, marker):
    data = bytearray(saved.read_bytes())
    entries = []
    with zipfile.ZipFile(saved) as archive:
        place = archive.start_dir
    while data[place : place + 4] == b"PK\x01\x02":
        entries.append(place)
        lengths = struct.unpack_from("<HHH", data, place + 28)
        place += 46 + sum(lengths)
    first, second = entries[:2]
    data[second + 42 : second + 46] = data[first + 42 : first + 46]  # the offset of its header
    saved.write_bytes(data)
    with pytest.raises(CaptureError, match="across other members"):
        ff.capture(saved)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("sizes", [{"as_int": 10**12}, {"as_int": 2}], "asks for 8000000000000 bytes"),
        ("sizes", [{"as_int": -3}, {"as_int": 2}], "negative"),
        ("sizes", [{"as_int": 3}], "1 sizes and 2 strides"),
        ("sizes", [{"as_expr": {"expr_str": "open('executed','w')"}}, {"as_int": 2}], "open"),
        ("sizes", [{"as_int": 10**30}, {"as_int": 2}], "less than"),
        ("strides", [{"as_int": -2}, {"as_int": 1}], "negative"),
        ("strides", [{"as_int": 1000}, {"as_int": 1}], "too few"),
        ("storage_offset", {"as_int": 1}, "too few"),
        ("storage_offset", {"as_int": -1}, "negative"),
        ("storage_offset", {}, "exactly one"),
        ("layout", 1, "sparse"),
        ("dtype", 10, "unknown element type"),
        ("dtype", "__import__('os')", "valid integer"),
    ],
)
def test_descriptions_that_do_not_fit_the_bytes(saved, marker, field, value, message):
    def change(tree):
        tree["config"]["weight"]["tensor_meta"][field] = value

    with pytest.raises(CaptureError, match=message):
        ff.capture(edited(saved, "weights_config.json", change))


def graph_of(tree):
    return tree["graph_module"]["graph"]


CALLS = [
    "torch.ops.aten.relu.default.__class__",
    "torch.os.system",
    "torch.load",
    "torch.utils.cpp_extension.load",
    "_operator.methodcaller",
    "_operator.attrgetter",
    "math.inf",
    "builtins.exec",
    "torch.ops.higher_order.cond",
    "#extension:thing",
    "",
]


@pytest.mark.parametrize("target", CALLS)
def test_operations_by_other_names(saved, marker, target):
    def change(tree):
        graph_of(tree)["nodes"][0]["target"] = target

    with pytest.raises(CaptureError, match="cannot be read from"):
        ff.capture(edited(saved, "model.json", change))


@pytest.mark.parametrize(
    "name", ["x = open('executed', 'w')", "x\nopen('executed','w')", "x:=1", "", "é", "x" * 300]
)
def test_names_that_are_no_identifiers(saved, marker, name, monkeypatch):
    monkeypatch.chdir(marker.parent)

    def change(tree):
        graph_of(tree)["nodes"][0]["name"] = name

    def everywhere(data):
        return data.replace(b'"linear"', json.dumps(name).encode())

    with pytest.raises(CaptureError, match="pattern"):
        ff.capture(edited(saved, "model.json", change))
    path = rewritten(saved, lambda _, data: everywhere(data) if b"nodes" in data else data)
    with pytest.raises(CaptureError, match="pattern"):
        ff.capture(path)


@pytest.mark.parametrize(
    "name", ["__class__", "forward", "_parameters.x", "a.__dict__", "state_dict"]
)
def test_weights_with_the_names_of_methods(saved, marker, name):
    def index(tree):
        tree["config"][name] = tree["config"].pop("weight")

    def model(tree):
        for spec in tree["graph_module"]["signature"]["input_specs"]:
            if spec.get("parameter", {}).get("parameter_name") == "weight":
                spec["parameter"]["parameter_name"] = name

    half = edited(saved, "weights_config.json", index, "half.pt2")
    with pytest.raises(CaptureError, match="no module can have"):
        ff.capture(edited(half, "model.json", model))


def test_words_in_the_metadata_stay_words(saved, marker, monkeypatch):
    monkeypatch.chdir(marker.parent)
    code = "')\nopen('executed', 'w')\n#"

    def change(tree):
        node = graph_of(tree)["nodes"][0]
        node["metadata"] = {
            "stack_trace": f'File "{code}", line 1, in forward\n{code}',
            "nn_module_stack": f"{code},{code},{code};;,",
            "custom": code,
            "from_node": code,
        }
        tree["guards_code"] = [code]
        tree["range_constraints"] = {code: {"min_val": code, "max_val": None}}
        graph_of(tree)["sym_int_values"] = {code: {"as_expr": {"expr_str": code}}}
        tree["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = code
        tree["graph_module"]["treespec_namedtuple_fields"] = {code: code}

    network = ff.capture(edited(saved, "model.json", change))
    assert torch.equal(network.logits(torch.ones(1, 2)), ff.capture(saved).logits(torch.ones(1, 2)))


def test_size_expressions_are_never_evaluated(saved, marker):
    def change(tree):
        sizes = graph_of(tree)["tensor_values"]["input"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = f"open({str(marker)!r}, 'w')"

    assert ff.capture(edited(saved, "model.json", change)).classes == 3


def expands(size):
    """A graph of a few hundred bytes whose values hold ``size`` numbers."""

    def change(tree):
        graph = graph_of(tree)
        linear = graph["nodes"][0]
        made = json.loads(json.dumps(linear))
        made["target"], made["name"] = "torch.ops.aten.zeros.default", "big"
        made["inputs"] = [{"name": "size", "arg": {"as_ints": size}, "kind": 1}]
        made["outputs"] = [{"as_tensor": {"name": "big"}}]
        graph["nodes"].insert(0, made)

    return change


@pytest.mark.parametrize("size", [[10**12], [2**20, 2**20], [10**9], [2**62, 2**62], [-5]])
def test_values_that_would_fill_the_memory(saved, marker, size):
    with pytest.raises(CaptureError, match=r"are left of what|broken program"):
        ff.capture(edited(saved, "model.json", expands(size)))


def put_first(tree, name, target, *inputs):
    """Let a graph begin with a size that is computed."""
    node = json.loads(json.dumps(graph_of(tree)["nodes"][0]))
    node["target"], node["name"] = target, name
    node["inputs"] = [{"name": key, "arg": arg, "kind": 1} for key, arg in inputs]
    node["outputs"] = [{"as_sym_int": {"as_name": name}}]
    graph_of(tree)["nodes"].insert(0, node)


@pytest.mark.parametrize("dim", [0, 1])
def test_sizes_that_grow_with_every_step(saved, marker, dim):
    def change(tree):
        for place in range(60, 0, -1):
            before = {"as_sym_int": {"as_name": f"s{place - 1}"}}
            put_first(tree, f"s{place}", "_operator.mul", ("a", before), ("b", before))
        rows = ("self", {"as_tensor": {"name": "input"}}), ("dim", {"as_int": dim})
        put_first(tree, "s0", "torch.ops.aten.sym_size.int", *rows)

    with pytest.raises(CaptureError, match="beyond all bounds"):
        ff.capture(edited(saved, "model.json", change))


@pytest.mark.parametrize("given", [{"as_string": "ab"}, {"as_ints": [1, 2]}])
def test_arithmetic_on_something_else_than_sizes(saved, marker, given):
    def change(tree):
        put_first(tree, "long", "_operator.mul", ("a", given), ("b", {"as_int": 10**12}))

    with pytest.raises(CaptureError, match="something else than sizes"):
        ff.capture(edited(saved, "model.json", change))


@pytest.mark.parametrize(
    ("target", "extra"),
    [
        ("unbind.int", {"dim": 1}),
        ("split.Tensor", {"split_size": 1, "dim": 1}),
        ("chunk.default", {"chunks": 10**7, "dim": 1}),
        ("split.Tensor", {"split_size": 0, "dim": 1}),
        ("unbind.int", {"dim": 7}),
    ],
)
def test_more_pieces_than_names(saved, marker, target, extra):
    def change(tree):
        graph = graph_of(tree)
        made = json.loads(json.dumps(graph["nodes"][0]))
        wide = json.loads(json.dumps(made))
        wide["target"], wide["name"] = "torch.ops.aten.zeros.default", "wide"
        wide["inputs"] = [{"name": "size", "arg": {"as_ints": [1, 10**7]}, "kind": 1}]
        wide["outputs"] = [{"as_tensor": {"name": "wide"}}]
        made["target"], made["name"] = f"torch.ops.aten.{target}", "pieces"
        made["inputs"] = [{"name": "self", "arg": {"as_tensor": {"name": "wide"}}, "kind": 1}]
        made["inputs"] += [{"name": k, "arg": {"as_int": v}, "kind": 1} for k, v in extra.items()]
        made["outputs"] = [{"as_tensors": [{"name": "one"}]}]
        graph["nodes"] = [wide, made, *graph["nodes"]]

    with pytest.raises(CaptureError, match="damaged"):
        ff.capture(edited(saved, "model.json", change))


@pytest.mark.parametrize("moments", [5_000, 10**9])
def test_sequences_that_would_be_written_out_forever(tmp_path, marker, moments):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = nn.RNN(1, 1)

        def forward(self, x):
            return self.recurrent(x.transpose(0, 1))[0][-1]

    path = tmp_path / "model.pt2"
    save(Last(), torch.zeros(3, 5, 1), path)

    def change(tree):
        values = graph_of(tree)["tensor_values"]
        values["x"]["sizes"][1] = {"as_int": moments}

    with pytest.raises(CaptureError, match="are left of what"):
        ff.capture(edited(path, "model.json", change))


def test_an_input_that_would_fill_the_memory(saved, marker):
    def change(tree):
        graph_of(tree)["tensor_values"]["input"]["sizes"] = [{"as_int": 2}, {"as_int": 10**11}]

    with pytest.raises(CaptureError, match="are left of what"):
        ff.capture(edited(saved, "model.json", change))


@pytest.mark.parametrize("member", ["model.json", "weights_config.json"])
def test_deep_and_broken_json(saved, marker, member):
    for data in (b"[" * 100_000, b'{"a":' * 50_000, b"{", b"", b"\xff\xfe", b"nul", b"[1e999]"):
        path = rewritten(saved, lambda name, old, d=data: d if name.endswith(member) else old)
        with pytest.raises(CaptureError, match=r"is not what torch\.export\.save writes"):
            ff.capture(path)


def test_nothing_of_pickle_or_torch_load_is_reached(saved, marker, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a loader was called")

    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch.export, "load", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    assert ff.capture(saved).classes == 3
    source = Path(sys.modules["farfield"].__file__).parent
    for module in (source / "graph").rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        assert "torch.load" not in text
        assert "export.load(" not in text
