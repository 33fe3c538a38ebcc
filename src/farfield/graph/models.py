"""Turn any model into a checked op graph, or say everything that stands in the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import farfield.graph.activations
import farfield.graph.affine
import farfield.graph.composed
import farfield.graph.norms
import farfield.graph.placing
import farfield.graph.pooling
import farfield.graph.positions
import farfield.graph.products
import farfield.graph.resampling
import farfield.graph.sorting
import farfield.graph.stepwise  # noqa: F401 - importing these registers their rules
from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.formats import listed, readable
from farfield.graph.assemble import build, finish, from_reading
from farfield.graph.categories import read_categories
from farfield.graph.export import as_example
from farfield.graph.modules import Asked, SaidHead, capture_modules
from farfield.graph.network import Network, join
from farfield.graph.recorder import RecordingError
from farfield.graph.refusals import RowsMoved
from farfield.graph.scikit.registry import is_scikit
from farfield.graph.simplify import without_head
from farfield.graph.skorch import as_module, check_answers, check_head, is_skorch, labels_of
from farfield.graph.tracing import read_program, read_whole
from farfield.graph.trees.boosters import FILES, is_booster, read_booster, read_booster_file

if TYPE_CHECKING:
    from farfield.graph.onnx.reader import OnnxReading

DTYPES = (torch.float32, torch.float64)


def capture(
    model: Any,
    example: Any = None,
    *,
    dtype: torch.dtype = torch.float64,
    inputs: Any = None,
    output: str | int | None = None,
    head: SaidHead | None = None,
    label: int | None = None,
) -> Network:
    """Read a model into a checked op graph.

    Dropout and batch norm are read in evaluation mode; the model itself is not changed. A final
    softmax, log-softmax or sigmoid is taken off (``network.head`` says so), since the far field
    lives in the logits; the members of a mean of softmaxes or sigmoids become instances. Other
    probabilities are refused, never taken for logits. A single logit ``f`` counts as the two
    logits ``(0, f)``.

    Args:
        model: A ``torch.nn.Module``; a list of models (its *instances*); a path to an ``.onnx``,
            ``.pt2`` or ``.skops`` file or to a file of XGBoost, LightGBM or CatBoost; an exported
            program; a classifier or ``Booster`` of these three libraries; a scikit-learn classifier
            or ``Pipeline``; a classifier of skorch; or anything with fitted ``instances_``.
        example: One batch of inputs; needed for modules, which do not know their input's shape,
            and for ``.onnx`` files that leave it open. An array, a frame, or a tuple or mapping of
            several tensors: these become the columns of one table, in their order, and whole
            numbers among them categories, which are moved between their values and never scaled.
        dtype: The floating-point type of the analysis, whatever the model's own.
        inputs: Several inputs of a module; another word for ``example``.
        output: Which tensor holds the logits, by name or place, where a module returns several;
            ``logits``, or the only one, is found alone.
        head: What the outputs of a module are, where they alone do not tell: ``"softmax"`` for
            classes that exclude one another, ``"sigmoid"`` for one logit, ``"multilabel"`` for
            labels of their own, of which ``label`` names one. ``"ordinal"`` is refused.
        label: Which label of a multi-label module to follow.

    Returns:
        The network, on the model's device.

    Raises:
        CaptureError: If the model cannot be read; :class:`~farfield.errors.UnsupportedOperation`
            lists every operation without a rule.

    >>> from torch import nn
    >>> capture(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), torch.zeros(1, 2))
    Network(1 instance, 2 inputs, 3 classes, float64)
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    if inputs is not None and example is not None:
        raise InputError("example and inputs are two words for the same; pass one of them")
    example = example if inputs is None else inputs
    asked = Asked(output, head, label)
    if asked != Asked() and not isinstance(model, (nn.Module, list, tuple)):
        raise InputError(
            "output, head and label are for modules of PyTorch; what "
            f"{type(model).__name__} returns is known"
        )
    if isinstance(model, Network):
        return model
    if isinstance(model, (str, os.PathLike)):
        return _capture_file(Path(model), example, dtype)
    if is_scikit(model):
        # Readers of other sources are many, and not loaded before there is something for them.
        from farfield.graph.scikit.networks import single_instances
        from farfield.graph.scikit.read import read_scikit

        parts = [from_reading(read_scikit(e), example, dtype) for e in single_instances(model)]
        return parts[0] if len(parts) == 1 else join(parts)
    if is_booster(model):
        return from_reading(read_booster(model), example, dtype)
    if isinstance(model, nn.Module):
        return capture_modules([model], example, dtype, asked)
    if isinstance(model, (list, tuple)):
        return _capture_instances(model, example, dtype, asked)
    rows = None if example is None else as_example(example)
    if is_skorch(model):
        return _capture_net(model, rows, dtype)
    if hasattr(model, "instances_"):
        given = _example_for(model, rows)
        return _named(_capture_instances(list(model.instances_), given, dtype, asked), model)
    if isinstance(model, ExportedProgram):
        return read_program(model, dtype)
    raise NotFollowed(
        f"cannot read a model of type {type(model).__name__} exactly; pass a torch.nn.Module, a "
        "list of them, a fitted classifier or Pipeline of scikit-learn, a model of XGBoost, "
        f"LightGBM or CatBoost, or a path; farfield reads {listed()}."
    )


