"""The ends of features: what the model says at infinity or at a bound, and from where on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from farfield.audit.families import (
    SCORES,
    KnownQuantiles,
    in_common,
    known_quantiles,
    settled,
    share_of,
)
from farfield.audit.fields.features import End
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn
from farfield.exact import SureFrom
from farfield.exact.local.assumptions import check_assumptions
from farfield.exact.ray.loss import Unsure
from farfield.exact.sure_from import sure_until
from farfield.levels import SURE
from farfield.scores import all_scores

# The assumptions need a Jacobian per ray: checked from a few rows, on tables of usual width.
CHECKED_ROWS = 5
MOST_CHECKED_COLUMNS = 500

Ends = dict[tuple[int, float], tuple[End, float]]


def both_ends(
    subject: Subject, block: list[TableColumn], rows: Floats, threshold: float, walking: float
) -> Ends:
    """Both ends of several features: place and sign to the end and the median row's confidence."""
    bounds = {
        (feature.places[0], sign): feature.high if sign > 0 else feature.low
        for feature in block
        for sign in (-1.0, 1.0)
    }
    open_ends = [end for end, bound in bounds.items() if np.isinf(bound)]
    walls = {end: bound for end, bound in bounds.items() if np.isfinite(bound)}
    origins = np.concatenate([rows, subject.centre[None]])
    found = _open_ends(subject, open_ends, origins, threshold, walking) if open_ends else {}
    return found | (_walls(subject, walls, origins, threshold, walking) if walls else {})


def _open_ends(
    subject: Subject,
    ends: list[tuple[int, float]],
    origins: Floats,
    threshold: float,
    walking: float,
) -> Ends:
    """Follow every row to infinity at every open end, in one evaluation; the last row is extra."""
    count = len(origins)
    directions = _directions(ends, origins.shape[1])
    starts, ways = _each_end(origins, directions)
    far = subject.far(starts, torch.from_numpy(ways))
    sure = settled(far, walking)
    confidence = far.confidence.reshape(len(ends), count)
    label, votes = far.label.reshape(len(ends), count), far.votes.unflatten(0, (-1, count))
    scores = {name: far.score(name).reshape(len(ends), count) for name in SCORES}
    holds = _assumptions(subject, directions, origins[: min(CHECKED_ROWS, count - 1)])
    values = np.stack([origins[:-1, place] for place, _ in ends])
    facts = Facts(
        confidence[:, :-1],
        label[:, :-1],
        votes[:, :-1],
        {name: each[:, :-1] for name, each in scores.items()},
        _lasting(subject, ends, values, sure),
    )
    told = facts.ends(subject, threshold, [None] * len(ends), holds)
    return dict(zip(ends, zip(told, confidence[:, -1].tolist(), strict=True), strict=True))


def _directions(ends: list[tuple[int, float]], width: int) -> Floats:
    directions = np.zeros((len(ends), width))
    for index, (place, sign) in enumerate(ends):
        directions[index, place] = sign
    return directions


