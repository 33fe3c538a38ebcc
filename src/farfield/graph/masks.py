"""Comparisons, masks and ``where``, read as what they are.

A model may write an activation by hand: ``torch.where(x > 0, x, 0.1 * x)``, ``x * (x > 0)``, hard
shrinkage. Whatever such a chain makes of *one* number, element by element, is worked out as a
:class:`~farfield.graph.profiles.Profile` and written as one piecewise-affine function, so that a
chain which is continuous counts as continuous. Where a mask of one value chooses between others,
the mask becomes a value that is 0 or 1, and the choice an operation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from farfield.graph.profiles import Profile
from farfield.graph.program import Program, Ref, Step
from farfield.graph.rules import RULES, Pieces
from farfield.graph.stepwise import bend, choose

aten = torch.ops.aten
TURNED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq": "eq", "ne": "ne"}
COMPARISONS = {
    overload: name
    for name in TURNED
    for overload in (getattr(aten, name).Scalar, getattr(aten, name).Tensor)
}
NOT = (aten.logical_not.default, aten.bitwise_not.default)
AND = (aten.logical_and.default, aten.bitwise_and.Tensor)
OR = (aten.logical_or.default, aten.bitwise_or.Tensor)
XOR = (aten.logical_xor.default, aten.bitwise_xor.Tensor)
PRODUCTS = (aten.mul.Tensor, aten.mul.Scalar)
SUMS = (aten.add.Tensor, aten.add.Scalar)
DIFFERENCES = (aten.sub.Tensor, aten.sub.Scalar)
TURNED_DIFFERENCES = (aten.rsub.Tensor, aten.rsub.Scalar)
SAME = (aten.alias.default, aten.clone.default, aten.detach.default, aten._to_copy.default)
FILLS = {aten.full.default: 1, aten.full_like.default: 1, aten.scalar_tensor.default: 0}
Views = dict[str, Profile]


def read_masks(program: Program, constants: Mapping[str, Tensor]) -> Program:
    """Rewrite what a program decides by comparisons; programs without any stay as they are.

    Args:
        program: With its constant steps marked.
        constants: Its weights; some are the numbers that it compares with.
    """
    if not any(each.target in COMPARISONS or _decides(each) for each in program.steps):
        return program
    return program.with_steps(_MaskReader(program, constants).steps())


def _decides(step: Step) -> bool:
    return step.target in (aten.sign.default, aten.where.self) and not step.constant


class _Recorder:
    """A domain that only looks at the pieces it is given."""

    def piecewise(self, _: Any, pieces: Pieces) -> Pieces:
        return pieces


class _MaskReader:
    """Goes through a program once; knows what each value is as a function of earlier ones."""

    def __init__(self, program: Program, constants: Mapping[str, Tensor]) -> None:
        self._program = program
        self._constants = constants
        self._shapes = {
            program.input: (-1, *program.input_shape),
            **{step.name: step.shape for step in program.steps},
        }
        self._varying = {program.input} | {s.name for s in program.steps if not s.constant}
        self._order = {name: place for place, name in enumerate(self._shapes)}
        self._numbers: dict[str, Fraction] = {}
        self._views: dict[str, Views] = {}
        self._masks: set[str] = set()
        self._decided: set[str] = set()

    def steps(self) -> tuple[Step, ...]:
        """The steps of the rewritten program."""
        return tuple(new for step in self._program.steps for new in self._read(step))

    def _read(self, step: Step) -> list[Step]:
        number = self._filled(step)
        if number is not None:
            self._numbers[step.name] = number
        if step.constant or number is not None:
            return [step]
        if step.target in COMPARISONS:
            return self._comparison(step)
        views = self._made(step)
        kept = {base: each for base, each in views.items() if self._shapes[base] == step.shape}
        self._views[step.name] = kept
        taken = [name for name in step.refs() if name in self._decided]
        if kept and (taken or step.target in (aten.sign.default, aten.isnan.default)):
            self._decided.add(step.name)
            if any(profile.is_mask for profile in kept.values()):
                self._masks.add(step.name)
            return self._written(step, kept)
        return self._across(step)

    def _filled(self, step: Step) -> Fraction | None:
        """The number that all of a step's values are."""
        if step.target in FILLS:
            return self._number(step.args[FILLS[step.target]])
        if step.target in SAME and step.constant:
            return self._number(step.args[0])
        return None

    def _number(self, value: Any) -> Fraction | None:
        """The finite number that an argument is, if it is a single one."""
        if isinstance(value, Ref):
            tensor = self._constants.get(value.name)
            if tensor is None or tensor.numel() != 1:
                return self._numbers.get(value.name)
            value = tensor.item()
        if isinstance(value, (bool, int, float)) and math.isfinite(value):
            return Fraction(value)
        return None

    def _seen(self, value: Any) -> Views | None:
        """What a value is as a function of others; ``None`` for a number."""
        if self._number(value) is not None:
            return None
        if not isinstance(value, Ref) or value.name not in self._varying:
            return {}
        return {**self._views.get(value.name, {}), value.name: Profile.identity()}

    def _joined(self, values: Sequence[Any], make: Callable[..., Profile | None]) -> Views:
        """Views of something made of several values, from every base that they share."""
        seen = [self._seen(value) for value in values]
        shared = [set(each) for each in seen if each is not None]
        if not shared:
            return {}
        found = {}
        for base in sorted(set.intersection(*shared), key=self._order.__getitem__):
            parts = [
                Profile.line(0, self._number(value) or 0) if each is None else each[base]
                for value, each in zip(values, seen, strict=True)
            ]
            made = make(*parts)
            if made is not None:
                found[base] = made
        return found

    def _made(self, step: Step) -> Views:
        """What a step makes, as a function of single earlier values."""
        target, args = step.target, step.args
        if target in SAME:
            return self._copied(step)
        if target in NOT and self._are_masks(args[:1]):
            return self._joined(args[:1], Profile.flipped)
        if target in (*AND, *OR, *XOR) and self._are_masks(args[:2]):
            return self._joined(args[:2], _logic(target))
        if target is aten.where.self and self._are_masks(args[:1]):
            return self._joined(args, Profile.choose)
        if target is aten.index_put.default:
            chosen = self._placed(step)
            return {} if chosen is None else self._joined(chosen, Profile.choose)
        if target in PRODUCTS:
            return self._joined(args[:2], Profile.times)
        if target in (*SUMS, *DIFFERENCES, *TURNED_DIFFERENCES):
            return self._summed(step)
        if target is aten.neg.default:
            return self._joined(args, lambda part: Profile.line(0, 0).add(part, -1))
        if target is aten.sign.default:
            return self._joined(args, _sign)
        if target is aten.isnan.default:  # values on rays are numbers
            return self._joined(args, lambda _: Profile.line(0, 0))
        return self._activated(step)

    def _copied(self, step: Step) -> Views:
        kind = step.kwargs.get("dtype")
        whole = kind is not None and not kind.is_floating_point
        if whole and not self._are_masks(step.args[:1]):
            return {}
        return self._joined(step.args[:1], lambda part: part)

    def _summed(self, step: Step) -> Views:
        first, second = step.args[:2]
        if step.target in TURNED_DIFFERENCES:
            first, second = second, first
        factor = self._number(step.kwargs.get("alpha", step.args[2] if len(step.args) > 2 else 1))
        if factor is None or (factor != 1 and step.target in TURNED_DIFFERENCES):
            return {}
        sign = 1 if step.target in SUMS else -1
        return self._joined((first, second), lambda a, b: a.add(b, sign * factor))

    def _activated(self, step: Step) -> Views:
        """What an activation of the rule table makes of the value that it is given."""
        rule, value = RULES.get(step.target), step.args[0] if step.args else None
        if (
            rule is None
            or rule.kind != "piecewise affine"
            or step.kwargs
            or len(list(step.refs())) != 1
        ):
            return {}
        if not isinstance(value, Ref) or (rule.refuse and rule.refuse(*step.args)):
            return {}
        made = Profile.of(rule.lower(_Recorder(), *step.args))
        return {} if made is None else {value.name: made}

    def _placed(self, step: Step) -> tuple[Any, Any, Any] | None:
        """``x[mask] = number`` as mask, number and ``x``."""
        value, places, number, *rest = step.args
        if len(places) != 1 or any(rest) or self._number(number) is None:
            return None
        if not self._are_masks(places) or self._shapes[places[0].name] != step.shape:
            return None
        return places[0], number, value

    def _are_masks(self, values: Sequence[Any]) -> bool:
        return all(isinstance(each, Ref) and each.name in self._masks for each in values)

    def _comparison(self, step: Step) -> list[Step]:
        """A mask: of the value itself where it is compared with a number, else of a difference."""
        relation = COMPARISONS[step.target]
        first, second = step.args[:2]
        if self._number(first) is not None:
            first, second, relation = second, first, TURNED[relation]
        number = self._number(second)
        before: list[Step] = []
        if number is None or self._shapes[first.name] != step.shape:
            gap = Step(f"{step.name}/gap", aten.sub.Tensor, (first, second), source=step.source)
            before = [replace(gap, shape=step.shape)]
            first, number = self._new(before[0], after=step), Fraction(0)
        views = self._joined([first], lambda part: part.compare(relation, number))
        self._views[step.name] = views
        self._masks.add(step.name)
        self._decided.add(step.name)
        return [*before, *self._written(step, views)]

    def _new(self, step: Step, after: Step) -> Ref:
        """Take in a step that was not in the program."""
        self._shapes[step.name] = step.shape
        self._order[step.name] = self._order[after.name]
        self._varying.add(step.name)
        return Ref(step.name)

    def _written(self, step: Step, views: Views) -> list[Step]:
        """A function of the earliest value that it is one of."""
        base = min(views, key=self._order.__getitem__)
        upward, downward = views[base].parts()
        value = Ref(base)
        if downward is None:
            return [_like(step, step.name, bend, value, upward)]
        turned = _like(step, f"{step.name}/turned", aten.neg.default, value)
        if upward is None:
            return [turned, _like(step, step.name, bend, Ref(turned.name), downward)]
        parts = (
            _like(step, f"{step.name}/up", bend, value, upward),
            _like(step, f"{step.name}/down", bend, Ref(turned.name), downward),
        )
        added = _like(step, step.name, aten.add.Tensor, *(Ref(part.name) for part in parts))
        return [turned, *parts, added]

    def _across(self, step: Step) -> list[Step]:
        """What masks do to values that they are not made of."""
        target, args = step.target, step.args
        rule = RULES.get(target)
        if target is aten.where.self and self._are_masks(args[:1]):
            return self._choice(step, *args)
        if rule is not None and rule.kind == "copy" and self._are_masks(args[:1]):
            self._masks.add(step.name)
        elif target in (*AND, *OR, *XOR) and self._are_masks(args[:2]):
            self._masks.add(step.name)
            return list(_logic_of_values(step))
        elif target is aten.index_put.default and (placed := self._placed(step)) is not None:
            return self._choice(step, *placed)
        elif target in PRODUCTS:
            for factor, value in ((args[0], args[1]), (args[1], args[0])):
                if not isinstance(value, Ref) or value.name not in self._varying:
                    continue
                if self._are_masks([factor]):
                    return self._choice(step, factor, value, 0.0)
                if (levels := self._levels(factor)) is not None:
                    return self._scaled(step, levels, value)
        return [step]

    def _levels(self, value: Any) -> Views | None:
        """The views of a value that is one of a few numbers, if it is."""
        if not isinstance(value, Ref) or value.name not in self._decided:
            return None
        flat = {base: each for base, each in self._views[value.name].items() if each.is_flat}
        return flat or None

    def _scaled(self, step: Step, levels: Views, value: Ref) -> list[Step]:
        """A value times one of a few numbers: chosen among its multiples, one after another."""
        base = min(levels, key=self._order.__getitem__)
        made: list[Step] = []
        found: Any = 0.0
        heights = sorted(levels[base].heights - {0})
        for place, height in enumerate(heights):
            mask = replace(step, name=f"{step.name}/is{place}", shape=self._shapes[base])
            made += self._written(mask, {base: _at(levels[base], height)})
            times = _like(step, f"{step.name}/times{place}", aten.mul.Tensor, value, float(height))
            times = replace(times, shape=self._shapes[value.name])
            for each in (mask, times):
                self._new(each, after=step)
            self._masks.add(mask.name)
            last = place + 1 == len(heights)
            whole = replace(step, name=step.name if last else f"{step.name}/or{place}")
            chosen = self._choice(whole, Ref(mask.name), Ref(times.name), found)
            if chosen[0].target is not choose:
                return [step]
            made += [times, *chosen]
            found = self._new(whole, after=step)
        return made

    def _choice(self, step: Step, mask: Ref, yes: Any, no: Any) -> list[Step]:
        """One value or another; those that vary must have as many dimensions as the result."""
        rank = len(step.shape or ())
        branches = []
        for value in (yes, no):
            number = self._number(value)
            branches.append(value if number is None else float(number))
        inputs = [each for each in (mask, yes, no) if isinstance(each, Ref)]
        varying = [each.name for each in inputs if each.name in self._varying]
        if any(len(self._shapes[name] or ()) != rank for name in varying):
            return [step]
        if all(each in (0, 1) or self._are_masks([each]) for each in branches):
            self._masks.add(step.name)
        return [_like(step, step.name, choose, mask, *branches)]


def _like(step: Step, name: str, target: Any, *args: Any) -> Step:
    return replace(step, name=name, target=target, args=args, kwargs={})


def _logic(target: Any) -> Callable[[Profile, Profile], Profile | None]:
    def made(a: Profile, b: Profile) -> Profile | None:
        both = a.times(b)
        if target in AND or both is None:
            return both
        return a.add(b).add(both, -1 if target in OR else -2)

    return made


def _logic_of_values(step: Step) -> Iterator[Step]:
    """And, or, exclusive or of values that are 0 or 1."""
    if step.target in XOR:
        gap = _like(step, f"{step.name}/gap", aten.sub.Tensor, *step.args[:2])
        yield gap
        yield _like(step, step.name, aten.abs.default, Ref(gap.name))
    else:
        target = aten.minimum.default if step.target in AND else aten.maximum.default
        yield _like(step, step.name, target, *step.args[:2])


def _at(profile: Profile, height: Fraction) -> Profile:
    mask = profile.compare("eq", height)
    assert mask is not None
    return mask


def _sign(part: Profile) -> Profile | None:
    above, below = part.compare("gt", 0), part.compare("lt", 0)
    return None if above is None or below is None else above.add(below, -1)
