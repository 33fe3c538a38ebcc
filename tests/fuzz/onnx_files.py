"""Small ONNX models, and changes of their meaning."""

import numpy as np
import onnx

from farfield.graph.onnx.node import OPERATORS
from fuzz.mutations import NUMBERS

make_node = onnx.helper.make_node
INT64 = [number for number in NUMBERS if -(2**63) <= number < 2**63]


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
                attribute.ints[random.randrange(len(attribute.ints))] = random.choice(INT64)
            attribute.i = random.choice(INT64)
            attribute.f = random.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])
        elif kind == 3:
            del tensor.dims[:]
            tensor.dims.extend(random.choices(INT64, k=random.randrange(4)))
        elif kind == 4:
            shape = random.choice([[], [1], [2], [1, 1], [2, 2], [1, 2, 2]])
            count = int(np.prod(shape))
            values = np.array(random.choices(INT64, k=count), dtype=np.int64).reshape(shape)
            number = random.choice([np.int64, np.float32])
            made = onnx.numpy_helper.from_array(values.astype(number), tensor.name)
            tensor.CopyFrom(made)
        elif kind == 5:
            name = random.choice(["axis", "axes", "pads", "group", "keepdims", "to", "mode"])
            value = random.choice([1, -1, 7, [1], [0, 2], [2**40, 1], 0.5, "reflect"])
            node.attribute.append(onnx.helper.make_attribute(name, value))
        elif kind == 6:
            dims = graph.input[0].type.tensor_type.shape.dim
            dims[random.randrange(len(dims))].dim_value = random.choice(INT64)
        elif kind == 7:
            model.opset_import[0].version = random.randrange(5, 28)
        elif len(graph.node) > 1:
            graph.node.remove(node)
    return model.SerializeToString()
