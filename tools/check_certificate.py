#!/usr/bin/env python3
"""Check the certificate of a guarded model, sharing no code with the package that wrote it.

    python tools/check_certificate.py safe.onnx

Needs numpy, and for ``.onnx`` the protocol buffers of the package onnx. Exit code 0: the promise
follows; 1: it does not; 2: there is nothing to check.

The promise: no class of any input exceeds ``1/K + epsilon`` beyond a radius R, whatever the model
says. The proof: ``p' = 1/K + (p - 1/K) / T`` is at most ``1/K + (1 - 1/K) / T``, and
``T = 1 + (d / h)^2`` with d the largest of several views, of which two grow in every direction:

* balls, ``d = (min_k (|u - c_k| - r_k) - threshold) / width`` with ``u = W (x - mean) / unit``:
  d >= 1 wherever ``|u| >= max_k (|c_k| + r_k) + threshold + width``;
* ranges, for columns that are categories: d >= 1 wherever such a column is further from the middle
  of its training range than half of that range plus ``(threshold + width) unit``.

R and T are recomputed from the file's numbers, every inequality is checked, the file is attacked: d
(of ``.onnx`` the guard's own nodes, behind a model that is certain) at points chosen to break it.
"""

import hashlib
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np

PREFIX, COVERED, LARGEST, POINTS = "farfield/", "covered.", 1e100, 400
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "BOOL": "?"}


class BrokenPromise(Exception):  # noqa: N818 - reads as what it is
    """The promise does not follow."""


def read_safetensors(data):
    """Certificate, description of the guard, and its numbers by name; None without a guard."""
    (size,) = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    said = json.loads(head.pop("__metadata__", {}).get("farfield", "null"))
    if not isinstance(said, dict) or "guard" not in said:
        return None
    numbers = {}
    for name, entry in head.items():
        if name.startswith(COVERED):
            values = np.frombuffer(body[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]])
            numbers[name.removeprefix(COVERED)] = values.reshape(entry["shape"])
    return said["certificate"], said["covered"], numbers, None


def read_onnx(data):
    """The same of an ONNX file, and what is needed to evaluate its guard."""
    import onnx

    model = onnx.load_model_from_string(data)
    said = {entry.key: entry.value for entry in model.metadata_props}
    if "farfield.guard" not in said or "farfield.certificate" not in said:
        return None
    record, array = json.loads(said["farfield.guard"]), onnx.numpy_helper.to_array
    held = {t.name: array(t) for t in model.graph.initializer if t.name.startswith(PREFIX)}
    start = PREFIX + COVERED
    numbers = {n.removeprefix(start): v for n, v in held.items() if n.startswith(start)}
    graph = {"nodes": model.graph.node, "tensors": held, "record": record}
    graph["outputs"] = [output.name for output in model.graph.output]
    return json.loads(said["farfield.certificate"]), record["covered"], numbers, graph


def of_view(covered, numbers, name):
    """The numbers of one view."""
    start = f"views.{covered['views'].index(name)}."
    return {n.removeprefix(start): v for n, v in numbers.items() if n.startswith(start)}


def numeric_columns(covered, numbers):
    """Columns that are not categories."""
    return np.setdiff1d(np.arange(len(numbers["fill"])), covered["other"])


