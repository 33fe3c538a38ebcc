"""The ends of features: what the model says at infinity or at a bound, and from where on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from farfield.audit.families import (
    SCORES,
    in_common,
    known_quantiles,
    settled,
    share_of,
)
from farfield.audit.findings import End
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn
from farfield.exact import SureFrom
from farfield.exact.local.assumptions import check_assumptions
from farfield.exact.ray.walk_back import Unsure
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
    found: Ends = {}
    for index, end in enumerate(ends):
        facts = Facts(
            confidence[index, :-1],
            label[index, :-1],
            votes[index, :-1],
            {name: values[index, :-1] for name, values in scores.items()},
            _lasting(subject, end, origins[:-1, end[0]], _part(sure, index, count)),
        )
        told = facts.end(subject, threshold, None, holds[index])
        found[end] = told, float(confidence[index, -1])
    return found


def _directions(ends: list[tuple[int, float]], width: int) -> Floats:
    directions = np.zeros((len(ends), width))
    for index, (place, sign) in enumerate(ends):
        directions[index, place] = sign
    return directions


def _each_end(origins: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """Every row at every end, ends first: where rays start, and where they go."""
    starts = np.tile(origins, (len(directions), 1))
    return starts, np.repeat(directions, len(origins), axis=0)


def _part(sure: SureFrom, end: int, rows: int) -> SureFrom:
    """One end of several; its last row is extra."""
    part = slice(end * rows, (end + 1) * rows - 1)
    return SureFrom(sure.t[part], sure.exact[part])


@dataclass(frozen=True)
class Lasting:
    """From where on confidence lasts at one end: three quantiles over the rows each."""

    distance: tuple[float, ...]
    value: tuple[float, ...]
    beyond: tuple[float, ...]
    exact: bool


def _lasting(subject: Subject, end: tuple[int, float], values: Floats, sure: SureFrom) -> Lasting:
    """How far rows have to go from their values, and which value the feature has there."""
    place, sign = end
    edge = subject.high[place] if sign > 0 else subject.low[place]
    t = sure.t.double()
    distance, exact = known_quantiles(t, sure.exact)
    outward, surely = known_quantiles(torch.from_numpy(sign * values) + t, sure.exact)
    return Lasting(
        distance,
        tuple(sign * each for each in outward),
        tuple((each - sign * edge) / float(subject.scale[place]) for each in outward),
        exact and surely,
    )


def _assumptions(subject: Subject, directions: Floats, rows: Floats) -> list[float | None]:
    """For every direction, the share of rows in whose last region Proposition 2 applies."""
    if not subject.piecewise or directions.shape[1] > MOST_CHECKED_COLUMNS:
        return [None] * len(directions)
    starts = np.tile(rows, (len(directions), 1))
    ways = np.repeat(directions, len(rows), axis=0)
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
    ends, count = list(walls), len(origins)
    sure = _sure_at_walls(subject, walls, origins, walking)
    found: Ends = {}
    for index, end in enumerate(ends):
        (place, sign), bound = end, walls[end]
        values = sign * np.minimum(sign * origins[:-1, place], sign * bound)
        lasting = _lasting(subject, end, values, _part(sure, index, count))
        found[end] = _wall(subject, place, bound, origins, threshold, lasting)
    return found


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


def _wall(
    subject: Subject,
    place: int,
    bound: float,
    origins: Floats,
    threshold: float,
    lasting: Lasting,
) -> tuple[End, float]:
    """One feature at one bound."""
    moved = origins.copy()
    moved[:, place] = bound
    p = subject.model.probabilities(moved)
    inside, mean = p[:, :-1], p.mean(dim=0)
    votes = torch.nn.functional.one_hot(inside.argmax(dim=-1), p.shape[-1]).double().mean(dim=0)
    scores = {name: torch.as_tensor(value) for name, value in all_scores(inside).items()}
    facts = Facts(mean[:-1].amax(dim=-1), mean[:-1].argmax(dim=-1), votes, scores, lasting)
    return facts.end(subject, threshold, float(bound), None), float(mean[-1].amax())


@dataclass(frozen=True)
class Facts:
    """What every sampled row says at one end: confidence, class, votes, scores, from where on."""

    confidence: Tensor
    label: Tensor
    votes: Tensor
    scores: dict[str, Tensor]
    lasting: Lasting

    def end(
        self, subject: Subject, threshold: float, bound: float | None, assumptions: float | None
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
            blind=share_of(subject, self.confidence >= threshold, sampled=False),
            votes={name: share for name, share in votes if share > 0},
            distance=_three(self.lasting.distance),
            beyond=_three(self.lasting.beyond),
            value=_three(self.lasting.value),
            exact=self.lasting.exact,
            assumptions=assumptions,
            scores={name: float(torch.median(values)) for name, values in self.scores.items()},
        )


def _three(values: tuple[float, ...]) -> tuple[float, float, float]:
    low, middle, high = values
    return low, middle, high
