"""Search a ray with tens of thousands of pieces, skipping windows that provably hold no answer.

Windows of ``t`` come in order. Over each the logits are enclosed, by
:mod:`farfield.exact.ray.enclosure`, and with them the log-odds of every class; if none reaches the
goal, the window is skipped. Where bounds fail, windows are made shorter, and in the end pieces are
followed exactly. Windows are as long as the distance to the goal allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from farfield.exact.infinity import at_infinity
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.confidence import Odds
from farfield.exact.ray.enclosure import Enclosure
from farfield.exact.ray.knots import Grid, Trace
from farfield.exact.ray.rays import Rays
from farfield.exact.ray.remainder import Course, Remainder
from farfield.exact.ray.waves import SLACK
from farfield.exact.ray.window_walk import WindowWalk
from farfield.graph.network import Network

# What share of the distance to the goal a window's uncertainty should take.
SHARE = 0.7
# Of that, the share that may come from waves that are not followed, as far as the guide can tell.
BOXED = 0.7
# What share of the distance is aimed at by how far the guide is trusted,
TARGET = 0.45
# if waves are then this many times as dear as the chords and boxes of their windows.
BALANCE = 0.8
# If windows have to be so short that fewer units meet a kink in each, pieces are followed instead,
FEW = 6
# about as many as this at a time.
STRETCH = 64
# After how many looks the guide, and what the network does with fixed slopes, are renewed.
RENEWAL = 8
# How many windows are looked at together.
BATCH = 8
# How many numbers a layer may hold in all windows that are looked at together.
LARGEST = 1 << 21
# How often a window is made shorter before its pieces are followed.
PATIENCE = 12
# No window is shorter than this, relative to where it is.
NARROW = 2.0**-44
# The first window, relative to how far away the origin is.
FIRST = 2.0**-10
# Covers the rounding of log-odds, relative to the logits.
ROUNDING = 2.0**-40
# Beyond this distance from the goal, in log-odds, no more is tolerated.
FAR = 8.0
# The guide knows nothing of kinks that remainders bring about, nor of signs that cancel: what
# became of its last advice teaches how far to trust it.
TRUST_GROWS, TRUST_FALLS = 1.2, 0.5
LONGER, SHORTER = 1.5, 0.6
# How fast a width that once failed is approached again.
MOST_GROWS = 1.05
# How much smaller the square of the width must be to tell what does not shrink with it.
LEARN_FLOOR = 0.3


class Skipper:
    """Decide which windows of one ray can be skipped.

    Args:
        network: The network; one instance.
        walk: Its walk over windows.
        rays: The ray.
        confidence: The goal.

    Attributes:
        reached: Up to where nothing can be.
        skipped: How many windows were skipped.
        followed: How long the last stretch was whose pieces had to be followed.
    """

    def __init__(self, network: Network, walk: WindowWalk, rays: Rays, confidence: float) -> None:
        self.network, self.walk, self.rays = network, walk, rays
        self.goal = -math.log(confidence) + math.log1p(-confidence)
        size = float(rays.origins.norm() / rays.directions.norm())
        self.width = FIRST * (size if size > 0 else 1.0)
        self.apart = 1.0
        self.trust = 1.0
        self.most = math.inf
        self.largest_batch = max(1, min(BATCH, LARGEST // walk.program.width))
        self.batch = self.largest_batch
        self.reached = self.followed = 0.0
        self.skipped = 0
        self._looks = 0
        # What waves cost in the last windows, in units of their chords and boxes.
        self._dear = 0.0
        # What no width gets rid of, and the width and uncertainty that it is told from.
        self._floor = 0.0
        self._wider = self.width, math.inf

    def advance(self, start: float, stop: float) -> float:
        """Skip windows from ``start`` up to :attr:`reached`; say up to where to follow pieces."""
        self.reached = start
        first_failed = failures = 0.0
        while self.reached < stop:
            edges = self._edges(stop)
            margins, apart, kinks = self._look(edges)
            good = int((margins > 0).long().cumprod(dim=0).sum())
            self.skipped += good
            self.reached = float(edges[good])
            before, span = self.width, float(edges[1] - edges[0])
            if good:
                self._adapt(margins[:good], apart[:good])
                failures = 0.0
            if good == len(margins):
                self.batch = min(self.largest_batch, 2 * self.batch)
                self.most *= MOST_GROWS
            else:
                first_failed = span if failures == 0 else first_failed
                failures += 1
                self.batch, self.trust = min(2, self.largest_batch), TRUST_FALLS * self.trust
                self.most = span * SHORTER
                self._floor /= 2
            self.width = min(self.width, self.most)
            if self.reached >= stop:
                break
            density = float(kinks.sum() / (edges[-1] - edges[0]))
            if failures > PATIENCE:
                return self._follow(start, stop, first_failed)
            if self.width < before and density * self.width < FEW:
                # Too close to the goal: following the pieces is cheaper than bounds on them.
                length = max(STRETCH / max(density, 1e-300), before)
                return self._follow(start, stop, length)
        return stop

    def _follow(self, start: float, stop: float, length: float) -> float:
        """Up to where pieces are followed: ever further, while no window can be skipped.

        What rounding leaves open about units that are next to a kink is there in windows of any
        width, so that bounds can fail however short the windows are made.
        """
        if self.reached == start:
            length = max(length, 2 * self.followed)
            self.width = self.most = length
        self.followed = length
        return min(stop, self.reached + length)

    def _edges(self, stop: float) -> Tensor:
        """Where the next windows begin and end."""
        width = max(self.width, NARROW * self.reached)
        count = min(self.batch, max(1, math.ceil((stop - self.reached) / width)))
        steps = torch.arange(count + 1, dtype=torch.float64, device=self.rays.stops.device)
        return (self.reached + width * steps).clamp(max=stop)

    def _adapt(self, margins: Tensor, apart: Tensor) -> None:
        """Choose the width of the next windows by what these cost, and would have allowed.

        Uncertainty grows with the square of the width, on top of a floor that rounding leaves in
        windows of any width. Where shorter windows were no better, that floor is what they met.
        """
        spent, room = float((apart - margins).mean()), float(apart.mean())
        self.apart = max(float(apart[-1]), 1e-3)
        width, before = self._wider
        shrunk = (self.width / width) ** 2
        if shrunk < LEARN_FLOOR:
            # Nothing, before a first window has been skipped.
            self._floor = min(spent, max(0.0, (spent - shrunk * before) / (1 - shrunk)))
        if shrunk < LEARN_FLOOR or shrunk >= 1:
            self._wider = self.width, spent
        allowed = max(SHARE * room, (room + self._floor) / 2) - self._floor
        change = math.sqrt(max(allowed, 0.0) / max(spent - self._floor, 1e-9 * max(room, 1e-9)))
        # Wider windows have more waves to follow, narrower ones more chords and boxes.
        balance = math.sqrt(BALANCE / max(self._dear, 1e-9))
        self.width *= max(SHORTER, min(LONGER, change, balance))
        trust = math.sqrt(max(TARGET * room, 0.0) / max(spent, 1e-9))
        self.trust *= min(TRUST_GROWS, max(TRUST_FALLS, trust))

    def _look(self, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Enclose the log-odds over windows."""
        shape = (-1, *[1] * (self.rays.origins.ndim - 1))
        points = self.rays.origins + edges.reshape(shape) * self.rays.directions
        if self._looks % RENEWAL == 0:
            logits = self.walk.enclose(points[:1].repeat(2, *shape[1:]), 0.0)
            self.apart = max(float(self._margins(logits)[1]), 1e-3)
            self.walk.learn()
        self._looks += 1
        tolerance = SHARE * BOXED * min(self.apart, FAR) * self.trust
        size = self.rays.origins.abs() + edges[-1] * self.rays.directions.abs()
        before = self.walk.domain.products
        logits = self.walk.enclose(torch.cat([points[:-1], points[1:]]), tolerance, size)
        passes = (self.walk.domain.products - before) / self.walk.once / (len(edges) - 1)
        # Beside the waves there are two ends of a chord, and a box.
        self._dear = passes / (3 + self.walk.composed() / self.walk.once) - 1
        return *self._margins(logits), self.walk.domain.kinks

    def _margins(self, logits: Enclosure) -> tuple[Tensor, Tensor]:
        """By how much all log-odds stay below the goal: for enclosures, and for what is known."""
        count, remainder = len(logits.box), self.walk.domain.remainder
        ends = self._classes(logits.chord).unflatten(0, (2, count))
        if remainder is None:
            lines, window = ends, torch.arange(count, device=ends.device)
            radius = self._radius(logits)
        else:
            lines, window = self._lines(ends, remainder.courses())
            radius = self._left(remainder)
        itself = torch.eye(ends.shape[-1], dtype=torch.bool, device=ends.device)
        gap = (lines[:, :, None, :] - lines[:, :, :, None]).masked_fill(itself, -torch.inf)
        rate = (gap[1] - gap[0]).masked_fill(itself, 0.0)
        rounding = ROUNDING * (1 + lines.abs().amax())
        ones = torch.ones_like(rate[..., 0]).flatten()
        found = []
        for spread in (radius[window], torch.zeros_like(rate)):
            odds = Odds((gap[0] - spread).flatten(0, 1), rate.flatten(0, 1), ones, ones)
            least = _least(odds).reshape(len(window), -1).amin(dim=1)
            lowest = least.new_full((count,), torch.inf).scatter_reduce(0, window, least, "amin")
            lowest = lowest - self.goal - rounding
            found.append(torch.where(torch.isfinite(lowest), lowest, -torch.inf))
        return found[0], found[1]

    def _classes(self, outputs: Tensor) -> Tensor:
        """``(rows, classes)`` in double precision."""
        return self.network.as_classes(outputs[None])[0].double()

    def _radius(self, logits: Enclosure) -> Tensor:
        """``(windows, classes, classes)`` how far differences of logits may be from chords."""
        parts, box = self._classes(logits.old.parts), self._classes(logits.box)
        apart = (parts[:, None, :] - parts[:, :, None]).abs()
        radius = box[:, None, :] + box[:, :, None]
        return radius.index_add(0, logits.old.window, apart) * SLACK

    def _left(self, remainder: Remainder) -> Tensor:
        """The same where they are walked back: what is left unknown of them."""
        effects, bounds, lost = remainder.effects()
        effects, lost = self._classes(effects.T), self._classes(lost[None])[0]
        apart = (effects[:, None, :] - effects[:, :, None]).abs()
        left = (bounds @ apart.flatten(1)).unflatten(1, apart.shape[1:])
        radius: Tensor = (left + lost[None, :] + lost[:, None]) * SLACK
        return radius

    def _lines(self, ends: Tensor, courses: Sequence[Course]) -> tuple[Tensor, Tensor]:
        """Pieces ``(2, pieces, classes)`` of what is known of logits, and the window of each."""
        found, windows = [], []
        for window, course in enumerate(courses):
            start, stop = ends[:, window]
            values = start + course.places[:, None] * (stop - start) + self._classes(course.values)
            found.append(torch.stack([values[:-1], values[1:]]))
            windows.append(torch.full_like(course.places[1:], window, dtype=torch.long))
        return torch.cat(found, dim=1), torch.cat(windows)


