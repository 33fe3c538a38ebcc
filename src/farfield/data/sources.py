"""Open whatever a user calls data: a table or images, a file or arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from farfield.data.guess import Expected
from farfield.data.image_source import ImageSource, open_images
from farfield.data.table import TableSource, from_arrays, open_table
from farfield.datasets.images import holds_images
from farfield.errors import InputError

Source = TableSource | ImageSource


def open_data(
    data: Any,
    labels: Any = None,
    *,
    features: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    label: str | None = None,
    schema: Any = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    impute: Any = None,
    delimiter: str | None = None,
    regression: bool = False,
    like: Source | None = None,
    expected: Expected | None = None,
    random_state: int = 0,
) -> Source:
    """Open data as a source of rows.

    Args:
        data: A path, an array, a DataFrame, or a source that is open already.
        labels: Labels apart from the data, as an array or a path.
        features: Names of columns, for arrays.
        class_names: Names of classes, for arrays.
        label: The column that holds the labels.
        schema: Bounds, units and kinds of the columns.
        categorical: Columns of categories.
        ignore: Columns to leave out.
        impute: How to fill missing values.
        delimiter: What separates the columns of a CSV file; told from its content if ``None``.
        regression: Whether labels are numbers to be predicted.
        like: A source whose encoding to follow.
        expected: What the model takes, if it is known.
        random_state: Seed of samples.
    """
    if isinstance(data, (TableSource, ImageSource)):
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
    options: dict[str, Any] = {
        "label": label,
        "label_kind": "number" if regression else "class",
        "schema": schema,
        "categorical": tuple(categorical),
        "ignore": tuple(ignore),
        "impute": impute,
        "like": like,
        "expected": expected,
        "random_state": random_state,
    }
    if is_path:
        if labels is not None:
            raise InputError(
                "labels in a file of their own go with images; a table holds its labels in a "
                "column: name it with label (--label)"
            )
        return open_table(data, delimiter=delimiter, **options)
    return from_arrays(data, labels, features=features, class_names=class_names, **options)


def _is_wide(data: Any, like: Source | None) -> bool:
    """Whether rows have more than one dimension."""
    if like is not None:
        return like.is_image
    if not isinstance(data, (str, os.PathLike)):
        return len(getattr(data, "shape", ())) > 2
    return holds_images(data)
