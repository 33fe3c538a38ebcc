"""Radial basis function networks, and how far their confidence reaches.

Hein, Andriushchenko and Bitterwolf 2019, Theorem 3.2: with
``f_k(x) = sum_l alpha_kl exp(-gamma |x - c_l|^2)``, ``r`` the distance to the nearest centre and
``A = max_{r,k} sum_l |alpha_rl - alpha_kl|``, every class probability lies within ``eps`` of
``1 / K`` if ``r^2 >= log(A / log(1 + K eps)) / gamma``.
"""

import math

import torch
from torch import Tensor, nn

from farfield.errors import InputError

# In units of the scale; its square is still a number in single precision.
FARTHEST = 1e18


class RBFNetwork(nn.Module):
    """Logits ``sum_l alpha_kl exp(-gamma |(x - c_l) / scale|^2)``.

    Args:
        centres: ``(centres, features)``.
        scale: ``(features,)``, the unit of distance along each feature.
        gamma: Sharpness of the bumps.
        weight: ``(classes, centres)``, the ``alpha``.

    Example:
        >>> weight = torch.tensor([[1.0], [-1.0]])
        >>> network = RBFNetwork(torch.zeros(1, 2), torch.ones(2), 1.0, weight)
        >>> network(torch.tensor([[0.0, 0.0], [1e30, 0.0]])).tolist()
        [[1.0, -1.0], [0.0, -0.0]]
    """

    centres: Tensor
    scale: Tensor
    gamma: Tensor

    def __init__(self, centres: Tensor, scale: Tensor, gamma: float, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("centres", centres)
        self.register_buffer("scale", scale)
        self.register_buffer("gamma", torch.as_tensor(gamma, dtype=centres.dtype))
        self.weight = nn.Parameter(weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map ``(rows, features)`` to ``(rows, classes)``."""
        # Differences, not products of matrices: expanding the square gives inf - inf far away.
        apart = torch.cdist(
            inputs / self.scale,
            self.centres / self.scale,
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        # Nothing is left of a bump at this distance; a square that overflows has no gradient.
        squares = apart.clamp(max=FARTHEST).square()
        return (-self.gamma * squares).exp() @ self.weight.T

    def certificate_radius(self, eps: float) -> float:
        """Return the distance to all centres beyond which no class is eps away from ``1 / K``.

        Distances are Euclidean in the units of the inputs. With unequal scales the largest one
        makes the bound hold in every direction.
        """
        classes = self.weight.shape[0]
        if not 0 < eps < 1:
            raise InputError(f"eps must be in (0, 1), got {eps!r}")
        weight = self.weight.detach().double()
        apart = (weight.unsqueeze(0) - weight.unsqueeze(1)).abs().sum(-1)
        largest = float(apart.max())
        needed = largest / math.log1p(classes * eps)
        if needed <= 1:
            return 0.0
        return math.sqrt(math.log(needed) / float(self.gamma)) * float(self.scale.max())
