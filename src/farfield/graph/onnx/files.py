"""ONNX files read without trusting them: nothing is run, and sizes are checked before use.

An ``.onnx`` file is a protocol buffer, so parsing it cannot run code. What can go wrong is a
file that claims sizes it does not have, or that points at other files: a tensor's claim is
compared with the bytes that are there before anything is allocated, and external data is read
only from inside the model's own folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import CaptureError, MissingDependency

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

# What one protocol buffer can hold at all; a larger file cannot be an ONNX model.
MOST_BYTES = 2**31
# Dimensions of an empty tensor may be any; their product must be a number that torch can count to.
MOST_ITEMS = 2**40
# The version of each operator set whose meaning this reader knows.
OPSETS = {"": (7, 26), "ai.onnx.ml": (1, 5)}
# TensorProto.DataType -> (numpy type of the stored bytes, field of the typed form).
STORED = {
    1: ("<f4", "float_data"),
    2: ("<u1", "int32_data"),
    3: ("<i1", "int32_data"),
    4: ("<u2", "int32_data"),
    5: ("<i2", "int32_data"),
    6: ("<i4", "int32_data"),
    7: ("<i8", "int64_data"),
    9: ("<u1", "int32_data"),
    10: ("<f2", "int32_data"),
    11: ("<f8", "double_data"),
    12: ("<u4", "uint64_data"),
    13: ("<u8", "uint64_data"),
    16: ("<u2", "int32_data"),
}
BOOL, FLOAT16, BFLOAT16, STRING = 9, 10, 16, 8
EXTERNAL = 1


@dataclass(frozen=True)
class ModelFile:
    """A parsed model and the folder that its external data may come from."""

    path: Path
    model: ModelProto

    def tensor(self, proto: TensorProto, *, gaps: bool = False) -> Tensor:
        """Decode a tensor: ``float64``, ``int64`` or ``bool``, whatever it was stored as.

        ``gaps`` allows NaN, where it stands between numbers.

        Raises:
            CaptureError: If its size is not what it claims, it holds NaN or infinity, or its
                type has no place in a network.
        """
        where = f"tensor {proto.name!r} of {self.path}"
        stored = STORED.get(proto.data_type)
        if stored is None:
            raise CaptureError(
                f"{where} has element type {_type_name(proto.data_type)}, which farfield does "
                "not read; export the model in float16, float32 or float64"
            )
        dtype, field = np.dtype(stored[0]), stored[1]
        dims = tuple(int(length) for length in proto.dims)
        if min(dims, default=0) < 0 or math.prod(length or 1 for length in dims) > MOST_ITEMS:
            raise CaptureError(f"{where} claims the shape {dims}; the file is damaged")
        count = math.prod(dims)
        if proto.data_location == EXTERNAL:
            values = np.frombuffer(self._external(proto, count * dtype.itemsize, where), dtype)
        elif proto.HasField("raw_data"):
            _check_size(len(proto.raw_data), count * dtype.itemsize, dims, where)
            values = np.frombuffer(proto.raw_data, dtype)
        else:
            items = getattr(proto, field)
            _check_size(len(items) * dtype.itemsize, count * dtype.itemsize, dims, where)
            values = _typed(items, dtype, proto.data_type)
        return _as_tensor(values, proto.data_type, where, gaps=gaps).reshape(dims)

    def text(self, proto: TensorProto) -> tuple[str, ...]:
        """Decode a tensor of strings."""
        return decode_text(proto.string_data)

    def _external(self, proto: TensorProto, size: int, where: str) -> bytes:
        """Read external data from inside the model's folder, exactly as much as is claimed."""
        entries = {str(entry.key): str(entry.value) for entry in proto.external_data}
        location = entries.get("location", "")
        folder = self.path.parent.resolve()
        target = Path(location)
        if not location or "\0" in location or target.is_absolute() or ".." in target.parts:
            raise CaptureError(
                f"{where} is stored in {location!r}; external data is read only from the "
                "model's own folder, by a relative path without '..'"
            )
        try:
            full = (folder / target).resolve()
            if not full.is_relative_to(folder):
                raise CaptureError(
                    f"{where} is stored in {location!r}, which leads out of the model's folder; "
                    "put the data file itself beside the model"
                )
            if not full.is_file():
                raise CaptureError(f"{where} is stored in {location!r}, which is not there")
            offset = _number(entries.get("offset", "0"), "offset", where)
            length = _number(entries.get("length", str(size)), "length", where)
            available = full.stat().st_size
            if length != size or offset + size > available:
                raise CaptureError(
                    f"{where} needs {size} bytes; the file points at {length} bytes from "
                    f"{offset} on in {location!r}, which has {available}"
                )
            with full.open("rb") as file:
                file.seek(offset)
                data = file.read(size)
        except (OSError, ValueError) as error:
            if isinstance(error, CaptureError):
                raise
            raise CaptureError(f"{where}: cannot read {location!r} ({error})") from error
        _check_size(len(data), size, tuple(proto.dims), where)
        return data


