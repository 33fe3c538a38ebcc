"""A model's own output and what a guard says beside it, as one module: what is exported.

Distances are computed before the model runs, its features are looked at and probabilities are mixed
after it, so that whoever reads an exported program finds the guard around the model, and nothing of
it in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, final, get_args

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from farfield.errors import CaptureError, InputError
from farfield.graph.export import module_dtype
from farfield.guard.covered import Covered, OfInputs
from farfield.guard.members import Held, answer, frozen, instance_mean
from farfield.guard.mix import mix
from farfield.guard.program_module import ProgramModule, telling, traced, with_feature

# What a model returns: of all classes, or one number for the second of two.
Returns = Literal["probabilities", "logits", "probability", "logit"]


class Noticed(NamedTuple):
    """What a covered set says of rows, each ``(rows,)``; view and column are -1 inside."""

    inside: Tensor
    distance: Tensor
    view: Tensor
    column: Tensor
    temperature: Tensor


def look_at(covered: Covered, seen: OfInputs, features: Tensor | None) -> Noticed:
    """Everything that a covered set says of rows, from what the views of inputs say."""
    distance, view, column = covered.worst_of(seen, features)
    return Noticed(distance <= 0.0, distance, view, column, covered.temperature(distance))


def say(own: Tensor, seen: Noticed, returns: Returns) -> dict[str, Tensor]:
    """A model's own output, and all that is said beside it."""
    guarded = mix(as_probabilities(own, returns), seen.temperature)
    beside = dict(zip(Noticed._fields[:-1], seen[:-1], strict=True))
    return {"output": own, **beside, "guarded": guarded}


def as_probabilities(values: Tensor, returns: Returns) -> Tensor:
    """Probabilities of all classes, ``(rows, classes)``, of what a model returns.

    >>> as_probabilities(torch.tensor([0.0]), "logit").tolist()
    [[0.5, 0.5]]
    """
    if returns in ("probability", "logit"):
        second = values.reshape(-1, 1)
        first = 1.0 - second if returns == "probability" else torch.zeros_like(second)
        values = torch.cat([first, second], dim=1)
    return values if returns.startswith("prob") else torch.softmax(values, dim=1)


def what_returns(values: Tensor, known: Tensor) -> Returns:
    """Find out what a model returns, from rows whose probabilities are known.

    Raises:
        InputError: If it is none of what has a name.
    """
    names: Sequence[Returns] = get_args(Returns)
    for name in names:
        single = values.ndim == 1 or values.shape[1] == 1
        if single == (name in ("probability", "logit")) and values.ndim <= 2:
            found = as_probabilities(values.double(), name)
            if found.shape == known.shape and bool(torch.isclose(found, known, atol=1e-4).all()):
                return name
    raise InputError(
        f"the model returns {tuple(values.shape)} numbers that are neither its probabilities nor "
        "logits of them; an envelope cannot tell what they are"
    )


@final
class Beside(nn.Module):
    """A model's own output under ``"output"``, and what a guard says of the rows beside it.

    Args:
        own: The model, as it was given.
        covered: The covered set.
        returns: What the model returns.
    """

    def __init__(self, own: nn.Module, covered: Covered, returns: Returns) -> None:
        super().__init__()
        self.own, self.covered, self.returns = own, covered, returns
        # Not by eval(), which programs that were read from a file do not have.
        self.training = False

    @property
    def dtype(self) -> torch.dtype:
        """The model's floating-point type."""
        return module_dtype(self.own, torch.float64)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Look at rows, run the model, look at its features, and say all of it."""
        seen = self.covered.look(x)
        output, features = self.both(x)
        return say(output, look_at(self.covered, seen, features), self.returns)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The model's own output, and its features where a view looks at them."""
        rows = x.to(self.dtype)
        if self.covered.inner is None:
            return self.own(rows), None
        if isinstance(self.own, ProgramModule | MeanProbabilities):
            return self.own.both(rows)
        return self.own(rows), self.covered.features(x)


@final
class MeanProbabilities(nn.Module):
    """The mean probability of a model's instances: the output of models that are no module."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.members, self.held = nn.ModuleList(held.modules), held

    def forward(self, x: Tensor) -> Tensor:
        """``(rows, classes)``."""
        return instance_mean(list(self.members), self.held, x)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The same of the only instance, and its features."""
        output, features = telling(self.members[0]).both(x)
        return answer(output, self.held), features


def beside(held: Held, covered: Covered, given: Any) -> Beside:
    """Put a guard beside a model.

    Args:
        held: The model as the guard holds it.
        covered: The covered set.
        given: The model as it was given: a module is run as it is, of all else the mean
            probability is the output.
    """
    if not isinstance(given, nn.Module):
        return Beside(MeanProbabilities(held), covered, "probabilities")
    own = given if isinstance(given, GraphModule) else frozen(given)
    if covered.inner is not None:
        own = _with_feature(own, held) or own
    low, high = covered.ranges.low, covered.ranges.high
    steps = torch.rand(32, len(low), generator=torch.Generator().manual_seed(0)).double()
    rows = (low + steps * (high - low)).reshape(-1, *held.input_shape)
    with torch.no_grad():
        values = own(rows.to(module_dtype(own, torch.float64)))
        known = instance_mean(held.modules, held, rows.to(held.dtype)).double()
    return Beside(own, covered, what_returns(values, known))


def _with_feature(own: nn.Module, held: Held) -> ProgramModule | None:
    """A model's own operations with its features beside its output, if they are found in it."""
    example = torch.zeros(2, *held.input_shape, dtype=module_dtype(own, torch.float64))
    try:
        return with_feature(traced(own, example))
    except CaptureError:
        return None
