"""Families of directions, and how blind a model is in each.

A direction is *blind* if the model's confidence infinitely far out is at least the threshold. For a
regressor it is blind if no member's predicted scale grows and the members' means do not part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.audit.black_box import OUTMOST, Seen
from farfield.audit.fields.directions import Family
from farfield.audit.fields.kinds import Share
from farfield.audit.subject import Floats, Subject
from farfield.errors import UnsupportedOperation
from farfield.evaluate import clopper_pearson
from farfield.exact import FarField, SureFrom, blind_arcs, blind_orthants
from farfield.exact.orthants import used_features
from farfield.levels import SURE
from farfield.scores import PROBABILITY_SCORES

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
THREE = (0.05, 0.5, 0.95)
# How many numbers the directions of one block may hold.
BLOCK = 1 << 22
# How many products of weights and values the distances of a family may cost: a few seconds.
WALKING = 2e10
# Ensembles of more members than this get upper bounds instead of exact distances.
MOST_WALKED = 10
# So many orthants of a model of trees are counted, which takes seconds; of more, some are drawn.
MOST_ORTHANTS = 1 << 16
# How many directions of the circle are looked at for everything but its exact share.
CIRCLE = 720
SCORES = tuple(PROBABILITY_SCORES)


@dataclass(frozen=True)
class FamilyRays:
    """Rays of one family, before they are followed.

    Attributes:
        name: Short name.
        title: What they are.
        origin: One row, or one per ray.
        direction: One row per ray.
        sampled: Whether the directions stand for more than themselves.
    """

    name: str
    title: str
    origin: Any
    direction: Any
    sampled: bool


@dataclass(frozen=True)
class Axes:
    """Directions along single columns, written out a part at a time."""

    ends: list[tuple[int, float]]
    width: int

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, part: slice) -> Floats:
        chosen = self.ends[part]
        directions = np.zeros((len(chosen), self.width))
        for row, (place, sign) in zip(directions, chosen, strict=True):
            row[place] = sign
        return directions


def axes(subject: Subject) -> FamilyRays | None:
    """Both ends of every feature that has no bound there, from the median row: exact."""
    ends = [
        (feature.places[0], sign)
        for feature in subject.numbers
        for sign, bound in ((-1.0, feature.low), (1.0, feature.high))
        if np.isinf(bound)
    ]
    if not ends:
        return None
    title = "Each feature alone, up and down, from the median row"
    return FamilyRays(
        "axes", title, subject.centre, Axes(ends, subject.is_free.size), sampled=False
    )


def random_directions(subject: Subject, count: int, rng: np.random.Generator) -> FamilyRays | None:
    """Directions uniform on the sphere after whitening, each from a row of the data."""
    if not subject.is_free.any():
        return None
    origins = subject.rows[rng.integers(0, len(subject.rows), count)]
    title = "Random directions, scaled like the data, from rows of the data"
    directions = subject.whitened_directions(count, rng)
    return FamilyRays("random", title, origins, directions, sampled=True)


def whole_circle(subject: Subject, threshold: float) -> Family | None:
    """Two free inputs: every direction there is, as exact arcs of the circle."""
    if subject.is_free.size != 2 or not subject.is_free.all() or not subject.piecewise:
        return None
    if subject.task != "classification":
        return None
    angles = np.linspace(0.0, 2 * np.pi, CIRCLE, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    title = "Every direction of the plane, from the median row"
    shown = follow(
        subject, FamilyRays("circle", title, subject.centre, rays, sampled=False), threshold
    )
    return replace(shown, share=blind_arcs(subject.network, threshold).share)


def orthants(
    subject: Subject, threshold: float, count: int, rng: np.random.Generator
) -> Family | None:
    """Models of steps: all features at once, each up or down; exact if all ways were counted.

    Far away a split sees only on which side its feature went, so that all directions of one
    orthant end alike, however steep.
    """
    if not subject.exact or subject.piecewise or subject.is_image:
        return None
    try:
        used = used_features(subject.network, torch.from_numpy(subject.is_free))
    except UnsupportedOperation:
        return None
    moving = list(used)
    if len(moving) < 2:
        return None
    ways = 1 << len(moving)
    signs = (
        np.arange(ways)[:, None] >> np.arange(len(moving)) & 1
        if ways <= count
        else rng.integers(0, 2, (count, len(moving)))
    )
    directions = np.tile(np.where(subject.is_free, subject.scale, 0.0), (len(signs), 1))
    directions[:, moving] *= 2 * signs - 1
    title = "All features at once, each up or down, from the median row"
    rays = FamilyRays("orthants", title, subject.centre, directions, sampled=ways > count)
    found = follow(subject, rays, threshold)
    if count < ways <= MOST_ORTHANTS and subject.is_free.all():
        return replace(found, share=blind_orthants(subject.network, threshold).share, rays=ways)
    return found


def towards(subject: Subject, name: str, title: str, rows: Floats, limit: int) -> FamilyRays | None:
    """From the mean of the data through given rows and on; bounded columns stay where they are."""
    chosen = rows[np.linspace(0, len(rows) - 1, min(limit, len(rows))).round().astype(int)]
    flat = chosen.reshape(len(chosen), -1)
    mean = np.where(subject.is_free, subject.mean, subject.centre.reshape(-1))
    directions = np.where(subject.is_free, flat - mean, 0.0)
    moving = (directions != 0).any(axis=1)
    if not moving.any():
        return None
    shape = (-1, *rows.shape[1:])
    origins = np.where(subject.is_free, mean, flat)[moving].reshape(shape)
    return FamilyRays(name, title, origins, directions[moving].reshape(shape), sampled=True)


def image_rays(subject: Subject, count: int, rng: np.random.Generator) -> list[FamilyRays]:
    """Scalings of images, and of uniform noise, as in Hein et al. 2019, Table 2."""
    images = subject.spread(count)
    images = images[images.reshape(len(images), -1).any(axis=1)]
    noise = rng.random((count, *subject.rows.shape[1:]))
    found = [
        FamilyRays("noise", "Uniform noise images, scaled up", np.zeros_like(noise[0]), noise, True)
    ]
    if len(images):
        zero = np.zeros_like(images[0])
        found.insert(0, FamilyRays("scaling", "Images of the data, scaled up", zero, images, True))
    return found


def follow(subject: Subject, rays: FamilyRays, threshold: float) -> Family:
    """Follow a family to infinity, a block of rays at a time, and count."""
    size = max(1, BLOCK // subject.is_free.size)
    count = len(rays.direction)
    parts = [
        _facts(subject, rays, slice(first, first + size), threshold, WALKING * min(1, size / count))
        for first in range(0, count, size)
    ]
    facts = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    share = share_of(subject, facts["blind"], sampled=rays.sampled)
    reach = float(facts["reach"].median())
    if subject.task == "regression":
        return Family(rays.name, rays.title, share, count, (), {}, reach, (), {}, 0.0)
    label = facts["label"]
    (settled_at,) = known_quantiles(facts["settled"][None], facts["exact"][None])
    return Family(
        name=rays.name,
        title=rays.title,
        share=share,
        rays=count,
        confidence=quantiles(facts["confidence"], QUANTILES),
        classes={
            name: float((label == place).double().mean())
            for place, name in enumerate(subject.classes)
            if bool((label == place).any())
        },
        reach=reach,
        settled=settled_at.values,
        settled_exact=settled_at.exact,
        scores={name: quantiles(facts[name], THREE) for name in SCORES},
        disagreeing=float(facts["disagreeing"].double().mean()),
        unanswered=float(facts["unanswered"].double().mean()),
        constant=bool(facts["constant"].all()),
    )


def _facts(
    subject: Subject, rays: FamilyRays, part: slice, threshold: float, walking: float
) -> dict[str, Tensor]:
    """What is counted, for one block of rays, ``(rays,)`` each."""
    directions = torch.as_tensor(rays.direction[part], dtype=torch.float64)
    shared = np.ndim(rays.origin) == directions.ndim - 1
    far = subject.far(rays.origin if shared else rays.origin[part], directions)
    per_step = subject.in_deviations(directions)
    found = {
        "blind": is_blind(subject, far, threshold),
        "reach": far.reach.amax(dim=0) * per_step,
    }
    if subject.task == "classification":
        sure = settled(far, walking)
        found |= {
            "confidence": far.confidence,
            "label": far.label,
            "settled": sure.t * per_step,
            "exact": sure.exact,
            "disagreeing": disagreeing(far),
            "unanswered": far.cut if isinstance(far, Seen) else far.undecided.any(dim=0),
            "constant": comes_to_rest(far),
        }
        found |= {name: far.score(name) for name in SCORES}
    return found


def is_blind(subject: Subject, far: FarField | Seen, threshold: float) -> Tensor:
    """``(rays,)`` whether the model says nothing about being far away."""
    if subject.task == "classification" or isinstance(far, Seen):
        return far.confidence >= threshold
    means, scales = regression_slopes(subject, far)
    spread = means.std(dim=0, correction=0)
    apart = spread > 1e-9 * means.abs().amax(dim=0).clamp_min(1e-300)
    grows = torch.zeros_like(apart) if scales is None else (scales > 0).any(dim=0)
    return ~(apart | grows)


def regression_slopes(subject: Subject, far: FarField) -> tuple[Tensor, Tensor | None]:
    """Slopes of the members' means and, where predicted, raw scales: ``(instances, rays)``."""
    if subject.network.one_logit:
        return far.slope[..., 1], None
    return far.slope[..., 0], far.slope[..., 1]


