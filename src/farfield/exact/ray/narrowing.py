"""Narrow the stretches of rays in which a class is lost last, before their pieces are followed.

Evaluations, ever closer to the origin, find a place where a class is lost and, not far above it,
one where it is not. From the latter on to where the ray ends the class leads by so much that crude
bounds (:mod:`farfield.exact.ray.boxes`) prove it is never lost. What is left is short, and has few
pieces. Where bounds do not reach, more is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.exact.piecewise import free_rows
from farfield.exact.ray.boxes import SLACK, BoxDomain, Boxed
from farfield.exact.ray.loss import Loss, others
from farfield.graph.network import Network
from farfield.graph.program import Program, forward
from farfield.graph.rules import RULES

# A window over which classes are proven not to be lost begins at this share of where it ends.
SHARE = 1 / 8
# How far in it is worth looking: to this many of such shares, and then at the origin.
LOOKS = 6
# How often the place where a class is lost is brought closer: from a factor of 8 to one of 1.03.
HALVINGS = 6
# How far above the place where it is lost a class is tried to be proven not to be.
MARGINS = (1.2, 2.0)
# Covers the rounding of log-odds, relative to the logits.
ROUNDING = 2.0**-40


class Narrowing:
    """Narrow stretches of rays through one instance of a network.

    Args:
        network: The network, for its classes.
        program: Its steps, of affine pieces that meet.
        constants: The weights of the instance, in float64.
        loss: When a class is lost; never less so for larger logits of others.
    """

    def __init__(
        self, network: Network, program: Program, constants: Mapping[str, Tensor], loss: Loss
    ) -> None:
        self.network, self.program, self.constants = network, free_rows(program), constants
        self.loss = loss
        self.domain = BoxDomain()

    def narrow(
        self, origins: Tensor, directions: Tensor, high: Tensor, label: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Find stretches above which, up to ``high``, no class is lost.

        Args:
            origins: ``(rays, *input)``.
            directions: ``(rays, *input)``.
            high: ``(rays,)`` where the rays end; no class is lost there.
            label: ``(rays,)`` the classes in question.

        Returns:
            ``(rays,)`` where the stretches begin, and where they end. Classes are lost where they
            begin, as far as evaluation tells; zero where no such place was found.
        """
        rays = _Rays(self, origins, directions, label)
        low, free = self._look(rays, high)
        return low, self._prove(rays, free, high)

    def _look(self, rays: _Rays, high: Tensor) -> tuple[Tensor, Tensor]:
        """Places where classes are lost, zero if there are none; and above, where they are not."""
        rows = torch.arange(len(high), device=high.device)
        low, free = torch.zeros_like(high), high.clone()
        found = []
        for look in range(LOOKS + 1):
            t = free[rows] * (SHARE if look < LOOKS else 0.0)
            lost = rays.lost(rows, t)
            low[rows[lost]], free[rows[~lost]] = t[lost], t[~lost]
            found.append(rows[lost & (t > 0)])
            rows = rows[~lost]
        rows = torch.cat(found)
        begin, end = low[rows], free[rows]
        for _ in range(HALVINGS):
            middle = (begin * end).sqrt()
            lost = rays.lost(rows, middle)
            begin, end = torch.where(lost, middle, begin), torch.where(lost, end, middle)
        low[rows], free[rows] = begin, end
        return low, free

    def _prove(self, rays: _Rays, free: Tensor, high: Tensor) -> Tensor:
        """From where on, above ``free``, classes are proven not to be lost up to ``high``."""
        edges = high[:, None] * SHARE ** torch.arange(LOOKS + 2, device=high.device).to(high)
        edges[:, -1] = 0.0
        left = high
        for margin in MARGINS:
            # Right above the place where a class is lost no bound can prove anything.
            end = torch.where(left > free, torch.minimum(free * margin, left), left)
            cut = torch.minimum(torch.maximum(edges, end[:, None]), left[:, None])
            start, stop = cut[:, 1:], cut[:, :-1]
            ray, window = torch.nonzero(start < stop, as_tuple=True)
            unproven = torch.zeros_like(start, dtype=torch.bool)
            for some in torch.arange(len(ray), device=ray.device).split(max(1, len(high))):
                a, b = ray[some], window[some]
                unproven[a, b] = ~rays.never_lost(a, start[a, b], stop[a, b])
            left = torch.where(unproven, stop, end[:, None]).amax(dim=1)
        return left

    def enclose(self, chord: Tensor, size: Tensor) -> Boxed:
        """Enclose the output over windows: chords ``(2 * windows, *input)``, starts, then ends."""
        values: dict[str, Any] = {**self.constants}
        values[self.program.input] = self.domain.start(chord, size)
        for step, freed in zip(self.program.steps, self.program.last_uses, strict=True):
            args, kwargs = step.bind(values)
            if step.constant:
                values[step.name] = step.target(*args, **kwargs)
            else:
                values[step.name] = RULES[step.target].lower(self.domain, *args, **kwargs)
            for name in freed:
                del values[name]
        result: Boxed = values[self.program.output]
        return result


@dataclass(frozen=True, eq=False)
class _Rays:
    """Rays, and the classes in question."""

    narrowing: Narrowing
    origins: Tensor
    directions: Tensor
    label: Tensor

    def at(self, rows: Tensor, t: Tensor) -> Tensor:
        """Points on some rays."""
        steps = t.reshape(-1, *[1] * (self.origins.ndim - 1))
        return self.origins[rows] + steps * self.directions[rows]

    def lost(self, rows: Tensor, t: Tensor) -> Tensor:
        """Whether classes are lost at points, by evaluation."""
        own = self.narrowing
        if not len(rows):
            return torch.zeros_like(rows, dtype=torch.bool)
        values = forward(own.program, self.at(rows, t), own.constants)
        own.domain.products += len(rows) * sum(each.numel() for each in own.constants.values())
        logits = own.network.as_classes(values[None])[0]
        return own.loss.at(others(logits, self.label[rows])) > 0

    def never_lost(self, rows: Tensor, start: Tensor, stop: Tensor) -> Tensor:
        """Whether it is proven that classes are not lost between two places."""
        own, label = self.narrowing, self.label[rows]
        steps = stop.reshape(-1, *[1] * (self.origins.ndim - 1))
        size = self.origins[rows].abs() + steps * self.directions[rows].abs()
        found = own.enclose(torch.cat([self.at(rows, start), self.at(rows, stop)]), size)
        classes = own.network.as_classes
        ends = classes(found.chord[None])[0].unflatten(0, (2, -1))
        box = classes(found.box[None])[0]
        radius = (box + box.gather(1, label[:, None])) * SLACK
        radius = radius + ROUNDING * (1 + ends.abs().amax(dim=(0, 2)))[:, None]
        odds = torch.stack([own.loss.at(others(each, label) + radius) for each in ends])
        # Odds of affine logits are convex: largest at an end.
        return odds.amax(dim=0) < 0
