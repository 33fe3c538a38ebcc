"""Which rows are inside beyond doubt: one small product in single precision.

Most rows that a model meets are like its data, and inside of the covered set the guard does
nothing. Whether ``|u - c_k|^2 < rho_k^2`` for some ball needs no root and no search; rows for which
it holds by more than single precision can be wrong need nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from farfield.guard.cover import Cover
from farfield.guard.whitening import Whitening


class Shortcut(nn.Module):
    """Tells rows that are surely inside, ``(rows,)`` bool.

    Args:
        metric: Whitened units.
        cover: The balls.
    """

    mean: Tensor
    matrix: Tensor
    product: Tensor
    powers: Tensor

    def __init__(self, metric: Whitening, cover: Cover) -> None:
        super().__init__()
        centres = cover.prototypes
        columns = centres.shape[1]
        # (u, |u|^2) times this, plus the powers, is |u - c|^2 - rho^2, with its error on top.
        error = 32 * (columns + 16) * 2.0**-24 * metric.condition()
        product = torch.cat([-2.0 * centres.T, torch.full((1, len(centres)), 1.0 + error)])
        squares = centres.square().sum(dim=1)
        powers = squares - cover.radii.square() + error * (squares + cover.radii.square())
        for name, value in {
            "mean": metric.mean,
            "matrix": metric.turned(),
            "product": product,
            "powers": powers,
        }.items():
            self.register_buffer(name, value.float(), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Look at ``(rows, columns)`` float32."""
        centred = rows - self.mean
        units = centred @ self.matrix if self.matrix.ndim == 2 else centred * self.matrix
        units = torch.cat([units, units.square().sum(dim=1, keepdim=True)], dim=1)
        inside: Tensor = torch.addmm(self.powers, units, self.product).amin(dim=1) < 0.0
        return inside
