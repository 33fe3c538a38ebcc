"""Readers of image files: IDX, the format of MNIST and its family, and CIFAR-10 and CIFAR-100.

CIFAR's formats, the Python and the binary version, are those of
https://www.cs.toronto.edu/~kriz/cifar.html: an image is 3,072 bytes, the red, green and blue planes
of 32 x 32 one after the other. A binary record has one byte for the label before it (CIFAR-10), or
two, coarse and fine (CIFAR-100).
"""

import math
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.data.content import GZIP, exactly, impossible, opened, whole
from farfield.data.pickled import read_pickled_arrays
from farfield.errors import InputError

Variant = Literal["cifar10", "cifar100"]
Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]

CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
"""Names of the classes of CIFAR-10, in the order of their labels."""

_PIXELS = 3 * 32 * 32
_LABEL_BYTES: dict[Variant, int] = {"cifar10": 1, "cifar100": 2}
_CLASSES: dict[Variant, int] = {"cifar10": 10, "cifar100": 100}
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


def read_cifar_pickle(path: str | os.PathLike[str]) -> tuple[Bytes, Labels, Variant]:
    """Read a batch of the Python version without unpickling it: images, labels, which of the two.

    Images are uint8 ``(n, 3, 32, 32)``; the labels of CIFAR-100 are the fine ones.
    """
    where = Path(path).name
    found = read_pickled_arrays(whole(path), where)
    variant: Variant = "cifar10" if "labels" in found else "cifar100"
    labels, data = found.get("labels", found.get("fine_labels")), found.get("data")
    if data is None or labels is None:
        keys = ", ".join(sorted(found)[:10])
        raise InputError(f"{where}: no data and labels of a CIFAR batch; the pickle has: {keys}.")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != _PIXELS:
        shape = getattr(data, "shape", type(data).__name__)
        raise InputError(f"{where}: data must be bytes of shape (n, {_PIXELS}), got {shape}.")
    if not isinstance(labels, list) or any(type(label) is not int for label in labels):
        raise InputError(f"{where}: labels must be a list of integers.")
    try:
        numbers = np.array(labels, dtype=np.int64)
    except OverflowError as error:
        raise InputError(f"{where}: a label is too large.") from error
    return data.reshape(-1, 3, 32, 32), _checked(numbers, len(data), variant, where), variant


def read_cifar_binary(
    path: str | os.PathLike[str], variant: Variant | None = None
) -> tuple[Bytes, Labels, Variant]:
    """Read a batch of the binary version; see `read_cifar_pickle` for the result.

    Which of the two it is follows from the size of the file, unless it is given.
    """
    where, content = Path(path).name, whole(path)
    fits = [
        name
        for name, extra in _LABEL_BYTES.items()
        if len(content) % (_PIXELS + extra) == 0 and variant in (None, name)
    ]
    if not fits:
        raise InputError(
            f"{where}: {len(content):,} bytes are no whole number of CIFAR records, 3,073 bytes "
            "(CIFAR-10) or 3,074 (CIFAR-100). Is the file cut off, or another format?"
        )
    chosen = fits[0]
    extra = _LABEL_BYTES[chosen]
    records = np.frombuffer(content, np.uint8).reshape(-1, _PIXELS + extra)
    labels = records[:, extra - 1].astype(np.int64)
    images = records[:, extra:].reshape(-1, 3, 32, 32)
    return images, _checked(labels, len(images), chosen, where), chosen


def _checked(labels: Labels, images: int, variant: Variant, where: str) -> Labels:
    """Refuse labels that do not belong to the images or the data set."""
    if len(labels) != images:
        raise InputError(f"{where}: {len(labels)} labels for {images} images.")
    most = _CLASSES[variant]
    if images and not (labels.min() >= 0 and labels.max() < most):
        raise InputError(
            f"{where}: labels from {labels.min()} to {labels.max()}; those of {variant} are 0 to "
            f"{most - 1}. Is this a CIFAR file?"
        )
    return labels
