"""From a traced program to the one that is analysed: same function, fewer kinds of step.

* Steps that the output does not need are dropped.
* Complex values become pairs of real ones.
* Members that are stacked in front of the rows are stacked behind them.
* Batch norm in evaluation mode becomes a scale and a shift, computed once in the analysis type.
* Activations and norms that are written out are put together again; conversions between float
  types become no-ops, and a softmax that looks out for rows of minus infinity becomes one that need
  not.
* Positions of maxima become numbers, and what is looked up by them choices.
* Comparisons, masks and ``where`` become piecewise-affine functions and choices.
* Padding with minus infinity is folded into the max pool that it is for.
* What makes probabilities at the end is taken off: the far field lives in the logits.
* Every operation without a rule is listed in one error.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.affine import convert
from farfield.graph.bins import read_bins
from farfield.graph.complex_pairs import read_complex
from farfield.graph.export import BATCH_NORMS
from farfield.graph.heads import Head, Member, take_off
from farfield.graph.looking_up import read_positions
from farfield.graph.masks import read_masks
from farfield.graph.norms import read_attention
from farfield.graph.one_row import one_row
from farfield.graph.padded_pooling import fold_padding
from farfield.graph.pooling import WITH_POSITIONS
from farfield.graph.products import read_products
from farfield.graph.program import FREE, Program, Ref, Step, taint
from farfield.graph.recognise import recognise
from farfield.graph.refusals import HAS_LIMIT, MOVES, PRODUCT, Refused, refuse
from farfield.graph.resting import growing_waves
from farfield.graph.rules import RULES
from farfield.graph.sorting import WITH_ORDER
from farfield.graph.stacks import stack_behind_rows
from farfield.graph.written_norms import read_norms

aten = torch.ops.aten


def simplify(
    program: Program, constants: Mapping[str, Tensor], rows: int = 0, *, per_row: bool = False
) -> tuple[Head, tuple[Member, ...]]:
    """Rewrite a traced program, take off its head, and check every operation.

    Args:
        program: As traced.
        constants: Its weights; those of a mixture say what its members are.
        rows: The batch size of a program that was traced with a fixed one, else 0.
        per_row: Whether rows are to be read one at a time; then that batch size is 1.

    Returns:
        What was taken off, and the members that remain; one, unless the model is a mixture.
    """
    program = _prune(program.with_steps(tuple(map(_plain_arguments, program.steps))))
    program = _fold_batch_norm(read_complex(program))
    if rows:
        program = program.with_steps(tuple(_free_rows(s, rows) for s in program.steps))
    program = program.with_steps(tuple(map(_plain_softmax, program.steps)))
    program = _prune(stack_behind_rows(program))
    program = read_attention(program)
    program = _prune(read_norms(program, constants))
    program = program.with_steps(recognise(program.steps, constants, program.output))
    program = read_bins(fold_padding(program), constants)
    program = read_positions(taint(program), constants)
    program = read_masks(taint(program), constants)
    head, members = take_off(_prune(program), constants)
    members = tuple(
        replace(each, program=read_products(taint(_prune(each.program)))) for each in members
    )
    together = {step.name: step for each in members for step in each.program.steps}
    check(program.with_steps(tuple(together.values())), fixed_rows=bool(rows))
    if per_row:
        members = tuple(replace(each, program=taint(one_row(each.program))) for each in members)
    return head, tuple(replace(each, program=_plain(each.program)) for each in members)


def without_head(program: Program) -> Program:
    """Check and mark a program whose outputs are meant as they are: nothing is taken off."""
    program = taint(_prune(program))
    check(program)
    return _plain(program)


def _plain(program: Program) -> Program:
    return program.with_steps(tuple(_plainer(step) for step in program.steps))


def _prune(program: Program) -> Program:
    """Drop the steps whose results nobody reads."""
    needed = {program.output}
    kept: list[Step] = []
    for step in reversed(program.steps):
        if step.name in needed:
            kept.append(step)
            needed.update(step.refs())
    return program.with_steps(tuple(reversed(kept)))


def _fold_batch_norm(program: Program) -> Program:
    """Replace batch norm by a scale and a shift."""
    steps: list[Step] = []
    pairs: set[str] = set()
    for step in program.steps:
        if step.target in BATCH_NORMS:
            steps += _scale_and_shift(step)
            if step.target is not aten.batch_norm.default:
                pairs.add(step.name)
        elif step.target is operator.getitem and step.args[0].name in pairs:
            steps.append(replace(step, target=aten.alias.default, args=step.args[:1]))
        else:
            steps.append(step)
    return program.with_steps(tuple(steps))


def _scale_and_shift(step: Step) -> list[Step]:
    value, weight, bias, mean, variance, *rest = step.args
    composite = step.target is aten.batch_norm.default
    if mean is None or (composite and rest[0]):
        raise CaptureError(
            f"batch norm in {step.source} uses the statistics of the batch, so rows depend on "
            "one another; keep running statistics (track_running_stats=True)"
        )
    epsilon = rest[2] if composite else rest[1]
    steps: list[Step] = []

    def emit(target: Any, *args: Any) -> Ref:
        name = f"{step.name}/{len(steps)}"  # no traced name has a slash
        steps.append(replace(step, name=name, target=target, args=args, kwargs={}))
        return Ref(name)

    scale = emit(aten.sqrt.default, emit(aten.add.Tensor, variance, epsilon))
    scale = emit(aten.reciprocal.default, scale)
    if weight is not None:
        scale = emit(aten.mul.Tensor, scale, weight)
    shift = emit(aten.neg.default, emit(aten.mul.Tensor, mean, scale))
    if bias is not None:
        shift = emit(aten.add.Tensor, shift, bias)
    channels = [-1] + [1] * (len(step.shape or (0, 0)) - 2)
    scaled = emit(aten.mul.Tensor, value, emit(aten.view.default, scale, channels))
    emit(aten.add.Tensor, scaled, emit(aten.view.default, shift, channels))
    steps[-1] = replace(steps[-1], name=step.name)
    return steps


def _plain_softmax(step: Step) -> Step:
    """Read attention's softmax, which only differs where all of a row is minus infinity."""
    if step.target is not aten._safe_softmax.default:
        return step
    return replace(step, target=aten.softmax.int, args=step.args[:2], kwargs={})


