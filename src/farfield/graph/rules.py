"""The rule table: what each ATen operation *is*, whatever one wants to compute about it.

Every operation of a model that can be followed is one of eight things, and a domain (plain germs,
germs with error bounds, rational germs, series) only has to know these eight:

``Affine``
    linear in the data plus an offset: ``W x + c``; copying and moving count as well.
``Pieces``
    a piecewise-affine function of one number, applied to every element: ReLU and relatives.
``largest``
    the largest of several candidates: max pooling and relatives; the smallest with signs turned.
``Smooth``
    a function of one number with known asymptotes, applied to every element: sigmoid, GELU.
``Steps``
    piecewise-constant functions of single columns: the splits of trees, encoders, bins.
``choice``
    one of two values, by a mask that is 0 or 1: ``where``, masks times values.
``RowFunction``
    a function of a whole row that has a limit along every ray, or is only asked at rest: what
    trees make of the outcomes of their splits, softmax inside of a model, kernels, neighbours.
``Growth``
    what changes how fast values grow: products of two values, powers, norms, softmax and
    exponentials inside of a model.

A rule reads an operation's arguments and says which of these it is. :data:`RULES` maps ATen
overloads to rules; ``docs/rules.md`` is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from farfield.graph.growth import Growth
from farfield.graph.ranges import Lower, Range, Refusal, first_of, outside

V = TypeVar("V")
Kind = Literal[
    "copy",
    "affine",
    "piecewise affine",
    "largest",
    "smooth",
    "steps",
    "choice",
    "row function",
    "growth",
]
Number = float | Fraction
Side = Literal[-1, 0, 1]
# Functions that jump by less count as smooth: the value is off by at most this at the very jump.
SMALL_JUMP = 1e-6


@dataclass(frozen=True, slots=True)
class Affine:
    """``function(*data, *weights) + offset``, linear in the data.

    Attributes:
        function: Linear in the data; takes the data tensors, then the weights.
        weights: Constants that multiply the data.
        offset: A constant that is added, broadcast over the rows.
        terms: How many products are summed into one output; 0 where values are only copied.
        averages: The matrix holds reciprocals of whole numbers (a mean), not floats.
        magnitude: ``|function|`` where that is not ``function`` with ``|weights|``.
        adds: 1 if two values are added element by element, -1 if subtracted, else 0.
        divisor: Where there are no weights and outputs are known to be sums of inputs over one
            whole number, that number.
    """

    function: Callable[..., Tensor]
    weights: tuple[Tensor, ...] = ()
    offset: Tensor | float | None = None
    terms: int = 0
    averages: bool = False
    magnitude: Callable[..., Tensor] | None = None
    adds: Literal[-1, 0, 1] = 0
    divisor: int | None = None


@dataclass(frozen=True, slots=True)
class Pieces:
    """A piecewise-affine function of one number.

    On piece ``i`` it is ``slopes[i] * x + intercepts[i]``; piece ``i`` ends at
    ``thresholds[i]``, which belongs to the lower piece.
    """

    thresholds: tuple[Number, ...]
    slopes: tuple[Number | Tensor, ...]
    intercepts: tuple[Number, ...]

    @classmethod
    def hinge(cls, below: Number | Tensor, above: Number | Tensor = 1.0) -> Pieces:
        """Make a function through the origin with one kink there."""
        return cls((0.0,), (below, above), (0.0, 0.0))


@dataclass(frozen=True, slots=True)
class Asymptote:
    """What a function approaches at one end: ``slope * x + intercept``.

    ``side`` tells from where: 1 from above, -1 from below, 0 if it is reached.
    """

    slope: Number
    intercept: Number
    side: Side


@dataclass(frozen=True, slots=True)
class Decay:
    """How a function comes to its asymptotes: ``size y^power exp(-rate y)`` bounds the distance.

    ``y`` is how far from zero its argument is; the bound holds at both ends.
    """

    size: float
    power: int = 0
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Smooth:
    """A function of one number with an asymptote at either end.

    Attributes:
        function: The function itself, on tensors.
        below: Its asymptote at minus infinity.
        above: Its asymptote at plus infinity.
        lipschitz: A bound on its slope.
        settles: Where the function *equals* its asymptotes, if it ever does (hard swish).
        rises: Whether it is strictly increasing, but for a jump.
        jump: Where it jumps, if it does: PyTorch's softplus, by less than :data:`SMALL_JUMP`.
        kinks: Where it has no derivative, or no second one.
        flat: Whether it approaches its asymptotes faster than any power.
        decay: A bound on how far from them it still is, if one is known.
        curvature: A bound on its second derivative between kinks.
    """

    function: Callable[[Tensor], Tensor]
    below: Asymptote
    above: Asymptote
    lipschitz: float
    settles: tuple[float, float] | None = None
    rises: bool = False
    jump: Number | None = None
    kinks: tuple[float, ...] = ()
    flat: bool = True
    decay: Decay | None = None
    curvature: float = float("inf")


@dataclass(frozen=True, eq=False)
class Steps:
    """Piecewise-constant functions of single columns, with jumps.

    Output ``i`` looks at column ``columns[i]`` alone. Its breaks cut the line into intervals, each
    of which holds its upper end: a value ``x`` lies in interval ``k`` if ``k`` breaks are below it.
    Comparisons that a model makes otherwise (``<``, in single precision) are brought to this form
    when it is read, so that ties are decided as the model decides them.

    Attributes:
        columns: ``(outputs,)`` whole numbers.
        breaks: The breaks of all outputs one after another, increasing within each.
        offsets: ``(outputs + 1,)`` where those of each output start.
        values: The values on the intervals, one more than there are breaks for each output.
        missing: ``(outputs,)`` the value where ``x`` is NaN; NaN if that may not be.
    """

    columns: Tensor
    breaks: Tensor
    offsets: Tensor
    values: Tensor
    missing: Tensor

    @classmethod
    def of(cls, outputs: Sequence[tuple[int, Sequence[float], Sequence[float], float]]) -> Steps:
        """Make them of columns, breaks, values and the value of what is missing.

        >>> halves = Steps.of([(0, [0.0], [-1.0, 1.0], 0.0)])
        >>> halves(torch.tensor([[-2.0], [0.0], [3.0], [torch.nan]])).flatten().tolist()
        [-1.0, -1.0, 1.0, 0.0]
        """
        columns, breaks, values, missing = [], [], [], []
        for column, ends, heights, absent in outputs:
            at = torch.as_tensor(ends, dtype=torch.float64)
            height = torch.as_tensor(heights, dtype=torch.float64)
            if len(height) != len(at) + 1 or bool((at.diff() <= 0).any()):
                raise ValueError("steps need increasing breaks and one value more than breaks")
            jumps = height.diff() != 0
            columns.append(column)
            breaks.append(at[jumps])
            values.append(height[torch.cat([torch.tensor([True]), jumps])])
            missing.append(absent)
        sizes = torch.tensor([0, *(len(each) for each in breaks)])
        return cls(
            torch.tensor(columns, dtype=torch.int64),
            torch.cat(breaks) if breaks else torch.zeros(0, dtype=torch.float64),
            sizes.cumsum(0),
            torch.cat(values) if values else torch.zeros(0, dtype=torch.float64),
            torch.tensor(missing, dtype=torch.float64),
        )

    def __len__(self) -> int:
        return len(self.columns)

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate on ``(rows, columns)``, ``(rows, outputs)``."""
        chosen = rows.double()[:, self.columns]
        places = self.intervals(chosen)
        found = self.heights(places)
        absent = torch.isnan(chosen)
        if bool(absent.any()):
            found = torch.where(absent, self.missing, found)
        return found.to(rows.dtype)

    def intervals(self, chosen: Tensor) -> Tensor:
        """``(rows, outputs)`` the interval that each value lies in; NaN in the last."""
        flat = chosen.T.contiguous()
        places = torch.empty(flat.shape, dtype=torch.int64)
        bounds = self.offsets.tolist()
        for output in range(len(self)):
            own = self.breaks[bounds[output] : bounds[output + 1]]
            places[output] = torch.searchsorted(own, flat[output])
        return places.T

    def heights(self, places: Tensor) -> Tensor:
        """``(rows, outputs)`` the values on given intervals."""
        first = self.offsets[:-1] + torch.arange(len(self))
        return self.values[first + places]

    @cached_property
    def limits(self) -> Tensor:
        """``(2, outputs)`` the values at minus infinity and at infinity."""
        far = torch.tensor([[-torch.inf], [torch.inf]], dtype=torch.float64)
        return self.heights(self.intervals(far.expand(2, len(self))))

    @cached_property
    def ends(self) -> Tensor:
        """``(2, outputs)`` the first and the last break of each output; NaN where it has none."""
        some = self.offsets.diff() > 0
        found = self.breaks.new_full((2, len(self)), torch.nan)
        found[0, some] = self.breaks[self.offsets[:-1][some]]
        found[1, some] = self.breaks[self.offsets[1:][some] - 1]
        return found

    def __repr__(self) -> str:
        """Say which steps these are: no two programs with different ones are alike."""
        return f"Steps({len(self)} outputs, {len(self.breaks)} breaks, {id(self):#x})"


