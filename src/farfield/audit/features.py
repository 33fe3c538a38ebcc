"""One feature at a time, up and down: what the model says at the end, and from where on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from farfield.audit.black_box import OUTMOST
from farfield.audit.families import SCORES, THREE, quantiles, settled
from farfield.audit.findings import End, Feature, Kind, Value
from farfield.audit.subject import Floats, Moving, Subject
from farfield.exact.local.assumptions import check_assumptions
from farfield.scores import all_scores

# Signed distances of a feature's curve in standard deviations; the ends are the limits.
MAGNITUDES = tuple(float(f"{10 ** (k / 2):.4g}") for k in range(-2, 9))
CURVE_STEPS = (
    -np.inf,
    *(-step for step in reversed(MAGNITUDES)),
    0.0,
    *MAGNITUDES,
    np.inf,
)
# The work of the per-feature table: multiplications, rays and rows per feature at most.
WORK = 2e10
MOST_RAYS = 20_000
# Rays of a model that can only be evaluated cost many evaluations each.
MOST_LOOKED_AT = 2_000
MOST_ROWS = 100
# How many numbers the rays of one block of features may hold.
BLOCK = 1 << 22
# The assumptions need a Jacobian per ray: checked from a few rows, on tables of usual width.
CHECKED_ROWS = 5
MOST_CHECKED_COLUMNS = 500


def curve_steps(subject: Subject) -> tuple[float, ...]:
    """The distances of a feature's curve; where nothing is known of infinity, the last look."""
    if subject.exact:
        return CURVE_STEPS
    return (-OUTMOST, *CURVE_STEPS[1:-1], OUTMOST)


