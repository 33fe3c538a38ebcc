"""Reader of IDX files, the format of MNIST and its family."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.data.content import GZIP, exactly, impossible, opened
from farfield.errors import InputError

# Third byte of the magic number to the type of the numbers, which are big-endian.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    r"""Read an IDX file, plain or compressed with gzip.

    The header is a magic number (two zero bytes, a type, the number of dimensions) and the
    dimensions, four bytes each. Its promise is compared with the file before memory is taken.

    Raises:
        InputError: Not an IDX file, or one that is cut off or too long.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "labels-idx1-ubyte"
    ...     _ = file.write_bytes(b"\0\0\x08\x01" + b"\0\0\0\x03" + bytes([7, 2, 1]))
    ...     read_idx(file).tolist()
    [7, 2, 1]
    """
    where = Path(path).name
    with opened(path) as file:
        magic = file.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
            raise InputError(
                f"{where}: not an IDX file: it starts with {magic.hex(' ') or 'nothing'}, not with "
                "00 00, a type and a number of dimensions."
            )
        lengths = file.read(4 * magic[3])
        if len(lengths) < 4 * magic[3]:
            raise InputError(f"{where}: the file is cut off within its {magic[3]} dimensions.")
        shape = tuple(int(n) for n in np.frombuffer(lengths, dtype=">u4"))
        dtype = np.dtype(_TYPES[magic[2]])
        size = math.prod(shape) * dtype.itemsize
        what = f"{dtype.name} numbers of shape {shape}"
        packed = Path(path).stat().st_size
        with Path(path).open("rb") as raw:
            limit = packed if raw.read(2) != GZIP else None
        if impossible(packed, size) or (limit is not None and size > limit):
            raise InputError(
                f"{where}: {what} are promised, {size:,} bytes; the file has {packed:,}. Is it cut "
                "off, or damaged?"
            )
        # Images of bytes become floats.
        Budget(allowance(packed)).spend(8 * math.prod(shape), f"{where}: {what}, as floats,")
        content = exactly(file, size, where, what)
    if len(shape) > 8:
        raise InputError(f"{where}: {len(shape)} dimensions; images have 3, labels 1.")
    try:
        found = np.frombuffer(content, dtype=dtype).reshape(shape)
    except ValueError as error:  # no bytes at all, and dimensions beyond what can be counted
        raise InputError(f"{where}: {what} cannot be laid out: {error}.") from error
    return found.astype(dtype.newbyteorder("="))