def comes_to_rest(far: FarField | Seen) -> Tensor:
    """``(rays,)`` whether all logits stay as they are from some distance on."""
    if isinstance(far, Seen):
        return torch.zeros_like(far.label, dtype=torch.bool)
    return (far.slope == 0).all(dim=-1).all(dim=0) & far.reach.isfinite().all(dim=0)


def disagreeing(far: FarField | Seen) -> Tensor:
    """``(rays,)`` whether the instances end in different classes."""
    return (far.winner != far.winner[:1]).any(dim=0)


def settled(far: FarField | Seen, walking: float = WALKING) -> SureFrom:
    """``(rays,)`` from where on every instance is 99.9% sure of one common class.

    Infinite where they never are, or where the members disagree. Where limits are only approached
    it is an upper bound, NaN if none was found. What was only seen is not exact.
    """
    if isinstance(far, Seen):
        t = far.distance(SURE)
        return in_common(SureFrom(t, torch.zeros_like(t, dtype=torch.bool)), far.winner)
    return in_common(far.sure_from(SURE, budget=affordable(far, walking)), far.winner)


def affordable(far: FarField, walking: float) -> float:
    """What walking may cost: instances are walked one by one, so many of them are only bounded."""
    return walking if len(far.slope) <= MOST_WALKED else 0.0


