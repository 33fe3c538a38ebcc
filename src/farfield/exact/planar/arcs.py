"""Cut the circle of directions into arcs on which a network behaves alike at infinity, exactly.

Seen from infinitely far away, a network of two inputs is its bias-free self: homogeneous, and
linear on finitely many cones. A unit changes piece across the direction in which its slope is
zero, so every value is ``slope_a * a + slope_b * b + constant`` on a cone, and decisions are those
of germs: the slope in the cone's directions decides, and where that is zero on the whole cone, the
constant does.

Inside an arc nothing depends on the origin of the rays. If two logits grow alike in all directions
of an arc, their slopes agree as vectors, because an arc holds two independent directions; then the
origin adds the same number to both. (In a slice of more than two inputs that no longer holds, and
the origin counts.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError, UnsupportedOperation
from farfield.exact.jets import Jet
from farfield.exact.piecewise import free_rows, output_classes, require_piecewise_affine
from farfield.exact.planar.arc_domain import ArcDomain
from farfield.exact.planar.plane import one_row, require_plane, to_double
from farfield.exact.sides import approached_jump
from farfield.graph.network import Network
from farfield.graph.program import walk
from farfield.levels import BLIND

# Angles closer than this are the same cut.
SAME_ANGLE = 2.0**-40


@dataclass(frozen=True)
class BlindArcs:
    """The circle of directions, cut into arcs on which every instance has one limit.

    Attributes:
        threshold: The confidence from which a direction counts as blind.
        start: ``(arcs,)`` the angle at which each arc starts, counter-clockwise, in [0, 2 pi).
        width: ``(arcs,)`` its length in radians; all together 2 pi.
        probabilities: ``(instances, arcs, classes)`` at infinity, inside each arc.
        proven: ``(instances, arcs)`` whether the limit is proven for all of an arc, but for seams
            of a millionth around directions in which a unit switches; ``None`` if not asked for.
    """

    threshold: float
    start: Tensor
    width: Tensor
    probabilities: Tensor
    proven: Tensor | None = None

    @property
    def winner(self) -> Tensor:
        """``(instances, arcs)`` the class that each instance ends up with."""
        return self.probabilities.argmax(dim=-1)

    @property
    def confidence(self) -> Tensor:
        """``(arcs,)`` largest probability of the mean over instances."""
        return self.probabilities.mean(dim=0).amax(dim=-1)

    @property
    def label(self) -> Tensor:
        """``(arcs,)`` the most probable class of the mean over instances."""
        return self.probabilities.mean(dim=0).argmax(dim=-1)

    @property
    def blind(self) -> Tensor:
        """``(arcs,)`` whether the confidence at infinity is at least the threshold."""
        return self.confidence >= self.threshold

    @property
    def share(self) -> float:
        """The exact share of directions that are blind."""
        return float(self.width[self.blind].sum() / self.width.sum())

    @property
    def instance_share(self) -> Tensor:
        """``(instances,)`` the same for each instance alone."""
        blind = self.probabilities.amax(dim=-1) >= self.threshold
        return (blind * self.width).sum(dim=-1) / self.width.sum()

    def __len__(self) -> int:
        return len(self.start)


def blind_arcs(
    network: Network,
    threshold: float = BLIND,
    *,
    origin: Any = None,
    u: Any = None,
    v: Any = None,
    certify: bool = False,
) -> BlindArcs:
    """Cut the circle of directions exactly by what the network says at infinity.

    Directions are ``a u + b v`` with ``(a, b)`` on the unit circle; shares are shares of its
    circumference.

    Args:
        network: From :func:`farfield.capture`; two inputs, unless ``u`` and ``v`` are given.
        threshold: The confidence from which a direction counts as blind.
        origin: ``(*input,)`` where the rays start, zero if not given. It makes no difference for
            two inputs.
        u: ``(*input,)`` the direction at angle 0; the first input if not given.
        v: ``(*input,)`` the direction at angle pi / 2; the second input if not given.
        certify: Prove the limits on all arcs, or say on which they are not proven:
            ``arcs.proven``. Needs a float64 network, piecewise affine and without jumps.

    Returns:
        The arcs, the limits of every instance on them, and the exact blind share.

    Raises:
        InputError: For another number of inputs, or a threshold outside (0, 1].
        UnsupportedOperation: If a jump stands behind a function that only approaches its limits.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 2))
    >>> arcs = blind_arcs(network)
    >>> arcs.share, arcs.confidence.sort().values.tolist()
    (0.75, [0.5, 1.0, 1.0])
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must lie in (0, 1], got {threshold}")
    frame = _frame(network, origin, u, v)
    if certify:
        from farfield.exact.ray.proof import (
            check_provable,  # rational arithmetic takes a while to load
        )

        require_piecewise_affine(network, "a proof of arcs")
        check_provable(network, clipped=False)
    proofs: dict[int, Tensor] = {}
    angles: dict[int, Tensor] = {}
    limits: dict[int, Tensor] = {}
    with torch.no_grad():
        for group in network.groups:
            program = free_rows(group.program)
            jump = approached_jump(program, group.instance(0))
            if jump is not None:
                raise UnsupportedOperation(
                    f"blind_arcs does not follow a jump behind smooth functions: {jump.operation} "
                    f"in {jump.source}. Use at_infinity, which tells from which side it is met."
                )
            for index, member in enumerate(group.members):
                weights = {name: to_double(each) for name, each in group.instance(index).items()}
                domain = ArcDomain()
                out = walk(program, domain, domain.spread(frame), weights)
                angles[member], limits[member] = _limits(network, domain, out)
                if certify:
                    from farfield.exact.planar.proof import proven_arcs

                    arcs = (angles[member], _widths(angles[member]), limits[member])
                    proofs[member] = proven_arcs(network, program, weights, frame, *arcs)
    return _merge(threshold, angles, limits, proofs)


