"""Hostile, damaged and unusual files: a clear error, nothing run, nothing large allocated."""

import builtins
import os
import sys

import numpy as np
import pytest

import farfield as ff
from farfield.errors import CaptureError, MissingDependency, UnsupportedOperation
from farfield.graph.onnx import trace
from farfield.graph.onnx.files import load_file

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
make_node = onnx.helper.make_node


def gemm(weight=None):
    weight = np.ones((3, 4), np.float32) if weight is None else weight
    return [make_node("Gemm", ["x", "w"], ["y"], name="layer")], (3,), {"w": weight}


def rewrite(path, change):
    """Load a file, change its model, write it back."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


def external(path, **entries):
    """Make the weight of a file external, with the given entries."""

    def change(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    return rewrite(path, change)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"PK\x03\x04 not a model", b"\x80\x04\x95 pickled", b"\x08\x0a" * 40]
)
def test_what_is_not_a_model_is_refused(data, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=r"model\.onnx"):
        ff.capture(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_refused(share, save):
    path = save(*gemm())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(CaptureError):
        ff.capture(path)


def test_no_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(CaptureError, match=r"no file|suffix"):
            ff.capture(path)
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(CaptureError, match="no file"):
        ff.capture(tmp_path / "folder.onnx")


def test_without_onnx_the_message_says_what_to_install(save, monkeypatch):
    path = save(*gemm())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependency, match=r"pip install 'farfield\[onnx\]'"):
        ff.capture(path)


@pytest.mark.parametrize("dims", [[2**40, 2**20], [3, 5], [-3, -4], [0, 4], [0, *[8064] * 12]])
def test_a_tensor_that_claims_another_size_is_refused(dims, save):
    def change(model):
        model.graph.initializer[0].dims[:] = dims

    with pytest.raises(CaptureError, match=r"'w'.*shape"):
        ff.capture(rewrite(save(*gemm()), change))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(number, save):
    weight = np.ones((3, 4), np.float32)
    weight[1, 1] = number
    with pytest.raises(CaptureError, match=r"NaN|not finite"):
        ff.capture(save(*gemm(weight)))


def test_an_element_type_without_a_place_is_refused_by_name(save):
    def change(model):
        model.graph.initializer[0].data_type = onnx.TensorProto.FLOAT8E4M3FN

    with pytest.raises(CaptureError, match="FLOAT8E4M3FN"):
        ff.capture(rewrite(save(*gemm()), change))


def test_every_number_format_is_read(save):
    values = np.array([[1.5, -2.0], [0.25, 8.0], [3.0, -0.5]])
    path = save(*gemm(values.astype(np.float32)))
    half = values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32) >> 16
    forms = [
        onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, (3, 2), values.ravel()),
        onnx.helper.make_tensor("w", onnx.TensorProto.DOUBLE, (3, 2), values.ravel()),
        onnx.numpy_helper.from_array(half, "w"),
        onnx.TensorProto(
            name="w", dims=(3, 2), data_type=10, int32_data=half.view(np.uint16).ravel().tolist()
        ),
        onnx.TensorProto(name="w", dims=(3, 2), data_type=16, int32_data=bits.ravel().tolist()),
    ]
    for tensor in forms:
        rewrite(path, lambda model, t=tensor: model.graph.initializer[0].CopyFrom(t))
        np.testing.assert_allclose(ff.capture(path).logits(np.eye(3))[0], values)


def test_external_data_beside_the_model_is_read(save, tmp_path, agrees):
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "weights.bin").write_bytes(b"\0" * 16 + weight.tobytes())
    path = external(
        save(*gemm(weight)), location="data/weights.bin", offset="16", length=str(weight.nbytes)
    )
    agrees(path)


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../outside.bin",
        "a/../../outside.bin",
        "link.bin",
        "",
        "nul\0byte",
        "none.bin",
        ".",
    ],
)
def test_external_data_elsewhere_is_refused(location, save, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(b"\0" * 48)
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    path = external(save(*gemm(), name="models/m.onnx"), location=location)
    with pytest.raises(CaptureError, match="'w'"):
        ff.capture(path)


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        ("1", "48"),
        (str(2**62), "48"),
        ("-1", "48"),
        ("0", str(2**40)),
        ("0", "x"),
        ("9" * 30, "48"),
    ],
)
def test_external_data_that_is_not_there_is_refused(offset, length, save, tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 48)
    path = external(save(*gemm()), location="w.bin", offset=offset, length=length)
    with pytest.raises(CaptureError, match="'w'"):
        ff.capture(path)


def test_external_data_is_opened_only_after_the_check(save, tmp_path, monkeypatch):
    path = external(save(*gemm()), location="../secret.bin")
    opened = []
    true_open = builtins.open
    monkeypatch.setattr(
        builtins,
        "open",
        lambda file, *a, **k: opened.append(os.fspath(file)) or true_open(file, *a, **k),
    )
    with pytest.raises(CaptureError):
        ff.capture(path)
    assert not any("secret" in str(name) for name in opened)


BOMBS = {
    "ConstantOfShape": ([("ConstantOfShape", ["n"])], {"n": np.array([2**40])}),
    "Expand": ([("Expand", ["one", "n"])], {"one": np.ones(1, np.float32), "n": np.array([2**40])}),
    "Tile": ([("Tile", ["one", "n"])], {"one": np.ones(1, np.float32), "n": np.array([2**40])}),
    "Range": (
        [("Range", ["a", "b", "c"])],
        {"a": np.float32(0), "b": np.float32(2.0**40), "c": np.float32(1)},
    ),
    "Pad": (
        [("Pad", ["one", "n"])],
        {"one": np.ones(1, np.float32), "n": np.array([2**40, 0])},
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_cannot_ask_for_a_large_constant(name, save):
    chain, weights = BOMBS[name]
    nodes = [make_node(operator, inputs, ["big"]) for operator, inputs in chain]
    nodes += [make_node("ReduceSum", ["big"], ["s"]), make_node("Mul", ["x", "s"], ["y"])]
    with pytest.raises(CaptureError, match=name):
        ff.capture(save(nodes, (3,), weights))


DATA_BOMBS = {
    "Expand": (("Expand", ["x", "n"], {}), (1,), {"n": np.array([1, 2**40])}),
    "Tile": (("Tile", ["x", "n"], {}), (1,), {"n": np.array([1, 2**40])}),
    "Pad": (("Pad", ["x", "n"], {}), (1,), {"n": np.array([0, 2**40, 0, 0])}),
    "Conv": (
        ("Conv", ["x", "w"], {"pads": [2**30, 2**30]}),
        (1, 5),
        {"w": np.ones((1, 1, 3), np.float32)},
    ),
    "Resize": (
        ("Resize", ["x", "", "s"], {}),
        (1, 5),
        {"s": np.array([1, 1, 2.0**30], np.float32)},
    ),
}


@pytest.mark.parametrize("name", DATA_BOMBS)
def test_a_small_file_cannot_ask_for_a_large_value(name, save):
    (operator, inputs, attributes), shape, weights = DATA_BOMBS[name]
    nodes = [make_node(operator, inputs, ["b"], **attributes), make_node("Flatten", ["b"], ["y"])]
    with pytest.raises(CaptureError, match=name):
        ff.capture(save(nodes, shape, weights))


def deep(count, first):
    """Many steps one after another."""
    nodes = [make_node(*first, ["v0"])]
    nodes += [make_node("Relu", [f"v{k}"], [f"v{k + 1}"]) for k in range(count)]
    return [*nodes, make_node("ReduceSum", [f"v{count}", "a"], ["y"], keepdims=0)]


WORK_BOMBS = {
    "a maximum of a million": (
        [
            make_node("Expand", ["x", "n"], ["e"]),
            make_node("ReduceMax", ["e", "a"], ["y"], keepdims=0),
        ],
        (2, 1),
        {"n": np.array([1, 2, 10**6]), "a": np.array([2])},
    ),
    "windows of a million": (
        [
            make_node("Tile", ["x", "n"], ["t"]),
            make_node("MaxPool", ["t"], ["p"], kernel_shape=[1000, 1000]),
            make_node("Flatten", ["p"], ["y"]),
        ],
        (2, 1, 1),
        {"n": np.array([1, 1, 1001, 1001])},
    ),
    "wide and deep": (
        deep(300, ("Expand", ["x", "n"])),
        (2, 1),
        {"n": np.array([1, 2, 10**6]), "a": np.array([2])},
    ),
    "places in fractions": (
        [make_node("Resize", ["x", "", "n"], ["r"]), make_node("Flatten", ["r"], ["y"])],
        (2, 1),
        {"n": np.array([1, 1, 2**22], np.float32)},
    ),
    "a convolution of constants": (
        [
            make_node("Expand", ["k", "n"], ["w"]),
            make_node("Conv", ["w", "w"], ["c"]),
            make_node("Expand", ["c", "n"], ["b"]),
            make_node("Conv", ["b", "w"], ["d"], pads=[1000, 1000]),
            make_node("ReduceSum", ["d"], ["s"], keepdims=0),
            make_node("Mul", ["x", "s"], ["y"]),
        ],
        (2,),
        {"k": np.ones((1, 1, 1), np.float32), "n": np.array([1, 1, 10**6])},
    ),
    "a list of positions": (
        [
            make_node("Expand", ["z", "n"], ["i"]),
            make_node("Gather", ["x", "i"], ["y"], axis=1),
        ],
        (2,),
        {"z": np.array(0), "n": np.array([2**21])},
    ),
}


@pytest.mark.parametrize("name", WORK_BOMBS)
def test_a_small_file_cannot_ask_for_much_work(name, save):
    path = save(*WORK_BOMBS[name])
    with pytest.raises(CaptureError, match=r"may ask for|more than") as caught:
        ff.capture(path)
    assert path.stat().st_size < 10_000
    assert isinstance(caught.value, UnsupportedOperation) or "\n" not in str(caught.value)


def test_a_small_network_on_large_images_is_within_the_budget(save):
    """Three thousand weights, each at fifty thousand places."""
    weights = {
        "a": np.full((16, 3, 3, 3), 0.1, np.float32),
        "b": np.full((16, 16, 3, 3), 0.1, np.float32),
        "c": np.full((16, 2), 0.1, np.float32),
    }
    nodes = [
        make_node("Conv", ["x", "a"], ["h"], pads=[1, 1, 1, 1]),
        make_node("Relu", ["h"], ["r"]),
        make_node("Conv", ["r", "b"], ["k"], pads=[1, 1, 1, 1]),
        make_node("GlobalMaxPool", ["k"], ["g"]),
        make_node("Flatten", ["g"], ["f"]),
        make_node("MatMul", ["f", "c"], ["y"]),
    ]
    assert ff.capture(save(nodes, (3, 64, 64), weights)).classes == 2


def test_many_constants_together_are_bounded(save):
    nodes = [make_node("ConstantOfShape", ["n"], [f"b{i}"], name=f"n{i}") for i in range(40)]
    nodes += [
        make_node("Sum", [f"b{i}" for i in range(40)], ["s"]),
        make_node("ReduceSum", ["s"], ["t"]),
    ]
    nodes += [make_node("Mul", ["x", "t"], ["y"])]
    with pytest.raises(CaptureError, match="exhaust memory"):
        ff.capture(save(nodes, (3,), {"n": np.array([2**23])}))


def test_weights_in_constant_nodes_may_be_as_large_as_any(save, monkeypatch):
    monkeypatch.setattr(trace, "MOST_ELEMENTS", 2**12)
    weight = np.zeros((2, 2**11 + 2**9), np.float32)
    value = onnx.numpy_helper.from_array(weight)
    nodes = [
        make_node("Constant", [], ["w"], value=value),
        make_node("Transpose", ["w"], ["t"]),
        make_node("MatMul", ["t", "two"], ["a"]),
        make_node("ReduceSum", ["a"], ["s"]),
        make_node("Add", ["x", "s"], ["y"]),
    ]
    assert ff.capture(save(nodes, (3,), {"two": np.ones((2, 1), np.float32)})).classes == 3


def test_everything_unsupported_is_in_one_error_with_node_names(save):
    body = onnx.helper.make_graph(
        [make_node("Identity", ["a"], ["out"])],
        "body",
        [],
        [onnx.helper.make_tensor_value_info("out", 1, None)],
    )
    nodes = [
        make_node("Sin", ["x"], ["a"], name="wave"),
        make_node("Det", ["a"], ["b"], name="determinant"),
        make_node("If", ["c"], ["d"], name="branch", then_branch=body, else_branch=body),
        make_node("FusedGelu", ["x"], ["e"], name="fused", domain="com.microsoft"),
        make_node("Mul", ["x", "x"], ["g"], name="square"),
        make_node("Sum", ["b", "d", "e", "g"], ["y"], name="sum"),
    ]
    with pytest.raises(UnsupportedOperation) as caught:
        ff.capture(save(nodes, (3,), {"c": np.array([True])}))
    text = str(caught.value)
    for name in ("wave (Sin)", "determinant (Det)", "branch (If)", "fused (FusedGelu)"):
        assert name in text
    assert "control flow" in text
    assert "com.microsoft" in text
    assert "square (Mul): a product of values that both depend on the input" in text
    assert "sum (Sum)" not in text


def test_operators_that_the_scores_do_not_need_do_not_matter(save):
    nodes = [make_node("Sin", ["x"], ["unused"]), make_node("Relu", ["x"], ["y"])]
    assert ff.capture(save(nodes, (3,))).classes == 3


def test_functions_of_the_file_are_refused_by_name(save):
    function = onnx.helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [make_node("Add", ["a", "a"], ["b"])],
        [onnx.helper.make_opsetid("", 20)],
    )
    path = save([make_node("Twice", ["x"], ["y"], name="twice", domain="own")], (3,))
    rewrite(path, lambda model: model.functions.append(function))
    with pytest.raises(UnsupportedOperation, match=r"twice \(Twice\).*own"):
        ff.capture(path)


def test_an_unknown_operator_set_is_refused(save):
    def change(model):
        model.opset_import[0].version = 99

    with pytest.raises(CaptureError, match="version 99"):
        ff.capture(rewrite(save(*gemm()), change))
    with pytest.raises(CaptureError, match="ONNX graph"):
        ff.capture(rewrite(save(*gemm()), lambda model: model.ClearField("opset_import")))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([make_node("Relu", ["nothing"], ["y"])], "'nothing'"),
        ([make_node("Relu", ["b"], ["y"]), make_node("Relu", ["x"], ["b"])], "before it"),
        ([make_node("Relu", ["y"], ["y"])], "'y'"),
        ([make_node("Relu", ["x"], ["y"]), make_node("Tanh", ["x"], ["y"])], "twice"),
        ([make_node("Relu", ["x"], ["x"])], "twice"),
        ([make_node("Relu", [], ["y"])], "input 0 is missing"),
        ([make_node("Relu", ["x"], ["z"])], "'y'"),
        ([make_node("Constant", [], ["y"], value_floats=[1.0])], "does not depend"),
        ([make_node("Reshape", ["x", "x"], ["y"])], "depends on the input"),
        ([make_node("Transpose", ["x"], ["y"], perm=[1, 0])], "rows of the batch"),
        ([make_node("ReduceMean", ["x"], ["y"])], "rows of a batch influence"),
        (
            [
                make_node("ReduceMean", ["x"], ["m"], keepdims=1),
                make_node("Sub", ["x", "m"], ["y"]),
            ],
            "rows of a batch influence",
        ),
        ([make_node("Softmax", ["x"], ["y"], axis=0)], "over the rows"),
        ([make_node("Relu", ["x"], ["y"], name="<b>")], None),
    ],
)
def test_a_graph_that_is_no_network_is_refused(nodes, message, save):
    path = save(nodes, (3,))
    if message is None:
        assert ff.capture(path).classes == 3
        return
    with pytest.raises(CaptureError, match=message):
        ff.capture(path)


def test_numbers_of_rows_do_not_leak_into_the_model(save):
    nodes = [
        make_node("Shape", ["x"], ["n"], end=1),
        make_node("Cast", ["n"], ["f"], to=1),
        make_node("Div", ["x", "f"], ["y"], name="by rows"),
    ]
    with pytest.raises(UnsupportedOperation, match=r"by rows \(Div\).*number of rows"):
        ff.capture(save(nodes, (3,)))


def test_an_input_of_open_shape_takes_it_from_the_example(save):
    nodes, _, weights = gemm()
    path = save(nodes, ("features",), weights)
    with pytest.raises(CaptureError, match="pass an example"):
        ff.capture(path)
    assert ff.capture(path, np.zeros((1, 3))).input_shape == (3,)
    with pytest.raises(CaptureError):
        ff.capture(path, np.zeros((1, 2)))


def test_whole_numbers_are_read_as_real_ones(save):
    nodes = [make_node("Cast", ["x"], ["f"], to=1), make_node("Gemm", ["f", "w"], ["y"])]
    path = save(nodes, (3,), {"w": np.ones((3, 2), np.float32)})

    def change(model):
        model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64

    network = ff.capture(rewrite(path, change))
    assert any("whole numbers" in note for note in network.notes)


def test_text_and_several_images_are_refused_as_inputs(save):
    def text(model):
        model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING

    with pytest.raises(CaptureError, match=r"'x'.*numbers"):
        ff.capture(rewrite(save(*gemm()), text))
    nodes = [make_node("Add", ["x", "z"], ["y"])]
    path = save(nodes, (2, 3))

    def another(model):
        model.graph.input.append(onnx.helper.make_tensor_value_info("z", 1, ["rows", 2, 3]))

    with pytest.raises(CaptureError, match=r"2 inputs \(x, z\)"):
        ff.capture(rewrite(path, another))


def test_sparse_weights_are_refused(save):
    def change(model):
        model.graph.sparse_initializer.add()

    with pytest.raises(CaptureError, match="sparse"):
        ff.capture(rewrite(save(*gemm()), change))


def test_loading_does_not_need_the_rest_of_the_file(save):
    file = load_file(save(*gemm()))
    assert len(file.model.graph.node) == 1