class RowFunction:
    """A function of a whole row, ``(rows, n)`` to ``(rows, m)``, that has a limit along rays.

    Subclasses that are asked at rest alone, behind steps, leave :meth:`limit` as it is.

    Attributes:
        shares: Whether the outputs are always a distribution, or a single one a share of it.
        arrives: Whether :meth:`settles` is finite on every ray.
        continuous: Whether parts of a row that vanish far out change nothing: neither the function
            nor its limit jumps, and nothing multiplies them with what grows.
        by_order: Whether a limit hangs only on which numbers grow, which fall, and which of them
            faster than others: then they may do so by any power, or by a logarithm.
    """

    shares: bool = False
    arrives: bool = False
    continuous: bool = False
    by_order: bool = False

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        raise NotImplementedError

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor | None:
        """The limit of ``f(intercept + t * slope)`` for ``t`` to infinity.

        Args:
            slope: ``(rays, n)``; rays all of whose slopes are zero are not given.
            intercept: ``(rays, n)``.

        Returns:
            ``(rays, m)``, NaN where there is none; ``None`` if it is not known.
        """
        return None

    def steady(self, slope: Tensor, intercept: Tensor) -> Tensor | None:
        """``(rays,)`` whether parts that vanish far out change nothing; ``None`` if not known.

        Asked of functions that are not ``continuous``, with what :meth:`limit` is given, rays
        without any slope among it.
        """
        return None

    def in_parts(self, slope: Tensor, intercept: Tensor) -> Tensor | None:
        """All that may come out on rays without a limit, in equal parts; ``None`` if not known.

        Neighbours that tie for the last place: which of them a library takes is its own affair.
        """
        return None

    def settles(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """``(rays,)`` from which ``t`` on the function equals its limit; infinite if never."""
        return slope.new_full((len(slope),), torch.inf)

    def lead(self, one: int | None, other: int | None) -> float:
        """The most by which one output can be ahead of another, whatever the row.

        ``None`` stands for zero. Infinite if no bound is known.
        """
        return float("inf")

    @property
    def parameters(self) -> int:
        """How many numbers the function holds."""
        tensors = [each for each in vars(self).values() if isinstance(each, Tensor)]
        arrays = [each for each in vars(self).values() if isinstance(each, np.ndarray)]
        return sum(each.numel() for each in tensors) + sum(each.size for each in arrays)

    @property
    def work(self) -> float:
        """About how many products of numbers the evaluation of one row is worth."""
        return 1.0

    @property
    def error(self) -> float:
        """A bound on the rounding error of each value at rest; infinite if none is known.

        Then nothing behind the function is certified.
        """
        return float("inf")

    def __repr__(self) -> str:
        """Say which function this is: no two programs with different ones are alike."""
        return f"{type(self).__name__}({id(self):#x})"


Places = Callable[[], Sequence[Tensor]]


class Domain(Protocol[V]):
    """What a rule may ask for: one method for each thing that an operation can be."""

    def affine(self, operation: Affine, *values: V) -> V:
        """Apply an affine map to values."""

    def piecewise(self, value: V, pieces: Pieces) -> V:
        """Apply a piecewise-affine function to every element."""

    def largest(self, candidates: Sequence[V], sign: int = 1, places: Places | None = None) -> V:
        """Take the largest candidate, element by element; the smallest where ``sign`` is -1.

        ``places`` tells which element of one source each candidate is, where two candidates may
        be the same element.
        """

    def smooth(self, value: V, curve: Smooth) -> V:
        """Apply a smooth function to every element."""

    def steps(self, value: V, steps: Steps) -> V:
        """Apply piecewise-constant functions of single columns."""

    def choice(self, mask: V, yes: V, no: V) -> V:
        """Take one value where a mask is 1, another where it is 0, element by element."""

    def row_function(self, value: V, function: RowFunction) -> V:
        """Apply a function of a whole row that has a limit."""

    def grow(self, operation: Growth, *values: V) -> V:
        """Apply an operation that changes how fast values grow."""

    def constant(self, tensor: Tensor) -> V:
        """Lift a constant that carries the rows' dimension."""


L = TypeVar("L", bound=Lower)


@dataclass(frozen=True, slots=True)
class Rule:
    """How one operation is read.

    Attributes:
        kind: What the operation is.
        lower: Called with a domain and the operation's arguments.
        summary: One line for ``docs/rules.md``.
        data: Positions of the arguments that may depend on the input; ``None`` means any.
        together: Whether several of them may depend on the input at once.
        refuse: Looks at the arguments and gives a reason why they are not supported, if any.
    """

    kind: Kind
    lower: Lower
    summary: str
    data: tuple[int, ...] | None = (0,)
    together: bool = False
    refuse: Refusal | None = None


RULES: dict[Any, Rule] = {}


def register(target: Any, entry: Rule) -> None:
    """Enter the rule of an operation; one that has a rule already is refused."""
    if target in RULES:
        raise ValueError(f"{target} has a rule already")
    RULES[target] = entry


def rule(
    *targets: Any,
    kind: Kind,
    data: tuple[int, ...] | None = (0,),
    together: bool = False,
    refuse: Refusal | None = None,
    ranges: Mapping[str, Range] | None = None,
) -> Callable[[L], L]:
    """Register a function as the rule of one or more operations.

    ``ranges`` are the parameters for which it is true; others are refused.
    """

    def enter(lower: L) -> L:
        summary = (lower.__doc__ or "").strip().splitlines()[0]
        limits = None if ranges is None else outside(lower, ranges)
        for target in targets:
            refused = first_of(refuse, limits)
            register(target, Rule(kind, lower, summary, data, together, refused))
        return lower

    return enter


def copies(*targets: Any, summary: str, by: Callable[..., Tensor] | None = None) -> None:
    """Register operations that only move values: one line covers a family.

    ``by`` does the same where that is to be done otherwise than by the operation itself.
    """
    for target in targets:

        def lower(
            domain: Domain[V], value: V, *args: Any, _move: Any = by or target, **kw: Any
        ) -> V:
            return domain.affine(Affine(lambda rows: _move(rows, *args, **kw)), value)

        register(target, Rule("copy", lower, summary))
