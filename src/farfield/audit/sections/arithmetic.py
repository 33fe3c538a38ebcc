"""Where the arithmetic of the model itself gives out: NaN, overflow, or rounding off its limit.

The far field is a limit of real numbers. Whoever runs the model runs it in float32, say, where a
difference of large logits rounds to nothing, or to infinity minus infinity. So the model itself is
asked at powers of ten along rays, as far as a float32 can hold the input.

An answer has left the limit if it is further than :data:`AWAY` from it, while it was at the limit
nearer by, or the same row in float64 still is, and nothing in the network switches any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.audit.case import Case
from farfield.audit.evaluators import own_answers, precision_of
from farfield.audit.fields.arithmetic import Arithmetic, Lapse
from farfield.audit.subject import Floats
from farfield.distributions import TOLERANCE
from farfield.errors import FarfieldError
from farfield.exact import FarField

# Features whose ends are followed, random directions, and powers of ten in standard deviations.
FEATURES, RANDOM, POWERS = 32, 2, 38
# Inputs beyond this are not tried: the largest float32 is some 3.4e38.
LARGEST = 3e38
# Numbers that the model is asked about at a time.
MOST_NUMBERS = 1_000_000
# Rows of the data on which the model must say what was captured.
COMPARED = 16
# How far an answer is from the limit that it has left, and how near it must have been.
AWAY, NEAR = 0.01, 0.001


@dataclass(frozen=True, eq=False)
class _Rays:
    """Rays from some rows, one unit being a standard deviation; the feature that moves, if one."""

    names: list[str]
    columns: list[str]
    places: list[int]
    origins: Floats
    directions: Floats

    def at(self, size: float) -> Floats:
        """``(rays, inputs)`` that many standard deviations out."""
        rows: Floats = self.origins + size * self.directions
        return rows

    def answers(self, ask: Callable[[Floats], Any], sizes: Sequence[float]) -> list[Floats]:
        """What is answered at each of some sizes, ``(rays, classes)``, with few questions."""
        step = max(1, MOST_NUMBERS // self.origins.size)
        found: list[Floats] = []
        for start in range(0, len(sizes), step):
            some = sizes[start : start + step]
            rows = np.concatenate([self.at(size) for size in some])
            found += np.split(np.asarray(ask(rows), dtype=float), len(some))
        return found


def compute(case: Case) -> dict[str, Any]:
    """Ask the model itself at powers of ten."""
    subject = case.subject
    own = (
        own_answers(case.loaded.original, case.source, case.data)
        if subject.exact
        else _of_black_box(case)
    )
    rays = _rays(case)
    if own is None or not rays.names or not _agrees(own, case):
        return {}
    case.stage("arithmetic")
    powers = [10.0**power for power in range(POWERS)]
    sizes = np.array([each for each in powers if np.abs(rays.at(each)).max() <= LARGEST])
    answers, refused = _asked(own, rays, sizes)
    lapses = [*_silent(rays, sizes, answers), *_left(case, rays, sizes, answers)]
    soonest: dict[str, Lapse] = {}
    for each in sorted(lapses, key=lambda lapse: lapse.deviations):
        soonest.setdefault(each.ray, each)
    outmost = float(sizes[max(0, len(answers) - 1)])
    precision = precision_of(case.loaded.original)
    made = Arithmetic(precision, len(rays.names), outmost, refused, tuple(soonest.values()))
    return {"arithmetic": made}


def _agrees(own: Callable[[Floats], Any], case: Case) -> bool:
    """Whether answers on the data are what was captured; else outputs were taken for others."""
    rows = case.subject.spread(COMPARED)
    try:
        p = np.asarray(own(rows), dtype=float)
    except FarfieldError:
        return False
    read = case.subject.model.probabilities(rows).mean(dim=0).numpy()
    return p.shape == read.shape and bool((np.abs(p - read) <= AWAY).all())


def _of_black_box(case: Case) -> Callable[[Floats], Any]:
    model = case.subject.model
    return lambda rows: model.probabilities(rows).mean(dim=0).numpy()


def _rays(case: Case) -> _Rays:
    """Both open ends of the most telling features from the median row, and random directions."""
    subject = case.subject
    names, columns, places, origins, ways = [], [], [], [], []
    for feature in case.telling[:FEATURES]:
        for sign, bound, word in ((1.0, feature.high, "up"), (-1.0, feature.low, "down")):
            if np.isinf(bound):
                place = feature.places[0]
                way = np.zeros_like(subject.centre)
                way[place] = sign * subject.scale[place]
                names.append(f"{feature.name} {word}")
                columns.append(feature.name)
                places.append(place)
                origins.append(subject.centre)
                ways.append(way)
    if subject.is_free.any():
        drawn = subject.whitened_directions(RANDOM, np.random.default_rng(case.settings.seed))
        lengths = subject.in_deviations(torch.from_numpy(drawn)).numpy()
        for index, way in enumerate(drawn / lengths[:, None]):
            names.append(f"random direction {index + 1}")
            columns.append("")
            places.append(-1)
            origins.append(subject.rows[index % len(subject.rows)])
            ways.append(way)
    return _Rays(names, columns, places, np.array(origins), np.array(ways))


def _asked(
    own: Callable[[Floats], Any], rays: _Rays, sizes: Floats
) -> tuple[list[Floats], float | None]:
    """What the model answers size by size, ``(rays, classes)``, until it raises an error."""
    with suppress(FarfieldError):
        return rays.answers(own, sizes.tolist()), None
    found: list[Floats] = []
    for size in sizes.tolist():
        try:
            found += rays.answers(own, [size])
        except FarfieldError:
            return found, size
    return found, None


def _is_answer(p: Floats) -> NDArray[np.bool_]:
    """``(rays,)`` where numbers are a distribution."""
    with np.errstate(invalid="ignore"):
        total = np.abs(p.sum(axis=1) - 1.0) <= TOLERANCE
        inside = (p >= -TOLERANCE).all(axis=1)
    return np.asarray(total & inside & np.isfinite(p).all(axis=1))


def _silent(rays: _Rays, sizes: Floats, answers: list[Floats]) -> Iterator[Lapse]:
    """Rays on which there is no answer, from where on."""
    for size, p in zip(sizes.tolist(), answers, strict=False):
        for index in np.flatnonzero(~_is_answer(p)).tolist():
            yield _lapse(rays, index, size, answer=False)


def _left(case: Case, rays: _Rays, sizes: Floats, answers: list[Floats]) -> Iterator[Lapse]:
    """Rays on which the answer leaves the exact limit, from where on."""
    far = case.subject.far(rays.origins, torch.from_numpy(rays.directions))
    if not isinstance(far, FarField):
        return
    network, limit = case.subject.network, far.probabilities.mean(dim=0).numpy()
    reach = far.reach.amax(dim=0).numpy()
    decided = np.isfinite(limit).all(axis=1) & ~far.undecided.any(dim=0).numpy()
    was_near = np.zeros(len(limit), dtype=bool)
    winner = limit.argmax(axis=1)
    asked = sizes[: len(answers)].tolist()
    read = rays.answers(lambda rows: network.probabilities(rows).mean(dim=0), asked)
    for size, p, exact in zip(asked, answers, read, strict=True):
        gap = np.abs(p - limit).max(axis=1)
        still = np.abs(exact - limit).max(axis=1) <= NEAR
        settled = decided & (reach <= size)
        left = settled & _is_answer(p) & (gap > AWAY) & (was_near | still)
        for index in np.flatnonzero(left).tolist():
            yield _lapse(
                rays,
                index,
                size,
                answer=True,
                got=float(p[index, winner[index]]),
                limit=float(limit[index, winner[index]]),
            )
        was_near |= settled & (gap <= NEAR)


def _lapse(rays: _Rays, index: int, size: float, **told: Any) -> Lapse:
    place = rays.places[index]
    value = float(rays.at(size)[index, place]) if place >= 0 else float("nan")
    return Lapse(rays.names[index], rays.columns[index], deviations=size, value=value, **told)