def in_common(found: SureFrom, winner: Tensor) -> SureFrom:
    """``(rays,)`` the same for all instances at once; never where they end in different classes."""
    apart, joint = (winner != winner[:1]).any(dim=0), found.jointly
    return SureFrom(joint.t.masked_fill(apart, torch.inf), joint.exact | apart)


@dataclass(frozen=True)
class KnownQuantiles:
    """Three quantiles of distances, and whether they are exact; if not, they are bounds."""

    values: tuple[float, ...]
    exact: bool


def known_quantiles(t: Tensor, exact: Tensor) -> list[KnownQuantiles]:
    """The quantiles of each row of ``(rows, distances)``.

    They are exact if they stay the same when all that is only bounded from above moves away.
    """
    bounded = torch.where(exact, t, -torch.inf)
    most, least = (order_statistics(each, THREE) for each in (t, bounded))
    same = (most == least).all(dim=1).tolist()
    return [KnownQuantiles(tuple(row), sure) for row, sure in zip(most.tolist(), same, strict=True)]


def order_statistics(rows: Tensor, levels: tuple[float, ...]) -> Tensor:
    """``(rows, levels)``: infinite values stay infinite; NaN counts as the largest."""
    ordered = rows.double().sort(dim=1).values
    count = ordered.shape[1]
    return ordered[:, [min(count - 1, int(level * count)) for level in levels if count]]


def quantiles(values: Tensor, levels: tuple[float, ...]) -> tuple[float, ...]:
    """Order statistics, so that infinite values stay infinite; NaN counts as the largest."""
    return tuple(order_statistics(values[None], levels)[0].tolist())


def share_of(subject: Subject, blind: Tensor, *, sampled: bool) -> Share:
    """The share of rays that are blind: exact if all there are were followed to infinity."""
    count, of = int(blind.sum()), len(blind)
    if not subject.exact:
        counted = clopper_pearson(count, of)
        return replace(counted, method=f"{counted.method}, seen out to {OUTMOST:g} sd")
    return clopper_pearson(count, of) if sampled else count / of
