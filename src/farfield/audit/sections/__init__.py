"""The parts of an audit, in the order in which they are computed.

A part is a file with a function ``compute(case)``, and a line in ``PARTS``. It returns fields of
the :class:`~farfield.audit.record.Audit`; ``case.found`` holds those of the parts before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any

import torch

from farfield.audit.case import Case
from farfield.audit.second_process import Receive, SecondProcess, begin
from farfield.audit.sections import (
    arithmetic,
    collapses,
    depth,
    detection,
    directions,
    entry_errors,
    features,
    guard,
    health,
    pictures,
    rays,
    surfaces,
    what_if,
)
from farfield.graph.network import Network

Fields = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One part of an audit.

    Attributes:
        name: What its stage is called.
        applies: Whether a case has such a part.
        compute: Fields of the audit.
    """

    name: str
    applies: Callable[[Case], bool]
    compute: Callable[[Case], Fields]


def _classifies_tables(case: Case) -> bool:
    return case.classifies and case.is_table


PARTS = (
    Part("directions", lambda _: True, directions.compute),
    Part("features", _classifies_tables, features.compute),
    Part("detection", lambda case: case.classifies, detection.compute),
    Part("guard", lambda case: case.wants_guard, guard.compute_if_possible),
    Part("entry errors", _classifies_tables, entry_errors.compute),
    Part("what if", _classifies_tables, what_if.compute),
    Part("health", lambda _: True, health.compute),
    Part("rays", _classifies_tables, rays.compute),
    Part("arithmetic", _classifies_tables, arithmetic.compute),
    Part("depth", lambda case: case.classifies, depth.compute),
    Part("surfaces", _classifies_tables, surfaces.compute),
    Part("pictures", lambda case: not case.is_table, pictures.compute),
    Part("collapses", lambda case: not case.classifies, collapses.compute),
)


# What a second process takes over, about half of what there is to do: the guard, which it makes at
# once and compares at last, and what asks one. A guard that was asked for is another one, takes
# longer, and leaves time for what draws last only.
ELSEWHERE = ("guard", "directions", "entry errors", "what if")
ELSEWHERE_IF_ASKED = ("guard", "rays", "surfaces")


def compute(case: Case) -> Fields:
    """Every part that a case has; its guard is made on another core before a part needs it."""
    parts = [part for part in PARTS if part.applies(case)]
    handed = ELSEWHERE_IF_ASKED if case.asked_guard else ELSEWHERE
    if second := _begun_elsewhere(case, handed):
        return _by_two(case, parts, handed, second)
    with _guard_made_meanwhile(case) as ready:
        for part in parts:
            if part.compute is guard.compute_if_possible:
                ready()
            case.found.update(part.compute(case))
    return case.found


def _begun_elsewhere(case: Case, handed: Sequence[str]) -> SecondProcess | None:
    """Begin some parts in the second process, if there is one; what is drawn is drawn here."""
    fits = _makes_guard(case) and _classifies_tables(case) and case.settings.engine == "local"
    return begin(_elsewhere, lambda: (case.handed(), handed)) if fits else None


def _by_two(
    case: Case, parts: Sequence[Part], handed: Sequence[str], second: SecondProcess
) -> Fields:
    """Compute the other parts here; and those too that failed elsewhere, to fail here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(threads - 1)
    try:
        for part in parts:
            if part.name == "guard":
                second.send(case.found)
            if second.is_done():
                torch.set_num_threads(threads)
            if part.name not in handed:
                case.found.update(part.compute(case))
        case.stage("guard")
        answer = second.answer()
    finally:
        torch.set_num_threads(threads)
    if answer is not None:
        fields, unguarded, warnings = answer
        case.unguarded.extend(unguarded)
        case.warnings.extend(warnings)
        return {**case.found, **fields}
    for part in parts:
        if part.name in handed:
            case.found.update(part.compute(case))
    return case.found


def _elsewhere(
    given: tuple[Case, Sequence[str]], receive: Receive
) -> tuple[Fields, list[str], list[str]]:
    """What the second process does: all that needs no other part, and then the guard's.

    Returns:
        Fields of the audit, why there is no guard, and warnings.
    """
    case, handed = given
    known = len(case.warnings)
    guard.make_if_possible(case)
    unguarded = [*case.unguarded]
    fields: Fields = {}
    for part in PARTS:
        if part.name in handed and part.name != "guard":
            fields |= part.compute(case)
    case.found.update(fields | receive())
    fields |= guard.compute_if_possible(case)
    if case.unguarded != unguarded:
        raise RuntimeError("other parts have asked a guard that there is none of")
    return fields, unguarded, case.warnings[known:]


def _makes_guard(case: Case) -> bool:
    """Whether a guard is to be made of a network that was captured; others run foreign code."""
    captured = isinstance(case.subject.model, Network)
    return captured and case.wants_guard and case.given_guard is None


@contextmanager
def _guard_made_meanwhile(case: Case) -> Iterator[Callable[[], object]]:
    """Begin to make the guard, which draws from a seed of its own; what is yielded waits for it.

    Only of networks that were captured: others run code that may not bear two threads. Whatever
    fails fails again for the part that needs it. Until then either side leaves a core to the other:
    threads that wait for threads that wait for a core take many times as long.
    """
    threads = torch.get_num_threads()
    if not _makes_guard(case) or threads == 1:
        yield lambda: None
        return

    def make() -> None:
        with suppress(Exception):
            _ = case.shown_guard, case.protection

    def ready() -> None:
        making.join()
        torch.set_num_threads(threads)

    torch.set_num_threads(threads - 1)
    # Whoever interrupts the audit does not wait for it.
    making = Thread(target=make, daemon=True)
    making.start()
    try:
        yield ready
    finally:
        torch.set_num_threads(threads)
