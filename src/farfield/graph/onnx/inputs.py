"""What an ONNX model takes: one array of rows, or the columns of a table one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.onnx.files import ModelFile
from farfield.graph.onnx.heads import FLOATS, Graph
from farfield.graph.onnx.trace import MOST_ELEMENTS

if TYPE_CHECKING:
    from onnx import ValueInfoProto

INTEGERS, DOUBLE = (2, 3, 4, 5, 6, 7, 12, 13), 11


@dataclass(frozen=True)
class Inputs:
    """The inputs of a file, put side by side.

    Attributes:
        shape: The shape of one row.
        widths: How many columns each named input takes; one entry with the whole row if there is
            a single input.
        rows: The batch size that the file fixes, 0 if it is free.
        notes: What is read otherwise than it is written.
        double: The names of inputs in double precision; others are rounded to single.
    """

    shape: tuple[int, ...]
    widths: dict[str, int]
    rows: int
    notes: tuple[str, ...]
    double: frozenset[str] = frozenset()


def read_inputs(graph: Graph, example_shape: tuple[int, ...] | None) -> Inputs:
    """Read what a file says about its inputs.

    Args:
        graph: The file's graph.
        example_shape: The shape of one row, for files that leave it open.

    Raises:
        CaptureError: If the file does not say what a row is.
    """
    file = graph.file
    values = [item for item in file.model.graph.input if item.name not in graph.initializers]
    if not values:
        raise CaptureError(f"{file.path} has no input; a model takes rows")
    notes = [note for item in values for note in _element_notes(item, file)]
    double = frozenset(i.name for i in values if i.type.tensor_type.elem_type == DOUBLE)
    shapes = [_dims(item) for item in values]
    rows = (shapes[0][0] if shapes[0] else None) or 0
    if rows:
        notes.append(f"the file fixes the batch at {rows} rows; it is read with any number")
    if len(values) == 1:
        shape = _row_shape(values[0].name, shapes[0], example_shape, file)
        widths = {values[0].name: math.prod(shape)}
        return Inputs(shape, _bounded(widths, file), rows, tuple(notes), double)
    if any(len(shape) != 2 or not shape[1] for shape in shapes):
        raise NotFollowed(
            f"{file.path} takes {len(values)} inputs ({', '.join(i.name for i in values)}); "
            "several inputs are read only as columns of a table, each of shape (rows, width). "
            "Export the model with a single input."
        )
    if len({shape[0] for shape in shapes}) > 1:
        stated = ", ".join(
            f"{item.name} {tuple('rows' if n is None else n for n in shape)}"
            for item, shape in zip(values, shapes, strict=True)
        )
        raise NotFollowed(
            f"{file.path} takes inputs of different numbers of rows ({stated}); those of a fixed "
            "number are probably weights that the exporter left outside. Export the model with a "
            "single input."
        )
    widths = {item.name: shape[1] or 0 for item, shape in zip(values, shapes, strict=True)}
    return Inputs((sum(widths.values()),), _bounded(widths, file), rows, tuple(notes), double)


def _element_notes(item: ValueInfoProto, file: ModelFile) -> list[str]:
    """Refuse inputs that are not numbers; say so where they are whole ones."""
    kind = item.type.WhichOneof("value")
    element = item.type.tensor_type.elem_type if kind == "tensor_type" else 0
    if element in FLOATS:
        return []
    if element in INTEGERS:
        return [f"input {item.name!r} is declared as whole numbers and read as real ones"]
    raise NotFollowed(
        f"input {item.name!r} of {file.path} is not an array of numbers; farfield follows one "
        "array of floating-point rows"
    )


def _bounded(widths: dict[str, int], file: ModelFile) -> dict[str, int]:
    """Refuse rows that no network has."""
    if sum(widths.values()) > MOST_ELEMENTS:
        raise CaptureError(
            f"{file.path} takes rows of {sum(widths.values())} numbers, more than {MOST_ELEMENTS}; "
            "the file is damaged, or the model too large to be followed"
        )
    return widths


def _dims(item: ValueInfoProto) -> tuple[int | None, ...]:
    """The lengths of an input's dimensions, ``None`` where the file leaves them open."""
    dims = item.type.tensor_type.shape.dim
    return tuple(
        int(dim.dim_value) if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0 else None
        for dim in dims
    )


def _row_shape(
    name: str,
    dims: tuple[int | None, ...],
    example_shape: tuple[int, ...] | None,
    file: ModelFile,
) -> tuple[int, ...]:
    """The shape of one row, with open lengths taken from the example."""
    known = tuple(length for length in dims[1:] if length is not None)
    if len(dims) >= 2 and len(known) == len(dims) - 1:
        return known
    stated = tuple("?" if length is None else length for length in dims)
    if example_shape is None:
        raise CaptureError(
            f"input {name!r} of {file.path} has the shape {stated}, which does not say how long "
            "a row is; pass an example, one batch of inputs: capture(path, X[:1])"
        )
    fits = not dims or len(dims) == len(example_shape) + 1
    if not fits or any(a not in (None, b) for a, b in zip(dims[1:], example_shape, strict=False)):
        raise CaptureError(
            f"the example has rows of shape {example_shape}; input {name!r} of {file.path} has "
            f"the shape {stated}"
        )
    return example_shape
