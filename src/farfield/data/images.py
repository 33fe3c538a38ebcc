"""Images from files of several formats, in one form: numbers from 0 to 1, channels first."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.data.arrays import array_names, load_arrays, read_npy
from farfield.data.content import Format, detect
from farfield.data.image_files import (
    CIFAR10_CLASSES,
    read_cifar_binary,
    read_cifar_pickle,
    read_idx,
)
from farfield.errors import InputError

Channels = Literal["first", "last"]
_NAMES = ("images", "X", "x", "data")
_LABELS = ("labels", "y", "label", "targets")


@dataclass(frozen=True, eq=False)
class Images:
    """Images as a file holds them, channels first, and their labels.

    Attributes:
        values: ``(n, channels, height, width)`` of the file's own type: bytes, or numbers from 0
            to 1.
        labels: ``(n,)`` int64, or None.
        class_names: Or None where the file gives none.
        where: Name of the file.
    """

    values: NDArray[Any]
    labels: NDArray[np.int64] | None
    class_names: tuple[str, ...] | None
    where: str

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def images(self) -> NDArray[np.float32]:
        """``(n, channels, height, width)`` float32 from 0 to 1, ready for a network."""
        return self.scaled()

    def scaled(self, rows: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float32]:
        """Return some of the images as float32 from 0 to 1."""
        values = self.values[rows]
        if values.dtype.kind == "f":
            return np.ascontiguousarray(values, dtype=np.float32)
        scaled: NDArray[np.float32] = np.divide(values, 255, dtype=np.float32)
        return scaled


def read_images(
    path: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    scale: float | None = None,
    channels: Channels | None = None,
) -> Images:
    r"""Read images: IDX (also .gz), CIFAR (Python or binary), .npz or .npy.

    Args:
        path: The file; its format is told from its content. In an .npz archive the arrays are
            ``images`` and ``labels`` (or ``X`` and ``y``), and ``classes`` names the classes.
        labels: A second file, IDX or .npy. For IDX images the default is the file beside them, with
            ``labels-idx1`` for ``images-idx3`` in its name, if it exists.
        scale: What numbers are divided by. Default: 255 for whole numbers, 1 for others.
        channels: Whether colours come ``"first"`` or ``"last"`` in an array; default: seen from
            the shape, 1, 3 or 4 channels.

    Returns:
        Images, whose ``.images`` are float32 from 0 to 1.

    Raises:
        InputError: A file that is damaged or of another kind, numbers outside 0 to 1, labels that
            do not belong to the images.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "images.npz"
    ...     np.savez(file, images=np.full((1, 2, 2, 3), 51, np.uint8), labels=np.array([4]))
    ...     read = read_images(file)
    >>> read.images.shape, round(read.images.max().item(), 6), read.labels.tolist()
    ((1, 3, 2, 2), 0.2, [4])
    """
    where, found = Path(path).name, _format(path)
    given: Any = None
    names: tuple[str, ...] | None = None
    if found == "idx":
        values = read_idx(path)
        beside = _beside(Path(path)) if labels is None else Path(labels)
        given = None if beside is None else _read_labels(beside)
    elif found == "npz":
        values, given, names = _from_npz(path, where)
    elif found == "npy":
        values = read_npy(path)
    else:
        read = read_cifar_pickle if found == "pickle" else read_cifar_binary
        values, given, variant = read(path)
        names = CIFAR10_CLASSES if variant == "cifar10" else None
    if labels is not None and found != "idx":
        given = _read_labels(Path(labels))
    return as_images(values, given, scale=scale, channels=channels, class_names=names, where=where)


def as_images(
    values: NDArray[Any],
    labels: NDArray[Any] | None = None,
    *,
    scale: float | None = None,
    channels: Channels | None = None,
    class_names: tuple[str, ...] | None = None,
    where: str = "images",
) -> Images:
    """Check an array of images and put its channels first."""
    if values.dtype.kind not in "fiub" or values.ndim not in (3, 4):
        raise InputError(
            f"{where}: images are numbers of shape (n, h, w), (n, h, w, channels) or (n, channels, "
            f"h, w), got {values.dtype} of shape {values.shape}. Reshape flattened images."
        )
    if 0 in values.shape:
        raise InputError(f"{where}: there are no images: the shape is {values.shape}.")
    ordered = _channels_first(values, channels, where)
    scaled = _in_range(ordered, scale, where)
    return Images(scaled, checked_labels(labels, len(values), where), class_names, where)


def to_gray_28(images: NDArray[Any]) -> NDArray[np.float32]:
    """Turn colour images into gray ones of 28 x 28, ``(n, 1, 28, 28)``.

    The mean of the channels, resized bilinearly with each output pixel averaging over the input
    that it covers: the gray CIFAR-10 that networks for MNIST are shown (Hein et al. 2019).

    >>> to_gray_28(np.full((1, 3, 32, 32), 0.25)).shape
    (1, 1, 28, 28)
    """
    if images.ndim != 4:
        raise InputError(f"images must have shape (n, channels, h, w), got {images.shape}.")
    gray = torch.from_numpy(images.mean(axis=1, keepdims=True, dtype=np.float32))
    resized = torch.nn.functional.interpolate(
        gray, size=(28, 28), mode="bilinear", align_corners=False, antialias=True
    )
    # Rounding may step outside by one unit in the last place.
    result: NDArray[np.float32] = resized.clamp(0.0, 1.0).numpy()
    return result


def holds_images(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file holds images rather than a table.

    IDX and CIFAR files do; so do .npz archives with an array ``images``, and arrays of three or
    four dimensions.
    """
    found = _format(path)
    if found == "npz":
        names = array_names(path)
        inputs = next((name for name in _NAMES if name in names), None)
        return inputs == "images" or (
            inputs is not None and load_arrays(path, [inputs])[inputs].ndim in (3, 4)
        )
    if found == "npy":
        return read_npy(path).ndim in (3, 4)
    return found in ("idx", "pickle", "cifar")