def _capture_file(path: Path, example: Any, dtype: torch.dtype) -> Network:
    """Read a file with the reader of its format."""
    name = readable(path).name
    if name not in READERS:
        raise CaptureError(
            f"{path} was saved by farfield; open it with farfield.load, or a guard with "
            "farfield.guard.load, and pass what that returns"
        )
    return READERS[name](path, example, dtype)


def _capture_net(net: Any, rows: Tensor | None, dtype: torch.dtype) -> Network:
    """Read a classifier of skorch: its module, with skorch's own nonlinearity behind it."""
    module = as_module(net)
    if rows is None:
        raise InputError(
            f"{type(net).__name__} does not know the shape of its input; pass an example, "
            "one batch of inputs: capture(net, X[:1])"
        )
    network = capture_modules([module], rows, dtype)
    check_head(net, network.head)
    check_answers(net, module, network.input_shape)
    labels = labels_of(net)
    return replace(network, labels=labels if len(labels or ()) == network.classes else None)


def _named(network: Network, model: Any) -> Network:
    """Keep the names of classes and features that a fitted estimator knows."""
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    labels = tuple(classes) if len(classes) == network.classes else None
    names = getattr(model, "feature_names_in_", None)
    return replace(network, labels=labels, features=None if names is None else tuple(names))


def _example_for(model: Any, rows: Tensor | None) -> Tensor | None:
    features = getattr(model, "n_features_in_", None)
    return torch.zeros(1, features) if rows is None and features is not None else rows


def _capture_onnx(path: Path, example: Any, dtype: torch.dtype) -> Network:
    from farfield.graph.onnx.reader import read_onnx
    from farfield.graph.onnx.row_by_row import read_row_by_row

    rows = None if example is None else as_example(example)
    shape = None if rows is None else tuple(rows.shape[1:])
    try:
        reading = read_onnx(path, shape)
        network = _onnx_network(reading, dtype)
    except RowsMoved as error:
        reading, network = read_row_by_row(path, shape, dtype, error)
    notes = [*network.notes, *reading.notes]
    labels = reading.labels
    if labels is not None and len(labels) != network.classes:
        notes.append(f"the file names {len(labels)} classes but has {network.classes}")
        labels = None
    if rows is not None:
        network.rows(rows, "example")
    return replace(network, notes=tuple(notes), labels=labels, features=reading.features)


def _onnx_network(reading: OnnxReading, dtype: torch.dtype) -> Network:
    """Make a network of a file that leaves the rows where they are."""
    if reading.link == "softmax":
        codes = read_categories(reading.program, reading.constants)
        network = finish(codes.program, reading.constants, dtype)
        return replace(network, columns=codes.columns) if codes.counts else network
    program = without_head(reading.program)
    return build(program, reading.constants, "none", dtype, link=reading.link)


def _capture_pt2(path: Path, example: Any, dtype: torch.dtype) -> Network:
    from farfield.graph.pt2.followed import follow
    from farfield.graph.pt2.plain import read_plain  # validation takes a while to set up
    from farfield.graph.pt2.saved import open_saved

    saved = open_saved(path)
    plain = read_plain(saved)
    if plain is not None:
        program, constants, rows = plain
        with suppress(CaptureError):  # for tracing to try, or to explain
            return finish(program, constants, dtype, rows)
    given = None if example is None else as_example(example)
    with suppress(RecordingError, CaptureError):
        return read_whole(follow(saved), dtype)
    from farfield.graph.pt2.reader import exported  # so does PyTorch's tracing

    return capture(exported(saved), given, dtype=dtype)


def _capture_skops(path: Path, example: Any, dtype: torch.dtype) -> Network:
    from farfield.graph.scikit.skops import load_skops

    return capture(load_skops(path), example, dtype=dtype)


def _capture_trees(path: Path, example: Any, dtype: torch.dtype) -> Network:
    return from_reading(read_booster_file(path), example, dtype)


# By the names of formats; what farfield itself saved is opened above.
READERS: dict[str, Callable[[Path, Any, torch.dtype], Network]] = {
    "onnx": _capture_onnx,
    "pt2": _capture_pt2,
    "skops": _capture_skops,
    **dict.fromkeys(FILES, _capture_trees),
}


def _capture_instances(
    models: Sequence[Any], example: Any, dtype: torch.dtype, asked: Asked
) -> Network:
    if not models:
        raise CaptureError("the list of models is empty; pass at least one")
    if all(isinstance(model, nn.Module) for model in models):
        return capture_modules(models, example, dtype, asked)
    return join([capture(model, example, dtype=dtype) for model in models])
