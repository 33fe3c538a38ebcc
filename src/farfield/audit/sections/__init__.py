"""The parts of an audit, in the order in which they are computed.

A part is a file with a function ``compute(case)``, and a line in ``PARTS``. It returns fields of
the :class:`~farfield.audit.record.Audit`; ``case.found`` holds those of the parts before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any

import torch

from farfield.audit.case import Case
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


def compute(case: Case) -> Fields:
    """Every part that a case has; its guard is made on another core before a part needs it."""
    with _guard_made_meanwhile(case) as ready:
        for part in PARTS:
            if part.applies(case):
                if part.compute is guard.compute_if_possible:
                    ready()
                case.found.update(part.compute(case))
    return case.found


@contextmanager
def _guard_made_meanwhile(case: Case) -> Iterator[Callable[[], object]]:
    """Begin to make the guard, which draws from a seed of its own; what is yielded waits for it.

    Only of networks that were captured: others run code that may not bear two threads. Whatever
    fails fails again for the part that needs it. Until then either side leaves a core to the other:
    threads that wait for threads that wait for a core take many times as long.
    """
    captured, threads = isinstance(case.subject.model, Network), torch.get_num_threads()
    if not (captured and case.wants_guard and case.given_guard is None) or threads == 1:
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
