"""Guarded models as one file.

The header is validated before any tensor is looked at: it says which views there are and which
tensors each of them has, and the file must hold exactly those.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn

from farfield.archive import Shapes, header_of, read_archive, write_archive
from farfield.budget import BYTES_FLOOR, Budget
from farfield.errors import CaptureError, InputError
from farfield.guard.certificate import Certificate
from farfield.guard.guarded import Guarded
from farfield.guard.members import Held
from farfield.guard.model import GuardedModel
from farfield.guard.program_json import program_from_json, program_to_json
from farfield.guard.program_module import ProgramModule, traced
from farfield.guard.records import (
    ColumnsRecord,
    CoveredRecord,
    Strict,
    covered_record,
    covered_tensors,
    failing_as_damage,
    restore_covered,
)

VERSION = 2
# What the weights of all members may take together.
MOST_BYTES = 2**33
# How many rows a model that was read is tried with.
TRIED = (1, 2, 3, 100)


class MemberRecord(Strict):
    """One instance: its program, where its weights are, and the step that makes its features."""

    program: dict[str, Any]
    places: dict[str, str]
    feature: str | None = None


class ModelRecord(Strict):
    """The model inside."""

    classes: int = Field(ge=2)
    one_logit: bool
    probabilities: bool
    labels: tuple[int | float | str, ...] | None
    features: tuple[str, ...] | None
    reason: str
    members: tuple[MemberRecord, ...] = Field(min_length=1)


class Header(Strict):
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
    header = Header(
        version=2,
        guard="views" if inside is None else "model",
        certificate=json.loads(model.certificate.to_json()),
        columns=ColumnsRecord.of(model.columns),
        covered=covered_record(model.covered),
        model=inside,
    )
    write_archive(path, tensors, header.model_dump_json())


def _model_record(model: GuardedModel, tensors: dict[str, Tensor]) -> ModelRecord:
    held, members = model.held, []
    for index, module in enumerate(model.members):
        program = _traced(module, model)
        prefix = f"member.{index}."
        tensors |= {prefix + place: getattr(program, place) for place in program.places.values()}
        members.append(
            MemberRecord(
                program=program_to_json(program.program),
                places=program.places,
                feature=program.feature,
            )
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
    example = torch.zeros(2, *model.held.input_shape, dtype=model.dtype)
    try:
        return traced(module, example)
    except CaptureError as error:
        raise InputError(f"this model can only be exported, not saved: {error}") from error


def is_guard(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one that :meth:`GuardedModel.save` wrote, by its header."""
    header = header_of(path)
    return isinstance(header, dict) and "guard" in header


def load(path: str | os.PathLike[str]) -> GuardedModel:
    """Read a guarded model that :meth:`GuardedModel.save` wrote, and verify it.

    Args:
        path: The file.

    Raises:
        InputError: If there is no such file, it is not one of these, it is damaged, or its numbers
            do not prove its certificate.
    """
    header, tensors = read_guard(path)
    return failing_as_damage(os.fspath(path), lambda: _restore(header, tensors))


def read_guard(path: str | os.PathLike[str]) -> tuple[Header, dict[str, Tensor]]:
    """The header, validated, and then the tensors of a file."""
    where = os.fspath(path)

    def checked(data: Any, shapes: Shapes) -> Header:
        header = _header(where, data)
        _check_sizes(where, shapes)
        return header

    return read_archive(path, checked)


def _check_sizes(where: str, shapes: Shapes) -> None:
    """Refuse tensors that no guard and no model has, before any is read."""
    budget = Budget(BYTES_FLOOR)
    members = Budget(MOST_BYTES)
    for name, shape in shapes.items():
        own = budget if name.startswith("covered.") else members
        own.spend(8 * math.prod(shape), f"tensor {name!r} of {where!r}")


def _header(where: str, data: Any) -> Header:
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
    columns = header.columns.columns()
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
    for count in TRIED:
        rows = torch.zeros(count, *safe.held.input_shape, dtype=safe.dtype)
        with torch.no_grad():
            shapes = {tuple(member(rows).shape[:1]) for member in safe.members}
            shapes.add(tuple(safe(rows).shape))
        if shapes != {(count,), (count, safe.held.classes)}:
            raise InputError(
                f"its model gives {sorted(shapes)} for {count} rows of {safe.held.classes} classes"
            )


def _module(record: MemberRecord, prefix: str, tensors: dict[str, Tensor]) -> ProgramModule:
    program = program_from_json(record.program)
    weights = {name: tensors[prefix + place] for name, place in record.places.items()}
    read = {name for step in program.steps for name in step.refs()}
    made = {program.input} | {step.name for step in program.steps}
    missing = read - made - set(weights)
    if missing:
        raise InputError(f"the file's program reads {sorted(missing)}, which it does not hold")
    if record.feature is not None and record.feature not in {step.name for step in program.steps}:
        raise InputError(f"the file's features are {record.feature!r}, which its program lacks")
    return ProgramModule(program, weights, record.feature).eval()
