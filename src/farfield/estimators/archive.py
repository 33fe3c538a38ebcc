"""Fitted estimators as one safetensors file with JSON in its header; no pickle."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.estimators.encoding import decode, encode
from farfield.files import replacing
from farfield.networks.description import build, describe

VERSION = 1
KEY = "farfield"
# Learned attributes that are networks; everything else that ends in "_" is plain data.
NETWORKS = ("instances_", "module_", "estimator_")


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
    data = to_bytes(tensors, metadata={KEY: json.dumps(header)})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


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
    if not Path(path).is_file():
        raise InputError(f"no file at {os.fspath(path)!r}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            if KEY not in metadata:
                raise InputError(
                    f"{os.fspath(path)!r} is a safetensors file, but not one of farfield's: its "
                    f"header has no {KEY!r} entry"
                )
            header = _header(metadata[KEY], path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(
            f"{os.fspath(path)!r} is not a farfield file, or it is damaged: {error}"
        ) from error
    try:
        return _restore(header["estimator"], "", tensors, module, dtype, torch.device(device))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the header of {os.fspath(path)!r} is damaged: {error!r}") from error


def _header(text: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the header and check that this version can read the file."""
    try:
        header = json.loads(text)
        version = int(header["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"the header of {os.fspath(path)!r} is damaged: {error!r}") from error
    if version > VERSION:
        raise InputError(
            f"{os.fspath(path)!r} has format version {version}, this farfield reads up to "
            f"{VERSION}; update farfield"
        )
    return dict(header)


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
    record: dict[str, Any],
    prefix: str,
    tensors: dict[str, Tensor],
    module: Callable[[], nn.Module] | None,
    dtype: torch.dtype | None,
    device: torch.device,
) -> Any:
    """Rebuild an estimator from its description."""
    kind = _class(record["class"])
    parameters = {name: decode(value) for name, value in record["parameters"].items()}
    inner = None
    if "estimator" in record:
        inner = _restore(record["estimator"], f"{prefix}estimator.", tensors, module, dtype, device)
        parameters["estimator"] = inner
    elif parameters.get("module") is not None:
        if module is None:
            raise InputError(
                f"the estimator was made with module={parameters['module']}, which a file cannot "
                "hold; pass the function: load(path, module=...)"
            )
        parameters["module"] = module
    estimator = kind(**parameters)
    for name, value in record["learned"].items():
        setattr(estimator, name, decode(value))
    if inner is not None:
        estimator._restore_instances(inner)
        return estimator
    own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    estimator.instances_ = []
    for index in range(record["instances"]):
        instance = build(record["network"], module)
        try:
            state = {name: tensor[index].clone() for name, tensor in own.items()}
            instance.load_state_dict(state, assign=True)
        except (RuntimeError, IndexError) as error:
            raise InputError(f"the file's weights do not fit its network: {error}") from error
        instance.requires_grad_(False).eval()
        estimator.instances_.append(instance.to(device=device, dtype=dtype))
    estimator.module_ = estimator.instances_[0]
    return estimator


def _class(name: str) -> Any:
    """Look up an estimator among the public ones."""
    # Imported here: the package imports every estimator, and they import this file.
    import farfield.estimators as package

    kind = getattr(package, name, None) if name in package.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        raise InputError(f"the file holds a {name!r}, which this farfield does not know")
    return kind
