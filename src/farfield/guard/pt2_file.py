"""Guards and envelopes as ``.pt2`` files, and read back without PyTorch's own loader.

The program of such a file is the guard's distances, then the model, then the guard's look at its
features, if it takes one, and its mixture. A reader takes the numbers from the archive, makes the
guard of them, traces it anew around a model whose output and features are inputs, and compares
operation by operation: the file must begin and end with exactly those, on exactly those numbers,
and the model in between may touch nothing of the guard.
"""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Any, Literal, final

import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from farfield.budget import Budget, allowance
from farfield.data.columns import Columns
from farfield.errors import CaptureError, InputError
from farfield.files import replacing
from farfield.graph.export import first_line, quiet_export
from farfield.graph.pt2 import schema
from farfield.graph.pt2.archive import (
    CERTIFICATE,
    CONSTANTS,
    CONSTANTS_INDEX,
    GUARD,
    MODEL,
    WEIGHTS,
    WEIGHTS_INDEX,
    Archive,
    open_archive,
)
from farfield.graph.pt2.weights import read_tensors
from farfield.guard.beside import Beside, Returns, look_at, say
from farfield.guard.certificate import Certificate
from farfield.guard.covered import VALUES, Covered
from farfield.guard.mix import mix_logits
from farfield.guard.model import GuardedModel
from farfield.guard.pt2_same import ArchiveNumbers, check_around
from farfield.guard.records import (
    ColumnsRecord,
    CoveredRecord,
    Strict,
    covered_record,
    failing_as_damage,
    restore_covered,
)
from farfield.guard.verify import Verification, verify

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16}
BUFFERS = "covered."


class Pt2Record(Strict):
    """What a file says about its guard, beside the numbers.

    Attributes:
        version: Of this record.
        returns: What the model of an envelope returns; ``None`` for a guard, whose logits are
            mixed.
        classes: Number of classes.
        input_dtype: Type of the rows.
        output_dtype: Type of what the model returns.
        output_shape: Of what it returns for one row.
        columns: What the columns are.
        covered: The views.
        features: How many features of the model a view looks at, if one does.
        views: Names of what ``view`` counts, the last of them for -1.
        names: Names of what ``column`` counts, likewise.
    """

    version: Literal[1] = 1
    returns: Returns | None
    classes: int = Field(ge=2)
    input_dtype: Literal["float32", "float64", "float16"]
    output_dtype: Literal["float32", "float64", "float16"]
    output_shape: tuple[int, ...] = Field(max_length=1)
    columns: ColumnsRecord
    covered: CoveredRecord
    features: int | None = Field(default=None, ge=1)
    views: tuple[str, ...]
    names: tuple[str, ...]


@final
class Around(nn.Module):
    """A guard or an envelope around a model whose output is given, and its features."""

    def __init__(self, covered: Covered, returns: Returns | None) -> None:
        super().__init__()
        self.covered, self.returns = covered, returns

    def forward(self, x: Tensor, own: Tensor, features: Tensor | None = None) -> Any:
        """Guarded logits, or all that an envelope says."""
        if self.returns is None:
            found = self.covered.beyond(self.covered.quickly(x), features)
            return mix_logits(own, self.covered.temperature(found))
        return say(own, look_at(self.covered, self.covered.look(x), features), self.returns)


def write_pt2(
    model: GuardedModel | Beside,
    path: str | os.PathLike[str],
    columns: Columns,
    certificate: Certificate,
) -> None:
    """Write a guarded model, or an envelope, and read it back before anybody sees it."""
    rows = torch.zeros(2, *columns.shape, dtype=model.dtype)
    with torch.no_grad(), quiet_export():
        own = model.unguarded(rows) if isinstance(model, GuardedModel) else model.own(rows)
        program = torch.export.export(model, (rows,), dynamic_shapes=({0: Dim("rows")},))
    record = Pt2Record(
        returns=None if isinstance(model, GuardedModel) else model.returns,
        classes=certificate.classes,
        input_dtype=_type_name(rows),
        output_dtype=_type_name(own),
        output_shape=tuple(own.shape[1:]),
        columns=ColumnsRecord.of(columns),
        covered=covered_record(model.covered),
        features=None if model.covered.inner is None else model.covered.inner.count,
        views=(*model.covered.names, VALUES, ""),
        names=(*(columns.name(place) for place in range(columns.width)), ""),
    )
    extra = {
        CERTIFICATE.removeprefix("extra/"): certificate.to_json(),
        GUARD.removeprefix("extra/"): record.model_dump_json(),
    }
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(_saved(program, extra))
        found = read_pt2(temporary)[1]
        if not found:
            raise InputError(f"{path} would not keep its promise: {found.problems[0]}")


