"""Evaluate a network at infinity: exact, one pass, no sampling.

The limits of Hein et al. 2019, Theorem 3.1, and of Know Your Limits, Proposition 2 and Theorem 1,
computed without their assumptions; ``docs/theory.md`` has the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from farfield.errors import InputError, NumericalOverflow, UndecidedLimit
from farfield.exact.bounded import BoundedDomain, BoundedGerm, Magnitudes
from farfield.exact.far_field import FarField
from farfield.exact.germ import Germ, GermDomain
from farfield.exact.passes import Passes, seconds_of
from farfield.exact.series.far import series_far_field
from farfield.exact.series.proving import prove
from farfield.exact.series.walk import grows
from farfield.exact.sides import SideDomain, approached_jump
from farfield.exact.walking import check_rays, cut_rows, keep_memory
from farfield.graph.network import InstanceGroup, Network, chunks
from farfield.graph.program import Program, Step, walk
from farfield.graph.rules import RULES


class _Kind(NamedTuple):
    """What is found out once about a program.

    Attributes:
        growing: Whether slopes and intercepts are too little for it.
        sided: Whether a jump may be met at an asymptote, so that sides must be followed.
        settles: Whether all of it comes to rest, decided: nothing only approaches a limit.
    """

    growing: bool
    sided: bool
    settles: bool


_KINDS: WeakKeyDictionary[InstanceGroup, _Kind] = WeakKeyDictionary()
# Operations that are decided for good from some distance on.
_SETTLING = ("copy", "affine", "piecewise affine", "largest")


def at_infinity(
    network: Network,
    origin: Any,
    direction: Any,
    certify: bool = False,
    *,
    budget: float | Passes = 10.0,
    undecided: Literal["raise", "mark"] = "raise",
) -> FarField:
    """Evaluate a network infinitely far out on rays ``origin + t * direction``.

    One pass in germ arithmetic: no sampling, no large numbers, no assumption on the network.

    Args:
        network: From :func:`farfield.capture`.
        origin: ``(rays, *input)`` or one row for all rays.
        direction: ``(rays, *input)`` or one row for all rays; not zero.
        certify: Prove every decision, in floating point with error bounds, then in sums of more
            and more floats, then in exact arithmetic; networks with growth orders have the first
            step alone. What can be proven is told in ``certified``. Needs a float64 network.
        budget: How many seconds to spend at most on what single floats cannot decide, or how
            many forward passes for each ray, :class:`farfield.Passes`; what is not proven by then
            is reported as not certified. Zero: single floats alone.
        undecided: What to do with rays on which several limits are possible: a jump that is
            approached from an unknown side, neighbours that tie for the last place. ``"mark"``
            tells them in ``undecided``; their numbers are one of those possible, or, of
            neighbours, all in equal parts. The other rays have theirs.

    Returns:
        The far field of every instance on every ray.

    Raises:
        InputError: For shapes that do not fit, NaN, infinity, or a zero direction.
        NumericalOverflow: If a slope or intercept leaves the range of the floating-point type.
        UndecidedLimit: If there are such rays, unless they are to be marked.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 2))
    >>> far = at_infinity(network, [5.0, 0.0], [[1.0, 0.0], [-1.0, 2.0], [-1.0, -1.0]])
    >>> far.label.tolist(), far.confidence.tolist(), far.reach.tolist()
    ([0, 1, 0], [1.0, 1.0, 0.5], [[0.0, 5.0, 5.0]])
    """
    origins, directions = check_rays(network, origin, direction)
    if certify and network.dtype != torch.float64:
        raise InputError(
            f"certify=True needs a network captured in float64, this one is {network.dtype}; "
            "capture it again with dtype=torch.float64"
        )
    if undecided not in ("raise", "mark"):
        raise InputError(f"undecided must be 'raise' or 'mark', got {undecided!r}")
    rays = max(origins.shape[0], directions.shape[0])
    seconds = seconds_of(budget, network, rays)
    keep_memory()
    kinds = [_kind(group) for group in network.groups]
    if any(kind.growing for kind in kinds):
        far = _blank(network, rays, certify, (origins, directions))
        far = series_far_field(far, network, undecided)
        return prove(far, network) if certify else far
    with torch.no_grad():
        far = _walked(network, kinds, (origins, directions), certify)
        if certify:
            from farfield.exact.ladder import climb

            climb(network, far, origins, directions, seconds)
        if certify or not all(kind.settles for kind in kinds):
            if undecided == "raise" and bool(far.undecided.any()):
                _raise_undecided(network, far.undecided)
            far.reach.masked_fill_(far.asymptotic, torch.inf)
        if far.reach_bounds is not None and far.certified is not None:
            low, high = far.reach_bounds.masked_fill_(far.asymptotic, torch.inf)
            low.masked_fill_(~far.certified, 0.0)
            high.masked_fill_(~far.certified, torch.inf)
    return far


def _kind(group: InstanceGroup) -> _Kind:
    """What sort of walk a group needs."""
    kind = _KINDS.get(group)
    if kind is None:
        program, jump = group.program, None
        if not (growing := grows(program)):
            jump = approached_jump(program, group.instance(0))
        settles = all(
            step.constant or RULES[step.target].kind in _SETTLING for step in program.steps
        )
        kind = _KINDS[group] = _Kind(growing, jump is not None, settles)
    return kind


def _walked(
    network: Network, kinds: list[_Kind], given: tuple[Tensor, Tensor], certify: bool
) -> FarField:
    """Follow rays through all groups, a chunk at a time."""
    far, rays = None, max(rows.shape[0] for rows in given)
    for group, kind in zip(network.groups, kinds, strict=True):
        magnitudes = Magnitudes(list(group.shared.values())) if certify else None
        for part in chunks(rays, group, factor=2):
            pair = torch.cat([cut_rows(rows, part, rays) for rows in reversed(given)])
            walked = _walk_group(group, pair, magnitudes, kind.sided)
            if len(group.members) == network.instances and part == slice(0, rays) and not certify:
                return _at_once(network, walked, given)
            far = _blank(network, rays, certify, given) if far is None else far
            _store(far, network, group, part, walked)
            far.undecided[group.where, part] = walked.undecided
    assert far is not None, "a network has instances, and there are rays"
    return far


def _at_once(network: Network, walked: _Walked, given: tuple[Tensor, Tensor]) -> FarField:
    """The far field that one chunk of one group is all of."""
    slope, intercept = network.as_classes(walked.slope), network.as_classes(walked.intercept)
    leading, shares = slope.eq(slope.amax(dim=-1, keepdim=True)), None
    if network.link == "identity":
        shares = intercept.clamp(0.0, 1.0)
        intercept, leading = _as_logarithms(slope, shares)
    return FarField(
        slope=slope,
        intercept=intercept,
        # What does not differ from instance to instance comes as one for all.
        reach=walked.reach.contiguous(),
        asymptotic=walked.asymptotic.contiguous(),
        undecided=walked.undecided.contiguous(),
        leading=leading,
        shares=shares,
        rays=(network, *given),
    )


def _blank(network: Network, rays: int, certify: bool, given: tuple[Tensor, Tensor]) -> FarField:
    """Make the arrays that the chunks of a walk are written into."""
    shape = (network.instances, rays, network.classes)

    def numbers(*size: int) -> Tensor:
        return torch.empty(size, dtype=network.dtype, device=network.device)

    def flags(*size: int) -> Tensor:
        return torch.empty(size, dtype=torch.bool, device=network.device)

    return FarField(
        slope=numbers(*shape),
        intercept=numbers(*shape),
        reach=numbers(*shape[:2]),
        asymptotic=flags(*shape[:2]),
        undecided=flags(*shape[:2]),
        leading=flags(*shape),
        certified=flags(*shape[:2]) if certify else None,
        reach_bounds=numbers(2, *shape[:2]) if certify else None,
        relative=numbers(2, *shape) if certify else None,
        shares=numbers(*shape) if network.link == "identity" else None,
        rays=(network, *given),
    )


class _Walked(NamedTuple):
    """One chunk of rays behind every instance of a group; the last four only with bounds."""

    slope: Tensor
    intercept: Tensor
    reach: Tensor
    asymptotic: Tensor
    undecided: Tensor
    sums: Tensor
    certain: Tensor | None = None
    slope_error: Tensor | None = None
    intercept_error: Tensor | None = None
    enclosure: Tensor | None = None


def _store(
    far: FarField, network: Network, group: InstanceGroup, part: slice, walked: _Walked
) -> None:
    """Write one chunk."""
    members = group.where
    slope, intercept = (network.as_classes(each) for each in (walked.slope, walked.intercept))
    leading = slope == slope.amax(dim=-1, keepdim=True)
    outputs = intercept
    if far.shares is not None:
        outputs = outputs.clamp(0.0, 1.0)
        far.shares[members, part] = outputs
        intercept, leading = _as_logarithms(slope, outputs)
    far.slope[members, part], far.intercept[members, part] = slope, intercept
    far.reach[members, part], far.asymptotic[members, part] = walked.reach, walked.asymptotic
    far.leading[members, part] = leading
    if (
        walked.certain is None
        or walked.slope_error is None
        or walked.intercept_error is None
        or walked.enclosure is None
        or far.certified is None
        or far.relative is None
        or far.reach_bounds is None
    ):
        return
    from farfield.exact.certify import winner_proven  # rational arithmetic takes a while to load

    among = intercept.masked_fill(~far.leading[members, part], -torch.inf)
    winner = among.argmax(dim=-1, keepdim=True)
    far.relative[0][members, part] = slope - slope.gather(-1, winner)
    far.relative[1][members, part] = intercept - intercept.gather(-1, winner)
    errors = (network.as_classes(each) for each in (walked.slope_error, walked.intercept_error))
    certain = walked.certain & ~walked.undecided
    far.certified[members, part] = certain & winner_proven(slope, outputs, *errors)
    far.reach_bounds[:, members, part] = walked.enclosure.transpose(0, 1)


def _as_logarithms(slope: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Write probabilities as logits at rest; those that are zero do not lead."""
    if bool((slope != 0).any()):
        raise AssertionError("probabilities cannot grow")
    leading = p > 0
    return torch.log(torch.where(leading, p, 1.0)), leading


