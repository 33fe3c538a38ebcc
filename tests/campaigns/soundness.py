"""Certified rays against exact arithmetic, for as long as one likes.

``make soundness SECONDS=600 SEED=1`` draws networks around every operation of the rule table, with
ordinary, whole, tiny, denormal, huge and tied weights and with parameters at random, follows
batches of rays with ``certify=True``, and evaluates the same network exactly at two points that lie
beyond every breakpoint. Whatever is certified must be what the two values say: which logits
grow fastest, which of those is largest, and, where the numbers are harmless, slopes and intercepts.
Between them come networks that were built to have a known answer: see :mod:`campaigns.planted`.

A wrong ray is printed with the seed of its case, which repeats it, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import random
import sys
import time
from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
import torch
from flint import arb, ctx, fmpq

import farfield as ff
from campaigns.drawing import (
    CLASSES,
    ELEMENTS,
    HARMLESS,
    INSTANCES,
    RAYS,
    TEMPLATES,
    Case,
    make_case,
)
from campaigns.exact_numbers import Array, Numbers
from campaigns.exact_operations import evaluate
from campaigns.planted import run_planted
from farfield.errors import NumericalOverflow
from farfield.exact import ladder

# How precise balls are, how far out they go, and what they take for equal.
BITS = 1600
BALLS_FAR = 400
SMALL = arb(2) ** -200


def _span(values: Any) -> int:
    """Bits from the last one of the smallest to the first one of the largest number."""
    array = np.abs(np.asarray(values, dtype=float)).ravel()
    array = array[(array != 0) & np.isfinite(array)]
    if not len(array):
        return 2
    mantissas, exponents = np.frexp(array)
    whole = (mantissas * 2.0**53).astype(np.int64)
    lowest = exponents - 53 + np.log2((whole & -whole).astype(float)).astype(int)
    return int(max(exponents.max(), 0) - min(lowest.min(), 0)) + 2 + int(np.log2(array.size + 1))


def far_out(case: Case, constants: Any) -> int:
    """Bits of a ``t`` beyond every breakpoint.

    Every slope is a multiple of the product of the last bits of all factors, but for means,
    whose counts get some bits more; every intercept is at most the product of the largest.
    """
    (group,) = case.network.groups
    scalars = [
        item
        for step in group.program.steps
        for item in step.args
        if isinstance(item, float) and math.isfinite(item)
    ]
    spans = [_span(tensor) for tensor in constants.values() if tensor.is_floating_point()]
    divisors = [
        _span(1 / t) for t in constants.values() if t.is_floating_point() and bool((t != 0).all())
    ]
    spans += [_span([number, 1 / number if number else 1.0]) for number in scalars]
    return 128 + sum(spans) + sum(divisors) + _span(case.origins) + _span(case.directions)


class Referee:
    """Slopes and intercepts by evaluation at two points far out.

    Balls with enough bits hold sums of products of floats exactly, and know that they do; where
    they do not (a mean of three), and nothing else needs them, fractions do.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rays: dict[str, tuple[Array, ...]] = {}

    def _read(self, kind: str) -> tuple[Array, ...]:
        numbers, ends = Numbers(kind), (self.case.origins, self.case.directions)
        return tuple(numbers.array(torch.from_numpy(end)) for end in ends)

    def judge(self, constants: Any) -> tuple[Array, Array]:
        """``(rays, classes)`` slopes and intercepts with these weights."""
        if self.case.curved:
            ctx.prec = BITS
            return self._evaluate(constants, "balls", BALLS_FAR)
        bits = far_out(self.case, constants)
        ctx.prec = 3 * bits
        slopes, intercepts = self._evaluate(constants, "balls", bits)
        if all(value.is_exact() for value in itertools.chain(slopes.flat, intercepts.flat)):
            return slopes, intercepts
        return self._evaluate(constants, "fractions", bits)

    def _evaluate(self, constants: Any, kind: str, bits: int) -> tuple[Array, Array]:
        t = (arb(1) if kind == "balls" else fmpq(1)) * 2**bits
        if kind not in self.rays:
            self.rays[kind] = self._read(kind)
        origins, directions = self.rays[kind]
        rows = np.concatenate([origins + directions * t, origins + directions * (2 * t)])
        (group,) = self.case.network.groups
        near, far = np.split(evaluate(group.program, constants, rows, Numbers(kind)), 2)
        slope = (far - near) / t
        return slope, near - slope * t


@dataclasses.dataclass
class Tally:
    """What a campaign has seen."""

    rays: int = 0
    certified: int = 0
    overflowed: int = 0
    planted: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)
    kinds: Counter[str] = dataclasses.field(default_factory=Counter)
    names: Counter[str] = dataclasses.field(default_factory=Counter)


