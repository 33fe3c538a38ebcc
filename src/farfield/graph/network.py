"""A captured model: one or more instances of checked programs, ready to be walked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.columns import encode_rows, is_table
from farfield.graph.heads import Head
from farfield.graph.norm_heads import norm_head
from farfield.graph.program import Program, forward
from farfield.graph.reading import InputColumn, Link
from farfield.graph.rows import as_rows
from farfield.graph.rules import RULES, RowFunction, Steps

Label = int | float | str
# How many elements the largest value of a chunk may hold: small enough to stay in the cache.
CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True, eq=False)
class InstanceGroup:
    """Instances that share one program: those constants that differ are stacked, members first."""

    program: Program
    shared: Mapping[str, Tensor]
    stacked: Mapping[str, Tensor]
    members: tuple[int, ...]

    @classmethod
    def of(cls, program: Program, constants: Sequence[Mapping[str, Tensor]]) -> InstanceGroup:
        """Stack the constants of several instances."""
        first = constants[0]
        members = tuple(range(len(constants)))
        if len(constants) == 1:
            return cls(program, dict(first), {}, members)
        same = {
            name
            for name, tensor in first.items()
            if all(torch.equal(tensor, other[name]) for other in constants[1:])
        }
        if len(same) == len(first):
            same = set()
        shared = {name: tensor for name, tensor in first.items() if name in same}
        stacked = {
            name: torch.stack([each[name] for each in constants])
            for name in first
            if name not in same
        }
        return cls(program, shared, stacked, members)

    def each(
        self, body: Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        """Evaluate ``body`` on every instance's constants at once; results have instances first."""
        if not self.stacked:
            return tuple([result.unsqueeze(0) for result in body(self.shared)])

        def one(varying: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
            return body({**self.shared, **varying})

        results: tuple[Tensor, ...] = torch.vmap(one)(dict(self.stacked))
        return results

    def forward(self, rows: Tensor) -> Tensor:
        """Evaluate every instance on plain rows; results have instances first."""
        return self.each(lambda constants: (forward(self.program, rows, constants),))[0]

    @property
    def parameters(self) -> int:
        """How many numbers all members have: weights, thresholds of steps, leaves of trees."""
        each = sum(tensor.numel() for tensor in self.shared.values())
        for step in self.program.steps:
            for argument in step.args:
                if isinstance(argument, Steps):
                    each += len(argument.breaks)
                elif isinstance(argument, RowFunction):
                    each += argument.parameters
        return each * len(self.members) + sum(tensor.numel() for tensor in self.stacked.values())

    @property
    def where(self) -> slice | list[int]:
        """Where the members stand among all instances: a slice if they are neighbours."""
        first, last = self.members[0], self.members[-1]
        if self.members == tuple(range(first, last + 1)):
            return slice(first, last + 1)
        return list(self.members)

    def instance(self, index: int) -> dict[str, Tensor]:
        """The constants of one instance."""
        return {**self.shared, **{name: tensor[index] for name, tensor in self.stacked.items()}}


@dataclass(frozen=True, eq=False)
class Network:
    """A model that farfield can follow exactly. Made by :func:`farfield.capture`.

    Attributes:
        groups: Instances with the same architecture, stacked.
        classes: The number of classes; a single logit ``f`` counts as two logits ``(0, f)``.
        one_logit: Whether the model has a single logit.
        head: What was taken off the end of the model.
        dtype: The floating-point type of the analysis.
        device: Where the weights live.
        notes: What capture did that the user may want to know.
        labels: The names of the classes, where the model carries them.
        features: The names of the features, where the model carries them.
        link: What the outputs of its programs are: logits, or probabilities as they are (forests,
            neighbours); the logits of these are their logarithms.
        columns: What is known of the columns that a model of tables takes.
    """

    groups: tuple[InstanceGroup, ...]
    classes: int
    one_logit: bool
    head: Head
    dtype: torch.dtype
    device: torch.device
    notes: tuple[str, ...] = ()
    labels: tuple[Label, ...] | None = None
    features: tuple[str, ...] | None = None
    link: Link = "softmax"
    columns: tuple[InputColumn, ...] | None = None

    @property
    def instances(self) -> int:
        """How many instances there are."""
        return sum(len(group.members) for group in self.groups)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one row of input."""
        return self.groups[0].program.input_shape

    @property
    def differentiable(self) -> bool:
        """Whether outputs change with inputs smoothly, at least in pieces: trees' do not."""
        return not any(
            RULES[step.target].kind in ("steps", "row function")
            for group in self.groups
            for step in group.program.steps
            if not step.constant
        )

    @cached_property
    def confidence_cap(self) -> float:
        """No input makes the model surer than this, by its form; 1 if nothing is known.

        The margins of boosted trees are at most sums of what the leaves of each tree can add, and
        the shares of a forest means of the largest shares of its trees. Behind a norm, rows are of
        bounded length, so that a linear layer gives bounded differences of logits.
        """
        caps = [
            self._caps(group, index) for group in self.groups for index in range(len(group.members))
        ]
        most: float = max(sum(each) / len(caps) for each in zip(*caps, strict=True))
        # Some roundings on the way; a bound must not be below what it bounds.
        return min(1.0, most * (1 + 1e-12))

    def _caps(self, group: InstanceGroup, member: int) -> list[float]:
        """The largest probability of each class, as far as a function of rows at the end tells."""
        last = next(step for step in group.program.steps if step.name == group.program.output)
        function = next((each for each in last.args if isinstance(each, RowFunction)), None)
        lead = (
            norm_head(group.program, group.instance(member)) if function is None else function.lead
        )
        if lead is None:
            return [1.0] * self.classes
        places = [None, 0] if self.one_logit else list(range(self.classes))
        if self.link == "identity":
            return [min(1.0, lead(place, None)) for place in places]
        return [
            1 / (1 + sum(math.exp(-min(max(lead(own, each), -700.0), 700.0)) for each in rest))
            for own, rest in ((own, [each for each in places if each != own]) for own in places)
        ]

    def rows(self, values: Any, what: str = "x") -> Tensor:
        """Check inputs and bring them to the analysis type and device.

        Models of tables take frames as well, by the names of their columns; categories by their
        values, which become codes; and missing values, NaN, in columns that may have some.
        """
        missing = None
        if self.columns is not None:
            if is_table(values) or any(column.categories is not None for column in self.columns):
                values = encode_rows(self.columns, values, what)
            missing = torch.tensor([column.missing for column in self.columns])
        return as_rows(values, self.input_shape, self.dtype, self.device, what, missing)

    def logits(self, x: Any) -> Tensor:
        """Evaluate the model's own logits.

        Args:
            x: ``(points, *input)``. A tensor that requires a gradient gets one.

        Returns:
            ``(instances, points, classes)``; the logarithms of the probabilities, minus infinity
            for none, of a model that has no logits.
        """
        outputs = self.outputs(x)
        return outputs if self.link == "softmax" else torch.log(outputs.clamp(0.0, 1.0))

    def outputs(self, x: Any) -> Tensor:
        """Evaluate what the programs give: ``(instances, points, classes)``, see ``link``."""
        rows = self.rows(x)
        tracked = isinstance(x, Tensor) and x.requires_grad and torch.is_grad_enabled()
        if tracked:
            rows = x.to(rows).reshape(rows.shape)
        out = rows.new_empty(self.instances, len(rows), self.classes)
        with torch.set_grad_enabled(tracked):
            for group in self.groups:
                for part in chunks(len(rows), group, factor=1):
                    values = group.forward(rows[part])
                    out[group.where, part] = self.as_classes(values)
        return out

    def probabilities(self, x: Any) -> Tensor:
        """Evaluate the model's probabilities, ``(instances, points, classes)``."""
        outputs = self.outputs(x)
        if self.link == "softmax":
            return torch.softmax(outputs, dim=-1)
        # Sums of shares in single precision may miss 0 and 1 by a rounding.
        return outputs.clamp(0.0, 1.0)

    def as_classes(self, values: Tensor) -> Tensor:
        """Give outputs their class dimension: a single logit ``f`` becomes ``(0, f)``."""
        if not self.one_logit:
            return values
        logit = values.reshape(*values.shape[:2], 1)
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        head = "" if self.head == "none" else f", {self.head} taken off"
        logit = " from one logit" if self.one_logit else ""
        return (
            f"Network({self.instances} instance{'s' if self.instances > 1 else ''}, "
            f"{shape} inputs, {self.classes} classes{logit}{head}, "
            f"{str(self.dtype).removeprefix('torch.')})"
        )


def chunks(rows: int, group: InstanceGroup, factor: int) -> Iterator[slice]:
    """Cut rows so that no value of a chunk grows beyond what the cache holds.

    ``factor`` is how many numbers the walk carries per element.
    """
    per_row = group.program.width * len(group.members) * factor
    size = max(1, min(rows, CHUNK_ELEMENTS // max(1, per_row)))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


# How many instances models of different sizes may become together.
MOST_INSTANCES = 1024


def join(networks: Sequence[Network]) -> Network:
    """Put networks together as instances of one model, stacking those that share a program.

    Every network counts once: the instances of smaller ones are repeated.
    """
    first, networks = networks[0], _balanced(networks)
    for other in networks[1:]:
        if (other.input_shape, other.classes) != (first.input_shape, first.classes):
            raise CaptureError(
                f"instances must agree: one takes {first.input_shape} and has {first.classes} "
                f"classes, another takes {other.input_shape} and has {other.classes}"
            )
        if other.link != first.link:
            raise CaptureError("some instances have logits and some probabilities only")
        if other.one_logit != first.one_logit:
            raise CaptureError("some instances have one logit and some two; make them all alike")
        if None not in (first.labels, other.labels) and first.labels != other.labels:
            raise CaptureError(
                f"instances must agree: one has the classes {first.labels}, another {other.labels}"
            )
    together: dict[Any, tuple[Program, list[dict[str, Tensor]], list[int]]] = {}
    count = 0
    for network in networks:
        for group in network.groups:
            key = (group.program.signature(), _shapes(group.instance(0)))
            entry = together.setdefault(key, (group.program, [], []))
            for index, member in enumerate(group.members):
                entry[1].append(group.instance(index))
                entry[2].append(count + member)
        count += network.instances
    groups = tuple(
        replace(InstanceGroup.of(program, constants), members=tuple(members))
        for program, constants, members in together.values()
    )
    notes = tuple(dict.fromkeys(note for network in networks for note in network.notes))
    return replace(first, groups=groups, notes=notes)


def _balanced(networks: Sequence[Network]) -> list[Network]:
    """Repeat networks until each has the same number of instances."""
    whole = math.lcm(*(network.instances for network in networks))
    if len(networks) > 1 and whole * len(networks) > max(
        MOST_INSTANCES, sum(network.instances for network in networks)
    ):
        sizes = ", ".join(str(network.instances) for network in networks[:8])
        raise CaptureError(
            f"models of {sizes} instances cannot be averaged with equal weights; pass all of "
            "their members as one list"
        )
    return [network for network in networks for _ in range(whole // network.instances)]


def _shapes(constants: Mapping[str, Tensor]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, tuple(tensor.shape)) for name, tensor in constants.items())