def _plain_arguments(step: Step) -> Step:
    """Give what is written over a value first, and slices ends that are true lengths."""
    if step.target is aten.empty.memory_format:
        named = {key: item for key, item in step.kwargs.items() if key == "dtype"}
        return replace(step, target=aten.zeros.default, args=step.args[:1], kwargs=named)
    if step.target is not aten.slice_scatter.default or step.shape is None:
        return step
    base, source, *given = step.args
    usual: tuple[Any, ...] = (0, None, None, 1)
    dim, start, end, stride = (*given, *usual[len(given) :])
    length = step.shape[dim]
    if length == FREE and not start and stride == 1:
        return replace(step, target=aten.alias.default, args=(source,))
    end = length if end is None or end > length else end
    return replace(step, args=(base, source, dim, start or 0, end, stride))


def _free_rows(step: Step, rows: int) -> Step:
    """Free the number of rows in a program that was traced with a fixed one."""
    if step.shape is not None and step.shape[:1] == (rows,):
        step = replace(step, shape=(FREE, *step.shape[1:]))
    if step.target not in (aten.view.default, aten._unsafe_view.default):
        return step
    sizes = list(step.args[1])
    if sizes and sizes[0] == rows and -1 not in sizes:
        return replace(step, args=(step.args[0], [-1, *sizes[1:]], *step.args[2:]))
    return step


def _plainer(step: Step) -> Step:
    """Replace what means the same: conversions between float types, the mean slope of RReLU."""
    if step.constant or step.target not in RULES:
        return step
    if RULES[step.target].lower is convert:
        return replace(step, target=aten.alias.default, args=step.args[:1], kwargs={})
    if step.target is aten.rrelu.default:
        low, high = step.args[1:3] if len(step.args) > 2 else (1 / 8, 1 / 3)
        return replace(step, target=aten.leaky_relu.default, args=(step.args[0], (low + high) / 2))
    return step


def check(program: Program, *, fixed_rows: bool = False) -> None:
    """List every operation without a rule, or that takes the rows apart, in one error.

    Raises:
        UnsupportedOperation: With the place of each operation that stands in the way.
    """
    varying = {program.input} | {step.name for step in program.steps if not step.constant}
    made = {step.name: step for step in program.steps}
    waves = growing_waves(program)
    refuse(
        Refused.of(step, reason)
        for step in program.steps
        if not step.constant
        and (reason := waves.get(step.name) or _problem(step, varying, made, fixed_rows))
        is not None
    )


def _problem(step: Step, varying: set[str], made: dict[str, Step], fixed_rows: bool) -> str | None:
    """Why a step cannot be followed: ``None`` if it can, else a reason (empty: no rule at all)."""
    rule = RULES.get(step.target)
    if rule is None:
        return ""
    found = [
        place for place, arg in enumerate(step.args) for name in _names(arg) if name in varying
    ]
    if any(name in varying for arg in step.kwargs.values() for name in _names(arg)):
        return "an option depends on the input"
    if rule.data is not None and any(place not in rule.data for place in found):
        return "a weight or a position depends on the input"
    if len(found) > 1 and not rule.together:
        return PRODUCT
    if step.target is operator.getitem and step.args[1] == 1:
        producer = made.get(step.args[0].name)
        if producer is not None and producer.target in WITH_POSITIONS | WITH_ORDER:
            return f"uses the position of a maximum, which jumps; {HAS_LIMIT}"
    refusal = rule.refuse(*step.args, **step.kwargs) if rule.refuse else None
    if fixed_rows and refusal == MOVES:
        refusal = None
    return refusal or _lost_rows(step, fixed_rows)


def _lost_rows(step: Step, fixed_rows: bool) -> str | None:
    """Why rows cannot be told apart after a step: they must stay in the first dimension."""
    if fixed_rows or step.shape is None or (step.shape.count(FREE) == 1 and step.shape[0] == FREE):
        return None
    shape = tuple("rows" if length == FREE else length for length in step.shape)
    return f"{MOVES} (its result has shape {shape})"


def _names(tree: Any) -> list[str]:
    if isinstance(tree, Ref):
        return [tree.name]
    if isinstance(tree, (list, tuple)):
        return [name for item in tree for name in _names(item)]
    return []
