"""PyTorch modules and exported programs, read into a :class:`Program`.

``torch.export`` traces the module with a free batch size; operations that have a rule are kept
whole, everything else is decomposed to core ATen.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.graph.decompose import take_apart
from farfield.graph.plain_layers import apart, is_plain
from farfield.graph.program import FREE, CodePlace, Program, Ref, Step
from farfield.graph.rules import RULES

aten = torch.ops.aten
OVERLOADS = ("Scalar", "Tensor")

# Refused or stripped under their own name; decomposed, they would be listed as a dozen parts.
KEPT_WHOLE = (
    aten.layer_norm.default,
    aten.native_layer_norm.default,
    aten.group_norm.default,
    aten.native_group_norm.default,
    aten.instance_norm.default,
    aten.rms_norm.default,
    aten.softmax.int,
    aten.log_softmax.int,
    aten._softmax.default,
    aten._log_softmax.default,
    aten._safe_softmax.default,
    aten.batch_norm.default,
    aten.logsumexp.default,
    aten.embedding.default,
    aten.scaled_dot_product_attention.default,
)
# Operations by which a model decides, or that its decisions are made of: numbers among their
# arguments are rounded as the model rounds them, so that a tie is one here where it is one there.
ROUNDED = (
    *(
        getattr(getattr(aten, n), o)
        for n in ("gt", "ge", "lt", "le", "eq", "ne")
        for o in OVERLOADS
    ),
    *(getattr(getattr(aten, n), o) for n in ("mul", "add", "sub", "rsub") for o in OVERLOADS),
    aten.threshold.default,
)
BATCH_NORMS = (aten.batch_norm.default, aten._native_batch_norm_legit_no_training.default)


class Read(NamedTuple):
    """A module, operation by operation.

    Attributes:
        program: Its operations.
        constants: Its weights, by name.
        names: What the module calls them.
        rows: The batch size that it was read with; 0 if that is free.
        folds: Whether rows are folded into another dimension on the way.
    """

    program: Program
    constants: Mapping[str, Tensor]
    names: Mapping[str, str]
    rows: int
    folds: bool


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put every submodule into evaluation mode, and back to what it was."""
    modes = [(part, part.training) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def quiet_export() -> Iterator[None]:
    """Keep torch's own deprecation notices and trace logs away from the user."""
    loggers = [logging.getLogger(name) for name in ("torch", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def module_dtype(module: nn.Module, otherwise: torch.dtype) -> torch.dtype:
    """The floating-point type of a module's weights, or another if it has none."""
    found = _floating(module, "_parameters") or _floating(module, "_buffers")
    return found or otherwise


def _floating(module: nn.Module, kind: str) -> torch.dtype | None:
    """The type of the first floating-point tensor; torch's own iterators take many times longer."""
    for tensor in getattr(module, kind).values():
        if tensor is None:
            continue
        own: torch.dtype = tensor.dtype
        if own.is_floating_point:
            return own
        if own.is_complex:
            raise CaptureError(
                f"the model has complex weights ({own}); farfield reads real networks"
            )
    for child in module._modules.values():
        if child is not None and (found := _floating(child, kind)) is not None:
            return found
    return None


def module_device(module: nn.Module) -> torch.device:
    """The device a module lives on."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device("cpu")


def export_module(module: nn.Module, example: Tensor, *, one_row: bool = False) -> ExportedProgram:
    """Trace ``module`` in evaluation mode; the module stays as it was.

    The batch size is free, unless the module is to be traced on a batch of exactly one row.
    """
    rows = example.to(module_device(module), module_dtype(module, example.dtype))
    if len(rows) == 1 and not one_row:
        rows = rows.expand(2, *rows.shape[1:]).contiguous()
    shapes = None if one_row else ({0: Dim.AUTO},)
    try:
        with evaluation_mode(module), torch.no_grad(), quiet_export():
            return torch.export.export(module, (rows,), dynamic_shapes=shapes)
    except CaptureError:
        raise
    except Exception as error:  # torch.export documents no common base of what it raises
        advice = "Check that the example has the shape that forward() expects."
        if type(error).__name__ == "GuardOnDataDependentSymNode":
            advice = "Control flow that depends on the values of the input cannot be traced."
        raise CaptureError(
            f"torch.export could not trace {type(module).__name__} on an example of shape "
            f"{tuple(example.shape)}: {first_line(error)}. {advice}"
        ) from error


def first_line(error: BaseException) -> str:
    """What went wrong in PyTorch, in one line."""
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}"


@dataclass(frozen=True, eq=False)
class StatedProgram:
    """What an exported program says of itself before it is taken apart.

    Attributes:
        constants: Its tensors, by the names of its placeholders.
        names: What they are called in the module that it was made of.
        shape: Of one row of its input.
        dtype: Of its input.
        rows: The batch size that it was traced with; 0 if that is free.
        output: The name of what it returns.
        is_plain: Whether there is nothing to take apart.
    """

    constants: Mapping[str, Tensor]
    names: Mapping[str, str]
    shape: tuple[int, ...]
    dtype: torch.dtype
    rows: int
    output: str
    is_plain: bool

    @classmethod
    def of(cls, exported: ExportedProgram) -> StatedProgram:
        """Look at a program.

        Raises:
            CaptureError: If it takes or returns several tensors, or is no plain list of operations.
        """
        _check_targets(exported)
        constants, names, input_name = _read_inputs(exported)
        values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
        x = values[input_name]
        return cls(
            constants,
            names,
            _plain_shape(tuple(x.shape[1:])),
            x.dtype,
            _fixed_rows(exported),
            _read_output(exported),
            _has_plain_layers(exported),
        )


def read_exported(exported: ExportedProgram) -> Read:
    """Read an exported program as PyTorch takes it apart."""
    rows, folds = _fixed_rows(exported), _folds(exported)
    _check_targets(exported)
    exported = _decomposed(exported)
    _check_sizes(exported)
    constants, names, input_name = _read_inputs(exported)
    output = _read_output(exported)
    nodes = {node.name: node for node in exported.graph.nodes}
    calls = (node for node in exported.graph.nodes if node.op == "call_function")
    steps = tuple(step for node in calls for step in apart(_step(node)))
    shape = tuple(nodes[input_name].meta["val"].shape)
    batched = shape[0] != 1
    program = Program(
        steps=steps,
        input=input_name,
        output=output,
        input_shape=_plain_shape(shape[1:]),
        output_shape=(_shape(nodes[output].meta["val"]) or ())[1:],
        width=max(_row_size(node, batched) for node in nodes.values()),
    )
    return Read(program, constants, names, rows, folds)


def _decomposed(exported: ExportedProgram) -> ExportedProgram:
    """Take operations without a rule apart into such with one, if there are any."""
    if _has_plain_layers(exported):
        return exported
    try:
        with quiet_export():
            return take_apart(exported, kept_whole())
    except Exception as error:  # torch documents no common base of what it raises
        raise CaptureError(f"the exported program is broken: {first_line(error)}") from error


def _has_plain_layers(exported: ExportedProgram) -> bool:
    """Whether a program consists of layers that stay as they are."""
    calls = (node for node in exported.graph.nodes if node.op == "call_function")
    return all(is_plain(node.target, node.args) and not node.kwargs for node in calls)


@cache
def kept_whole() -> tuple[Any, ...]:
    """Operations that have a rule, or are refused under their own name."""
    return tuple(each for each in (*RULES, *KEPT_WHOLE) if isinstance(each, torch._ops.OpOverload))


def _check_targets(exported: ExportedProgram) -> None:
    """Refuse a file that names anything but ATen operations and arithmetic on sizes."""
    for node in exported.graph.nodes:
        if node.op == "get_attr":
            raise CaptureError(
                f"the model contains a nested graph ({node.target}), as torch.cond and "
                "similar control flow make; only straight-line models can be read"
            )
        if node.op != "call_function":
            continue
        target = node.target
        known = isinstance(target, torch._ops.OpOverload) and target.namespace in ("aten", "prims")
        if not known and getattr(target, "__module__", "") not in ("_operator", "math"):
            raise CaptureError(
                f"the model calls {target}, which is not an ATen operation, in "
                f"{place_of(node.meta)}; replace it by standard PyTorch operations"
            )


def _check_sizes(exported: ExportedProgram) -> None:
    """Refuse values whose size hangs on other values."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols  # takes long to load

    for node in exported.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, Tensor) and free_unbacked_symbols(value):
            raise NotFollowed(
                "the size of a value depends on the values of another, in "
                f"{place_of(node.meta)}: a mask as an index, as in x[:, mask], does that; pick by "
                "positions, x[:, mask.nonzero().flatten()], which are made in __init__."
            )


def _read_inputs(exported: ExportedProgram) -> tuple[dict[str, Tensor], dict[str, str], str]:
    constants: dict[str, Tensor] = {}
    names: dict[str, str] = {}
    inputs: list[str] = []
    for spec in exported.graph_signature.input_specs:
        argument = spec.arg.name
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(argument)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            names[argument] = str(spec.target)
            source = exported.constants if spec.persistent is False else exported.state_dict
            constants[argument] = source[str(spec.target)].detach()
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            names[argument] = str(spec.target)
            constants[argument] = exported.constants[str(spec.target)].detach()
    if len(inputs) != 1:
        raise CaptureError(
            f"the model takes {len(inputs)} inputs ({', '.join(inputs)}); farfield follows one "
            "tensor of rows. Wrap the model so that forward() takes a single tensor."
        )
    return constants, names, inputs[0]


def _read_output(exported: ExportedProgram) -> str:
    outputs = [
        spec.arg.name
        for spec in exported.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT and hasattr(spec.arg, "name")
    ]
    structure = exported.call_spec.out_spec
    if len(outputs) != 1 or structure is None or not structure.is_leaf():
        kind = getattr(getattr(structure, "type", None), "__name__", "several values")
        raise CaptureError(
            f"the model returns a {kind} with {len(outputs)} tensors; farfield needs one tensor "
            "of logits. Wrap the model so that forward() returns the logits alone."
        )
    return str(outputs[0])


def _step(node: torch.fx.Node) -> Step:
    return Step(
        name=node.name,
        target=node.target,  # type: ignore[arg-type]  # call_function nodes hold callables
        args=_read(rounded(node.target, node.args)),
        kwargs={key: _read(value) for key, value in node.kwargs.items()},
        source=place_of(node.meta),
        shape=_shape(node.meta.get("val")),
    )


def rounded(target: Any, args: Sequence[Any]) -> tuple[Any, ...]:
    """Numbers that a model compares with as it sees them itself, often in single precision."""
    first = args[0] if args else None
    beside = first.meta.get("val") if isinstance(first, torch.fx.Node) else first
    if (
        target not in ROUNDED
        or not isinstance(beside, Tensor)
        or not beside.dtype.is_floating_point
    ):
        return tuple(args)
    kind = beside.dtype
    return tuple(
        float(torch.tensor(each, dtype=kind)) if isinstance(each, float) else each for each in args
    )


def _shape(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if not isinstance(value, Tensor):
        return None
    return tuple(FREE if _is_free(length) else int(length) for length in value.shape)


def _read(tree: Any) -> Any:
    if isinstance(tree, torch.fx.Node):
        return Ref(tree.name)
    if isinstance(tree, (list, tuple)):
        items = [_read(item) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    return tree


def place_of(meta: Mapping[str, Any]) -> CodePlace:
    """Name the innermost module and the last line of code that is not PyTorch's own."""
    module = ""
    for path, kind in (meta.get("nn_module_stack") or {}).values():
        kind_name = str(getattr(kind, "__name__", kind)).rsplit(".", 1)[-1]
        module = f"{path or 'the model'} ({kind_name})"
    line = ""
    own = str(Path(torch.__file__).parent)
    trace = (meta.get("stack_trace") or "").splitlines()
    for text in map(str.strip, trace):
        if text.startswith('File "') and own not in text:
            file, number = text.split('"')[1], text.split("line ")[1].split(",")[0]
            line = f"{Path(file).name}:{number}"
    return CodePlace(module, line)


def _row_size(node: torch.fx.Node, batched: bool) -> int:
    value = node.meta.get("val")
    if node.op == "placeholder" and not _is_symbolic(value):
        return 1
    if not isinstance(value, Tensor) or value.ndim == 0:
        return 1
    size = 1
    for length in value.shape[1:] if batched else value.shape:
        size *= 1 if _is_free(length) else int(length)
    return size


def _is_free(length: Any) -> bool:
    """Whether a length is a symbol; some symbols stand for a number."""
    if isinstance(length, torch.SymInt):
        return length.node.maybe_as_int() is None
    return not isinstance(length, int)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, Tensor) and any(map(_is_free, value.shape))


def _plain_shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if any(map(_is_free, shape)):
        raise CaptureError(
            f"only the first dimension of the input may vary, got {tuple(map(str, shape))} after "
            "it; export the model with fixed sizes for the others"
        )
    return tuple(int(length) for length in shape)


def _folds(exported: ExportedProgram) -> bool:
    """Whether a first dimension is a multiple of the number of rows."""
    nodes = [node.meta.get("val") for node in exported.graph.nodes]
    firsts = {str(each.shape[0]) for each in nodes if isinstance(each, Tensor) and each.ndim}
    symbols = {first for first in firsts if not first.isdigit()}
    return len(symbols) > 1


def _fixed_rows(exported: ExportedProgram) -> int:
    """The batch size that an exported program was traced with, 0 if it is free."""
    inputs = set(exported.graph_signature.user_inputs)
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            first = node.meta["val"].shape[0]
            return first if isinstance(first, int) else 0
    return 0


def stated_constants(module: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor] | None:
    """Look the constants of another module's program up in this one; ``None`` if any is missing."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    found = {argument: state.get(name) for argument, name in names.items()}
    if any(tensor is None for tensor in found.values()):
        return None
    return {argument: tensor.detach() for argument, tensor in found.items() if tensor is not None}


def as_example(example: Any) -> Tensor:
    """Turn an example into a tensor of at least one row."""
    tensor = torch.as_tensor(example)
    if tensor.ndim < 2 or len(tensor) == 0:
        raise InputError(
            f"example must be one batch of inputs, rows first; got shape {tuple(tensor.shape)}. "
            "For a single row x pass x[None]."
        )
    if not tensor.is_floating_point():
        raise InputError(
            f"example must hold floating-point numbers; got {tensor.dtype}. Convert it, for "
            "instance with example.float()."
        )
    return tensor