def load_file(path: str | os.PathLike[str]) -> ModelFile:
    """Parse an ``.onnx`` file and check that its operator sets are known.

    Raises:
        CaptureError: If there is no such file, or it is not an ONNX model.
        MissingDependency: If the ``onnx`` package is not installed.
    """
    try:
        from onnx import ModelProto
    except ImportError as error:
        raise MissingDependency(
            "reading .onnx files needs the onnx package: pip install 'farfield[onnx]'"
        ) from error
    path = Path(path)
    if not path.is_file():
        raise CaptureError(f"there is no file {path}")
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise CaptureError(
                f"{path} has {size} bytes; an ONNX model has at most {MOST_BYTES} and keeps the "
                "rest as external data"
            )
        data = path.read_bytes()
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        model = ModelProto.FromString(data)
    except Exception as error:  # protobuf's DecodeError, whose package has no types
        raise CaptureError(
            f"{path} is not an ONNX model, or it is cut short ({error}); export it again"
        ) from error
    if not data or not model.graph.output or not model.opset_import:
        raise CaptureError(
            f"{path} holds no ONNX graph with an output ({len(data)} bytes); is it an .onnx file?"
        )
    file = ModelFile(path, model)
    opsets(file)
    return file


def opsets(file: ModelFile) -> dict[str, int]:
    """The version of each known operator set that the file uses.

    Raises:
        CaptureError: If a version lies outside what this reader knows.
    """
    found: dict[str, int] = {}
    for entry in file.model.opset_import:
        domain = normal_domain(entry.domain)
        if domain not in OPSETS:
            continue
        low, high = OPSETS[domain]
        if not low <= entry.version <= high:
            raise CaptureError(
                f"{file.path} uses version {entry.version} of the operator set "
                f"{domain or 'ai.onnx'!r}; farfield reads {low} to {high}. Export it with "
                f"opset_version={min(high, 20)}."
            )
        found[domain] = int(entry.version)
    if "" not in found and "ai.onnx.ml" not in found:
        raise CaptureError(f"{file.path} names no operator set that farfield knows")
    return found


def normal_domain(domain: str) -> str:
    """Give the standard operator set one name."""
    return "" if domain == "ai.onnx" else domain


def decode_text(items: Iterable[bytes]) -> tuple[str, ...]:
    """Decode strings of a file; what is not text is shown as a replacement character."""
    return tuple(item.decode("utf-8", errors="replace") for item in items)


def _number(text: str, what: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise CaptureError(f"{where} has {what} {text[:40]!r} for its external data")
    return int(text)


def _check_size(got: int, expected: int, dims: tuple[int, ...], where: str) -> None:
    if got != expected:
        raise CaptureError(
            f"{where} claims the shape {dims}, which takes {expected} bytes, but has {got}; the "
            "file is damaged"
        )


def _typed(items: Any, dtype: np.dtype[Any], data_type: int) -> np.ndarray[Any, Any]:
    """Numbers of a typed field; half-precision ones are stored as their bits."""
    if data_type in (FLOAT16, BFLOAT16):
        bits = np.asarray(items, dtype=np.int64) & 0xFFFF
        return bits.astype("<u2").view(dtype)
    return np.asarray(items).astype(dtype)


def _as_tensor(values: np.ndarray[Any, Any], data_type: int, where: str, *, gaps: bool) -> Tensor:
    if data_type == BFLOAT16:
        values = (values.astype("<u4") << 16).view("<f4")
    if data_type == BOOL:
        return torch.from_numpy(values != 0)
    if values.dtype.kind == "f":
        # A NaN of a mutated file may be a signalling one; converting it is not worth a warning.
        with np.errstate(invalid="ignore"):
            tensor = torch.from_numpy(values.astype(np.float64))
        if not gaps and bool(torch.isnan(tensor).any()):
            raise CaptureError(f"{where} holds NaN; the model cannot be analysed")
        return tensor
    return torch.from_numpy(values.astype(np.int64))


def _type_name(data_type: int) -> str:
    from onnx import TensorProto

    names = {number: name for name, number in TensorProto.DataType.items()}
    return str(names.get(data_type, data_type))