def prove(certificate, covered, numbers):
    """Recompute R and T from the numbers, and compare them with what the certificate says."""
    kinds = {"classification": certificate["classes"] > 1, "regression": certificate["classes"] < 1}
    if certificate["format"] != 2 or not kinds.get(certificate["task"]):
        raise BrokenPromise("the certificate is of no kind that is known here")
    for name, values in numbers.items():
        fine = values.dtype == np.float64 and (name == "fill" or np.isfinite(values).all())
        if values.dtype.kind == "f" and not fine:
            raise BrokenPromise(f"{name} is not finite, or not in double precision")
        if (name.endswith("width") or name.rpartition(".")[2] == "unit") and not (values > 0).all():
            raise BrokenPromise(f"{name} is not positive")
    if of_view(covered, numbers, "ranges")["unit"].shape != (2, len(numbers["fill"])):
        raise BrokenPromise("the ranges do not have a unit for both ends of every column")
    parts = ((f"{n} {v.dtype.str} {v.shape}", v.tobytes()) for n, v in sorted(numbers.items()))
    own = hashlib.sha256(b"".join(name.encode() + data for name, data in parts))
    if own.hexdigest() != certificate["digest"]:
        raise BrokenPromise("the numbers are not those that were certified")
    views = {name: of_view(covered, numbers, name) for name in covered["views"]}
    found = [(name, float(v["threshold"]), float(v["width"])) for name, v in views.items()]
    if [(v["name"], v["threshold"], v["width"]) for v in certificate["views"]] != found:
        raise BrokenPromise("the views are not those of the certificate, or calibrated otherwise")
    h, epsilon = float(numbers["unit"]), certificate["epsilon"]
    temperature, share = 1 + 1 / h**2, 1 / max(1, certificate["classes"])
    same("h", certificate["unit"], h)
    same("the temperature", certificate["temperature"], temperature)
    if certificate["task"] == "classification" and not temperature * epsilon >= 1 - share:
        raise BrokenPromise(f"T = {temperature:.6g} at d = 1 allows more than 1/K + {epsilon:g}")
    radius, own = certificate["radius"], proven_radius(covered, numbers)
    same("the radius in data radii", certificate["radii"] * certificate["data_radius"], radius)
    if not radius >= own * (1 - 1e-9):
        raise BrokenPromise(f"R is said to be {radius:.6g}, and follows from {own:.6g} on")
    return radius, temperature


def same(what, said, found):
    """Whether a claim is what follows from the numbers."""
    if not math.isclose(said, found, rel_tol=1e-6):
        raise BrokenPromise(f"{what} is said to be {said:.9g}, it is {found:.9g}")


def proven_radius(covered, numbers):
    """R of the balls for numeric columns, and of the ranges for all others, together."""
    own = rest = 0.0
    if len(numeric_columns(covered, numbers)):
        balls = of_view(covered, numbers, "balls")
        if not np.linalg.cond(numbers.get("whitened.matrix", np.eye(1))) < 1e12:
            raise BrokenPromise("the whitening has a kernel: some direction has no distance")
        outer = np.linalg.norm(balls["centres"], axis=1) + balls["radii"]
        own = max(0.0, float(outer.max() + balls["threshold"])) + float(balls["width"])
    if covered["other"]:
        ranges, other = of_view(covered, numbers, "ranges"), list(covered["other"])
        outer = (ranges["high"] - ranges["low"]) / 2
        outer = outer + (ranges["threshold"] + ranges["width"]) * ranges["unit"].max(axis=0)
        rest = float(np.linalg.norm(outer[other]))
    return math.hypot(own, rest)


def distances(covered, numbers, rows):
    """The d of balls and ranges alone: other views can only make it larger."""
    ranges, numeric = of_view(covered, numbers, "ranges"), numeric_columns(covered, numbers)
    ends = np.stack([ranges["low"] - rows, rows - ranges["high"]]) / ranges["unit"][:, None]
    length = np.linalg.norm(np.clip(ends.max(axis=0), 0, LARGEST), axis=1)
    found = [(length - ranges["threshold"]) / ranges["width"]]
    if len(numeric):
        balls, u = of_view(covered, numbers, "balls"), rows[:, numeric] - numbers["whitened.mean"]
        u = np.clip(u / numbers["whitened.unit"], -LARGEST, LARGEST)
        u = u @ numbers["whitened.matrix"] if "whitened.matrix" in numbers else u
        away = np.linalg.norm(u[:, None] - balls["centres"], axis=2) - balls["radii"]
        found.append((away.min(axis=1) - balls["threshold"]) / balls["width"])
    return np.max(found, axis=0)


