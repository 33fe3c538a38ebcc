"""Networks at infinity by series: as many orders as the decisions need, for each ray.

The first walk keeps what does not fall. Rays on which a decision, or a logit, hangs on lower orders
are walked again with more of them; what is still open then has no answer here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.series.domain import SeriesDomain
from farfield.exact.series.growing import FinerOrders
from farfield.exact.series.value import SAFETY, Order, Series
from farfield.graph.network import InstanceGroup
from farfield.graph.program import Program, Step, walk
from farfield.graph.rules import RULES

# The lowest orders that are kept, one walk after another.
FLOORS = (0, -1, -2, -4, -7)
# The largest number of orders that a power of t may be worth.
FINEST = 8


class Grown(NamedTuple):
    """Logits of some rays behind one instance.

    Attributes:
        per: How many orders a power of ``t`` is worth.
        orders: Those above 0 that there are, highest first.
        growth: ``(orders, rays, outputs)`` their coefficients.
        intercept: ``(rays, outputs)`` those of order 0.
        noise: ``(orders, rays)`` how large their rounding errors may well be.
        doubtful: ``(rays,)`` whether a coefficient was taken for zero that may not be.
        undecided: ``(rays,)`` whether no limit was found.
    """

    per: int
    orders: tuple[Order, ...]
    growth: Tensor
    intercept: Tensor
    noise: Tensor
    doubtful: Tensor
    undecided: Tensor


def grows(program: Program) -> bool:
    """Whether slopes and intercepts are not enough for a program."""
    return any(
        not step.constant and step.target in RULES and RULES[step.target].kind == "growth"
        for step in program.steps
    )


def walk_series(group: InstanceGroup, index: int, directions: Tensor, origins: Tensor) -> Grown:
    """Follow rays through one instance, those that need it with more orders."""
    per = 1
    while True:
        try:
            return _refined(group.program, group.instance(index), directions, origins, per)
        except FinerOrders as finer:
            per *= finer.exponent.denominator
            if per > FINEST:
                raise


def _refined(
    program: Program,
    constants: Mapping[str, Tensor],
    directions: Tensor,
    origins: Tensor,
    per: int,
) -> Grown:
    """Follow rays with as many orders as each of them needs."""
    rays = len(directions)
    open_ = torch.arange(rays, device=directions.device)
    parts: list[tuple[Tensor, Grown]] = []
    for floor in FLOORS:
        grown, lacking = _once(program, constants, directions[open_], origins[open_], floor, per)
        last = floor == FLOORS[-1]
        done = torch.ones_like(lacking) if last else ~lacking
        if last:
            grown = grown._replace(undecided=grown.undecided | lacking)
        parts.append((open_[done], _rows(grown, done)))
        open_ = open_[~done]
        if not len(open_):
            break
    return _together(rays, parts)


def _once(
    program: Program,
    constants: Mapping[str, Tensor],
    directions: Tensor,
    origins: Tensor,
    floor: int,
    per: int,
) -> tuple[Grown, Tensor]:
    """One walk; also tells which rays need more orders."""
    domain = SeriesDomain(len(directions), directions, floor, per)
    out = walk(program, domain, domain.start(directions, origins), constants)
    finite = torch.stack([torch.isfinite(part).all() for part in out.terms.values()])
    lacking = domain.lacking | (out.bottom > 0)
    if not bool(finite.all()):
        _raise_overflow(program, constants, directions, origins, domain)
    return _read(domain, out), lacking


def _read(domain: SeriesDomain, out: Series) -> Grown:
    """The logits, ``(rays, outputs)`` by orders."""

    def flat(values: Tensor) -> Tensor:
        return values.reshape(domain.rays, -1)

    kept = tuple(order for order in out.orders if order > 0)
    empty = flat(out.term(0))
    growth = [flat(out.term(order)) for order in kept]
    noise = [out.noise_of(order) for order in kept]
    return Grown(
        domain.per,
        kept,
        torch.stack(growth) if growth else empty.new_zeros(0, *empty.shape),
        empty,
        torch.stack(noise) if noise else empty.new_zeros(0, domain.rays),
        domain.doubtful,
        domain.undecided,
    )


def _rows(grown: Grown, where: Tensor) -> Grown:
    return Grown(
        grown.per,
        grown.orders,
        grown.growth[:, where],
        grown.intercept[where],
        grown.noise[:, where],
        grown.doubtful[where],
        grown.undecided[where],
    )


def _together(rays: int, parts: list[tuple[Tensor, Grown]]) -> Grown:
    """Put rays that were walked with different numbers of orders together again."""
    if len(parts) == 1:
        return parts[0][1]
    orders = sorted({order for _, part in parts for order in part.orders}, reverse=True)
    first, top = parts[0][1], len(orders)
    whole = Grown(
        first.per,
        tuple(orders),
        first.growth.new_zeros(top, rays, first.intercept.shape[1]),
        first.intercept.new_zeros(rays, first.intercept.shape[1]),
        first.noise.new_zeros(top, rays),
        first.doubtful.new_zeros(rays),
        first.undecided.new_zeros(rays),
    )
    for where, part in parts:
        whole.intercept[where] = part.intercept
        for place, order in enumerate(part.orders):
            into = orders.index(order)
            whole.growth[into, where], whole.noise[into, where] = (
                part.growth[place],
                part.noise[place],
            )
        whole.doubtful[where], whole.undecided[where] = part.doubtful, part.undecided
    return whole


def leaders(growth: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs that grow fastest, and the rays on which rounding decides which these are.

    Args:
        growth: ``(orders, rays, outputs)`` from the highest order on.
        noise: ``(orders, rays)``.
    """
    leading = torch.ones(growth.shape[1:], dtype=torch.bool, device=growth.device)
    doubtful = torch.zeros(growth.shape[1], dtype=torch.bool, device=growth.device)
    for part, error in zip(growth, noise, strict=True):
        best = part.masked_fill(~leading, -torch.inf).amax(dim=1, keepdim=True)
        near = leading & (part >= best - SAFETY * error[:, None])
        doubtful |= (near & (part != best)).any(dim=1)
        leading = near
    return leading, doubtful


def _raise_overflow(
    program: Program,
    constants: Mapping[str, Tensor],
    directions: Tensor,
    origins: Tensor,
    walked: SeriesDomain,
) -> None:
    """Walk again to find where a number overflowed."""

    def look(step: Step, value: Any) -> None:
        if not isinstance(value, Series):
            return
        finite = [torch.isfinite(part) | (part == -torch.inf) for part in value.terms.values()]
        if not all(bool(each.all()) for each in finite):
            raise NumericalOverflow(
                f"a coefficient left the range of {directions.dtype} in {step.operation}, in "
                f"{step.source}; bring inputs or weights to a moderate scale, or capture in float64"
            )

    domain = SeriesDomain(walked.rays, directions, walked.floor, walked.per)
    walk(program, domain, domain.start(directions, origins), constants, look)
    raise NumericalOverflow("the logits are not finite at infinity; the model divides by zero")