def table(
    subject: Subject, threshold: float, weights: int, advance: Callable[[float], None]
) -> tuple[Feature, ...]:
    """Describe every feature.

    Args:
        subject: The model and its data.
        threshold: From which confidence on an end counts as blind.
        weights: How many weights the model has, all instances together: the cost of one ray.
        advance: Called with the share of the work that is done.
    """
    count = max(1, len(subject.moving))
    rays = min(MOST_RAYS, WORK / max(1, weights)) if subject.exact else MOST_LOOKED_AT
    rows = subject.spread(int(np.clip(rays / (2 * count), 3, MOST_ROWS)))
    numeric = [feature for feature in subject.moving if not feature.categorical]
    size = max(1, BLOCK // (subject.centre.size * 2 * (len(rows) + 1)))
    found: dict[str, Feature] = {}
    for first in range(0, len(numeric), size):
        block = numeric[first : first + size]
        ends = _ends(subject, block, rows, threshold)
        for feature, curve in zip(block, _curves(subject, block), strict=True):
            found[feature.name] = _numeric(subject, feature, ends, curve)
        advance((first + len(block)) / count)
    for feature in subject.moving:
        if feature.categorical:
            found[feature.name] = _categorical(subject, feature, rows)
    advance(1.0)
    return tuple(found[feature.name] for feature in subject.moving)


Ends = dict[tuple[int, float], tuple[End, float]]


def _ends(subject: Subject, block: list[Moving], rows: Floats, threshold: float) -> Ends:
    """Both ends of several features: place and sign to the end and the median row's confidence."""
    bounds = {
        (feature.places[0], sign): feature.high if sign > 0 else feature.low
        for feature in block
        for sign in (-1.0, 1.0)
    }
    open_ends = [end for end, bound in bounds.items() if np.isinf(bound)]
    walls = {end: bound for end, bound in bounds.items() if np.isfinite(bound)}
    origins = np.concatenate([rows, subject.centre[None]])
    found = _open_ends(subject, open_ends, origins, threshold) if open_ends else {}
    return found | {
        end: _wall(subject, end[0], bound, origins, threshold) for end, bound in walls.items()
    }


def _open_ends(
    subject: Subject, ends: list[tuple[int, float]], origins: Floats, threshold: float
) -> Ends:
    """Follow every row to infinity at every open end, in one evaluation; the last row is extra."""
    count, width = origins.shape
    directions = np.zeros((len(ends), width))
    for index, (place, sign) in enumerate(ends):
        directions[index, place] = sign
    starts = np.broadcast_to(origins, (len(ends), count, width)).reshape(-1, width)
    ways = np.repeat(directions, count, axis=0)
    far = subject.far(starts, torch.from_numpy(ways))
    distance = settled(far).reshape(len(ends), count)
    confidence = far.confidence.reshape(len(ends), count)
    label, votes = far.label.reshape(len(ends), count), far.votes.unflatten(0, (-1, count))
    scores = {name: far.score(name).reshape(len(ends), count) for name in SCORES}
    holds = _assumptions(subject, directions, origins[: min(CHECKED_ROWS, count - 1)])
    found: Ends = {}
    for index, (place, sign) in enumerate(ends):
        edge = subject.high[place] if sign > 0 else subject.low[place]
        start = torch.from_numpy(sign * (origins[:-1, place] - edge))
        far_off = distance[index, :-1]
        facts = Facts(
            confidence[index, :-1],
            label[index, :-1],
            votes[index, :-1],
            {name: values[index, :-1] for name, values in scores.items()},
        )
        beyond = (start + far_off) / float(subject.scale[place])
        end = facts.end(subject, threshold, None, (far_off, beyond), holds[index])
        found[place, sign] = end, float(confidence[index, -1])
    return found


def _assumptions(subject: Subject, directions: Floats, rows: Floats) -> list[float | None]:
    """For every direction, the share of rows in whose last region Proposition 2 applies."""
    if not subject.piecewise or directions.shape[1] > MOST_CHECKED_COLUMNS:
        return [None] * len(directions)
    starts = np.tile(rows, (len(directions), 1))
    ways = np.repeat(directions, len(rows), axis=0)
    holds = check_assumptions(subject.network, starts, ways, entries=0).proposition_2
    return [float(share) for share in holds.double().mean(dim=0).reshape(-1, len(rows)).mean(dim=1)]


def _wall(
    subject: Subject, place: int, bound: float, origins: Floats, threshold: float
) -> tuple[End, float]:
    """What the model says with a feature at its bound; there is no further to go."""
    moved = origins.copy()
    moved[:, place] = bound
    p = subject.model.probabilities(moved)
    inside, mean = p[:, :-1], p.mean(dim=0)
    votes = torch.nn.functional.one_hot(inside.argmax(dim=-1), p.shape[-1]).double().mean(dim=0)
    never = torch.full((len(origins) - 1,), torch.inf, dtype=torch.float64)
    scores = {name: torch.as_tensor(value) for name, value in all_scores(inside).items()}
    facts = Facts(mean[:-1].amax(dim=-1), mean[:-1].argmax(dim=-1), votes, scores)
    end = facts.end(subject, threshold, float(bound), (never, never), None)
    return end, float(mean[-1].amax())


@dataclass(frozen=True)
class Facts:
    """What every sampled row says at one end: confidence, class, votes and scores."""

    confidence: Tensor
    label: Tensor
    votes: Tensor
    scores: dict[str, Tensor]

    def end(
        self,
        subject: Subject,
        threshold: float,
        bound: float | None,
        distances: tuple[Tensor, Tensor],
        assumptions: float | None,
    ) -> End:
        """Summarise over rows."""
        counts = torch.bincount(self.label, minlength=len(subject.classes))
        winner = int(counts.argmax())
        votes = zip(subject.classes, self.votes.mean(dim=0).tolist(), strict=True)
        extremes = (torch.min, torch.median, torch.max)
        least, middle, most = (float(f(self.confidence)) for f in extremes)
        return End(
            bound=bound,
            label=subject.classes[winner],
            share=float(counts[winner]) / len(self.label),
            confidence=(least, middle, most),
            blind=float((self.confidence >= threshold).double().mean()),
            votes={name: share for name, share in votes if share > 0},
            distance=_three(distances[0]),
            beyond=_three(distances[1]),
            assumptions=assumptions,
            scores={name: float(torch.median(values)) for name, values in self.scores.items()},
        )


def _three(values: Tensor) -> tuple[float, float, float]:
    low, middle, high = quantiles(values, THREE)
    return low, middle, high


def _numeric(subject: Subject, feature: Moving, ends: Ends, curve: Tensor) -> Feature:
    place = feature.places[0]
    (down, at_bottom), (up, at_top) = ends[place, -1.0], ends[place, 1.0]
    unbounded = np.isinf(feature.low) and np.isinf(feature.high)
    kind: Kind = "numeric" if unbounded else "bounded"
    inner = [round(value, 4) for value in curve.tolist()[1:-1]]
    return Feature(
        name=feature.name,
        kind=kind,
        unit=feature.unit,
        low=float(subject.low[place]),
        high=float(subject.high[place]),
        mean=float(subject.mean[place]),
        std=float(subject.std[place]),
        down=down,
        up=up,
        curve=(round(at_bottom, 4), *inner, round(at_top, 4)),
    )


def _curves(subject: Subject, block: list[Moving]) -> Tensor:
    """The confidence of the median row along several features, ``(features, steps)``."""
    steps = np.nan_to_num(np.array(CURVE_STEPS), posinf=0.0, neginf=0.0)
    rows = np.tile(subject.centre, (len(block), len(steps), 1))
    for index, feature in enumerate(block):
        place = feature.places[0]
        values = subject.centre[place] + steps * subject.scale[place]
        rows[index, :, place] = np.clip(values, feature.low, feature.high)
    p = subject.model.probabilities(rows.reshape(-1, subject.centre.size)).mean(dim=0)
    return p.amax(dim=-1).reshape(len(block), len(steps))


def _categorical(subject: Subject, feature: Moving, rows: Floats) -> Feature:
    """Move every sampled row to each category in turn."""
    block = list(feature.places)
    before = subject.model.probabilities(rows).mean(dim=0)
    values = []
    for index, (value, count) in enumerate(zip(feature.values, feature.counts, strict=True)):
        moved = rows.copy()
        moved[:, block] = 0.0
        moved[:, block[index]] = 1.0
        after = subject.model.probabilities(moved).mean(dim=0)
        values.append(
            Value(
                value=value,
                rows=count,
                confidence=(float(before.amax(-1).mean()), float(after.amax(-1).mean())),
                changed=float((after.argmax(-1) != before.argmax(-1)).double().mean()),
            )
        )
    return Feature(
        name=feature.name,
        kind="categorical",
        unit=feature.unit,
        low=0.0,
        high=1.0,
        mean=float("nan"),
        std=float("nan"),
        down=None,
        up=None,
        curve=(),
        values=tuple(values),
    )
