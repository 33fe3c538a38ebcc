"""Projected gradient ascent: the point of a ball around each input at which a value is largest.

Madry et al. 2018, with the details of Hein et al. 2019: a random start, signed steps, projection
onto ball and box, and the best point on the way is kept. One step without a random start is the
fast gradient sign method (Goodfellow et al. 2015).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor

from farfield.errors import InputError, failures
from farfield.objectives.attacks_climb import Climb, OffsetBox, spread, unit
from farfield.objectives.attacks_values import Value

Norm = Literal["linf", "l2"]
StepRule = Literal["constant", "decaying", "halving"]
Start = Literal["shrunk", "uniform", "centre"]
Generators = torch.Generator | Sequence[torch.Generator]


class Attacked(NamedTuple):
    """What an attack found: ``inputs`` like the ones given, and the ``values`` there."""

    inputs: Tensor
    values: Tensor


@final
@dataclass(frozen=True, slots=True)
class PGD:
    """Maximise a value over ``|u - x| <= epsilon`` (and a box) with projected gradient steps.

    Attributes:
        epsilon: Radius of the ball.
        steps: Gradient steps.
        step_size: Length of a step; ``None`` for ``2.5 * epsilon / steps``.
        norm: ``"linf"``: each feature moves by the sign of its slope; ``"l2"``: along the slope.
        rule: ``"constant"`` steps; ``"decaying"``, linearly to 0; or ``"halving"``: a point whose
            value is not the best so far goes back to the best and on with half the step.
        start: ``"shrunk"``: ``u * U(ball)`` with ``u ~ U(0, 1)`` for each point (Hein et al.);
            ``"uniform"`` in the ball; ``"centre"``: the input itself.
        restarts: How often to start; the best of all is kept.
        keep: The ``"best"`` point on the way, or the ``"last"``.

    Example:
        >>> far = PGD(epsilon=0.5, steps=10, step_size=0.1, start="centre").maximize(
        ...     lambda x: -(x - 2.0).square().sum(-1), torch.zeros(1, 2), torch.Generator()
        ... )
        >>> [round(x, 6) for x in far.inputs[0].tolist()], round(float(far.values), 6)
        ([0.5, 0.5], -4.5)
    """

    epsilon: float = 0.3
    steps: int = 40
    step_size: float | None = 0.0075
    norm: Norm = "linf"
    rule: StepRule = "constant"
    start: Start = "shrunk"
    restarts: int = 1
    keep: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        rules, starts = ("constant", "decaying", "halving"), ("shrunk", "uniform", "centre")
        size = self.step_size
        problems = failures(
            self,
            ("epsilon", _number(self.epsilon) and self.epsilon >= 0, "a number >= 0"),
            ("steps", _count(self.steps), "a positive integer"),
            (
                "step_size",
                size is None or (_number(size) and size > 0),
                "a positive number or None",
            ),
            ("norm", self.norm in ("linf", "l2"), "'linf' or 'l2'"),
            ("rule", self.rule in rules, "'constant', 'decaying' or 'halving'"),
            ("start", self.start in starts, "'shrunk', 'uniform' or 'centre'"),
            ("restarts", _count(self.restarts), "a positive integer"),
            ("keep", self.keep in ("best", "last"), "'best' or 'last'"),
        )
        if self.keep == "last" and self.rule == "halving":
            problems.append("keep must be 'best' with rule='halving', which goes back to it")
        if problems:
            raise InputError("PGD: " + "; ".join(problems))

    def maximize(
        self,
        value: Value,
        inputs: Tensor,
        generator: Generators,
        *,
        low: Tensor | float = -math.inf,
        high: Tensor | float = math.inf,
        scale: Tensor | float = 1.0,
        ceiling: float = math.inf,
    ) -> Attacked:
        """Return the points found and their values; inputs and random state stay as they are.

        Args:
            value: Maps ``(..., *features)`` to ``(...)``; a point's value depends on it alone.
            inputs: ``(points, *features)``, or ``(members, points, *features)``.
            generator: One, or one for each member in front.
            low: The box: no feature goes below.
            high: The box: no feature goes above.
            scale: Unit of each feature; the ball is measured in these.
            ceiling: A value that cannot be exceeded: points that reach it are done, which
                changes nothing but the time. Without members, ``value`` is then called with
                the points that are left.
        """
        inputs = inputs.detach()
        if bool((inputs < low).any()) or bool((inputs > high).any()):
            raise InputError(
                f"inputs from {float(inputs.min()):.4g} to {float(inputs.max()):.4g} leave the "
                "box of the attack; give its low and high, or scale the inputs into it"
            )
        best: Attacked | None = None
        for _ in range(self.restarts):
            found = self._ascend(value, inputs, generator, low, high, scale, ceiling)
            if best is None:
                best = found
            else:
                better = found.values > best.values
                best = Attacked(
                    torch.where(spread(better, inputs), found.inputs, best.inputs),
                    torch.where(better, found.values, best.values),
                )
        assert best is not None
        return best

    def _ascend(
        self,
        value: Value,
        inputs: Tensor,
        generator: Generators,
        low: Tensor | float,
        high: Tensor | float,
        scale: Tensor | float,
        ceiling: float,
    ) -> Attacked:
        """Climb once."""
        lead = 1 if isinstance(generator, torch.Generator) else 2
        box = OffsetBox(inputs, low, high, scale)
        first = box.place(self._project(self._first(inputs, generator, lead), lead))
        climb = Climb(value, first)
        size = self.step_size or 2.5 * self.epsilon / self.steps
        for step in range(self.steps):
            if self.keep == "best" and not climb.go_on(box, ceiling, apart=lead == 1):
                break
            rate = size * (1 - step / self.steps if self.rule == "decaying" else 1.0)
            direction = self._direction(climb.slope * box.scale, lead)
            offset = box.offset(climb.points) + rate * spread(climb.share, direction) * direction
            better = climb.move(box.place(self._project(offset, lead)), last=step == self.steps - 1)
            if self.rule == "halving":
                climb.back_to_best(better, last=step == self.steps - 1)
        if self.keep == "last":
            return Attacked(climb.points, climb.values)
        return Attacked(*climb.finish())

    def _first(self, inputs: Tensor, generator: Generators, lead: int) -> Tensor:
        """Draw where to start, as an offset in the ball."""
        if self.start == "centre" or self.epsilon == 0:
            return torch.zeros_like(inputs)
        shape = inputs.shape[lead - 1 :]
        each = [generator] if isinstance(generator, torch.Generator) else generator
        drawn = [self._one_first(shape, one) for one in each]
        return (drawn[0] if lead == 1 else torch.stack(drawn)).to(inputs)

    def _one_first(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw one member's starts."""
        if self.norm == "linf":
            offset = self.epsilon * (2 * torch.rand(shape, generator=generator) - 1)
        else:
            direction = unit(torch.randn(shape, generator=generator), 1)
            share = torch.rand(shape[0], generator=generator) ** (1 / math.prod(shape[1:]))
            offset = self.epsilon * direction * spread(share, direction)
        if self.start == "shrunk":
            offset = offset * spread(torch.rand(shape[0], generator=generator), offset)
        return offset

    def _direction(self, slope: Tensor, lead: int) -> Tensor:
        """Return the steepest direction of length one in the norm."""
        return slope.sign() if self.norm == "linf" else unit(slope, lead)

    def _project(self, offset: Tensor, lead: int) -> Tensor:
        """Return the nearest offset in the ball."""
        if self.norm == "linf":
            return offset.clamp(-self.epsilon, self.epsilon)
        length = torch.linalg.vector_norm(offset.flatten(lead), dim=lead)
        shrink = self.epsilon / length.clamp_min(torch.finfo(offset.dtype).tiny)
        return offset * spread(shrink.clamp_max(1.0), offset)


def fgsm(epsilon: float) -> PGD:
    """Return the fast gradient sign method: one signed step of the whole radius.

    >>> fgsm(0.1).steps
    1
    """
    return PGD(epsilon=epsilon, steps=1, step_size=epsilon or None, start="centre", keep="last")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
