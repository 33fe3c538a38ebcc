"""Open whatever a user calls data: a table or images, a file or arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from farfield.data.choices import TableOptions
from farfield.data.image_source import ImageSource, open_images
from farfield.data.images import holds_images
from farfield.data.source import Expected, Source
from farfield.data.table import TableSource, open_table


def open_data(
    data: Any,
    labels: Any = None,
    *,
    features: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    delimiter: str | None = None,
    like: Source | None = None,
    expected: Expected | None = None,
    random_state: int = 0,
    **options: Unpack[TableOptions],
) -> Source:
    """Open data as a source of rows.

    Args:
        data: A path, an array, a DataFrame, or a source that is open already.
        labels: Labels apart from the data: an array, or for images a path.
        features: Names of columns, for arrays.
        class_names: Names of classes, for arrays.
        delimiter: What separates the columns of a CSV file; told from its content if ``None``.
        like: A source whose encoding to follow.
        expected: What the model takes, if it is known.
        random_state: Seed of samples.
        **options: How a table is read: see `farfield.data.choices.TableOptions`.
    """
    if isinstance(data, Source):
        return data
    is_path = isinstance(data, (str, os.PathLike))
    if _is_wide(data, like):
        shape: tuple[int, ...] = () if is_path else tuple(data.shape)
        # Arrays come as the model takes them, channels first, wherever that can be.
        channels: Any = "first" if len(shape) == 4 and shape[1] in (1, 3, 4) else None
        followed = like if isinstance(like, ImageSource) else None
        return open_images(
            data, labels, channels=channels, like=followed, random_state=random_state
        )
    return open_table(
        data,
        labels,
        features=None if is_path else features,
        class_names=None if is_path else class_names,
        delimiter=delimiter,
        like=like if isinstance(like, TableSource) else None,
        expected=expected,
        random_state=random_state,
        **options,
    )


def _is_wide(data: Any, like: Source | None) -> bool:
    """Whether rows have more than one dimension."""
    if like is not None:
        return like.is_image
    if not isinstance(data, (str, os.PathLike)):
        return len(getattr(data, "shape", ())) > 2
    return holds_images(data)
