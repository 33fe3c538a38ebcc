"""Guarded models as one safetensors file with JSON in its header; no pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.files import replacing
from farfield.guard.certificate import Certificate
from farfield.guard.cover import Cover
from farfield.guard.feature_guard import FeatureGuard
from farfield.guard.members import Held
from farfield.guard.model import GuardedModel
from farfield.guard.program_json import program_from_json, program_to_json
from farfield.guard.program_module import ProgramModule, as_network, instance_modules
from farfield.guard.whitening import Whitening

VERSION = 1
KEY = "farfield"
GUARD = (
    "mean",
    "matrix",
    "prototypes",
    "radii",
    "combinations",
    "tolerated",
    "numeric",
    "categorical",
)
FEATURES = ("mean", "matrix", "prototypes", "radii", "unit")


def save(model: GuardedModel, path: str | os.PathLike[str]) -> None:
    """Write a guarded model to one file, atomically.

    The model inside is kept as the program that was captured from it, so that no code of its own
    is needed to read it again.

    Args:
        model: The guarded model.
        path: The file to write.
    """
    if model.held.network is None:
        raise InputError(f"this model can only be exported, not saved: {model.held.reason}")
    modules = [m for m in model.members if isinstance(m, ProgramModule)]
    if len(modules) < len(model.members):
        modules = instance_modules(model.network)
    tensors: dict[str, Tensor] = {f"guard.{name}": getattr(model, name) for name in GUARD}
    members = [_member(module, f"member.{i}.", tensors) for i, module in enumerate(modules)]
    network = model.held.network
    header: dict[str, Any] = {
        "version": VERSION,
        "guard": {
            "certificate": model.certificate.to_dict(),
            "metric": [model.metric.kind, model.metric.shrinkage, model.metric.constant],
            "classes": network.classes,
            "one_logit": network.one_logit,
            "members": members,
            "inner": None,
        },
    }
    if isinstance(model.inner, FeatureGuard):
        header["guard"]["inner"] = _member(model.inner.features, "inner.features.", tensors)
        tensors |= {f"inner.{name}": getattr(model.inner, name) for name in FEATURES}
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    data = to_bytes(plain, metadata={KEY: json.dumps(header)})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def _member(module: ProgramModule, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Describe a program and add its weights under a prefix."""
    tensors |= {prefix + place: getattr(module, place) for place in module.places.values()}
    return {"program": program_to_json(module.program), "places": module.places}


def is_guard(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a guarded model that :meth:`GuardedModel.save` wrote, by its header."""
    if not Path(path).is_file():
        return False
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
    except (SafetensorError, OSError, ValueError):
        return False
    return isinstance(header, dict) and "guard" in header


def load(path: str | os.PathLike[str]) -> GuardedModel:
    """Read a guarded model that :meth:`GuardedModel.save` wrote.

    Args:
        path: The file.

    Raises:
        InputError: If there is no such file, or it is not one of these, or damaged.
    """
    where = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"no file at {where!r}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            text = (file.metadata() or {}).get(KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{where!r} is not a farfield file, or it is damaged: {error}") from error
    try:
        header = json.loads(text or "")
        if int(header["version"]) > VERSION:
            raise InputError(
                f"{where!r} has format version {header['version']}, this farfield reads up to "
                f"{VERSION}; update farfield"
            )
        return _restore(header["guard"], tensors)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where!r} holds no guarded model, or is damaged: {error!r}") from error


def _restore(record: dict[str, Any], tensors: dict[str, Tensor]) -> GuardedModel:
    """Rebuild a guarded model from its description."""
    modules = [
        _module(each, f"member.{index}.", tensors) for index, each in enumerate(record["members"])
    ]
    certificate = Certificate.from_json(json.dumps(record["certificate"]))
    kind, shrinkage, constant = record["metric"]
    own = {name: tensors[f"guard.{name}"] for name in GUARD}
    plain = (own["mean"].double(), own["matrix"].double())
    metric = Whitening(kind, *plain, float(shrinkage), int(constant))
    network = as_network(modules, int(record["classes"]), bool(record["one_logit"]))
    held_modules: list[nn.Module] = list(modules)
    held = Held(held_modules, network, network.classes, network.one_logit, network.input_shape)
    seen = Cover(own["combinations"], own["tolerated"]) if len(own["tolerated"]) else None
    inner = None
    if record["inner"] is not None:
        buffers = {name: tensors[f"inner.{name}"] for name in FEATURES}
        inner = FeatureGuard(_module(record["inner"], "inner.features.", tensors), **buffers)
    columns = (own["numeric"].tolist(), own["categorical"].tolist())
    cover = Cover(own["prototypes"], own["radii"])
    return GuardedModel(held, metric, cover, seen, columns, certificate, inner)


def _module(record: dict[str, Any], prefix: str, tensors: dict[str, Tensor]) -> ProgramModule:
    program = program_from_json(record["program"])
    weights = {name: tensors[prefix + place] for name, place in record["places"].items()}
    read = {name for step in program.steps for name in step.refs()}
    made = {program.input} | {step.name for step in program.steps}
    missing = read - made - set(weights)
    if missing:
        raise InputError(f"the file's program reads {sorted(missing)}, which it does not hold")
    module = ProgramModule(program, weights)
    return module.eval()
