"""The rule table: what each ATen operation *is*, whatever one wants to compute about it.

Every operation of a piecewise-linear network is one of four things, and a domain (plain germs,
germs with error bounds, rational germs) only has to know these four:

``Affine``
    linear in the data plus an offset: ``W x + c``; copying and moving count as well.
``Pieces``
    a piecewise-affine function of one number, applied to every element: ReLU and relatives.
``largest``
    the largest of several candidates: max pooling and relatives; the smallest with signs turned.
``Smooth``
    a function of one number with known asymptotes, applied to every element: sigmoid, GELU.

A rule reads an operation's arguments and says which of these it is. :data:`RULES` maps ATen
overloads to rules; ``docs/rules.md`` is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeVar

from torch import Tensor

from farfield.graph.ranges import Lower, Range, Refusal, first_of, outside

V = TypeVar("V")
Kind = Literal["copy", "affine", "piecewise affine", "largest", "smooth"]
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
    """

    function: Callable[..., Tensor]
    weights: tuple[Tensor, ...] = ()
    offset: Tensor | float | None = None
    terms: int = 0
    averages: bool = False
    magnitude: Callable[..., Tensor] | None = None


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
    """

    function: Callable[[Tensor], Tensor]
    below: Asymptote
    above: Asymptote
    lipschitz: float
    settles: tuple[float, float] | None = None
    rises: bool = False
    jump: Number | None = None


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

    def register(lower: L) -> L:
        summary = (lower.__doc__ or "").strip().splitlines()[0]
        limits = None if ranges is None else outside(lower, ranges)
        for target in targets:
            RULES[target] = Rule(kind, lower, summary, data, together, first_of(refuse, limits))
        return lower

    return register


def copies(*targets: Any, summary: str) -> None:
    """Register operations that only move values: one line covers a family."""
    for target in targets:

        def lower(domain: Domain[V], value: V, *args: Any, _target: Any = target, **kw: Any) -> V:
            return domain.affine(Affine(lambda rows: _target(rows, *args, **kw)), value)

        RULES[target] = Rule("copy", lower, summary)
