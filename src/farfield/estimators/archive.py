"""Fitted estimators as one file."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from farfield.archive import Shapes, read_archive, write_archive
from farfield.errors import InputError
from farfield.estimators.encoding import encode
from farfield.estimators.header import VERSION, EstimatorRecord, parse
from farfield.files import regular
from farfield.networks.description import build, describe

# Learned attributes that are networks; everything else that ends in "_" is plain data.
NETWORKS = ("instances_", "module_", "estimator_")
# What a file may hold, by the name in its header.
_SAVED: dict[str, type] = {}
Kind = TypeVar("Kind", bound=type)


def can_be_saved(kind: Kind) -> Kind:
    """Let files hold estimators of this class; each name is taken once."""
    assert kind.__name__ not in _SAVED, f"there are two estimators called {kind.__name__}"
    _SAVED[kind.__name__] = kind
    return kind


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file, atomically.

    The header names the version of the format, the class, its parameters and what it learned;
    the tensors are the instances' weights, instances first. Optimiser state is not kept.

    Args:
        estimator: A fitted farfield estimator.
        path: The file to write.
    """
    check_is_fitted(estimator)
    tensors: dict[str, Tensor] = {}
    header = {"version": VERSION, "estimator": _collect(estimator, "", tensors)}
    write_archive(path, tensors, json.dumps(header))


def load(
    path: str | os.PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    module: Callable[[], nn.Module] | None = None,
) -> Any:
    """Read an estimator that ``save`` wrote.

    Args:
        path: The file.
        dtype: Floating-point type of the networks; ``None`` for the type they were saved in.
        device: Where the networks go.
        module: The function that builds the network, if the estimator was made with one.
    """
    where = os.fspath(path)
    size = regular(path).stat().st_size

    def checked(header: Any, shapes: Shapes) -> EstimatorRecord:
        record = parse(header, where)
        _check_shapes(record, "", shapes, size, where)
        return record

    record, tensors = read_archive(path, checked)
    try:
        return _restore(record, "", tensors, module, dtype, torch.device(device))
    except InputError:
        raise
    # What parameters and weights that do not belong together can make of a constructor.
    except (
        *(KeyError, TypeError, AttributeError, ValueError, RuntimeError, OverflowError),
    ) as error:
        raise InputError(f"the header of {where!r} is damaged: {error!r:.300}") from error


def _check_shapes(
    record: EstimatorRecord, prefix: str, shapes: Mapping[str, Sequence[int]], size: int, where: str
) -> None:
    """Refuse counts that the tensors do not bear out, before anything is made of them."""
    features = record.learned.get("n_features_in_", 1)
    if features > size:
        raise InputError(f"{where!r} claims {features} features in {size} bytes; it is damaged")
    if record.estimator is not None:
        _check_shapes(record.estimator, f"{prefix}estimator.", shapes, size, where)
        return
    own = [shape for name, shape in shapes.items() if name.startswith(prefix)]
    counts = {tuple(shape[:1]) for shape in own}
    if counts != {(record.instances,)} or not any(math.prod(shape) for shape in own):
        raise InputError(
            f"the weights in {where!r} do not fit its network: {record.instances} instances, but "
            f"tensors of {sorted(counts)[:5]}"
        )


def _collect(estimator: Any, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Describe an estimator and add its tensors under a prefix."""
    record: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": {
            name: encode(value)
            for name, value in estimator.get_params(deep=False).items()
            if not isinstance(value, BaseEstimator)
        },
        "learned": {
            name: encode(value)
            for name, value in vars(estimator).items()
            if name.endswith("_") and not name.startswith("_") and name not in NETWORKS
        },
    }
    if hasattr(estimator, "estimator_"):
        record["estimator"] = _collect(estimator.estimator_, f"{prefix}estimator.", tensors)
        return record
    states = [instance.state_dict() for instance in estimator.instances_]
    record["instances"] = len(states)
    record["network"] = describe(estimator.instances_[0])
    for name in states[0]:
        tensors[prefix + name] = torch.stack([state[name].cpu() for state in states])
    return record


def _restore(
    record: EstimatorRecord,
    prefix: str,
    tensors: dict[str, Tensor],
    module: Callable[[], nn.Module] | None,
    dtype: torch.dtype | None,
    device: torch.device,
) -> Any:
    """Rebuild an estimator from its description."""
    kind = _class(record.type)
    parameters = dict(record.parameters)
    inner = None
    if record.estimator is not None:
        inner = _restore(record.estimator, f"{prefix}estimator.", tensors, module, dtype, device)
        parameters["estimator"] = inner
    elif parameters.get("module") is not None:
        if module is None:
            raise InputError(
                f"the estimator was made with module={parameters['module']}, which a file cannot "
                "hold; pass the function: load(path, module=...)"
            )
        parameters["module"] = module
    estimator = kind(**parameters)
    check = getattr(estimator, "_check_settings", None) or estimator._check
    check()
    for name, value in record.learned.items():
        setattr(estimator, name, value)
    needed = ["n_features_in_", *(["classes_"] if hasattr(kind, "predict_proba") else [])]
    missing = [name for name in needed if name not in record.learned]
    if missing:
        raise InputError(f"the file's {record.type} lacks {', '.join(missing)}")
    if inner is not None:
        if any(np.any(getattr(inner, each) != getattr(estimator, each)) for each in needed):
            raise InputError("the file's estimator and the one inside of it do not agree")
        estimator._restore_instances(inner)
        return estimator
    own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    estimator.instances_ = _instances(record, own, module, dtype, device)
    estimator.module_ = estimator.instances_[0]
    if module is None:
        _check_outputs(estimator)
    return estimator


def _check_outputs(estimator: Any) -> None:
    """Refuse a network that does not take the features, or does not give the classes."""
    network = estimator.module_
    number = next(network.parameters(), next(network.buffers(), torch.zeros(())))
    with torch.no_grad():
        rows = torch.zeros(1, estimator.n_features_in_, device=number.device, dtype=number.dtype)
        outputs = network(rows).shape
    classes = len(estimator.classes_) if hasattr(estimator, "classes_") else outputs[-1]
    if tuple(outputs) not in ((1, classes), (1, 1)) or (classes > 2 and outputs[-1] == 1):
        raise InputError(
            f"the file's network gives {tuple(outputs)} numbers for one row and {classes} classes"
        )
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and len(names) != estimator.n_features_in_:
        raise InputError(f"the file names {len(names)} of {estimator.n_features_in_} features")


def _instances(
    record: EstimatorRecord,
    own: Mapping[str, Tensor],
    module: Callable[[], nn.Module] | None,
    dtype: torch.dtype | None,
    device: torch.device,
) -> list[nn.Module]:
    """Build the networks and give them their weights."""
    assert record.network is not None
    description = record.network.model_dump()
    instances = []
    for index in range(record.instances or 0):
        instance = build(description, module)
        try:
            state = {name: tensor[index].clone() for name, tensor in own.items()}
            instance.load_state_dict(state, assign=True)
        except (RuntimeError, IndexError) as error:
            raise InputError(f"the file's weights do not fit its network: {error}") from error
        instance.requires_grad_(False).eval()
        instances.append(instance.to(device=device, dtype=dtype))
    return instances


def _class(name: str) -> Any:
    """Look up an estimator among those that can be saved."""
    if name not in _SAVED:
        raise InputError(f"the file holds a {name!r}, which this farfield does not know")
    return _SAVED[name]
