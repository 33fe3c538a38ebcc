"""How large the covered set must be: enough rows inside, and little lost outside.

The margin of the balls starts at the conformal quantile that puts 99% of new rows inside. Rows
outside lose confidence, at once where the model's growth bound is loose, so the quantile is raised
until the rows that the prototypes have not seen lose less than a budget: their mean negative
log-likelihood where labels are known, else the mean ``KL(p || p / T)``, which is what a calibrated
model's likelihood would lose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.guard.cover import Cover, conformal_margin
from farfield.guard.growth.bound import Growth
from farfield.guard.promise import Line, distance_slack, tolerance, with_rounding

Floats = NDArray[np.float64]
COVERAGES = (0.99, 0.995, 0.998, 0.999, 1.0)
# Nats per row that rows near the data may lose on average.
BUDGET = 5e-4
# A distance this small, in units of the covered set, is not resolved by float64 arithmetic.
LEAST_DISTANCE = 1e-3


@dataclass(frozen=True)
class Bounded:
    """A growth bound, and where it can start.

    Attributes:
        growth: The bound.
        anchors: Differences of logits at the prototypes, if it can start there.
        tolerated: How far from a combination of categories an input may be without distance.
    """

    growth: Growth
    anchors: Tensor | None
    tolerated: float = 0.0

    def line(self, cover: Cover, reach: float) -> Line:
        """Differences of logits at a distance from the covered set."""
        if self.anchors is None or not self.growth.lipschitz:
            return Line(self.growth.offset + self.growth.slope * reach, self.growth.slope)
        # Where a prototype lies in the input is rounded once on the way there.
        room = 1e-9 * (1.0 + cover.prototypes.norm(dim=1))
        start = self.anchors + self.growth.slope * (cover.radii + self.tolerated + room)
        return Line(float(start.max()), self.growth.slope)


@dataclass(frozen=True)
class Plan:
    """A covered set with the unit that keeps the promise."""

    cover: Cover
    coverage: float
    bounded: Bounded
    line: Line
    unit: float
    reach: float
    distance: float
    data_radius: float
    slack: float


@dataclass(frozen=True)
class Setting:
    """What every plan shares.

    Attributes:
        units: ``(rows, columns)`` whitened training rows.
        places: Numeric columns of those.
        base: Prototypes and their own radii.
        other_reach: Radius around the mean of the combinations of categories.
        bounds: Growth bounds to choose from.
        scores: Distances of unseen rows to covers made without them.
        lost: What unseen rows lose on average at given temperatures.
        classes: Number of classes.
        roundoff: Unit roundoff of the model's type.
        condition: Of the whitening.
    """

    units: Floats
    places: tuple[int, ...]
    base: Cover
    other_reach: float
    bounds: tuple[Bounded, ...]
    scores: Floats
    lost: Callable[[Floats], float]
    classes: int
    roundoff: float
    condition: float


def choose_plan(setting: Setting, radii: float, epsilon: float) -> Plan:
    """Raise the coverage until little is lost; take the growth bound that allows the largest h."""
    plan: Plan | None = None
    for coverage in COVERAGES:
        plan = _plan(setting, coverage, radii, epsilon)
        outside = np.maximum(setting.scores - _margin(setting, coverage), 0.0)
        temperatures = 1.0 + np.square(outside / plan.unit)
        if setting.lost(temperatures) <= BUDGET:
            break
    if plan is None:
        raise AssertionError("there is at least one coverage")
    return plan


def _margin(setting: Setting, coverage: float) -> float:
    return conformal_margin(setting.scores, coverage)


def _plan(setting: Setting, coverage: float, radii: float, epsilon: float) -> Plan:
    cover = setting.base.grown(_margin(setting, coverage))
    reach = float(np.hypot(cover.reach, setting.other_reach))
    radius = _data_radius(setting, cover)
    distance = radii * radius - reach
    if not distance > LEAST_DISTANCE * max(reach, 1e-12):
        raise InputError(
            f"radii={radii:g} cannot be kept: the covered set itself reaches {reach / radius:.3g} "
            f"data radii from the mean, and inside it nothing is changed; ask for radii >= "
            f"{1.05 * reach / radius:.3g}, or use more prototypes, whose balls are smaller"
        )
    slack = distance_slack(setting.units.shape[1], setting.condition, reach, distance)
    apart = tolerance(setting.classes, epsilon)
    if apart < 64 * setting.roundoff:
        raise InputError(
            f"epsilon={epsilon:g} cannot be kept: logits of this type cannot be closer than "
            f"{64 * setting.roundoff:.2g} and keep their order; ask for epsilon >= "
            f"{64 * setting.roundoff / setting.classes:.2g}"
        )
    best: tuple[float, Bounded, Line] | None = None
    for bounded in setting.bounds:
        line = with_rounding(bounded.line(cover, reach), bounded.growth, reach, setting.roundoff)
        unit = line.unit(distance * (1 - slack), apart)
        if best is None or unit > best[0]:
            best = (unit, bounded, line)
    if best is None or not best[0] > 1e-140 or slack >= 0.5:
        raise InputError(
            "the promise cannot be kept in float64: logits grow too fast for it, by at most "
            f"{setting.bounds[0].growth.slope:.3g} per whitened unit; pass a smaller growth"
        )
    return Plan(cover, coverage, best[1], best[2], best[0], reach, distance, radius, slack)


def _data_radius(setting: Setting, cover: Cover) -> float:
    """Largest distance from the mean of a covered training row, at least half of the cover's."""
    units = torch.from_numpy(setting.units)
    inside = torch.cat(
        [cover.distance(part[:, list(setting.places)]) <= 0 for part in units.split(65_536)]
    )
    lengths = units.norm(dim=1)[inside]
    largest = float(lengths.max()) if len(lengths) else 0.0
    return max(largest, float(np.hypot(cover.reach, setting.other_reach)) / 2)


def information_lost(logits: Tensor, labels: Tensor | None) -> Callable[[Floats], float]:
    """How much rows lose on average when their logits are divided by temperatures.

    Args:
        logits: ``(rows, classes)``.
        labels: ``(rows,)`` classes, or ``None``.
    """
    before = torch.log_softmax(logits.double(), dim=-1)

    def lost(temperatures: Floats) -> float:
        hot = torch.from_numpy(temperatures)[:, None]
        after = torch.log_softmax(logits.double() / hot, dim=-1)
        if labels is None:
            each = (before.exp() * (before - after)).nan_to_num(nan=0.0).sum(dim=-1)
        else:
            each = (before - after).gather(1, labels[:, None])[:, 0]
        return float(each.mean())

    return lost