def _each_end(origins: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """Every row at every end, ends first: where rays start, and where they go."""
    starts = np.tile(origins, (len(directions), 1))
    return starts, np.repeat(directions, len(origins), axis=0)


@dataclass(frozen=True)
class Lasting:
    """From where on confidence lasts at one end: three quantiles over the rows each."""

    distance: tuple[float, ...]
    value: tuple[float, ...]
    beyond: tuple[float, ...]
    exact: bool


def _lasting(
    subject: Subject, ends: list[tuple[int, float]], values: Floats, sure: SureFrom
) -> list[Lasting]:
    """How far rows have to go from their values ``(ends, rows)``, and what the feature is there.

    The last row of every end in ``sure`` is extra.
    """
    known = SureFrom(*(each.reshape(len(ends), -1)[:, :-1] for each in (sure.t, sure.exact)))
    signs = np.array([sign for _, sign in ends])
    t = known.t.double()
    distances = known_quantiles(t, known.exact)
    outwards = known_quantiles(torch.from_numpy(signs[:, None] * values) + t, known.exact)
    return [_lasting_at(subject, *each) for each in zip(ends, distances, outwards, strict=True)]


def _lasting_at(
    subject: Subject, end: tuple[int, float], distance: KnownQuantiles, outward: KnownQuantiles
) -> Lasting:
    place, sign = end
    edge = subject.high[place] if sign > 0 else subject.low[place]
    return Lasting(
        distance.values,
        tuple(sign * each for each in outward.values),
        tuple((each - sign * edge) / float(subject.scale[place]) for each in outward.values),
        distance.exact and outward.exact,
    )


def _assumptions(subject: Subject, directions: Floats, rows: Floats) -> list[float | None]:
    """For every direction, the share of rows in whose last region Proposition 2 applies."""
    if not subject.piecewise or directions.shape[1] > MOST_CHECKED_COLUMNS:
        return [None] * len(directions)
    starts, ways = _each_end(rows, directions)
    holds = check_assumptions(subject.network, starts, ways, entries=0).proposition_2
    return [float(share) for share in holds.double().mean(dim=0).reshape(-1, len(rows)).mean(dim=1)]


def _walls(
    subject: Subject,
    walls: dict[tuple[int, float], float],
    origins: Floats,
    threshold: float,
    walking: float,
) -> Ends:
    """What the model says with features at their bounds; there is no further to go."""
    ends, sides = list(walls), [sign * walls[place, sign] for place, sign in walls]
    sure = _sure_at_walls(subject, walls, origins, walking)
    values = [
        sign * np.minimum(sign * origins[:-1, place], side)
        for (place, sign), side in zip(ends, sides, strict=True)
    ]
    moved = np.tile(origins, (len(ends), 1, 1))
    for rows, (place, sign) in zip(moved, ends, strict=True):
        rows[:, place] = walls[place, sign]
    asked = subject.model.probabilities(moved.reshape(-1, origins.shape[1]))
    p = asked.unflatten(1, (len(ends), len(origins)))
    inside, mean = p[:, :, :-1], p.mean(dim=0)
    facts = Facts(
        mean[:, :-1].amax(dim=-1),
        mean[:, :-1].argmax(dim=-1),
        torch.nn.functional.one_hot(inside.argmax(dim=-1), p.shape[-1]).double().mean(dim=0),
        {
            name: torch.as_tensor(each).reshape(len(ends), -1)
            for name, each in all_scores(inside.flatten(1, 2)).items()
        },
        _lasting(subject, ends, np.stack(values), sure),
    )
    told = facts.ends(subject, threshold, list(walls.values()), [None] * len(ends))
    return dict(zip(ends, zip(told, mean[:, -1].amax(dim=-1).tolist(), strict=True), strict=True))


def _sure_at_walls(
    subject: Subject, walls: dict[tuple[int, float], float], origins: Floats, walking: float
) -> SureFrom:
    """From where on every row is sure, up to every bound; not known of what is only evaluated."""
    ends, count = list(walls), len(origins)
    if not subject.exact:
        t = torch.full((len(ends) * count,), torch.nan, dtype=torch.float64)
        return SureFrom(t, torch.zeros_like(t, dtype=torch.bool))
    starts, ways = _each_end(origins, _directions(ends, origins.shape[1]))
    bounds = np.repeat([sign * walls[place, sign] for place, sign in ends], count)
    # A row that is beyond the bound is there already.
    stop = np.maximum(bounds - (starts * ways).sum(axis=1), 0.0)
    starts += np.minimum(bounds - (starts * ways).sum(axis=1), 0.0)[:, None] * ways
    origin, direction, end = map(torch.from_numpy, (starts, ways, stop))
    loss = Unsure(SURE)
    found, label = sure_until(subject.network, origin, direction, end, loss, walking)
    return in_common(found, label)


@dataclass(frozen=True)
class Facts:
    """What every sampled row says at several ends, ``(ends, rows)`` each; votes by class."""

    confidence: Tensor
    label: Tensor
    votes: Tensor
    scores: dict[str, Tensor]
    lasting: list[Lasting]

    def ends(
        self,
        subject: Subject,
        threshold: float,
        bounds: Sequence[float | None],
        assumptions: Sequence[float | None],
    ) -> list[End]:
        """Summarise over rows, all ends at once: there may be many thousands."""
        counts = torch.zeros(len(self.label), len(subject.classes), dtype=torch.int64)
        counts.scatter_add_(1, self.label.cpu(), torch.ones_like(self.label.cpu()))
        most, winner = counts.max(dim=1)
        extremes = (torch.amin, lambda c, dim: c.median(dim=dim).values, torch.amax)
        confidence = torch.stack([f(self.confidence, dim=1) for f in extremes], dim=1).tolist()
        votes = self.votes.mean(dim=1).tolist()
        names = list(self.scores)
        scores = torch.stack([each.median(dim=1).values for each in self.scores.values()], dim=1)
        blind = self.confidence >= threshold
        rows = zip(
            bounds, winner.tolist(), most.tolist(), confidence, votes, scores.tolist(), strict=True
        )
        return [
            End(
                bound=bound,
                label=subject.classes[label],
                share=count / self.label.shape[1],
                confidence=_three(sure),
                blind=share_of(subject, blind[index], sampled=False),
                votes={c: v for c, v in zip(subject.classes, shares, strict=True) if v > 0},
                distance=_three(self.lasting[index].distance),
                beyond=_three(self.lasting[index].beyond),
                value=_three(self.lasting[index].value),
                exact=self.lasting[index].exact,
                assumptions=assumptions[index],
                scores=dict(zip(names, score, strict=True)),
            )
            for index, (bound, label, count, sure, shares, score) in enumerate(rows)
        ]


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = values
    return low, middle, high
