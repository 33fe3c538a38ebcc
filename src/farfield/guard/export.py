"""Guarded models as ONNX and as torch.export programs, with their certificates inside."""

from __future__ import annotations

import io
import logging
import os
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from farfield.errors import InputError, MissingDependency
from farfield.files import replacing
from farfield.guard.model import GuardedModel
from farfield.guard.onnx_file import extend
from farfield.guard.onnx_read import read_guarded

# Name of the metadata entry, and of the extra file in a .pt2 archive.
ENTRY = "farfield.certificate"


def export_program(model: GuardedModel) -> ExportedProgram:
    """Trace a guarded model with a free number of rows."""
    shape = model.held.input_shape
    example = torch.zeros(2, *shape, dtype=model.dtype)
    with torch.no_grad(), _quiet():
        return torch.export.export(model, (example,), dynamic_shapes=({0: Dim("rows")},))


def write_pt2(model: GuardedModel, path: str | os.PathLike[str]) -> None:
    """Write a ``.pt2`` file; :func:`read_certificate` reads its certificate."""
    program = export_program(model)
    # Into memory first: PyTorch ends the process where a disk is full.
    archive = io.BytesIO()
    with _quiet():
        torch.export.save(program, archive, extra_files={ENTRY: model.certificate.to_json()})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(archive.getbuffer())


def write_onnx(model: GuardedModel, path: str | os.PathLike[str]) -> None:
    """Write an ONNX model: the plain one, as torch writes it, extended by the guard.

    Raises:
        MissingDependency: Without the packages of the extra ``onnx``.
    """
    try:
        import onnxscript  # noqa: F401 - what torch writes ONNX with
    except ImportError as error:
        raise MissingDependency(
            "writing ONNX needs the packages onnx and onnxscript: pip install 'farfield[onnx]'"
        ) from error
    example = torch.zeros(2, *model.held.input_shape, dtype=model.dtype)
    plain = _Plain(model).eval()
    with torch.no_grad(), _quiet():
        program = torch.export.export(plain, (example,), dynamic_shapes=({0: Dim("rows")},))
        written = torch.onnx.export(
            program, input_names=["x"], output_names=["logits"], dynamo=True, verbose=False
        )
    if written is None:
        raise InputError("torch could not write the model as ONNX")
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "plain.onnx"
        own.write_bytes(written.model_proto.SerializeToString())
        extend(own, path, model.covered, model.columns, model.certificate)


class _Plain(nn.Module):
    """The unguarded logits of a guarded model."""

    def __init__(self, model: GuardedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Logits, ``(rows, classes)``."""
        return self.model.unguarded(x)


def read_certificate(path: str | os.PathLike[str]) -> str:
    """The certificate in an exported file, as JSON.

    Raises:
        InputError: If there is none.
    """
    where = Path(path)
    if not where.is_file():
        raise InputError(f"no file at {str(where)!r}")
    if not zipfile.is_zipfile(where):
        return read_guarded(where).certificate.to_json()
    with zipfile.ZipFile(where) as archive:
        for name in archive.namelist():
            if name.endswith(ENTRY):
                return archive.read(name).decode()
    raise InputError(f"{str(where)!r} holds no certificate")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's own deprecation notices and trace logs away from the user."""
    loggers = [logging.getLogger(name) for name in ("torch", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
