"""Guarded models and envelopes as ONNX, with their certificates inside."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim

from farfield.data.columns import Columns
from farfield.errors import InputError, MissingDependency
from farfield.graph.export import quiet_export
from farfield.graph.pt2.archive import CERTIFICATE
from farfield.guard.beside import Beside
from farfield.guard.certificate import Certificate
from farfield.guard.model import GuardedModel
from farfield.guard.onnx_file import extend
from farfield.guard.onnx_read import read_guarded


def write_onnx(
    model: GuardedModel | Beside,
    path: str | os.PathLike[str],
    columns: Columns,
    certificate: Certificate,
) -> None:
    """Write an ONNX model: the plain one, as torch writes it, extended by the guard.

    Raises:
        MissingDependency: Without the packages of the extra ``onnx``.
    """
    envelope = isinstance(model, Beside)
    plain = model.own if isinstance(model, Beside) else _Plain(model).eval()
    name = model.returns if isinstance(model, Beside) else "logits"
    example = torch.zeros(2, *columns.shape, dtype=model.dtype)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "plain.onnx"
        own.write_bytes(_as_onnx(plain, example, name))
        extend(own, path, model.covered, columns, certificate, envelope=envelope)


def _as_onnx(module: nn.Module, example: Tensor, output: str) -> bytes:
    """A module as ONNX, as torch writes it, with a free number of rows."""
    try:
        import onnxscript  # noqa: F401 - what torch writes ONNX with
    except ImportError as error:
        raise MissingDependency(
            "writing ONNX needs the packages onnx and onnxscript: pip install 'farfield[onnx]'"
        ) from error
    with torch.no_grad(), quiet_export():
        program = torch.export.export(module, (example,), dynamic_shapes=({0: Dim("rows")},))
        written = torch.onnx.export(
            program, input_names=["x"], output_names=[output], dynamo=True, verbose=False
        )
    if written is None:
        raise InputError("torch could not write the model as ONNX")
    data: bytes = written.model_proto.SerializeToString()
    return data


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
            if name.endswith(CERTIFICATE):
                return archive.read(name).decode()
    raise InputError(f"{str(where)!r} holds no certificate")
