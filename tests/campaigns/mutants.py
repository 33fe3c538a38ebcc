"""Rules that are broken on purpose: each must be caught by the referee."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from farfield.graph.rules import RULES, Affine, Pieces, Smooth

Change = Callable[[Any], Any]


def rolled(operation: Affine) -> Affine | None:
    """The right values in the wrong places."""

    def wrong(*args: Any) -> Any:
        out = operation.function(*args)
        return out.flatten(1).roll(1, 1).reshape(out.shape)

    return None if operation.terms else dataclasses.replace(operation, function=wrong)


def turned_over(operation: Affine) -> Affine:
    """The wrong sign, and twice as much: the wrong sign twice would be right again."""
    function, magnitude = operation.function, operation.magnitude or operation.function
    return dataclasses.replace(
        operation,
        function=lambda *args: -2 * function(*args),
        magnitude=lambda *args: 2 * magnitude(*args),
        terms=operation.terms + 1,
    )


def without_offset(operation: Affine) -> Affine | None:
    return None if operation.offset is None else dataclasses.replace(operation, offset=None)


def swapped(pieces: Pieces) -> Pieces | None:
    """The pieces in the wrong order, if that is another one."""
    turned = Pieces(pieces.thresholds, pieces.slopes[::-1], pieces.intercepts[::-1])
    tensors = any(isinstance(slope, torch.Tensor) for slope in pieces.slopes)
    return turned if pieces.thresholds and (tensors or turned != pieces) else None


def moved(pieces: Pieces) -> Pieces | None:
    """Thresholds in the wrong place."""
    if not pieces.thresholds:
        return None
    return dataclasses.replace(pieces, thresholds=tuple(t + 1.5 for t in pieces.thresholds))


def nudged(pieces: Pieces) -> Pieces | None:
    """A tie that belongs to the wrong piece; only a jump can tell."""
    if len(pieces.thresholds) != 1 or any(isinstance(s, torch.Tensor) for s in pieces.slopes):
        return None
    place = float(pieces.thresholds[0])
    low, high = (s * place + b for s, b in zip(pieces.slopes, pieces.intercepts, strict=True))
    if low == high:
        return None
    return dataclasses.replace(pieces, thresholds=(math.nextafter(place, -math.inf),))


def turned(curve: Smooth) -> Smooth:
    """The ends exchanged."""
    return dataclasses.replace(curve, below=curve.above, above=curve.below)


def lifted(curve: Smooth) -> Smooth:
    above = dataclasses.replace(curve.above, intercept=curve.above.intercept + 1)
    return dataclasses.replace(curve, above=above)


def lowered(curve: Smooth) -> Smooth:
    below = dataclasses.replace(curve.below, intercept=curve.below.intercept - 1)
    return dataclasses.replace(curve, below=below)


def without_rest(curve: Smooth) -> Smooth:
    """The wrong value where nothing moves."""
    return dataclasses.replace(curve, function=lambda rows: curve.function(rows) + 1)


MUTATIONS: dict[str, list[Change]] = {
    "affine": [rolled, turned_over, without_offset],
    "piecewise": [swapped, moved, nudged],
    "smooth": [turned, lifted, lowered, without_rest],
    "largest": [lambda sign: -sign],
    "choice": [lambda branches: branches[::-1]],
}


class Broken:
    """A domain that changes what a rule says before it passes it on."""

    def __init__(self, domain: Any, method: str, change: Change, applied: list[bool]) -> None:
        self.domain, self.method, self.change, self.applied = domain, method, change, applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self.domain, name)

    def _changed(self, method: str, given: Any) -> Any:
        changed = self.change(given) if method == self.method else None
        if changed is None:
            return given
        self.applied.append(True)
        return changed

    def affine(self, operation: Affine, *values: Any) -> Any:
        return self.domain.affine(self._changed("affine", operation), *values)

    def piecewise(self, value: Any, pieces: Pieces) -> Any:
        return self.domain.piecewise(value, self._changed("piecewise", pieces))

    def smooth(self, value: Any, curve: Smooth) -> Any:
        return self.domain.smooth(value, self._changed("smooth", curve))

    def largest(self, candidates: Any, sign: int = 1, places: Any = None) -> Any:
        return self.domain.largest(candidates, self._changed("largest", sign), places)

    def choice(self, mask: Any, yes: Any, no: Any) -> Any:
        return self.domain.choice(mask, *self._changed("choice", (yes, no)))


Way = tuple[str, Change]


class Listening(Broken):
    """A domain that changes nothing, and notes which mutations would change what it is asked."""

    def __init__(self, domain: Any, ways: set[Way]) -> None:
        super().__init__(domain, "", lambda given: None, [])
        self.ways = ways

    def _changed(self, method: str, given: Any) -> Any:
        for change in MUTATIONS[method]:
            if (method, change) not in self.ways and change(given) is not None:
                self.ways.add((method, change))
        return given


@contextmanager
def broken(target: Any, method: str, change: Change) -> Iterator[list[bool]]:
    """Break one rule; the list tells whether that made any difference to what it says."""
    rule, applied = RULES[target], []

    def lower(domain: Any, *args: Any, **kwargs: Any) -> Any:
        return rule.lower(Broken(domain, method, change, applied), *args, **kwargs)

    RULES[target] = dataclasses.replace(rule, lower=lower)
    try:
        yield applied
    finally:
        RULES[target] = rule


@contextmanager
def heard(target: Any) -> Iterator[set[Way]]:
    """Listen to a rule: in which ways what it says to a domain can be broken."""
    rule, ways = RULES[target], set()

    def lower(domain: Any, *args: Any, **kwargs: Any) -> Any:
        return rule.lower(Listening(domain, ways), *args, **kwargs)

    RULES[target] = dataclasses.replace(rule, lower=lower)
    try:
        yield ways
    finally:
        RULES[target] = rule
