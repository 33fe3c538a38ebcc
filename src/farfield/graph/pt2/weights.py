"""Raw tensors of a ``.pt2`` archive: bytes, and a description that is checked before it is used."""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor

from farfield.budget import Budget
from farfield.errors import CaptureError
from farfield.graph.pt2.archive import Archive
from farfield.graph.pt2.schema import Payload, PayloadIndex, SavedSize, TensorMeta, parse

# PyTorch's numbers for element types and for the layout of dense tensors.
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
STRIDED = 7


def read_tensors(archive: Archive, folder: str, index: str, budget: Budget) -> dict[str, Tensor]:
    """The tensors that ``index`` describes, by their names in the module.

    Raises:
        CaptureError: If a description does not fit the bytes.
    """
    if sys.byteorder != "little":
        raise CaptureError(f"{archive.path} is little-endian and this machine is not; unsupported")
    payloads = parse(PayloadIndex, archive.read(index), f"{archive.path}:{index}").config
    return {
        name: _tensor(archive, f"{folder}/{payload.path_name}", payload, budget)
        for name, payload in payloads.items()
    }


def _tensor(archive: Archive, member: str, payload: Payload, budget: Budget) -> Tensor:
    where = f"{archive.path}:{member}"
    meta = payload.tensor_meta
    dtype = element_type(meta, where)
    sizes = [_known(size, where) for size in meta.sizes]
    strides = [_known(stride, where) for stride in meta.strides]
    offset = _known(meta.storage_offset, where)
    if len(sizes) != len(strides) or len(sizes) > 64:
        raise CaptureError(f"{where} has {len(sizes)} sizes and {len(strides)} strides; damaged")
    count = math.prod(sizes)
    budget.spend(count * dtype.itemsize, where)
    data = archive.read(member)
    last = offset + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    if len(data) % dtype.itemsize or (count and last >= len(data) // dtype.itemsize):
        raise CaptureError(
            f"{where} holds {len(data)} bytes, too few or too many for a tensor of "
            f"{tuple(sizes)} {dtype}; the file is damaged"
        )
    if not count:
        return torch.empty(sizes, dtype=dtype)
    plain = torch.frombuffer(bytearray(data), dtype=torch.uint8 if dtype is torch.bool else dtype)
    tensor = plain.as_strided(sizes, strides, offset)
    return tensor != 0 if dtype is torch.bool else tensor


def element_type(meta: TensorMeta, where: str) -> torch.dtype:
    """The element type of a dense tensor."""
    if meta.dtype not in DTYPES or meta.layout != STRIDED:
        raise CaptureError(
            f"{where} is sparse, quantised or of an unknown element type (type {meta.dtype}, "
            f"layout {meta.layout}); export a model of plain dense tensors"
        )
    return DTYPES[meta.dtype]


def _known(size: SavedSize, where: str) -> int:
    if size.as_int is None or not 0 <= size.as_int < 2**48:
        raise CaptureError(f"{where} has a size, stride or offset that is open, negative or absurd")
    return size.as_int