def attack_points(covered, numbers, radius):
    """Points near and beyond R: random, along axes, behind balls, least stretched; which are."""
    rng, radius = np.random.default_rng(0), radius * (1 + 1e-6)
    ranges, numeric = of_view(covered, numbers, "ranges"), numeric_columns(covered, numbers)
    middle, axes = (ranges["low"] + ranges["high"]) / 2, np.eye(len(numeric))
    codes = np.eye(len(middle))[list(covered["other"])]
    rows, beyond = np.concatenate([middle - radius * codes, middle + radius * codes]), 0
    if len(numeric):
        matrix, random = numbers.get("whitened.matrix", axes), rng.normal(size=(200, len(axes)))
        centres = of_view(covered, numbers, "balls")["centres"]
        ways = np.concatenate([random, np.linalg.svd(matrix)[2], axes, -axes, centres])
        ways = ways[np.linalg.norm(ways, axis=1) > 0][:POINTS]
        beyond = rng.choice([0.0, 0.0, 12.0, -1.5], len(ways)) * rng.random(len(ways))
        u = ways * (radius * 10.0**beyond / np.linalg.norm(ways, axis=1))[:, None]
        moved = np.tile(middle, (len(ways), 1))
        moved[:, numeric] = np.linalg.solve(matrix.T, u.T).T * numbers["whitened.unit"]
        moved[:, numeric] += numbers["whitened.mean"]
        rows = np.concatenate([moved, rows])
    return rows, np.append(np.ravel(beyond), np.zeros(len(rows)))[: len(rows)] >= 0


def attack(certificate, covered, numbers, graph, radius):
    """The least d, and the largest probability that a certain model gets, at points beyond R."""
    rows, beyond = attack_points(covered, numbers, radius)
    d = np.maximum(distances(covered, numbers, rows), 0.0)
    least = float(d[beyond].min())
    if not least >= 1 - 1e-6:
        raise BrokenPromise(f"d is only {least:.6g} at a point beyond R")
    if certificate["task"] != "classification" and graph is None:
        return least, 0.0
    share = 1 / certificate["classes"]
    allowed = share + (1 - share) / (1 + (d / float(numbers["unit"])) ** 2)
    found = allowed if graph is None else run_graph(certificate["classes"], graph, rows)
    if not (found <= allowed + 1e-6).all():
        raise BrokenPromise(f"{(found - allowed).max():.3g} more than allowed at a point")
    if not found[beyond].max() <= share + certificate["epsilon"] + 1e-6:
        raise BrokenPromise(f"a probability of {found[beyond].max():.6g} is reached beyond R")
    return least, float(found[beyond].max())


def run_graph(classes, graph, rows):
    """Feed the guard in the file with scores that are certain of each class; largest answers."""
    # An envelope adds outputs: first inside, which may be certain; last guarded probabilities.
    record, added = graph["record"], graph["record"].get("outputs", [])
    own, scores = (record["scores"], added[-1]) if added else (f"{PREFIX}own", record["scores"])
    logits, single = record["kind"] == "logits", record["single"]
    nodes = [node for node in graph["nodes"] if node.name.startswith(PREFIX)]
    if not added and any(own in node.input for node in graph["nodes"] if node not in nodes):
        raise BrokenPromise("a node goes around the guard")
    makers = [node for node in graph["nodes"] if scores in node.output]
    ends = graph["outputs"][len(graph["outputs"]) - len(added) :]
    if makers != nodes[-1:] or ends != added or record["classes"] != classes:
        raise BrokenPromise("the scores do not come from the guard")
    names, found = record["inputs"], np.zeros(len(rows))
    fed = {name: rows[:, [place]] for place, name in enumerate(names)}
    fed = fed if len(names) > 1 else {names[0]: rows.reshape(-1, *record["columns"]["shape"])}
    if record.get("features"):
        fed[record["features"]] = content_features(record, graph["tensors"], len(rows))
    for top in range(classes):
        certain = np.tile(np.arange(classes) == top, (len(rows), 1))
        certain = certain.astype(np.float32 if record["element"] == 1 else np.float64)
        certain = certain[:, -1:] if single else certain
        certain = (2 * certain - 1) * certain.dtype.type(3e38) if logits else certain
        values = {**graph["tensors"], **fed, own: certain}
        with np.errstate(all="ignore"):
            for node in nodes:
                values[node.output[0]] = evaluate(node, [values[name] for name in node.input])
            p = np.asarray(values[scores], float)
            if single and not added:
                p = np.concatenate([np.zeros_like(p) if logits else 1 - p, p], 1)
            p = softmax(p) if logits and not added else p
        found = np.maximum(found, np.where(values[added[0]], 1.0, p.max(1)) if added else p.max(1))
    return found


