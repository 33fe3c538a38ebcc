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
    scale: Tensor
    product: Tensor
    powers: Tensor

    def __init__(self, metric: Whitening, cover: Cover) -> None:
        super().__init__()
        centres, radii = cover.prototypes, cover.radii
        self.columns = centres.shape[1]
        self.full = metric.kind == "full"
        # |u|^2 - 2 u c + |c|^2 - rho^2, of which the first is the same for all balls. Errors are
        # relative to |u|^2 + |c|^2 + rho^2, but for the mean's, which moves u by a constant.
        error = 32 * (self.columns + 16) * 2.0**-24 * metric.condition()
        moved = 2 * float(metric.apply(metric.mean.float().double()[None]).norm())
        squares = centres.square().sum(dim=1)
        powers = squares - radii.square() + error * (squares + radii.square()) + 2 * moved * radii
        product = -2.0 * centres.T
        if self.full:
            turned = metric.turned()
            product = torch.cat([turned, turned @ product], dim=1)
            powers = torch.cat([powers.new_zeros(self.columns), powers])
        self.grown = 1.0 + error
        scale = metric.matrix.new_ones(()) if self.full else metric.matrix
        for name, value in {
            "mean": metric.mean,
            "scale": scale,
            "product": product,
            "powers": powers,
        }.items():
            self.register_buffer(name, value.float(), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Look at ``(rows, columns)`` float32."""
        units = rows - self.mean
        if self.full:
            both = torch.addmm(self.powers, units, self.product)
            units, other = both[:, : self.columns], both[:, self.columns :]
        else:
            units = units * self.scale
            other = torch.addmm(self.powers, units, self.product)
        inside: Tensor = other.amin(dim=1) < units.square().sum(dim=1) * -self.grown
        return inside
