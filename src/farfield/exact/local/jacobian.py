"""The Jacobian of the region that a ray ends in, by reverse mode with frozen decisions.

Far out on a ray every decision of a piecewise-affine network is that of germs, so no large number
is needed: the walk carries slope and intercept, and the intercept is ``V origin + a`` with the V of
the last region. One backward pass for each logit gives its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.jets import Jet, JetDomain
from farfield.exact.piecewise import output_logits, require_piecewise_affine
from farfield.exact.walking import check_rays
from farfield.graph.network import Network
from farfield.graph.program import Program, walk

# How many numbers a walk in reverse mode may keep: it keeps every value on the way.
KEPT_ELEMENTS = 1 << 23


class FarDomain(JetDomain):
    """The walk at infinity: jets end in slope and intercept along the ray."""

    def representative(self, parts: Tensor) -> Tensor:
        """Infinite where the slope decides, else the intercept, which breaks the tie."""
        slope, intercept = parts[-2].detach(), parts[-1].detach()
        return torch.where(slope == 0, intercept, torch.sign(slope) * torch.inf)

    def winner(self, candidates: Tensor) -> Tensor:
        """The lexicographically largest, the first of equals."""
        slope, intercept = candidates[:, -2].detach(), candidates[:, -1].detach()
        behind = slope < slope.amax(dim=0)
        return intercept.masked_fill(behind, -torch.inf).argmax(dim=0)


def jacobian(network: Network, out: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives ``(points, classes, inputs)`` of logits by their points, and the logits.

    Raises:
        UnsupportedOperation: If the outputs are probabilities, and not at rest.
    """
    logits = output_logits(network, out[None])[0]
    V = point.new_zeros(*logits.shape, math.prod(point.shape[1:]))
    first = 1 if network.one_logit else 0
    for index in range(first, logits.shape[1]):
        if not logits.requires_grad:
            break
        (gradient,) = torch.autograd.grad(
            logits[:, index].sum(), point, retain_graph=True, materialize_grads=True
        )
        V[:, index] = gradient.reshape(len(point), -1)
    return V, logits.detach()


def reverse_chunks(program: Program, rows: int, numbers: int = 1) -> Iterator[slice]:
    """Cut rows of jets so that what reverse mode keeps stays bounded."""
    per_row = program.width * max(1, len(program.steps)) * numbers
    size = max(1, KEPT_ELEMENTS // per_row)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def far_jacobian(network: Network, origin: Any, direction: Any) -> Tensor:
    """Compute V of the region that each ray ``origin + t * direction`` ends in.

    Beyond the last breakpoint logits are ``V z + a``; ``V @ direction`` is their slope. A ray that
    ends *on* a facet belongs to the lower piece of that unit.

    Args:
        network: From :func:`farfield.capture`, piecewise affine.
        origin: ``(rays, *input)`` or one row for all rays.
        direction: ``(rays, *input)`` or one row for all rays; not zero.

    Returns:
        ``(instances, rays, classes, inputs)``, inputs in one dimension. Of a model with a single
        logit, the first class has zeros.

    Raises:
        InputError: For shapes that do not fit, NaN, infinity, or a zero direction.
        UnsupportedOperation: Listing the network's smooth operations, if it has any.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 2))
    >>> far_jacobian(network, [9.0, 9.0], [1.0, -1.0])[0, 0].tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    require_piecewise_affine(network, "the Jacobian at infinity")
    starts, ways = check_rays(network, origin, direction)
    shape = (max(len(starts), len(ways)), *network.input_shape)
    origins, directions = starts.expand(shape), ways.expand(shape)
    V = origins.new_zeros(
        network.instances, len(origins), network.classes, math.prod(network.input_shape)
    )
    for group in network.groups:
        for index, member in enumerate(group.members):
            constants = group.instance(index)
            for part in reverse_chunks(group.program, len(origins), numbers=2):
                point = origins[part].clone().requires_grad_()
                domain = FarDomain(2, len(point), origins)
                with torch.enable_grad():
                    start = Jet(torch.cat([directions[part], point]))
                    out = domain.current(walk(group.program, domain, start, constants))
                V[member, part], _ = jacobian(network, out[-1], point)
    if not bool(torch.isfinite(V).all()):
        raise NumericalOverflow(
            f"a derivative left the range of {V.dtype}; bring weights to a moderate scale"
        )
    return V
