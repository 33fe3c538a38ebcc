"""Guarded models as one safetensors file with JSON in its header; no pickle.

The header is validated before any tensor is looked at: it says which views there are and which
tensors each of them has, and the file must hold exactly those.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from farfield.budget import BYTES_FLOOR, Budget
from farfield.errors import CaptureError, InputError
from farfield.files import replacing
from farfield.graph.export import export_module, read_exported
from farfield.guard.certificate import Certificate
from farfield.guard.columns import Columns
from farfield.guard.covered import Covered
from farfield.guard.guarded import Guarded
from farfield.guard.members import Held
from farfield.guard.model import GuardedModel
from farfield.guard.program_json import program_from_json, program_to_json
from farfield.guard.program_module import ProgramModule
from farfield.guard.views.registry import VIEWS
from farfield.guard.views.units import Kind, Units
from farfield.guard.views.view import View

VERSION = 2
KEY = "farfield"
# What the weights of all members may take together.
MOST_BYTES = 2**33


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnsRecord(_Strict):
    """What the columns are."""

    shape: tuple[int, ...] = Field(min_length=1, max_length=8)
    names: tuple[str, ...] | None
    blocks: tuple[tuple[int, ...], ...]
    words: dict[int, tuple[str, ...]]


class CoveredRecord(_Strict):
    """The views of a covered set, and the kinds of its units."""

    views: tuple[str, ...] = Field(min_length=1, max_length=16)
    whitened: Kind
    reduced: Kind | None
    other: tuple[int, ...]


class MemberRecord(_Strict):
    """One instance: its program, and where its weights are."""

    program: dict[str, Any]
    places: dict[str, str]


class ModelRecord(_Strict):
    """The model inside."""

    classes: int = Field(ge=2)
    one_logit: bool
    probabilities: bool
    labels: tuple[int | float | str, ...] | None
    features: tuple[str, ...] | None
    reason: str
    members: tuple[MemberRecord, ...] = Field(min_length=1)


class Header(_Strict):
    """The header of a file."""

    version: Literal[2]
    guard: Literal["model", "views"]
    certificate: dict[str, Any]
    columns: ColumnsRecord
    covered: CoveredRecord
    model: ModelRecord | None


def save(model: Guarded, path: str | os.PathLike[str]) -> None:
    """Write a guarded model to one file, atomically.

    A module is kept as the program that is traced from it, operation by operation, so that no code
    of its own is needed to read it again. Of a function only the views are kept.

    Args:
        model: The guarded model.
        path: The file to write.
    """
    tensors = covered_tensors(model.covered)
    inside = None
    if isinstance(model, GuardedModel):
        inside = _model_record(model, tensors)
    columns = model.columns
    header = Header(
        version=2,
        guard="views" if inside is None else "model",
        certificate=json.loads(model.certificate.to_json()),
        columns=ColumnsRecord(
            shape=columns.shape,
            names=columns.names,
            blocks=columns.blocks,
            words=dict(columns.words),
        ),
        covered=covered_record(model.covered),
        model=inside,
    )
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    data = to_bytes(plain, metadata={KEY: header.model_dump_json()})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def _model_record(model: GuardedModel, tensors: dict[str, Tensor]) -> ModelRecord:
    held, members = model.held, []
    for index, module in enumerate(model.members):
        program = module if isinstance(module, ProgramModule) else _traced(module, model)
        prefix = f"member.{index}."
        tensors |= {prefix + place: getattr(program, place) for place in program.places.values()}
        members.append(
            MemberRecord(program=program_to_json(program.program), places=program.places)
        )
    return ModelRecord(
        classes=held.classes,
        one_logit=held.one_logit,
        probabilities=held.probabilities,
        labels=held.labels,
        features=held.features,
        reason=held.reason,
        members=tuple(members),
    )


def _traced(module: nn.Module, model: GuardedModel) -> ProgramModule:
    """A module's own operations, one by one, with its own weights: the same bits."""
    example = torch.zeros(2, *model.held.input_shape, dtype=model.dtype)
    try:
        program, weights, _ = read_exported(export_module(module, example))
    except CaptureError as error:
        raise InputError(f"this model can only be exported, not saved: {error}") from error
    return ProgramModule(program, weights).eval()