def _format(path: str | os.PathLike[str]) -> Format | Literal["cifar"]:
    """Tell the format; CIFAR's binary files have no mark of their own but their name."""
    found = detect(path)
    binary = found in ("csv", "idx") and Path(path).suffix == ".bin"
    return "cifar" if binary else found


def _beside(path: Path) -> Path | None:
    """Return the labels that belong to IDX images by name, if they are there."""
    for old, new in (("images-idx3", "labels-idx1"), ("images.idx3", "labels.idx1")):
        if old in path.name:
            labels = path.with_name(path.name.replace(old, new))
            return labels if labels.is_file() else None
    return None


def _read_labels(path: Path) -> NDArray[Any]:
    """Read labels from their own file."""
    found = detect(path)
    if found not in ("idx", "npy"):
        raise InputError(f"{path.name}: labels of images are an IDX or a .npy file.")
    return read_idx(path) if found == "idx" else read_npy(path)


def _from_npz(
    path: str | os.PathLike[str], where: str
) -> tuple[NDArray[Any], NDArray[Any] | None, tuple[str, ...] | None]:
    """Find images, labels and names of classes in an archive."""
    found = array_names(path)
    images = next((name for name in _NAMES if name in found), None)
    if images is None:
        raise InputError(f"{where}: no array 'images'. The arrays are {found}.")
    labels = next((name for name in _LABELS if name in found), None)
    arrays = load_arrays(path, [images, *([labels] if labels else [])], "classes")
    names = tuple(str(name) for name in arrays["classes"].ravel()) if "classes" in arrays else None
    return arrays[images], arrays[labels] if labels else None, names


def _channels_first(values: NDArray[Any], channels: Channels | None, where: str) -> NDArray[Any]:
    """Return ``(n, channels, height, width)``."""
    if values.ndim == 3:
        return values[:, None]
    if channels is None:
        last, first = values.shape[3] in (1, 3, 4), values.shape[1] in (1, 3, 4)
        if last == first:
            raise InputError(
                f"{where}: where are the channels in shape {values.shape}? Pass channels='first' "
                "or channels='last'."
            )
        channels = "last" if last else "first"
    return np.moveaxis(values, 3, 1) if channels == "last" else values


def _in_range(values: NDArray[Any], scale: float | None, where: str) -> NDArray[Any]:
    """Refuse numbers that are not from 0 to 1 after scaling; bytes stay bytes."""
    if scale is not None and not 0 < scale < np.inf:
        raise InputError(f"scale must be a positive number, got {scale}.")
    whole = values.dtype.kind in "iub"
    divisor = scale if scale is not None else (255.0 if whole else 1.0)
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        place = np.argwhere(~np.isfinite(values))[0].tolist()
        raise InputError(f"{where}: NaN or infinity at image, channel, row, column {place}.")
    if low < 0 or high > divisor:
        offer = "Pass scale=255" if not whole and low >= 0 and 1 < high <= 255 else "Pass scale"
        raise InputError(
            f"{where}: images go from 0 to {divisor:g}, got numbers from {low:g} to {high:g}. "
            f"{offer} to divide by it, or shift and rescale them to [0, 1] first."
        )
    if whole and divisor == 255.0:
        return values.astype(np.uint8, copy=False)
    return values if divisor == 1.0 and not whole else np.divide(values, divisor, dtype=np.float32)


def checked_labels(labels: NDArray[Any] | None, rows: int, where: str) -> NDArray[np.int64] | None:
    """Refuse labels that do not belong to the images."""
    if labels is None:
        return None
    if labels.shape != (rows,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"{where}: labels must be {rows} whole numbers, one per image, got {labels.dtype} of "
            f"shape {labels.shape}."
        )
    if labels.min() < 0 or labels.max() > np.iinfo(np.int64).max:
        raise InputError(
            f"{where}: labels go from {labels.min()} to {labels.max()}; they start at 0."
        )
    return labels.astype(np.int64)
