"""Files of skops: fitted objects of scikit-learn without code.

skops rebuilds objects from a list of types and raw arrays. What it does not trust by itself is let
in by name here, and by nothing else. Sizes are looked at before anything is unpacked, and the
arrays of trees before scikit-learn's compiled code sees them, which believes what it is told.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from farfield.errors import CaptureError, MissingDependency

# What a file may claim to hold: this many bytes for each of its own, and never more than the rest.
RATIO, FREE_BYTES = 200, 1 << 26
MOST_MEMBERS, SCHEMA_BYTES = 100_000, 1 << 27
SCHEMA = "schema.json"
KERNELS = "ConstantKernel Exponentiation Matern Product RBF RationalQuadratic Sum WhiteKernel"
ALLOWED = frozenset(
    (
        "numpy.dtype",
        "scipy.sparse._csr.csr_matrix",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_array",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer._RemainderColsList",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.feature_selection._mutual_info.mutual_info_classif",
        "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        *(f"sklearn.gaussian_process.kernels.{name}" for name in KERNELS.split()),
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
    )
)


def load_skops(path: Path) -> Any:
    """Load a fitted object.

    Raises:
        CaptureError: If the file cannot be read, claims too much, or holds types that are not on
            the list.
        MissingDependency: If skops is not installed.
    """
    try:
        from skops.io import get_untrusted_types, load
    except ImportError as error:
        raise MissingDependency(f"reading {path} needs skops: pip install skops") from error
    content = _checked(path)
    try:
        unknown = get_untrusted_types(data=content)
    except Exception as error:
        raise _unreadable(path, error) from error
    others = sorted(set(unknown) - ALLOWED)
    if others:
        raise CaptureError(
            f"{path} holds types that farfield does not load from files: "
            f"{', '.join(others[:5])}{', ...' if len(others) > 5 else ''}; call "
            "ff.audit(model, X, y) in Python or export the model by skl2onnx"
        )
    try:
        return load(io.BytesIO(content), trusted=unknown)
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> CaptureError:
    words = str(error).strip().splitlines()
    return CaptureError(
        f"{path} cannot be read as a file of skops: {words[0] if words else type(error).__name__}; "
        "was it written by skops.io.dump, by the same version of scikit-learn?"
    )


def _checked(path: Path) -> bytes:
    """The bytes of a file whose sizes and trees are sound."""
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_sizes(archive, len(content))
            _check_schema(archive, json.loads(archive.read(SCHEMA)))
    except Exception as error:
        raise _unreadable(path, error) from error
    return content


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """See that a file does not claim to hold far more than it can."""
    members = archive.infolist()
    claimed = sum(member.file_size for member in members)
    if len(members) > MOST_MEMBERS or claimed > FREE_BYTES + RATIO * size:
        raise ValueError(f"it claims {len(members)} members of {claimed} bytes in all")
    if archive.getinfo(SCHEMA).file_size > SCHEMA_BYTES:
        raise ValueError("its schema is too large")


def _check_schema(archive: zipfile.ZipFile, schema: Any) -> None:
    """See that trees are as large as they say."""
    named: dict[str, list[dict[str, Any]]] = {}
    found = []
    for node in _nodes(schema):
        named.setdefault(str(node.get("__id__")), []).append(node)
        if node.get("__class__") == "Tree" or node.get("__loader__") == "TreeNode":
            found.append(node)
    for node in found:
        arguments, state = node["__reduce__"]["args"], node["content"]
        _, classes, outputs = arguments["content"]
        parts = [state["content"][name] for name in ("node_count", "nodes", "values")]
        # skops takes what it has loaded under the same name before; that must be the same thing.
        for part in (arguments, state, classes, outputs, *parts):
            if any(other != part for other in named[str(part["__id__"])]):
                raise ValueError(f"the name {part['__id__']} stands for two things")
        _check_tree(archive, classes, outputs, *parts)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects within a schema, without recursion."""
    left = [schema]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            yield item
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)


def _check_tree(
    archive: zipfile.ZipFile, classes: Any, outputs: Any, count: Any, nodes: Any, values: Any
) -> None:
    shapes = [
        np.load(io.BytesIO(archive.read(each["file"])), allow_pickle=False).shape
        for each in (classes, nodes, values)
    ]
    width, size = _whole(outputs), _whole(count)
    if shapes[0] != (width,) or shapes[1] != (size,) or shapes[2][:2] != (size, width):
        raise ValueError("a tree has arrays of another size than it says")


def _whole(node: dict[str, Any]) -> int:
    value = json.loads(node["content"])
    if not isinstance(value, int) or value < 1:
        raise ValueError("a tree has a size that is no whole number")
    return value
