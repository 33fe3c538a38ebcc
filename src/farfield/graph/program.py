"""A model as a short list of steps, and the walk over it.

A :class:`Program` is a straight line: each :class:`Step` applies one ATen operation to earlier
values, to constants (weights) and to plain Python arguments. Walking it in another *domain* gives
another reading of the same model: plain tensors give its logits, germs give it at infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.graph.convolving import convolve
from farfield.graph.rowwise import lower_rowwise
from farfield.graph.rules import RULES, Domain

V = TypeVar("V")
aten = torch.ops.aten
SIZE = aten.sym_size.int
CONVOLUTION = aten.convolution.default
FREE = -1
# A value may lie in memory in another order than when it was traced.
RESHAPED: dict[Any, Callable[..., Any]] = {
    aten.view.default: torch.reshape,
    aten._unsafe_view.default: torch.reshape,
}
# What PyTorch does not map over rows has to be said otherwise.
MAPPED: dict[Any, Callable[..., Any]] = {
    **RESHAPED,
    aten.copy.default: lambda base, source: source.expand(base.shape),
}


@dataclass(frozen=True, slots=True)
class Ref:
    """A mention of a value, a constant or a symbolic size by name."""

    name: str


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where an operation came from: the module's path and class, and the line of code."""

    module: str = ""
    line: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.module, self.line) if part) or "the model"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: ``name = target(*args, **kwargs)``.

    ``constant`` steps depend on weights and sizes alone; every other step depends on the input.
    ``shape`` is the result's shape where it is one tensor, with ``FREE`` for the number of rows.
    """

    name: str
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    source: CodePlace = field(default_factory=CodePlace)
    constant: bool = False
    shape: tuple[int, ...] | None = None

    @property
    def operation(self) -> str:
        """The operation's name as PyTorch prints it, without the overload where it says nothing."""
        if isinstance(self.target, torch._ops.OpOverload):
            return str(self.target).removesuffix(".default")
        return getattr(self.target, "__name__", str(self.target))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send a step to another process: operations of PyTorch go by name."""
        target: Any = self.target
        if isinstance(target, torch._ops.OpOverload):
            target = tuple(str(target).split("."))
        return _received, (
            self.name,
            target,
            self.args,
            dict(self.kwargs),
            self.source,
            self.constant,
            self.shape,
        )

    def bind(self, environment: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The step's arguments with every name replaced by its value."""
        kwargs = {key: resolve(item, environment) for key, item in self.kwargs.items()}
        return resolve(self.args, environment), kwargs

    def refs(self) -> list[str]:
        """Names that the step reads."""
        found: list[str] = []
        _add_refs(self.args, found)
        if self.kwargs:
            _add_refs(self.kwargs.values(), found)
        return found


def _received(name: str, target: Any, *rest: Any) -> Step:
    """Make a step that came from another process."""
    if isinstance(target, tuple):
        namespace, operation, overload = target
        target = getattr(getattr(getattr(torch.ops, namespace), operation), overload)
    return Step(name, target, *rest)


def _add_refs(items: Iterable[Any], found: list[str]) -> None:
    """Add the names among items, and in lists and tuples among them."""
    for item in items:
        if isinstance(item, Ref):
            found.append(item.name)
        elif isinstance(item, (list, tuple)):
            _add_refs(item, found)


def resolve(tree: Any, environment: Mapping[str, Any]) -> Any:
    """Replace every :class:`Ref` in nested lists and tuples by its value."""
    if isinstance(tree, Ref):
        return environment[tree.name]
    if isinstance(tree, (list, tuple)):
        return type(tree)(resolve(item, environment) for item in tree)
    return tree


