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
    tensors: dict[str, Tensor] = {}
    record = _guard("guard.", model.metric, model.cover, tensors)
    if model.seen is not None:
        tensors |= {"seen.prototypes": model.seen.prototypes, "seen.radii": model.seen.radii}
    members = [_member(module, f"member.{i}.", tensors) for i, module in enumerate(modules)]
    network = model.held.network
    header: dict[str, Any] = {
        "version": VERSION,
        "guard": {
            "certificate": model.certificate.to_dict(),
            "metric": record,
            "columns": [model.numeric, model.categorical],
            "classes": network.classes,
            "one_logit": network.one_logit,
            "members": members,
            "inner": None,
        },
    }
    if model.inner is not None:
        inner = model.inner
        header["guard"]["inner"] = {
            "metric": _guard("inner.", inner.metric, inner.near.cover, tensors),
            "features": _member(inner.features, "features.", tensors),
        }
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    data = to_bytes(plain, metadata={KEY: json.dumps(header)})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def _guard(prefix: str, metric: Whitening, cover: Cover, tensors: dict[str, Tensor]) -> list[Any]:
    """Describe a metric and add its numbers, and those of balls, under a prefix."""
    tensors |= {prefix + "mean": metric.mean, prefix + "matrix": metric.matrix}
    tensors |= {prefix + "prototypes": cover.prototypes, prefix + "radii": cover.radii}
    return [metric.kind, metric.shrinkage, metric.constant]


def _read_guard(
    prefix: str, record: list[Any], tensors: dict[str, Tensor]
) -> tuple[Whitening, Cover]:
    """Undo :func:`_guard`."""
    kind, shrinkage, constant = record
    mean, matrix = tensors[prefix + "mean"], tensors[prefix + "matrix"]
    metric = Whitening(kind, mean, matrix, float(shrinkage), int(constant))
    return metric, _read_cover(prefix, tensors)


def _read_cover(prefix: str, tensors: dict[str, Tensor]) -> Cover:
    return Cover(tensors[prefix + "prototypes"], tensors[prefix + "radii"])


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
    metric, cover = _read_guard("guard.", record["metric"], tensors)
    network = as_network(modules, int(record["classes"]), bool(record["one_logit"]))
    held_modules: list[nn.Module] = list(modules)
    held = Held(held_modules, network, network.classes, network.one_logit, network.input_shape)
    seen = _read_cover("seen.", tensors) if "seen.radii" in tensors else None
    inner = None
    if record["inner"] is not None:
        features = _module(record["inner"]["features"], "features.", tensors)
        inner = FeatureGuard(features, *_read_guard("inner.", record["inner"]["metric"], tensors))
    numeric, categorical = record["columns"]
    columns = (numeric, categorical)
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
