"""Radial basis function networks: bumps that vanish far away, so that every class gets 1/K.

They are known by what they hold, since their class lives beside this package and not below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.graph.reading import Reading, Writer
from farfield.graph.rules import RowFunction

# In units of the scale: nothing is left of a bump there, and the square is still a number.
FARTHEST = 1e18


class RadialSums(RowFunction):
    """``weight @ exp(-gamma |(x - centre) / scale|^2) + bias``: the bias alone, far away.

    Args:
        centres: ``(centres, columns)``.
        gamma: More than zero.
        weight: ``(outputs, centres)``.
        bias: ``(outputs,)``.
        scale: ``(columns,)`` the unit of distance along each column.
    """

    continuous = True
    by_order = True

    def __init__(
        self, centres: Any, gamma: float, weight: Any, bias: Any, scale: Any = 1.0
    ) -> None:
        self.centres, self.weight, self.bias, self.scale = (
            torch.from_numpy(np.array(each, dtype=np.float64))
            for each in (centres, weight, bias, scale)
        )
        self.gamma = float(gamma)

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        apart = torch.cdist(
            rows.double() / self.scale,
            self.centres / self.scale,
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        kernel = torch.exp(-self.gamma * apart.clamp(max=FARTHEST).square())
        return (kernel @ self.weight.T + self.bias).to(rows.dtype)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Every kernel vanishes as soon as one column moves."""
        return self.bias.to(slope).expand(len(slope), -1)


def is_radial(module: Any) -> bool:
    """Whether a module is a radial basis function network of farfield."""
    return (
        type(module).__name__ == "RBFNetwork"
        and type(module).__module__.split(".")[0] == "farfield"
    )


def read_radial(module: Any) -> Reading:
    """Read a radial basis function network: its logits, as they are."""
    weight = module.weight.detach().cpu().numpy()
    centres, scale = (each.detach().cpu().numpy() for each in (module.centres, module.scale))
    sums = RadialSums(centres, float(module.gamma), weight, np.zeros(len(weight)), scale)
    writer = Writer(centres.shape[1])
    return Reading(writer.program(writer.apply(writer.input, sums, len(weight))), writer.constants)