@dataclass(frozen=True, slots=True)
class Turn:
    """What a walk does at a step, found out once.

    Attributes:
        step: The step.
        ruled: Whether it has a rule; not if it is computed from weights and sizes alone.
        args: Its arguments, and for each whether it is the name of a value; ``None`` where names
            stand deeper inside, or there are keywords.
        freed: The values that nobody reads afterwards.
    """

    step: Step
    ruled: bool
    args: tuple[tuple[Any, bool], ...] | None
    freed: tuple[str, ...]

    @classmethod
    def of(cls, step: Step, freed: tuple[str, ...]) -> Turn:
        """Look at a step."""
        direct = sum(isinstance(item, Ref) for item in step.args)
        deeper = direct < len(step.refs())
        args = tuple(
            (item.name, True) if isinstance(item, Ref) else (item, False) for item in step.args
        )
        ruled = not (step.constant or step.target is SIZE)
        return cls(step, ruled, None if deeper or step.kwargs else args, freed)

    def bind(self, environment: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        """The arguments with every name replaced by its value."""
        if self.args is None:
            return self.step.bind(environment)
        return [environment[item] if named else item for item, named in self.args], NO_KEYWORDS


NO_KEYWORDS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Program:
    """Steps from one input to one output.

    ``width`` is the largest number of elements that any value holds per row of input: the unit
    in which chunks are measured. The steps of a ``per_row`` program speak of one row, without a
    dimension for the others; elsewhere rows come first.
    """

    steps: tuple[Step, ...]
    input: str
    output: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    width: int
    per_row: bool = False

    def function(self, step: Step) -> Callable[..., Any]:
        """What one of the steps does to plain tensors."""
        return (MAPPED if self.per_row else RESHAPED).get(step.target, step.target)

    def lower(
        self, step: Step, domain: Domain[V], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Apply the rule of one of the steps to values."""
        rule = RULES[step.target].lower
        try:
            if self.per_row:
                return lower_rowwise(rule, domain, args, kwargs)
            return rule(domain, *args, **kwargs)
        except UnsupportedOperation as error:
            error.met_in(step.operation, str(step.source))
            raise

    def with_steps(self, steps: tuple[Step, ...], output: str | None = None) -> Program:
        """Give the same program other steps."""
        return replace(self, steps=steps, output=output or self.output)

    def signature(self) -> tuple[Any, ...]:
        """What two programs must share to be walked together, whatever their weights."""
        steps = tuple(
            (step.name, str(step.target), repr(step.args), repr(sorted(step.kwargs.items())))
            for step in self.steps
        )
        return steps, self.input, self.output, self.input_shape, self.per_row

    @cached_property
    def last_uses(self) -> list[tuple[str, ...]]:
        """For each step, the values that nobody reads afterwards."""
        seen = {self.output}
        freed: list[tuple[str, ...]] = []
        for step in reversed(self.steps):
            names = tuple(dict.fromkeys(name for name in step.refs() if name not in seen))
            seen.update(names)
            freed.append(names)
        return freed[::-1]

    @cached_property
    def turns(self) -> list[Turn]:
        """What a walk does, step by step."""
        return [Turn.of(*each) for each in zip(self.steps, self.last_uses, strict=True)]


def walk(
    program: Program,
    domain: Domain[V],
    value: V,
    constants: Mapping[str, Tensor],
    look: Callable[[Step, Any], None] | None = None,
) -> V:
    """Evaluate ``program`` in ``domain``, freeing each value after its last use.

    ``look`` is shown every step with its result.
    """
    environment: dict[str, Any] = dict(constants)
    environment[program.input] = value
    for turn in program.turns:
        step = turn.step
        args, kwargs = turn.bind(environment)
        if turn.ruled:
            environment[step.name] = program.lower(step, domain, args, kwargs)
        elif step.target is SIZE:
            environment[step.name] = args[0].shape[args[1]]
        else:
            environment[step.name] = step.target(*args, **kwargs)
        if look is not None:
            look(step, environment[step.name])
        for name in turn.freed:
            del environment[name]
    result: V = environment[program.output]
    return result


def forward(program: Program, rows: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
    """Evaluate ``program`` on plain tensors with the operations themselves."""
    if program.per_row:
        mapped: Tensor = torch.vmap(lambda row: _run(program, row, constants))(rows)
        return mapped
    return _run(program, rows, constants)


def _run(program: Program, rows: Tensor, constants: Mapping[str, Tensor]) -> Tensor:
    environment: dict[str, Any] = {**constants, program.input: rows}
    for step, freed in zip(program.steps, program.last_uses, strict=True):
        args, kwargs = step.bind(environment)
        function = convolve if step.target is CONVOLUTION else program.function(step)
        environment[step.name] = function(*args, **kwargs)
        for name in freed:
            del environment[name]
    result = environment[program.output]
    if not isinstance(result, Tensor):
        raise TypeError(f"program ended in {type(result).__name__}, expected a tensor")
    return result


def fold_constants(
    program: Program, constants: Mapping[str, Tensor]
) -> tuple[Program, dict[str, Tensor]]:
    """Evaluate the steps that depend on weights alone, and drop the weights nobody reads."""
    values = dict(constants)
    kept: list[Step] = []
    for step in program.steps:
        if step.constant and all(name in values for name in step.refs()):
            args, kwargs = step.bind(values)
            values[step.name] = step.target(*args, **kwargs)
        else:
            kept.append(step)
    read = {name for step in kept for name in step.refs()}
    tensors = {
        name: value for name, value in values.items() if name in read and isinstance(value, Tensor)
    }
    inlined = {
        name: value
        for name, value in values.items()
        if name in read and not isinstance(value, Tensor)
    }
    steps = tuple(_inline(step, inlined) for step in kept)
    return program.with_steps(steps), tensors


def _inline(step: Step, values: Mapping[str, Any]) -> Step:
    """Write known plain values (sizes, tuples of tensors excluded) in place of their names."""
    if not any(name in values for name in step.refs()):
        return step
    table = {name: values.get(name, Ref(name)) for name in step.refs()}
    args, kwargs = step.bind(table)
    return replace(step, args=args, kwargs=kwargs)


def renamed(program: Program, constants: Mapping[str, Tensor]) -> tuple[Program, dict[str, Tensor]]:
    """Name steps and constants by their order: what is made alike then has the same signature."""
    names = {program.input: "x"}
    kept: dict[str, Tensor] = {}
    for step in program.steps:
        for name in step.refs():
            if name in constants and name not in names:
                names[name] = f"c{len(kept)}"
                kept[names[name]] = constants[name]
        names[step.name] = f"v{len(names)}"
    table = {name: Ref(new) for name, new in names.items()}
    steps = []
    for step in program.steps:
        args, kwargs = step.bind(table)
        steps.append(replace(step, name=names[step.name], args=args, kwargs=kwargs))
    output = names.get(program.output, program.output)
    return replace(program, steps=tuple(steps), input="x", output=output), kept


def taint(program: Program) -> Program:
    """Mark the steps that depend on weights and sizes alone."""
    varying = {program.input}
    sizes: set[str] = set()
    steps = []
    for step in program.steps:
        names = set(step.refs())
        if step.target is SIZE or (names and names <= sizes):
            sizes.add(step.name)
        elif names & varying:
            varying.add(step.name)
        constant = step.name not in varying
        steps.append(step if step.constant is constant else replace(step, constant=constant))
    return program.with_steps(tuple(steps))


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """All tensors within lists, tuples and dictionaries."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (list, tuple, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(item)
