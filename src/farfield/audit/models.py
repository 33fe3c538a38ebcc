"""Models as a user names them: a file, a folder of files, a Python factory, or an object.

Files are read without running anything that is in them. A factory runs the user's own code, and
only when that was asked for.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import nn

from farfield.audit.black_box import BlackBox
from farfield.errors import CaptureError, FarfieldError, InputError
from farfield.files import regular
from farfield.formats import FileKind, listed, readable, tell
from farfield.graph.models import capture
from farfield.graph.network import Network, join
from farfield.graph.scikit.skops import load_skops

Kind = FileKind | Literal["factory", "ensemble", "object"]
FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model that was loaded.

    Attributes:
        network: The model as a checked op graph, or one that can only be evaluated.
        kind: What it was loaded from.
        where: The path, the factory, or the type of the object that it came from.
        estimator: The fitted object behind it, where there is one.
        original: What it was captured from, where that can be asked for its own predictions.
        refusing: Columns of categories whose unknown values the model cannot be asked about.
    """

    network: Network | BlackBox
    kind: Kind
    where: str
    estimator: Any = None
    original: Any = None
    refusing: frozenset[str] = frozenset()


def load_model(model: Any, example: Any = None) -> LoadedModel:
    """Load any model that farfield can follow.

    Args:
        model: A path to a file of any of ``farfield.formats``; a folder of such files, or a list
            of models, which become the instances of one ensemble; or a Python object that
            :func:`farfield.capture` takes.
        example: One batch of inputs, for models that do not know their input's shape.

    Raises:
        InputError: If there is no such model.
        CaptureError: If the model cannot be read.

    >>> import torch
    >>> load_model(torch.nn.Linear(2, 3), torch.zeros(1, 2)).network
    Network(1 instance, 2 inputs, 3 classes, float64)
    """
    if isinstance(model, (list, tuple)):
        return _ensemble(list(model), f"{len(model)} models", example)
    if not isinstance(model, (str, os.PathLike)):
        return _from_object(model, example, "object", _name_of(model))
    path = Path(model)
    if path.is_dir():
        return _ensemble(_files_in(path), str(path), example)
    if path.exists():
        return _from_file(regular(path), example)
    raise InputError(
        f"there is no model {os.fspath(model)!r}; name a file, a folder of files, or a factory "
        f"package.module:function. farfield reads {listed()}"
    )


def _name_of(model: Any) -> str:
    """What an object is called; a pipeline with what it ends in.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> _name_of(make_pipeline("passthrough", DecisionTreeClassifier()))
    'Pipeline of DecisionTreeClassifier'
    """
    name, steps = type(model).__name__, getattr(model, "steps", None)
    return f"{name} of {type(steps[-1][1]).__name__}" if name == "Pipeline" and steps else name


def _from_file(path: Path, example: Any) -> LoadedModel:
    kind = readable(path).kind
    assert kind is not None, "what can be read has a kind"
    if kind == "estimator":
        from farfield.estimators import load  # brings scikit-learn

        return _from_object(load(path), example, kind, str(path))
    if kind == "skops":
        # Read, and never asked: what is in the file was checked for that alone.
        return replace(_from_object(load_skops(path), example, kind, str(path)), original=None)
    try:
        network = capture(path)
    except CaptureError:
        if example is None or kind != "onnx":
            raise
        # The file may leave its input's shape open; the example is only asked then, so that data
        # that does not fit is reported by its columns and not as a bad example.
        network = capture(path, example)
    return LoadedModel(network, kind, str(path), original=path if kind == "onnx" else None)


def _is_model(path: Path) -> bool:
    """Whether a file is a model; one that cannot be read, and says so, counts."""
    found = tell(path)
    return found is not None and found.kind is not None


def _files_in(folder: Path) -> list[Path]:
    """The models in a folder, by name; other files are left alone."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or error}") from error
    models = [path for path in files if not path.name.startswith(".") and _is_model(path)]
    if not models:
        raise InputError(
            f"there is no model in the folder {folder}; it has {len(files)} files, but farfield "
            f"reads {listed()}"
        )
    return models


def _ensemble(models: Sequence[Any], where: str, example: Any) -> LoadedModel:
    """Load models as the instances of one; they must agree in inputs and classes."""
    if not models:
        raise InputError("the list of models is empty; name at least one")
    if all(isinstance(model, nn.Module) for model in models):
        return _from_object(list(models), example, "ensemble", where)
    members = [load_model(model, example) for model in models]
    if len(members) == 1:
        return members[0]
    first = members[0]
    for member in members[1:]:
        here, there = first.network, member.network
        if (here.input_shape, here.classes) != (there.input_shape, there.classes):
            raise InputError(
                f"the models do not fit together: {first.where} takes {here.input_shape} and has "
                f"{here.classes} classes, {member.where} takes {there.input_shape} and has "
                f"{there.classes}"
            )
    labels = _agreed([(member.where, member.network.labels) for member in members], "classes")
    features = _agreed([(member.where, member.network.features) for member in members], "features")
    networks = [member.network for member in members if isinstance(member.network, Network)]
    joined = join([replace(each, labels=None, features=None) for each in networks])
    return LoadedModel(replace(joined, labels=labels, features=features), "ensemble", where)


def _agreed(stated: list[tuple[str, tuple[Any, ...] | None]], what: str) -> Any:
    """What every model says that says anything."""
    found: tuple[str, tuple[Any, ...]] | None = None
    for name, values in stated:
        if values is None:
            continue
        if found is not None and found[1] != values:
            raise InputError(
                f"the models do not fit together: {found[0]} has the {what} "
                f"{_listed(found[1])}, {name} has {_listed(values)}"
            )
        found = found or (name, values)
    return None if found is None else found[1]


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")


def call_factories(model: Any, allow_code: bool) -> Any:
    """What the factories ``package.module:function`` among models make; others as they are."""
    if isinstance(model, (list, tuple)):
        return [call_factories(each, allow_code) for each in model]
    if isinstance(model, str) and FACTORY.fullmatch(model) and not Path(model).exists():
        return _call_factory(model, allow_code)
    if isinstance(model, type):
        raise CaptureError(
            f"the model is {model.__name__}, a class; pass what it makes, fitted: "
            f"{model.__name__}(...)"
        )
    return model


def _call_factory(spec: str, allow_code: bool) -> Any:
    """Import the user's module and call the function; what it makes is a model."""
    if not allow_code:
        raise InputError(
            f"{spec!r} is Python code, which would be imported and run; if you trust it, say so "
            "with --allow-code (in Python: allow_code=True)"
        )
    module, _, name = spec.partition(":")
    try:
        with _working_folder_first():
            function = getattr(importlib.import_module(module), name)
            made = function()
    except FarfieldError:
        raise
    except Exception as error:  # the user's own code may raise anything
        raise InputError(
            f"the factory {spec!r} failed with {type(error).__name__}: {error}"
        ) from error
    if isinstance(made, (str, os.PathLike)):
        raise InputError(f"the factory {spec!r} returned {made!r}; it has to return a model")
    return made


@contextmanager
def _working_folder_first() -> Iterator[None]:
    """Let modules of the working folder be imported, as ``python -m`` does."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _from_object(model: Any, example: Any, kind: Kind, where: str) -> LoadedModel:
    knows_its_shape = hasattr(model, "n_features_in_")
    network = capture(model, None if knows_its_shape else example)
    estimator = model if hasattr(model, "fit") else None
    return LoadedModel(network, kind, where, estimator, model)