def _frame(network: Network, origin: Any, u: Any, v: Any) -> Tensor:
    """Check the slice of directions: ``(3, *input)`` with u, v and the origin."""
    if (u is None) != (v is None):
        raise InputError("give both u and v, or neither")
    inputs = math.prod(network.input_shape)
    if u is None and inputs != 2:
        raise InputError(
            f"the network has {inputs} inputs, whose directions form no circle; give two "
            "directions u and v that span a plane"
        )
    axes = torch.eye(2, dtype=torch.float64)
    rows = [
        one_row(network, axes[0].reshape(network.input_shape) if u is None else u, "u"),
        one_row(network, axes[1].reshape(network.input_shape) if v is None else v, "v"),
    ]
    require_plane(*rows)
    start = torch.zeros_like(rows[0]) if origin is None else one_row(network, origin, "origin")
    return torch.cat([*rows, start])


def _limits(network: Network, domain: ArcDomain, out: Jet) -> tuple[Tensor, Tensor]:
    """Angles at which arcs of one limit start, and the probabilities on them."""
    if network.link == "identity":
        return _angles(domain), output_classes(network, domain.current(out))[2]

    def logits() -> Tensor:
        """Candidates ``(classes, 3, arcs, 1)`` for the largest."""
        return network.as_classes(domain.current(out)).movedim(-1, 0)[..., None]

    domain.follow(domain.divide_by_largest(logits()))
    classes = logits()
    best = classes.gather(0, domain.winner(classes).expand(1, 3, -1, -1))
    leading = (classes[:, :2] == best[:, :2]).all(dim=1)
    relative = (classes[:, 2] - best[:, 2]).masked_fill(~leading, -torch.inf)
    return _angles(domain), torch.softmax(relative[..., 0], dim=0).T


def _angles(domain: ArcDomain) -> Tensor:
    """Where arcs start, in [0, 2 pi)."""
    return torch.atan2(domain.start[:, 1], domain.start[:, 0]).remainder(2 * torch.pi)


def _merge(
    threshold: float,
    angles: dict[int, Tensor],
    limits: dict[int, Tensor],
    proofs: dict[int, Tensor],
) -> BlindArcs:
    """Cut the circle wherever some instance's limit changes, and nowhere else."""
    start = torch.cat(list(angles.values())).sort().values
    fresh = torch.ones(len(start), dtype=torch.bool)
    fresh[1:] = start.diff() > SAME_ANGLE
    start = start[fresh]
    middle = start + _widths(start) / 2
    members = sorted(limits)
    at = [torch.searchsorted(angles[each], middle, right=True) - 1 for each in members]
    probabilities = torch.stack([limits[each][i] for each, i in zip(members, at, strict=True)])
    changes = (probabilities != probabilities.roll(1, dims=1)).any(dim=-1).any(dim=0)
    if not bool(changes.any()):
        changes[0] = True
    start, probabilities = start[changes], probabilities[:, changes]
    proven = None
    if proofs:
        known = torch.stack([proofs[each][i] for each, i in zip(members, at, strict=True)])
        arc = (changes.cumsum(0) - 1) % len(start)
        open_ = torch.zeros(len(members), len(start), dtype=torch.int64)
        proven = open_.index_add(1, arc, (~known).long()) == 0
    return BlindArcs(threshold, start, _widths(start), probabilities, proven)


def _widths(start: Tensor) -> Tensor:
    """From each angle to the next, around the circle."""
    return torch.cat([start, start[:1] + 2 * torch.pi]).diff()
