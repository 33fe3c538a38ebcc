"""A model of raw columns behind one-hot codes: the form in which an audit moves categories.

A model that starts from raw columns takes a category as its code, 0, 1, ... One-hot codes are
turned into that code by a sum, which is exact: ``0 * x_0 + 1 * x_1 + ...`` with a single one. All
zeros, which is no category, become a code of their own: ``u + (0 - u) * x_0 + ...`` is exact too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from farfield.graph.network import InstanceGroup, Network
from farfield.graph.program import CodePlace, Program, Ref, Step

aten = torch.ops.aten
SOURCE = CodePlace("codes of categories")


@dataclass(frozen=True)
class Spread:
    """How one column of a model comes in.

    Attributes:
        names: Of its inputs: one for a number, one for each value of a category.
        codes: Of these values, as the model has them; ``None`` for a number.
        unseen: The code of none of these values.
    """

    names: tuple[str, ...]
    codes: tuple[float, ...] | None = None
    unseen: float = 0.0

    @property
    def shift(self) -> float:
        """``unseen``, or 0 if no float carries codes there and back."""
        codes = self.codes or ()
        exact = all((code - self.unseen) + self.unseen == code for code in codes)
        return self.unseen if exact else 0.0


def behind_codes(network: Network, spreads: Sequence[Spread]) -> Network:
    """Put one-hot codes in front of a model's categories.

    Args:
        network: A model of tables.
        spreads: One for each of its columns, in order.

    >>> import farfield as ff
    >>> plain = ff.capture(torch.nn.Linear(2, 2), torch.zeros(1, 2))
    >>> behind_codes(plain, [Spread(("size",)), Spread(("a", "b", "c"), (0.0, 1.0, 2.0))])
    Network(1 instance, 4 inputs, 2 classes, float64)
    """
    if all(each.codes is None for each in spreads):
        return network
    names = tuple(name for each in spreads for name in each.names)
    groups = tuple(_group(group, spreads, network.dtype) for group in network.groups)
    return replace(network, groups=groups, features=names, columns=None)


def _group(group: InstanceGroup, spreads: Sequence[Spread], dtype: torch.dtype) -> InstanceGroup:
    steps: list[Step] = []
    constants: dict[str, Tensor] = {}
    program, width = group.program, sum(len(each.names) for each in spreads)

    def write(target: Any, args: tuple[Any, ...], columns: int) -> Ref:
        name = f"codes/{len(steps)}"
        steps.append(Step(name, target, args, source=SOURCE, shape=(-1, columns)))
        return Ref(name)

    def keep(tensor: Tensor) -> Ref:
        name = f"codes/c{len(constants)}"
        constants[name] = tensor
        return Ref(name)

    parts, first = [], 0
    for each in spreads:
        places = torch.arange(first, first + len(each.names))
        first += len(each.names)
        part = write(aten.index_select.default, (Ref("rows"), 1, keep(places)), len(places))
        if each.codes is not None:
            codes = [code - each.shift for code in each.codes]
            weight = keep(torch.tensor([codes], dtype=dtype))
            if each.shift:
                bias = keep(torch.tensor([each.shift], dtype=dtype))
                part = write(aten.linear.default, (part, weight, bias), 1)
            else:
                part = write(aten.linear.default, (part, weight), 1)
        parts.append(part)
    steps.append(
        Step(
            program.input,
            aten.cat.default,
            (parts, 1),
            source=SOURCE,
            shape=(-1, len(parts)),
        )
    )
    front = Program(
        steps=(*steps, *program.steps),
        input="rows",
        output=program.output,
        input_shape=(width,),
        output_shape=program.output_shape,
        width=max(width, program.width),
    )
    return replace(group, program=front, shared={**constants, **group.shared})
