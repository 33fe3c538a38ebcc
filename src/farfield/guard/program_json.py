"""Programs as plain data: every operation by name, checked against the rule table when read."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

import farfield.graph.models  # noqa: F401 - importing it registers the rules
from farfield.errors import InputError
from farfield.graph.export import BATCH_NORMS, KEPT_WHOLE
from farfield.graph.program import SIZE, CodePlace, Program, Ref, Step
from farfield.graph.rules import RULES

aten = torch.ops.aten
# Beside those with a rule: sizes, constants that are made with as many rows as the input, and what
# an unread model is made of. None of them reads or writes anything but its arguments.
EXTRA: tuple[Any, ...] = (
    *KEPT_WHOLE,
    *BATCH_NORMS,
    SIZE,
    operator.mul,
    operator.add,
    operator.sub,
    operator.floordiv,
    aten.full.default,
    aten.zeros.default,
    aten.ones.default,
    F.softsign,
)


# More steps than this, or values with more elements, are damage.
MOST_STEPS, MOST_ELEMENTS = 20_000, 2**28


def _name(target: Callable[..., Any]) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def _known() -> dict[str, Callable[..., Any]]:
    return {_name(target): target for target in (*RULES, *EXTRA)}


def program_to_json(program: Program) -> dict[str, Any]:
    """Describe a program with what JSON can hold.

    Raises:
        InputError: If it holds an operation that could not be read back.
    """
    known = _known()
    strange = sorted({s.operation for s in program.steps if _name(s.target) not in known})
    if strange:
        raise InputError(f"a model with {', '.join(strange)} cannot be saved; export it instead")
    return {
        "input": program.input,
        "output": program.output,
        "input_shape": list(program.input_shape),
        "output_shape": list(program.output_shape),
        "width": program.width,
        "per_row": program.per_row,
        "steps": [
            {
                "name": step.name,
                "target": _name(step.target),
                "args": _encode(step.args),
                "kwargs": {key: _encode(value) for key, value in step.kwargs.items()},
                "module": step.source.module,
                "constant": step.constant,
                "shape": None if step.shape is None else list(step.shape),
            }
            for step in program.steps
        ],
    }


def program_from_json(data: dict[str, Any]) -> Program:
    """Undo :func:`program_to_json`.

    Raises:
        InputError: For an operation that is not in the rule table, or damaged data.
    """
    known = _known()
    steps = []
    try:
        if len(data["steps"]) > MOST_STEPS:
            raise InputError(f"the file's program has {len(data['steps'])} steps; it is damaged")
        for step in data["steps"]:
            if step["target"] not in known:
                raise InputError(f"the file names the operation {step['target']!r}, not known here")
            steps.append(
                Step(
                    step["name"],
                    known[step["target"]],
                    _decode(step["args"]),
                    {key: _decode(value) for key, value in step["kwargs"].items()},
                    CodePlace(step["module"]),
                    bool(step["constant"]),
                    None if step["shape"] is None else tuple(step["shape"]),
                )
            )
        return Program(
            tuple(steps),
            data["input"],
            data["output"],
            tuple(data["input_shape"]),
            tuple(data["output_shape"]),
            int(data["width"]),
            bool(data.get("per_row", False)),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the file's program is damaged: {error!r}") from error


def _encode(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"an argument of type {type(value).__name__} cannot be saved")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        _check_size([item for item in value if isinstance(item, int)])
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        _check_size([value] if isinstance(value, int) else [])
        return value
    ((tag, content),) = value.items()
    if tag == "ref":
        return Ref(str(content))
    if tag == "tuple":
        return tuple(_decode(item) for item in content)
    if tag == "torch":
        if content == "cpu":
            return torch.device("cpu")
        found = getattr(torch, str(content), None)
        if isinstance(found, torch.dtype | torch.layout | torch.memory_format):
            return found
    raise InputError(f"the file's program holds an unknown value {value!r}")


def _check_size(lengths: list[int]) -> None:
    """Refuse shapes that no value of a model has."""
    if math.prod(max(1, abs(length)) for length in lengths) > MOST_ELEMENTS:
        raise InputError(f"the file's program asks for {lengths[:5]} elements; it is damaged")