def _least(odds: Odds) -> Tensor:
    """A lower bound of convex functions on [0, 1]: the best of three tangents."""
    best = torch.full_like(odds.last, -torch.inf)
    for place in (0.0, 0.5, 1.0):
        value, gradient = odds.at(torch.full_like(odds.last, place))
        tangent = torch.minimum(value - place * gradient, value + (1 - place) * gradient)
        best = torch.maximum(best, tangent)
    return best


def single_is_single(device: torch.device) -> bool:
    """Whether single precision is what it says: not 10 bits of it, as accelerators may be told."""
    return device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"


def window(rays: Rays, low: float, high: float) -> Trace:
    """The inputs of a single ray between two places; without an end if ``high`` is infinite."""
    t = rays.stops.new_tensor([low] if math.isinf(high) or high == low else [low, high])
    knots = rays.origins + t.reshape(-1, *[1] * (rays.origins.ndim - 1)) * rays.directions
    open_ = torch.tensor([math.isinf(high)], device=t.device)
    starts = torch.tensor([0, len(t)], device=t.device)
    if math.isinf(high):
        knots = torch.cat([rays.directions, knots, rays.origins])
    return Trace(knots, Grid(t, starts, open_))


def settled(network: Network, rays: Rays) -> float:
    """A place behind which a single ray has no breakpoint; its end if it has one."""
    stop = float(rays.stops[0])
    if math.isfinite(stop):
        return stop
    origin, direction, past = rays.origins, rays.directions, 0.0
    if rays.clip is not None:
        origin, direction, past = _clipped(rays.clip, origin, direction)
    if not bool((direction != 0).any()):
        return past
    reach = at_infinity(network, origin, direction).reach[0, 0]
    return max(past, float(reach) * (1 + 1e-9))


def _clipped(clip: Bend, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor, float]:
    """What a clipped ray is in the end: its origin, its direction, and from where on."""
    low, high = clip.thresholds
    rising, falling = direction > 0, direction < 0
    wall = torch.where(rising, high, torch.where(falling, low, torch.inf)).expand_as(origin)
    stuck = torch.isfinite(wall) & (direction != 0)
    other = torch.where(rising, low, high).expand_as(origin)
    past = torch.where(direction != 0, (torch.stack([wall, other]) - origin) / direction, 0.0)
    past = past[torch.isfinite(past)]
    rest = torch.clamp(origin, low, high)
    start = torch.where(stuck, wall, torch.where(direction == 0, rest, origin))
    going = torch.where(stuck, 0.0, direction)
    return start, going, float(past.clamp(min=0.0).amax()) if past.numel() else 0.0