def covered_tensors(covered: Covered) -> dict[str, Tensor]:
    """Every number of a covered set, by name."""
    return {f"covered.{name}": value for name, value in covered.state_dict().items()}


def covered_record(covered: Covered) -> CoveredRecord:
    """Which views there are, and which units."""
    return CoveredRecord(
        views=covered.names,
        whitened=covered.whitened.kind,
        reduced=None if covered.reduced is None else covered.reduced.kind,
        other=tuple(covered.other.tolist()),
    )


def restore_covered(record: CoveredRecord, tensors: dict[str, Tensor]) -> Covered:
    """Make a covered set of its numbers.

    Raises:
        InputError: If a view is unknown, or numbers are missing, superfluous or do not fit.
    """
    left = dict(tensors)

    def take(prefix: str) -> dict[str, Tensor]:
        size = len(prefix)
        names = [name for name in left if name.startswith(prefix) and "." not in name[size:]]
        return {name[size:]: left.pop(name) for name in names}

    whitened = _units(record.whitened, take("covered.whitened."))
    reduced = None if record.reduced is None else _units(record.reduced, take("covered.reduced."))
    views: list[View] = []
    for index, name in enumerate(record.views):
        if name not in VIEWS:
            raise InputError(f"the file names the view {name!r}, not known here")
        numbers = take(f"covered.views.{index}.")
        threshold, width = numbers.pop("threshold"), numbers.pop("width")
        view = VIEWS[name](**numbers)
        view.threshold.copy_(threshold)
        view.width.copy_(width)
        views.append(view)
    rest = take("covered.")
    unit = float(rest.pop("unit"))
    columns = len(rest["fill"])
    if len(set(record.other)) < len(record.other) or not all(
        0 <= place < columns for place in record.other
    ):
        raise InputError("the file's columns are not all there, or there twice")
    covered = Covered(whitened, reduced, views, record.other, **rest, unit=unit)
    if left:
        raise InputError(f"the file holds {sorted(left)[:3]}, which nothing reads")
    check_shapes(covered)
    return covered


def _units(kind: Kind, numbers: dict[str, Tensor]) -> Units:
    needed = {"full": {"matrix"}, "principal": {"matrix", "spread"}}.get(kind, set())
    if set(numbers) != {"mean", "unit"} | needed:
        raise InputError(f"{kind} units are made of other numbers than {sorted(numbers)}")
    return Units(kind, **numbers)


def check_shapes(covered: Covered) -> None:
    """See that all numbers fit together, by looking at one row."""
    columns = covered.columns
    if (
        {"balls", "ranges"}
        - set(covered.names)
        - ({"balls"} if not len(covered.numeric) else set())
    ):
        raise InputError("the file lacks the views that a promise stands on")
    for name, value in covered.named_buffers():
        if value.is_floating_point() and value.dtype != torch.float64:
            raise InputError(f"the file holds {name} as {value.dtype}; a guard is float64")
    row = torch.zeros(1, columns, dtype=torch.float64)
    with torch.no_grad():
        each = covered.each(row)
        covered.worst(row)
    if each.shape != (1, len(covered.views)):
        raise InputError("the file's views do not give one distance for each row")


