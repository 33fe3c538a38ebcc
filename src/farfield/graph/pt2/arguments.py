"""What the arguments of a saved operation mean, and where it came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from farfield.errors import CaptureError
from farfield.graph.pt2 import schema
from farfield.graph.pt2.weights import DTYPES, STRIDED

FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
TRACE_LINE = re.compile(r'\s*File "([^"\r\n]{1,400})", line (\d{1,9}), in ')
NOT_WORDS = re.compile(r"[^\w./\\<>\[\]() -]")
POSITIONAL = 1
SIMPLE = ("as_int", "as_ints", "as_string", "as_bool", "as_bools")
SIZES = ("as_int", "as_sym_int")
TABLES: Mapping[str, Mapping[int, Any]] = {
    "as_scalar_type": DTYPES,
    "as_memory_format": MEMORY_FORMATS,
    "as_layout": {STRIDED: torch.strided},
}
# Finds a value that was made before by its name, or raises.
Look = Callable[[str], Any]


def arguments(
    target: Any, node: schema.SavedNode, where: str, look: Look
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments, in the order of the operation's signature."""
    given = {item.name: item for item in node.inputs}
    if len(given) != len(node.inputs):
        raise CaptureError(f"{where} gives an argument twice; damaged")
    if not isinstance(target, torch._ops.OpOverload):  # arithmetic on sizes
        if any(item.arg.tag not in SIZES for item in node.inputs):
            raise CaptureError(f"{where} computes with something else than sizes; damaged")
        return tuple(argument(item.arg, where, look) for item in node.inputs), {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    complete = True
    for parameter in target._schema.arguments:
        item = given.pop(parameter.name, None)
        if item is None:
            complete = False
            continue
        value = argument(item.arg, where, look)
        kind = item.kind or (2 if parameter.has_default_value() else POSITIONAL)
        if parameter.kwarg_only or (kind != POSITIONAL and parameter.name.isidentifier()):
            kwargs[parameter.name] = value
        elif complete and not kwargs:
            args.append(value)
        else:
            raise CaptureError(f"{where} leaves out an argument before {parameter.name!r}")
    if given:
        raise CaptureError(f"{where} has no argument {next(iter(given))[:50]!r}; damaged")
    return tuple(args), kwargs


def argument(given: schema.Argument, where: str, look: Look) -> Any:
    """What an argument means."""
    tag, value = given.tag, given.value
    if tag in SIMPLE:
        return value
    if tag == "as_none":
        return None
    if tag in TABLES:
        if value not in TABLES[tag]:
            raise CaptureError(f"{where} has the unknown value {value} for {tag}; damaged")
        return TABLES[tag][value]
    if tag == "as_device":
        return torch.device("cpu")
    if tag == "as_tensor":
        return look(value.name)
    if tag == "as_tensors":
        return [look(item.name) for item in value]
    if tag in ("as_float", "as_floats"):
        return [FLOATS.get(x, x) for x in value] if tag == "as_floats" else FLOATS.get(value, value)
    items = [_mention(item, look) for item in (value if isinstance(value, list) else [value])]
    return items if isinstance(value, list) else items[0]


def _mention(item: schema.SizeArgument | schema.OptionalTensor, look: Look) -> Any:
    """A size or a tensor that may be missing."""
    if isinstance(item, schema.OptionalTensor):
        return None if item.as_tensor is None else look(item.as_tensor.name)
    return item.as_int if item.as_name is None else look(item.as_name)


def result_names(node: schema.SavedNode, where: str) -> list[str]:
    """The names that the file gives to an operation's results."""
    names: list[str] = []
    for output in node.outputs:
        if output.as_tensor is not None:
            names.append(output.as_tensor.name)
        elif output.as_tensors is not None and len(node.outputs) == 1:
            names.extend(item.name for item in output.as_tensors)
        elif output.as_sym_int is not None and output.as_sym_int.as_name is not None:
            names.append(output.as_sym_int.as_name)
        elif output.as_none is None:
            raise CaptureError(f"{where} returns something else than tensors and sizes")
    return names


def origin(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Where an operation came from, without anything that could be more than words."""
    trace = TRACE_LINE.findall(metadata.get("stack_trace", "")[:20_000])
    lines = [f'File "{_words(file)}", line {number}, in forward' for file, number in trace]
    stack = {}
    for index, item in enumerate(metadata.get("nn_module_stack", "")[:5_000].split(";")):
        key, _, rest = item.partition(",")
        path, _, kind = rest.partition(",")
        if key:
            stack[f"{index}"] = (_words(path), _words(kind))
    return {"nn_module_stack": stack, **({"stack_trace": "\n".join(lines)} if lines else {})}


def place(metadata: Mapping[str, str]) -> str:
    """Where an operation came from, in words."""
    stack = list(origin(metadata)["nn_module_stack"].values())
    return (
        f"{stack[-1][0] or 'the model'} ({stack[-1][1].rsplit('.', 1)[-1]})"
        if stack
        else "the model"
    )


def _words(text: str) -> str:
    return NOT_WORDS.sub("?", text)[:200]
