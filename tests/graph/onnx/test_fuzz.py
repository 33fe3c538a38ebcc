"""Files with bytes changed at random: farfield's own errors or a model, and nothing else."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import farfield as ff
from farfield.errors import FarfieldError
from farfield.graph.onnx.node import OPERATORS

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
make_node = onnx.helper.make_node


def image_model():
    generator = np.random.default_rng(0)
    weights = {
        "k": generator.normal(size=(2, 1, 3, 3)),
        "s": np.ones(2),
        "b": np.zeros(2),
        "m": np.zeros(2),
        "v": np.ones(2),
        "w": generator.normal(size=(3, 8)),
    }
    nodes = [
        make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1]),
        make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        make_node("Sigmoid", ["n"], ["g"]),
        make_node("Mul", ["n", "g"], ["a"]),
        make_node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        make_node("Pad", ["p", "pads"], ["q"]),
        make_node("AveragePool", ["q"], ["r"], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        make_node("Shape", ["r"], ["shape"], start=0, end=1),
        make_node("Concat", ["shape", "minus"], ["to"], axis=0),
        make_node("Reshape", ["r", "to"], ["f"]),
        make_node("Gemm", ["f", "w"], ["z"], transB=1),
        make_node("Softmax", ["z"], ["y"], axis=1),
    ]
    return nodes, (1, 4, 4), weights, {"pads": [0] * 8, "minus": [-1]}


def table_model():
    weights = {"w": np.ones((4, 3)), "one": np.ones(1)}
    nodes = [
        make_node("Scaler", ["x"], ["a"], domain="ai.onnx.ml", offset=[0.5] * 4, scale=[2.0] * 4),
        make_node("Slice", ["a", "from", "to", "axis"], ["s"]),
        make_node("Concat", ["a", "s"], ["c"], axis=1),
        make_node("Gather", ["c", "pick"], ["g"], axis=1),
        make_node("MatMul", ["g", "w"], ["m"]),
        make_node("ConstantOfShape", ["to"], ["zeros"]),
        make_node("ReduceSum", ["zeros"], ["zero"]),
        make_node("Expand", ["one", "wide"], ["ones"]),
        make_node("Add", ["m", "ones"], ["n"]),
        make_node("Add", ["n", "zero"], ["y"]),
    ]
    integers = {"from": [1], "to": [3], "axis": [1], "pick": [0, 2, 4, 5], "wide": [1, 3]}
    return nodes, (4,), weights, integers


def data_of(nodes, shape, weights, integers):
    tensors = [
        *(onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()),
        *(onnx.numpy_helper.from_array(np.array(v), k) for k, v in integers.items()),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", 1, ["rows", *shape])], [value("y", 1, None)], tensors
    )
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    return onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString()


SEEDS = [data_of(*image_model()), data_of(*table_model())]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["set", "delete", "insert", "cut"]),
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 127, 128, 255])),
    ),
    min_size=1,
    max_size=6,
)


def mutate(data, changes):
    out = bytearray(data)
    for kind, share, byte in changes:
        place = int(share * max(1, len(out)))
        if kind == "set" and out:
            out[place] = byte
        elif kind == "delete":
            del out[place : place + 1 + byte % 4]
        elif kind == "insert":
            out[place:place] = bytes([byte])
        elif byte < 16:
            del out[place:]
    return bytes(out)


NUMBERS = [0, 1, -1, 2, 3, 5, 7, 255, 2**20, 2**31 - 1, 2**40, 2**62, -(2**62)]


def rearrange(data, random):
    """Change the meaning of a file and keep it a protocol buffer."""
    model = onnx.ModelProto.FromString(data)
    graph = model.graph
    for _ in range(random.randint(1, 3)):
        node = random.choice(list(graph.node))
        tensor = random.choice(list(graph.initializer))
        kind = random.randrange(9)
        if kind == 0:
            node.domain, node.op_type = random.choice(sorted(OPERATORS))
        elif kind == 1 and node.input:
            names = [name for other in graph.node for name in (*other.input, *other.output)]
            node.input[random.randrange(len(node.input))] = random.choice([*names, ""])
        elif kind == 2 and node.attribute:
            attribute = random.choice(list(node.attribute))
            if attribute.ints:
                attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)
            attribute.i = random.choice(NUMBERS)
            attribute.f = random.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])
        elif kind == 3:
            del tensor.dims[:]
            tensor.dims.extend(random.choices(NUMBERS, k=random.randrange(4)))
        elif kind == 4:
            shape = random.choice([[], [1], [2], [1, 1], [2, 2], [1, 2, 2]])
            count = int(np.prod(shape))
            values = np.array(random.choices(NUMBERS, k=count), dtype=np.int64).reshape(shape)
            number = random.choice([np.int64, np.float32])
            made = onnx.numpy_helper.from_array(values.astype(number), tensor.name)
            tensor.CopyFrom(made)
        elif kind == 5:
            name = random.choice(["axis", "axes", "pads", "group", "keepdims", "to", "mode"])
            value = random.choice([1, -1, 7, [1], [0, 2], [2**40, 1], 0.5, "reflect"])
            node.attribute.append(onnx.helper.make_attribute(name, value))
        elif kind == 6:
            dims = graph.input[0].type.tensor_type.shape.dim
            dims[random.randrange(len(dims))].dim_value = random.choice(NUMBERS)
        elif kind == 7:
            model.opset_import[0].version = random.randrange(5, 28)
        elif len(graph.node) > 1:
            graph.node.remove(node)
    return model.SerializeToString()


def read(path, data):
    path.write_bytes(data)
    try:
        network = ff.capture(path)
        network.logits(np.zeros((1, *network.input_shape)))
    except FarfieldError:
        return None
    return network


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_the_seeds_themselves_are_models(seed, tmp_path):
    assert read(tmp_path / "m.onnx", SEEDS[seed]) is not None


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, len(SEEDS) - 1), changes=CHANGES)
def test_changed_bytes_give_an_error_or_a_model(seed, changes, tmp_path):
    read(tmp_path / "m.onnx", mutate(SEEDS[seed], changes))


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, len(SEEDS) - 1), random=st.randoms(use_true_random=False))
def test_changed_meanings_give_an_error_or_a_model(seed, random, tmp_path):
    read(tmp_path / "m.onnx", rearrange(SEEDS[seed], random))