def _type_name(values: Tensor) -> Any:
    name = str(values.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(f"the model computes in {name}; a .pt2 guard is of {', '.join(DTYPES)}")
    return name


def _saved(program: ExportedProgram, extra: dict[str, str]) -> bytes:
    # Into memory first: PyTorch ends the process where a disk is full.
    archive = io.BytesIO()
    with quiet_export():
        torch.export.save(program, archive, extra_files=extra)
    return archive.getvalue()


def read_pt2(path: str | os.PathLike[str]) -> tuple[Certificate, Verification]:
    """Read the guard of a file back, see that its program is that guard, and prove it.

    Raises:
        InputError: If there is no guard in it, or it was changed, or another version of PyTorch
            wrote it in other operations.
    """
    where = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"no file at {where!r}")
    try:
        with open_archive(Path(path)) as archive:
            if CERTIFICATE not in archive.members or GUARD not in archive.members:
                raise InputError(f"{where!r} holds no certificate of a guard that can be verified")
            texts = [archive.read(name).decode() for name in (CERTIFICATE, GUARD)]
            model, numbers = _parts(archive)
    except (CaptureError, UnicodeDecodeError) as error:
        raise InputError(f"{where!r} cannot be read: {error}") from error
    try:
        record = Pt2Record.model_validate_json(texts[1])
    except (ValidationError, RecursionError) as error:
        raise InputError(f"the guard of {where!r} is damaged: {error}") from error
    certificate = Certificate.from_json(texts[0])
    covered = failing_as_damage(where, lambda: _covered(record, numbers.stored, certificate))
    proof = failing_as_damage(where, lambda: verify(certificate, covered))
    if proof:  # else there is no guard that its program could be
        failing_as_damage(
            where,
            lambda: check_around(model, numbers, *_reference(covered, record)),
        )
    return certificate, proof


def _covered(record: Pt2Record, stored: dict[str, Tensor], certificate: Certificate) -> Covered:
    own = {name: value for name, value in stored.items() if name.startswith(BUFFERS)}
    covered = restore_covered(record.covered, own)
    columns = record.columns.columns()
    if columns.width != covered.columns or certificate.classes != record.classes:
        raise InputError("its columns or classes are not those of its guard")
    names = tuple(columns.name(place) for place in range(columns.width))
    if record.features != (None if covered.inner is None else covered.inner.count):
        raise InputError("its features are not those that its guard looks at")
    if record.views != (*covered.names, VALUES, "") or record.names != (*names, ""):
        raise InputError("its names are not those of its views and columns")
    return covered


def _reference(covered: Covered, record: Pt2Record) -> tuple[schema.Model, ArchiveNumbers]:
    """The program that the numbers of a file make, around any model."""
    rows = torch.zeros(2, *record.columns.shape, dtype=DTYPES[record.input_dtype])
    own = torch.zeros(2, *record.output_shape, dtype=DTYPES[record.output_dtype])
    given = [rows, own]
    if record.features is not None:
        given.append(torch.zeros(2, record.features, dtype=rows.dtype))
    free = Dim("rows")
    try:
        with torch.no_grad(), quiet_export():
            program = torch.export.export(
                Around(covered, record.returns).eval(),
                tuple(given),
                dynamic_shapes=tuple({0: free} for _ in given),
            )
    except Exception as error:  # torch.export documents no common base of what it raises
        raise InputError(f"no program follows from its numbers: {first_line(error)}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reference.pt2"
        path.write_bytes(_saved(program, {}))
        with open_archive(path) as archive:
            return _parts(archive)


def _parts(archive: Archive) -> tuple[schema.Model, ArchiveNumbers]:
    """The program of an archive, and its tensors."""
    model = schema.parse(schema.Model, archive.read(MODEL), f"{archive.path}:{MODEL}")
    budget = Budget(allowance(archive.size), "bytes", CaptureError)
    stored = read_tensors(archive, WEIGHTS, WEIGHTS_INDEX, budget)
    return model, ArchiveNumbers(stored, read_tensors(archive, CONSTANTS, CONSTANTS_INDEX, budget))