def content_features(record, tensors, count):
    """Features that their view is content with, so that it hides nothing."""
    start = f"{PREFIX}{COVERED}views.{len(record['covered']['views']) - 1}."
    root = np.linalg.pinv(tensors[start + "matrix"].T) @ tensors[start + "centres"][0]
    return np.tile(np.sign(root) * root**2 * tensors[start + "scale"], (count, 1))


def softmax(x):
    """Along the last axis."""
    odds = np.exp(x - x.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


CASTS = {1: np.float32, 7: np.int64, 9: np.bool_, 11: np.float64}
# fmt: off
PLAIN = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum,
    "Min": np.minimum, "Abs": np.abs, "Sqrt": np.sqrt, "Log": np.log, "IsNaN": np.isnan,
    "Less": np.less, "Greater": np.greater, "Equal": np.equal, "Not": np.invert, "Where": np.where,
    "MatMul": np.matmul, "Softmax": softmax, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
REDUCTIONS = {"ReduceMin": np.min, "ReduceMax": np.max, "ReduceSum": np.sum}
# fmt: on


def evaluate(node, inputs):
    """One node, as the ONNX standard defines it; what is not listed here is refused."""
    from onnx import helper

    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kind, first = node.op_type, inputs[0]
    if kind in PLAIN:
        return PLAIN[kind](*inputs)
    if kind in REDUCTIONS:
        axes = tuple(given["axes"] if "axes" in given else np.atleast_1d(inputs[1]))
        return REDUCTIONS[kind](first, axis=axes, keepdims=bool(given.get("keepdims", 1)))
    if kind == "Cast":
        return first.astype(CASTS[given["to"]])
    if kind in ("Reshape", "Transpose"):
        return first.reshape(inputs[1]) if kind == "Reshape" else first.transpose(given["perm"])
    if kind in ("Concat", "Gather"):
        axis = given.get("axis", 0)
        return np.concatenate(inputs, axis) if kind == "Concat" else np.take(first, inputs[1], axis)
    raise BrokenPromise(f"the guard has a node of the type {kind}, which is not checked here")


def main():
    """Check the file that is named on the command line."""
    path = Path(sys.argv[1] if len(sys.argv) == 2 else "")
    read = {".onnx": read_onnx, ".safetensors": read_safetensors}.get(path.suffix.lower())
    if read is None or not path.is_file():
        print(f"usage: {sys.argv[0]} safe.onnx | safe.safetensors, no .pt2", file=sys.stderr)
        return 2
    try:
        found = read(path.read_bytes())
        if found is None:
            print(f"{path} holds no guard", file=sys.stderr)
            return 2
        certificate, covered, numbers, graph = found
        radius, temperature = prove(certificate, covered, numbers)
        least, most = attack(certificate, covered, numbers, graph, radius)
    except Exception as error:  # whatever a damaged file leads to, it proves nothing
        print(f"FAIL: {error if isinstance(error, BrokenPromise) else f'damaged ({error!r:.200})'}")
        return 1
    print(f"PASS: T >= {temperature:.6g} wherever d >= 1, which holds from R = {radius:.6g} on.")
    print(f"Attacked beyond R: d was at least {least:.6g}, no probability above {most:.6g}.")
    print("Not checked, since only data can tell: the shares of rows that stay unchanged.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
