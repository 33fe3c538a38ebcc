"""Images as data to audit, with the interface of tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from farfield.data.images import Channels, Images, as_images, checked_labels, read_images
from farfield.data.labels import Label, fitted_label
from farfield.data.scan import batch_rows
from farfield.data.source import Expected, Rows, Source, as_type
from farfield.data.stream import as_array
from farfield.data.summary import Moments, Summary
from farfield.errors import InputError
from farfield.exact.ray.box import Box


@final
class ImageSource(Source):
    """Images from 0 to 1; made by `open_images`.

    They are kept as the file has them, mostly bytes, and turned into numbers as they are read.
    """

    def __init__(
        self,
        pixels: Images,
        label: Label | None,
        summary: Summary,
        notes: tuple[str, ...] = (),
        random_state: int = 0,
    ) -> None:
        self._pixels, self._label = pixels, label
        self.columns, self.summary, self.notes = (), summary, notes
        self.where, self.random_state = pixels.where, random_state
        self.shape = tuple(pixels.values.shape[1:])

    def chunks(
        self, size: int | None = None, dtype: DTypeLike = np.float32
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Yield images ``(rows, channels, height, width)`` and labels ``(rows,)`` or None."""
        rows = self._chunk_rows(size)
        for start in range(0, self.n_rows, rows):
            here = slice(start, start + rows)
            labels = None if self._pixels.labels is None else self._pixels.labels[here]
            yield as_type(self._pixels.scaled(here), dtype, self.where), labels

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Return the images at these places, as float32."""
        labels = None if self._pixels.labels is None else self._pixels.labels[index]
        return Rows(self._pixels.scaled(index), labels, index)

    def box(self) -> Box:
        """Return the cube of all images, every pixel from 0 to 1."""
        return Box(0.0, 1.0)

    def fitted(self, expected: Expected) -> ImageSource:
        """Return the images if they have the size that a model takes.

        Labels are indices of the model's outputs; they are compared, not renumbered.
        """
        if int(np.prod(self.shape)) != expected.features:
            raise InputError(
                f"{self.where}: the model takes {expected.features} numbers; images of shape "
                f"{self.shape} have {int(np.prod(self.shape))}. For gray images of 28 x 28 use "
                "to_gray_28."
            )
        classes = expected.classes if expected.labels is None else len(expected.labels)
        label, notes = fitted_label(self._label, classes, None, self.where)
        notes = (*self.notes, *notes)
        return ImageSource(self._pixels, label, self.summary, notes, self.random_state)


def open_images(
    data: Any,
    labels: Any = None,
    *,
    scale: float | None = None,
    channels: Channels | None = None,
    class_names: Sequence[str] | None = None,
    like: ImageSource | None = None,
    random_state: int = 0,
    where: str = "images",
) -> ImageSource:
    """Open images as data to audit.

    Args:
        data: A file (IDX, CIFAR, .npz, .npy: see `farfield.data.read_images`), or an array
            ``(n, h, w)``, ``(n, h, w, channels)`` or ``(n, channels, h, w)``.
        labels: A file or an array of whole numbers from 0, or None for those of the file, if any.
        scale: What numbers are divided by. Default: 255 for whole numbers, 1 for others.
        channels: Whether colours come ``"first"`` or ``"last"``; default: seen from the shape.
        class_names: In the order of the labels.
        like: Earlier images: these must have their shape, and labels are left out unless given.
        random_state: Seed of samples.
        where: What to call an array in messages and reports.

    Raises:
        InputError: Anything that cannot be used.

    >>> images = open_images(np.full((5, 8, 8), 255, np.uint8), np.arange(5) % 2)
    >>> images.shape, images.n_rows, images.class_names, images.summary.mean.max().item()
    ((1, 8, 8), 5, ('0', '1'), 1.0)
    """
    if isinstance(data, str | os.PathLike):
        path = labels if isinstance(labels, str | os.PathLike) else None
        pixels = read_images(data, path, scale=scale, channels=channels)
    else:
        pixels = as_images(as_array(data, where), scale=scale, channels=channels, where=where)
    if labels is not None and not isinstance(labels, str | os.PathLike):
        given = checked_labels(as_array(labels, "labels"), len(pixels), pixels.where)
        pixels = replace(pixels, labels=given)
    if like is not None:
        _check_shape(pixels, like)
        pixels = pixels if labels is not None else replace(pixels, labels=None)
    names = tuple(str(name) for name in class_names) if class_names else pixels.class_names
    label = None if pixels.labels is None else _label(pixels.labels, names, pixels.where)
    return ImageSource(pixels, label, _summary(pixels), (), random_state)


def _check_shape(pixels: Images, like: ImageSource) -> None:
    """Refuse images of another shape than earlier ones."""
    shape = pixels.values.shape[1:]
    if shape != like.shape:
        raise InputError(
            f"{pixels.where}: images of shape {shape}; those of {like.where} have {like.shape}. "
            "Colour images become gray ones of 28 x 28 with farfield.data.to_gray_28."
        )


def _label(labels: NDArray[np.int64], names: tuple[str, ...] | None, where: str) -> Label:
    """Describe labels, which are indices."""
    if labels.max() >= 100_000:
        raise InputError(f"{where}: labels up to {labels.max()} are no class indices.")
    counts = np.bincount(labels, minlength=len(names) if names else 0)
    words = tuple(str(k) for k in range(len(counts)))
    if names is not None and len(names) != len(counts):
        raise InputError(
            f"{where}: labels go up to {labels.max()}, but {len(names)} classes have names."
        )
    return Label("labels", "class", words, names or words, tuple(counts.tolist()))


def _summary(pixels: Images) -> Summary:
    """Go through all images once."""
    shape = pixels.values.shape
    moments = Moments(int(np.prod(shape[1:])))
    rows = batch_rows(moments.mean.size)
    for start in range(0, shape[0], rows):
        part = pixels.scaled(slice(start, start + rows)).astype(np.float64)
        moments.add(part.reshape(len(part), -1).T)
    mean, std = moments.mean, np.sqrt(moments.variance())
    parts = (part.reshape(shape[1:]) for part in (mean, std, moments.low, moments.high))
    return Summary(shape[0], *parts)