class Trial:
    """A case and what the referee says of it, who is asked once however often it is run."""

    def __init__(self, name: str, seed: str, instances: int, rays: int) -> None:
        self.case = make_case(name, seed, instances, rays)
        self.instances, self.rays = instances, rays
        self.title = f"{name} seed={seed!r} {self.case.kind}"

    @cached_property
    def verdicts(self) -> list[tuple[Array, Array]]:
        """Slopes and intercepts of every instance."""
        (group,) = self.case.network.groups
        referee = Referee(self.case)
        return [referee.judge(group.instance(index)) for index in range(self.instances)]

    def run(self, tally: Tally) -> None:
        """Follow the rays, and hold what is certified against the referee."""
        case = self.case
        try:
            far = ff.at_infinity(
                case.network, case.origins, case.directions, certify=True, budget=60.0
            )
        except NumericalOverflow:
            tally.overflowed += self.instances * self.rays
            return
        tally.rays += self.instances * self.rays
        for index, verdict in enumerate(self.verdicts):
            certified = far.certified[index].numpy()
            tally.certified += int(certified.sum())
            tally.kinds[case.kind] += int(certified.sum())
            tally.names[case.name] += int(certified.sum())
            for what, where in disagreements(case, far, index, *verdict).items():
                for ray in np.flatnonzero(where & certified):
                    tally.wrong.append(f"{self.title} {index} {ray}: {what}")


def run_case(
    name: str, seed: str, tally: Tally, instances: int = INSTANCES, rays: int | None = None
) -> None:
    """Draw one case and run it."""
    rays = rays or min(RAYS, max(8, ELEMENTS // math.prod(TEMPLATES[name][0])))
    Trial(name, seed, instances, rays).run(tally)


def disagreements(
    case: Case, far: Any, index: int, slopes: Array, intercepts: Array
) -> dict[str, Array]:
    """``(rays,)`` in what each ray differs from the referee."""
    leads, winner = far.leading[index].numpy(), far.winner[index].numpy()[:, None]
    top = slopes - np.maximum.reduce(slopes, axis=1)[:, None]
    leading = (abs(top) < SMALL if case.curved else top == 0).astype(bool)
    ahead = intercepts - np.take_along_axis(intercepts, winner, axis=1)
    better = (ahead > (SMALL if case.curved else 0)).astype(bool)
    # Of equals the first counts; behind smooth functions, equal means alike.
    earlier = (ahead == 0).astype(bool) & (np.arange(CLASSES) < winner) & (not case.curved)
    wrong = {
        "leading": (leads != leading).any(axis=1),
        "winner": (leading & (better | earlier)).any(axis=1),
    }
    if case.kind in HARMLESS:
        for what, found, exact in (
            ("slope", far.slope[index].numpy(), slopes),
            ("intercept", far.intercept[index].numpy(), intercepts),
        ):
            expected = exact.astype(float)
            room = 1e-6 * (1 + np.abs(expected).max(axis=1, keepdims=True))
            wrong[what] = ~(np.abs(found - expected) <= room).all(axis=1)
    return wrong


def seeds(base: str) -> Any:
    """``(operation, seed)`` for ever: every operation in turn, in another order each time."""
    for turn in itertools.count():
        names = sorted(TEMPLATES)
        random.Random(f"{base}/{turn}").shuffle(names)
        for name in names:
            yield name, f"{base}/{turn}/{name}"


def campaign(base: str, seconds: float, rays: int, tally: Tally) -> None:
    """Run until the time is over and enough rays are certified, or one is wrong."""
    end = time.monotonic() + seconds
    told = time.monotonic()
    for count, (name, seed) in enumerate(seeds(base)):
        if count % 10 == 0:
            run_planted(f"{base}/planted/{count}", tally)
        run_case(name, seed, tally)
        if tally.wrong or (time.monotonic() >= end and tally.certified >= rays):
            return
        if time.monotonic() > told + 30:
            told = time.monotonic()
            print(summary(tally), flush=True)


def summary(tally: Tally) -> str:
    return (
        f"{tally.certified:,} certified of {tally.rays:,} rays, {len(tally.names)} operations "
        f"({tally.overflowed:,} more overflowed), {tally.planted:,} planted answers, "
        f"{len(tally.wrong)} wrong"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="run for at least this long")
    parser.add_argument("--rays", type=int, default=0, help="and until so many are certified")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument(
        "--slices", action="store_true", help="take no short cut to rational arithmetic"
    )
    parser.add_argument("--case", nargs=2, metavar=("OPERATION", "SEED"), help="repeat one case")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.slices:
        ladder.SMALL = -1
    tally = Tally()
    if options.case:
        run_case(*options.case, tally)
    else:
        print(f"seed {options.seed}", flush=True)
        campaign(options.seed, options.seconds, options.rays, tally)
    for line in tally.wrong[:20]:
        print("WRONG", line)
    print(summary(tally))
    print(", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.kinds.items())))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
