"""From a program to a network: weights in one type, constants folded, the outcome checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.heads import Head, Member
from farfield.graph.network import InstanceGroup, Network, join
from farfield.graph.outcome import check_logits, check_output, check_rows_apart
from farfield.graph.program import Program, Step, fold_constants, renamed
from farfield.graph.reading import Link, Reading
from farfield.graph.rules import RULES
from farfield.graph.simplify import simplify, without_head

aten = torch.ops.aten
# Which argument of an operation says where values stand.
POSITIONS: Mapping[Any, int] = {
    aten.index.Tensor: 1,
    aten.index_put.default: 1,
    aten.index_select.default: 2,
    aten.gather.default: 2,
    aten.scatter.src: 2,
    aten.scatter.value: 2,
    aten.scatter_add.default: 2,
    aten.where.self: 0,
}


def finish(
    program: Program, constants: Mapping[str, Tensor], dtype: torch.dtype, rows: int = 0
) -> Network:
    """Make a network of a program as it was read, perhaps with a fixed number of rows."""
    head, members = simplify(program, constants, rows)
    return mixture(members, constants, head, dtype)


def mixture(
    members: Sequence[Member], constants: Mapping[str, Tensor], head: Head, dtype: torch.dtype
) -> Network:
    """Make every member an instance, as often as it counts; refuse probabilities among logits."""
    if len(members) == 1:
        network = build(members[0].program, constants, head, dtype)
        if head == "none":
            check_logits(network)
        return network
    networks = [build(each.program, constants, head, dtype, alike=True) for each in members]
    repeated = [
        network for network, each in zip(networks, members, strict=True) for _ in range(each.times)
    ]
    weighed = "" if len(repeated) == len(members) else ", those with larger weights several times"
    note = f"the model is a mean of {len(members)} members, read as its instances{weighed}"
    joined = join(repeated)
    return replace(joined, notes=(note, *joined.notes))


def _check_weights(program: Program, constants: Mapping[str, Tensor]) -> None:
    """Refuse weights that are no numbers; a mask of attention may hold minus infinity."""
    shares = any(
        step.target in RULES and RULES[step.target].kind == "growth" for step in program.steps
    )
    for name in {name for step in program.steps for name in step.refs()} & set(constants):
        tensor = constants[name]
        if not tensor.is_floating_point():
            continue
        fine = torch.isfinite(tensor) | (tensor.isneginf() & shares)
        if not bool(fine.all()):
            raise CaptureError(
                f"the model's weight {name} holds NaN or infinite numbers; it cannot be analysed"
            )


def _positions(program: Program) -> set[str]:
    """The constants that say where values stand; whole numbers and masks elsewhere are factors."""
    names: set[str] = set()
    for step in program.steps:
        if step.constant:
            names.update(step.refs())
        elif step.target in POSITIONS:
            place = POSITIONS[step.target]
            names.update(replace(step, args=(step.args[place],), kwargs={}).refs())
    return names


def _of_type(program: Program, dtype: torch.dtype) -> Program:
    """Make constants in the type of the analysis: the first states of recurrent layers, say."""

    def made(step: Step) -> Step:
        kind = step.kwargs.get("dtype")
        if not step.constant or kind is None or not kind.is_floating_point:
            return step
        return replace(step, kwargs={**step.kwargs, "dtype": dtype})

    return program.with_steps(tuple(map(made, program.steps)))


def build(
    program: Program,
    constants: Mapping[str, Tensor],
    head: Head,
    dtype: torch.dtype,
    *,
    alike: bool = False,
    link: Link = "softmax",
) -> Network:
    """Bring the weights to the analysis type, fold what is constant, and check the outcome.

    ``alike`` names steps and weights by their order, so that members of one make are told as such.
    """
    _check_weights(program, constants)
    weights = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in constants.items()
    }
    with torch.no_grad():
        folded, values = fold_constants(_of_type(program, dtype), weights)
    if alike:
        folded, values = renamed(folded, values)
    positions = _positions(folded)
    values = {
        name: value if name in positions else value.to(dtype) for name, value in values.items()
    }
    device = next((value.device for value in constants.values()), torch.device("cpu"))
    one_logit = check_output(folded)
    check_rows_apart(folded, values, dtype, device)
    classes = 2 if one_logit else folded.output_shape[0]
    notes = []
    if head != "none":
        notes.append(f"the model's final {head} was taken off; logits are what it was applied to")
    if one_logit:
        notes.append("one logit f is read as the two logits (0, f)")
    group = InstanceGroup.of(folded, [values])
    return Network((group,), classes, one_logit, head, dtype, device, tuple(notes), link=link)


def from_reading(reading: Reading, example: Any, dtype: torch.dtype) -> Network:
    """Make a network of what a reader wrote."""
    if reading.link == "softmax":
        network = finish(reading.program, reading.constants, dtype)
    else:
        program = without_head(reading.program)
        network = build(program, reading.constants, "none", dtype, link=reading.link)
    names = [column.name for column in reading.columns or ()]
    network = replace(
        network,
        labels=reading.labels
        if reading.labels and len(reading.labels) == network.classes
        else None,
        features=tuple(map(str, names)) if names and None not in names else None,
        columns=reading.columns,
        notes=(*network.notes, *reading.notes),
    )
    if example is not None:
        network.rows(example, "example")
    return network
