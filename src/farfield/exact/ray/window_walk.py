"""Walk a program over windows of ``t``, following those waves that are worth it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.exact.piecewise import free_rows
from farfield.exact.ray.adjoint import adjoint
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.composed import composed_pairs
from farfield.exact.ray.enclosure import Enclosure
from farfield.exact.ray.enclosure_domain import EnclosureDomain
from farfield.exact.ray.folding import fold_scales
from farfield.exact.ray.locality import locality
from farfield.exact.ray.remainder import Adjoint
from farfield.exact.ray.sensitivity import sensitivity
from farfield.exact.ray.waves import SLACK, Waves, joined
from farfield.graph.program import Program
from farfield.graph.rules import RULES

# Networks with more outputs than this are not walked back: that costs two passes for each.
MOST_OUTPUTS = 32
# How many waves a window may have.
MOST_WAVES = 200
# A last layer with at most this many inputs gets one wave for each of them instead of a box.
LAST_WAVES = 1024
# Patches are not made smaller than this,
SMALLEST_CORE = 3
# and their outskirts may take this share of what may be put into boxes.
TRIMMED = 0.7
KINKED = ("piecewise affine", "largest")


class WindowWalk:
    """Enclose one instance of a network over windows.

    Args:
        program: The network.
        constants: Its weights, in float64.
        clip: Applied to the input first, if given.
    """

    def __init__(
        self, program: Program, constants: Mapping[str, Tensor], clip: Bend | None = None
    ) -> None:
        self.program, self.constants = fold_scales(free_rows(program), constants)
        self.clip = clip
        self.domain = EnclosureDomain(MOST_WAVES)
        self.kinks = sum(RULES[step.target].kind in KINKED for step in self._varying())
        self.weights: dict[str, Tensor] = {}
        self.reference: Adjoint | None = None
        self.outputs = math.prod(self.program.output_shape)
        self.once = self._measure()
        self.domain.pairs = composed_pairs(self.program, self.constants)

    def _varying(self) -> list[Any]:
        return [step for step in self.program.steps if not step.constant]

    def enclose(self, chord: Tensor, tolerance: float, size: Tensor | None = None) -> Enclosure:
        """Enclose the output over windows.

        Args:
            chord: ``(2 * windows, *input)`` the inputs where they start, then where they end.
            tolerance: How much boxes may add to a logit, as far as the guide can tell.
            size: ``(1, *input)`` the numbers that inputs were rounded from, without their signs;
                inputs themselves unless given.
        """
        domain = self.domain
        domain.reference = self.reference if tolerance > 0 else None
        values: dict[str, Any] = {**self.constants}
        start = domain.start(chord, chord.abs().amax(dim=0, keepdim=True) if size is None else size)
        if self.clip is not None:
            domain.weight = self.weights.get(self.program.input)
            start = domain.bend(start, self.clip)
            domain.slopes.clear()
        values[self.program.input] = start
        last = self.program.steps[-1]
        for step, freed in zip(self.program.steps, self.program.last_uses, strict=True):
            if step.constant:
                args, kwargs = step.bind(values)
                values[step.name] = step.target(*args, **kwargs)
            else:
                if RULES[step.target].kind in KINKED:
                    domain.allowance += tolerance / max(1, self.kinks)
                    self._forget(values)
                domain.weight = self.weights.get(step.name)
                if step is last and RULES[step.target].kind == "affine":
                    self._shake(values, step.refs())
                args, kwargs = step.bind(values)
                domain.local = None if self.program.per_row else locality(step, args)
                values[step.name] = self.program.lower(step, domain, args, kwargs)
            for name in freed:
                del values[name]
        result: Enclosure = values[self.program.output]
        return result.whole()

    def learn(self) -> None:
        """Ask what counts, around the window that was walked last."""
        row = torch.Size(self.program.input_shape)
        self.weights = sensitivity(self.program, self.constants, self.domain, row)
        # A gradient is worth two forward passes, after one.
        self.domain.products += 3 * (self.once + self.composed())
        if self.outputs <= MOST_OUTPUTS:
            sites, clipped = self.domain.sites, self.clip is not None
            self.reference = adjoint(self.program, self.constants, sites, clipped=clipped)
            # For each output a forward pass, and one back to the input alone; and one of sizes.
            self.domain.products += (2 * self.outputs + 1) * self.once

    def composed(self) -> float:
        """How many products pairs of convolutions form that a box goes through at once."""
        return float(sum(p.entries for p in self.domain.pairs.values() if p.additions))

    def _measure(self) -> float:
        """How many products of weights and values one forward pass forms."""
        like = next(iter(self.constants.values()))
        chord = torch.zeros(2, *self.program.input_shape, device=like.device, dtype=torch.float64)
        with torch.no_grad():
            self.enclose(chord, 0.0)
        # Two ends of a chord and a box.
        products, self.domain.products = self.domain.products / 3, 0.0
        return max(1.0, products)

    def _forget(self, values: dict[str, Any]) -> None:
        """Put waves into boxes that count for little, in all values that are still needed."""
        live = {
            name: value
            for name, value in values.items()
            if isinstance(value, Enclosure) and name in self.weights
        }
        counts = self.domain.allowance.new_zeros(self.domain.waves)
        alive = torch.zeros_like(counts, dtype=torch.bool)
        window = torch.zeros_like(counts, dtype=torch.long)
        for name, value in live.items():
            if len(value.old):
                counts[value.old.ids] += value.old.weigh(self.weights[name])
            young = value.young
            if young is not None and len(young):
                pixels = young.pixels(self.weights[name])
                values[name], own = self._trim(value, young, pixels, TRIMMED / len(live))
                live[name] = values[name]
                counts[young.ids] += own
            for waves in value.groups:
                alive[waves.ids] = True
                window[waves.ids] = waves.window
        ids = torch.nonzero(alive).flatten()
        if not len(ids):
            return
        dropped = torch.zeros_like(alive)
        dropped[ids[self.domain.spend(counts[ids], window[ids])]] = True
        if bool(dropped.any()):
            for name, value in live.items():
                values[name] = value.without(dropped)

    def _trim(
        self, value: Enclosure, young: Waves, pixels: Tensor, share: float
    ) -> tuple[Enclosure, Tensor]:
        """Put the outskirts of patches into the box that count for little.

        Args:
            value: A value.
            young: Its patches.
            pixels: ``(waves, side, side)`` what the pixels of each count for.
            share: The share of the allowance that may be used up.

        Returns:
            The value, and what its patches then count for.
        """
        total, side = pixels.flatten(1).sum(dim=1), young.side
        allowance, found = self.domain.allowance, None
        while side > SMALLEST_CORE:
            inside = F.avg_pool2d(pixels[:, None], side - 1, 1, divisor_override=1)
            most, place = inside.flatten(1).max(dim=1)
            lost = (total - most).clamp(min=0.0)
            price = torch.zeros_like(allowance).index_add_(0, young.window, lost)
            if bool((price > share * allowance).any()):
                break
            side, found = side - 1, (most, place, price)
        if found is None:
            return value, total
        kept, place, price = found
        across = young.side - side + 1
        core, rest = young.core(torch.stack([place // across, place % across], dim=1), side)
        self.domain.allowance = allowance - price
        box = (value.box + rest.mass(self.domain.windows)) * SLACK
        return Enclosure(value.chord, box, value.old, core, echo=value.echo), kept

    def _shake(self, values: dict[str, Any], names: Any) -> None:
        """Turn the box before the last layer into waves: what all logits share then cancels."""
        for name in names:
            value = values[name]
            if not isinstance(value, Enclosure) or value.row.numel() > LAST_WAVES:
                continue
            value = value.whole()
            places = torch.arange(value.box.numel(), device=value.device)
            ids = places + self.domain.waves
            fresh = Waves.born(ids, value.box.reshape(-1), places, value.row).whole()
            old = joined(value.old, fresh)
            values[name] = Enclosure(value.chord, torch.zeros_like(value.box), old)
