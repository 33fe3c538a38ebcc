"""Files that move the rows of a batch, read for a batch of one row.

Attention that puts its heads first, recurrent layers, layers that fold time into the batch: with a
batch of one there is nothing to be moved. What such a file says of two rows at once must be what it
says of each, or else its rows influence one another.
"""

from __future__ import annotations

import os
from dataclasses import replace

import torch
from torch import Tensor, nn

from farfield.errors import CaptureError
from farfield.graph.assemble import mixture
from farfield.graph.network import Network
from farfield.graph.onnx.reader import OnnxReading, read_onnx
from farfield.graph.outcome import agrees
from farfield.graph.program import forward
from farfield.graph.simplify import simplify
from farfield.graph.tracing import INFLUENCE


class _Batch(nn.Module):
    """A file as it stands, for the batch size that it was read for."""

    def __init__(self, reading: OnnxReading, dtype: torch.dtype) -> None:
        super().__init__()
        self.program = reading.program
        self.weights = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in reading.constants.items()
        }

    def forward(self, rows: Tensor) -> Tensor:
        return forward(self.program, rows, self.weights)


def read_row_by_row(
    path: str | os.PathLike[str],
    shape: tuple[int, ...] | None,
    dtype: torch.dtype,
    error: CaptureError,
) -> tuple[OnnxReading, Network]:
    """Read a file one row at a time.

    Args:
        path: The file.
        shape: The shape of one row, for files that leave it open.
        dtype: The floating-point type of the analysis.
        error: Why it cannot be read otherwise; raised if its outcome has no rows.

    Raises:
        CaptureError: If that is not possible either, or rows influence one another.
    """
    reading = read_onnx(path, shape, batch=1)
    made = {step.name: step.shape for step in reading.program.steps}
    if (made.get(reading.program.output) or ())[:1] != (1,):
        raise error
    head, members = simplify(reading.program, reading.constants, 1, per_row=True)
    network = mixture(members, reading.constants, head, dtype)
    if reading.rows != 1:
        rows = torch.zeros(1, *reading.program.input_shape, dtype=dtype)
        both = _Batch(read_onnx(path, shape, batch=2), dtype)
        if not agrees(network, both, rows + 0.5):
            raise CaptureError(INFLUENCE.format(path))
    return replace(reading, program=members[0].program), network
