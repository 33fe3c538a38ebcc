"""How often the assumptions of the limit theorems hold in the region that a ray ends in.

*Know Your Limits* (Ulmer and Cinà) proves its limits for rays whose last region has a Jacobian V

* without zero entries: then the logits are component-wise strictly monotonic there (Definition 3,
  Lemma 1), and the prediction's gradient vanishes (Proposition 1);
* with no duplicates, moreover, in the column of the feature that is scaled: then one class takes
  all the probability (Proposition 2). Along any other direction, that column is ``V @ direction``.

For several instances the first must hold for each of them (Lemma 4, Theorem 1). The far field
itself needs none of this; these are statements about the theorems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.local.jacobian import far_jacobian
from farfield.exact.walking import check_rays
from farfield.graph.network import Network

# How many entries of V are looked at together.
BLOCK = 1 << 23


@dataclass(frozen=True)
class Assumptions:
    """Which rays satisfy the theorems' assumptions, and what breaks them elsewhere.

    Attributes:
        zero_count: ``(instances, rays)`` how many entries of V are zero.
        duplicate_count: ``(instances, rays)`` how many pairs of classes grow equally fast.
        zeros: ``(n, 4)`` the zero entries: instance, ray, class, input.
        duplicates: ``(n, 4)`` the pairs of classes: instance, ray, class, other class.
    """

    zero_count: Tensor
    duplicate_count: Tensor
    zeros: Tensor
    duplicates: Tensor

    @property
    def lemma_1(self) -> Tensor:
        """``(instances, rays)``: no zero entry, so strictly monotonic in every component."""
        return self.zero_count == 0

    @property
    def proposition_2(self) -> Tensor:
        """``(instances, rays)``: no zero entry, and no duplicates in the scaled column."""
        return self.lemma_1 & (self.duplicate_count == 0)

    @property
    def theorem_1(self) -> Tensor:
        """``(rays,)``: no zero entry in the V of any instance."""
        return self.lemma_1.all(dim=0)

    @property
    def share_with_zeros(self) -> float:
        """Share of rays on which the V of some instance has a zero entry."""
        return float((~self.theorem_1).double().mean())

    @property
    def share_with_duplicates(self) -> float:
        """Share of rays on which some instance has duplicates in the scaled column."""
        return float((self.duplicate_count > 0).any(dim=0).double().mean())


def check_assumptions(
    network: Network,
    origin: Any,
    direction: Any,
    *,
    tolerance: float = 0.0,
    entries: int = 100_000,
) -> Assumptions:
    """Check the assumptions of Lemma 1 and Proposition 2 in the region that each ray ends in.

    A model with a single logit ``f`` counts as ``(0, f)`` for duplicates; its constant zero logit
    is not counted among the zero entries.

    Args:
        network: From :func:`farfield.capture`, piecewise affine.
        origin: ``(rays, *input)`` or one row for all rays.
        direction: ``(rays, *input)`` or one row for all rays; not zero.
        tolerance: An entry, or a difference, counts as zero if it is at most this share of the
            largest entry of its V (or of its column). 0 counts exact zeros alone.
        entries: How many offending entries to list at most; counts are always complete.

    Returns:
        Counts for every instance and ray, and the entries themselves.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.ones_(layer.weight), nn.init.zeros_(layer.bias)
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 2))
    >>> found = check_assumptions(network, [0.0, 0.0], [[1.0, 0.0], [-1.0, 0.0]])
    >>> found.lemma_1.tolist(), found.proposition_2.tolist(), found.share_with_zeros
    ([[True, False]], [[False, False]], 0.5)
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"tolerance must lie in [0, 1), got {tolerance}")
    starts, ways = check_rays(network, origin, direction)
    count = max(len(starts), len(ways))
    shape = (count, *network.input_shape)
    origins, directions = starts.expand(shape), ways.expand(shape)
    per_ray = network.instances * network.classes * directions[0].numel()
    size = max(1, BLOCK // per_ray)
    zeros, duplicates = [], []
    for start in range(0, count, size):
        part = slice(start, start + size)
        V = far_jacobian(network, origins[part], directions[part])
        column = (V * directions[part].flatten(1)[None, :, None]).sum(dim=-1)
        first = 1 if network.one_logit else 0
        zeros.append(_entries(_zeros(V[:, :, first:], tolerance), start, first))
        duplicates.append(_entries(_duplicates(column, tolerance), start, 0))
    return Assumptions(
        zero_count=torch.cat([counts for counts, _ in zeros], dim=1),
        duplicate_count=torch.cat([counts for counts, _ in duplicates], dim=1),
        zeros=torch.cat([places for _, places in zeros])[:entries],
        duplicates=torch.cat([places for _, places in duplicates])[:entries],
    )


def _entries(found: Tensor, ray: int, first: int) -> tuple[Tensor, Tensor]:
    """How many there are for each instance and ray, and where they are."""
    shift = torch.tensor([0, ray, first, 0], device=found.device)
    return found.sum(dim=(-2, -1)), torch.nonzero(found) + shift


def _zeros(V: Tensor, tolerance: float) -> Tensor:
    return V.abs() <= tolerance * V.abs().amax(dim=(-2, -1), keepdim=True)


def _duplicates(column: Tensor, tolerance: float) -> Tensor:
    """``(instances, rays, classes, classes)``, each pair once: the smaller class first."""
    limit = tolerance * column.abs().amax(dim=-1)[..., None, None]
    same = (column[..., :, None] - column[..., None, :]).abs() <= limit
    return torch.triu(same, diagonal=1)