def _walk_group(
    group: InstanceGroup, pair: Tensor, magnitudes: Magnitudes | None, sided: bool
) -> _Walked:
    """Follow one chunk of rays through every instance of a group.

    Args:
        group: Instances that share a program.
        pair: ``(2 * rays, *input)``: directions, then origins.
        magnitudes: Given if decisions are to be proven.
        sided: Whether a jump may be met at an asymptote, so that sides must be followed.
    """
    rays = pair.shape[0] // 2

    def plain(constants: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        domain = GermDomain(rays, pair)
        out, undecided = _follow(group.program, domain, Germ(pair), constants, sided)
        domain.watch(out)
        sums = domain.sums[0] if len(domain.sums) == 1 else torch.stack(domain.sums)
        return out.slope, out.intercept, domain.reach, domain.asymptotic, undecided, sums

    def bounded(constants: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        domain = BoundedDomain(rays, pair, magnitudes or Magnitudes([]))
        start: Germ = BoundedGerm(pair, torch.zeros_like(pair))
        out, undecided = _follow(group.program, domain, start, constants, sided)
        domain.watch(out)
        slope_error, intercept_error = out.error_pair if isinstance(out, BoundedGerm) else out.pair
        kept = (out.slope, out.intercept, domain.reach, domain.asymptotic, undecided)
        sums = torch.stack(domain.sums)
        return *kept, sums, domain.certain, slope_error, intercept_error, domain.enclosure

    walked = _Walked(*group.each(plain if magnitudes is None else bounded))
    if not math.isfinite(walked.sums if walked.sums.numel() == 1 else walked.sums.sum()):
        _raise_overflow(group, pair)
    return walked


def _follow(
    program: Program,
    domain: GermDomain,
    start: Germ,
    constants: Mapping[str, Tensor],
    sided: bool,
) -> tuple[Germ, Tensor]:
    """Walk a program; also tell which rays met a jump from a side that is not known."""
    if not sided:
        out = walk(program, domain, start, constants)
        return out, domain.undecided
    sides: SideDomain[Germ] = SideDomain(domain, start.device)
    result = walk(program, sides, sides.exactly(start), constants)
    return result.value, sides.undecided | domain.undecided


def _raise_undecided(network: Network, undecided: Tensor) -> None:
    """Name the rays, and the jump that they meet."""
    jumps = (approached_jump(group.program, group.instance(0)) for group in network.groups)
    step = next((jump for jump in jumps if jump is not None), None)
    rays = torch.nonzero(undecided.any(dim=0)).flatten()
    reason = "neighbours that tie for the last place, among which the model takes any"
    if step is not None:
        reason = (
            f"a jump, {step.operation} in {step.source}, that is approached at its threshold from "
            "a side that cannot be told"
        )
    raise UndecidedLimit(
        f"the limit on {len(rays)} of {undecided.shape[1]} rays (rows {rays[:5].tolist()}) hangs "
        f"on {reason}; drop these rays, or pass undecided='mark' and look at far.undecided"
    )


def _raise_overflow(group: InstanceGroup, pair: Tensor) -> None:
    """Walk again to find where a number overflowed; a sum alone that did is harmless."""
    rays = len(pair) // 2

    def look(step: Step, value: Any) -> None:
        if not isinstance(value, Germ):
            return
        bad = ~torch.isfinite(value.pair).reshape(2, rays, -1).all(dim=2).all(dim=0)
        if bool(bad.any()):
            raise NumericalOverflow(
                f"a slope or intercept left the range of {value.parts.dtype} in {step.operation}, "
                f"in {step.source}, on {int(bad.sum())} of {rays} rays of a chunk; bring inputs "
                "or weights to a moderate scale, or capture in float64"
            )

    for index in range(len(group.members)):
        walk(group.program, GermDomain(rays, pair), Germ(pair), group.instance(index), look)
