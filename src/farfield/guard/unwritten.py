"""Whether the numbers of a covered set are still the same, and whether anything is recorded."""

from __future__ import annotations

from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

# What no quick look is made from.
UNUSED = ("fill", "inputs", "numeric", "other", "unit", "width")
VERSION = attrgetter("_version")
# Found once: this is asked for every row.
TRACING, COMPILING = torch._C._get_tracing_state, torch.compiler.is_compiling
LEVEL = torch._C._functorch.maybe_current_level


def recorded() -> bool:
    """Whether operations are recorded, for rows that are not those at hand."""
    return COMPILING() or TRACING() is not None or LEVEL() is not None


class Unwritten:
    """Whether the numbers of a covered set are still those that a quick look was made from.

    Every write to a tensor raises its version, so the sum over tensors tells of any; and whatever
    holds them, by name, must hold the same ones. It is asked before every look, so all of it runs
    without a loop of Python's own.
    """

    def __init__(self, covered: Covered) -> None:
        held: list[tuple[dict[str, Any], str, Any]] = []
        for module in covered.modules():
            held += [(module._modules, name, child) for name, child in module._modules.items()]
            held += [
                (module._buffers, name, value)
                for name, value in module._buffers.items()
                if value is not None and (name not in UNUSED or isinstance(module, Units))
            ]
        self.places, self.names, self.things = zip(*held, strict=True)
        self.tensors = [each for each in self.things if isinstance(each, Tensor)]
        # Tensors of inference mode do not tell whether they were written to.
        self.tell = not any(value.is_inference() for value in self.tensors)
        self.versions = sum(map(VERSION, self.tensors)) if self.tell else -1
        self.views, self.count = covered.views._modules, len(covered.views)

    def unchanged(self) -> bool:
        """Whether every tensor is the same one, and nobody has written to it."""
        return (
            self.tell
            and sum(map(VERSION, self.tensors)) == self.versions
            and all(map(is_, map(dict.get, self.places, self.names), self.things))
            and len(self.views) == self.count
        )