def is_guard(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one that :meth:`GuardedModel.save` wrote, by its header."""
    if not Path(path).is_file():
        return False
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
    except (SafetensorError, OSError, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "guard" in header


def load(path: str | os.PathLike[str]) -> GuardedModel:
    """Read a guarded model that :meth:`GuardedModel.save` wrote, and verify it.

    Args:
        path: The file.

    Raises:
        InputError: If there is no such file, it is not one of these, it is damaged, or its numbers
            do not prove its certificate.
    """
    header, tensors = read_archive(path)
    found: GuardedModel = failing_as_damage(os.fspath(path), lambda: _restore(header, tensors))
    return found


def read_archive(path: str | os.PathLike[str]) -> tuple[Header, dict[str, Tensor]]:
    """The header, validated, and then the tensors of a file."""
    where = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"no file at {where!r}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = _header(where, (file.metadata() or {}).get(KEY))
            _check_sizes(where, file)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{where!r} is not a farfield file, or it is damaged: {error}") from error
    return header, tensors


def _check_sizes(where: str, file: Any) -> None:
    """Refuse tensors that no guard and no model has, before any is read."""
    budget = Budget(BYTES_FLOOR)
    members = Budget(MOST_BYTES)
    for name in file.keys():  # noqa: SIM118 - not a mapping
        found = file.get_slice(name)
        size = 8 * math.prod(int(length) for length in found.get_shape())
        own = budget if name.startswith("covered.") else members
        own.spend(size, f"tensor {name!r} of {where!r}")


def _header(where: str, text: str | None) -> Header:
    try:
        data = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where!r} holds no guarded model, or is damaged") from error
    version = data.get("version") if isinstance(data, dict) else None
    if not isinstance(data, dict) or "guard" not in data:
        raise InputError(f"{where!r} holds no guarded model, or is damaged")
    if version != VERSION:
        raise InputError(
            f"{where!r} has format version {version!r}, this farfield reads {VERSION}; guard the "
            "model again, or update farfield"
        )
    try:
        return Header.model_validate(data)
    except (ValidationError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": ""}
        said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise InputError(f"the header of {where!r} is damaged: {said}") from error


def failing_as_damage(where: str, make: Any) -> Any:
    """Whatever goes wrong with the numbers of a file is damage of the file."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"{where!r} cannot be used: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        said = str(error).splitlines()[0] if str(error) else repr(error)
        raise InputError(f"{where!r} is damaged: {said}") from error


def _restore(header: Header, tensors: dict[str, Tensor]) -> GuardedModel:
    """Rebuild a guarded model from its description."""
    if header.model is None:
        raise InputError("it holds the views of a guard and no model; use farfield verify")
    own = {name: value for name, value in tensors.items() if name.startswith("covered.")}
    covered = restore_covered(header.covered, own)
    modules: list[nn.Module] = [
        _module(each, f"member.{index}.", tensors)
        for index, each in enumerate(header.model.members)
    ]
    columns = Columns(
        header.columns.shape, header.columns.names, header.columns.blocks, header.columns.words
    )
    if columns.width != covered.columns:
        raise InputError(f"it has {covered.columns} columns and names {columns.width}")
    record = header.model
    held = Held(
        modules,
        record.classes,
        record.one_logit,
        record.probabilities,
        columns.shape,
        record.labels,
        record.features,
        record.reason,
    )
    certificate = Certificate.from_json(json.dumps(header.certificate))
    safe = GuardedModel(held, covered, columns, certificate)
    found = safe.verify()
    if not found:
        raise InputError(f"its numbers do not prove its certificate: {found.problems[0]}")
    _check_runs(safe)
    return safe


def _check_runs(safe: GuardedModel) -> None:
    """See that the program of a file can be run at all, before anybody relies on it."""
    rows = torch.zeros(2, *safe.held.input_shape, dtype=torch.float64)
    with torch.no_grad():
        shape = tuple(safe(rows).shape)
    if shape != (2, safe.held.classes):
        raise InputError(f"its model gives {shape} for 2 rows of {safe.held.classes} classes")


def _module(record: MemberRecord, prefix: str, tensors: dict[str, Tensor]) -> ProgramModule:
    program = program_from_json(record.program)
    weights = {name: tensors[prefix + place] for name, place in record.places.items()}
    read = {name for step in program.steps for name in step.refs()}
    made = {program.input} | {step.name for step in program.steps}
    missing = read - made - set(weights)
    if missing:
        raise InputError(f"the file's program reads {sorted(missing)}, which it does not hold")
    return ProgramModule(program, weights).eval()
