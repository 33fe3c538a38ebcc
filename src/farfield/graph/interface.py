"""What a model takes and returns, brought to one tensor of rows in and one tensor of logits out.

A model may take several tensors and return a tuple, a dictionary or an object. Its inputs become
the columns of one table, in their order: numbers that can be moved, whole numbers that are codes of
categories, and masks that stay what they are in the example. Of what it returns one tensor is
taken: the one that is named, the one called ``logits``, or the only one there is.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from farfield.errors import CaptureError, InputError
from farfield.graph.export import evaluation_mode, module_device, module_dtype

Key = str | int
# Whole numbers that tell which places count, not what stands there.
MASKS = ("attention_mask", "token_type_ids", "position_ids", "pixel_mask", "head_mask")
# Where the module stands in what wraps it.
INSIDE = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
}


@dataclass(frozen=True, eq=False)
class InputPart:
    """One of a model's inputs.

    Attributes:
        key: Its name, or its place among those without one.
        shape: The shape of one row of it.
        codes: Whether it holds codes of categories.
        fixed: What it always is, if it is no part of the rows.
    """

    key: Key
    shape: tuple[int, ...] = ()
    codes: bool = False
    fixed: Any = None

    @property
    def width(self) -> int:
        """How many columns it takes."""
        return 0 if self.fixed is not None else math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class ModuleInputs:
    """An example as one tensor of rows, and how a model takes it.

    Attributes:
        rows: ``(rows, ...)`` floating-point numbers.
        parts: The model's inputs; none if it takes the rows as they are.
        names: What the columns are called, where that is known.
    """

    rows: Tensor
    parts: tuple[InputPart, ...] = ()
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, example: Any) -> ModuleInputs:
        """Read an example: an array, a frame, or several of them in a tuple or a mapping.

        Raises:
            InputError: If it holds no rows.
        """
        if isinstance(example, Mapping) or (isinstance(example, tuple) and _are_arrays(example)):
            keyed = example.items() if isinstance(example, Mapping) else enumerate(example)
            return cls._several([(key, item) for key, item in keyed if item is not None])
        names = None
        if hasattr(example, "columns") and hasattr(example, "to_numpy"):
            names = tuple(map(str, example.columns))
            example = np.asarray(example.to_numpy())
        tensor = _as_tensor(example, "example")
        if tensor.ndim < 2 or len(tensor) == 0:
            raise InputError(
                f"example must be one batch of inputs, rows first; got shape "
                f"{tuple(tensor.shape)}. For a single row x pass x[None]."
            )
        if tensor.is_floating_point():
            return cls(tensor, (), names)
        part = InputPart(0, tuple(tensor.shape[1:]), codes=True)
        return cls(tensor.reshape(len(tensor), -1).double(), (part,), names)

    @classmethod
    def _several(cls, given: Sequence[tuple[Key, Any]]) -> ModuleInputs:
        parts: list[InputPart] = []
        tables: list[Tensor] = []
        for key, item in given:
            if isinstance(item, (bool, int, float, str)):
                parts.append(InputPart(key, fixed=item))
                continue
            tensor = _as_tensor(item, f"input {key!r} of the example")
            if tensor.ndim == 0 or len(tensor) == 0:
                raise InputError(f"input {key!r} of the example has no rows")
            if key in MASKS or tensor.dtype is torch.bool:
                parts.append(InputPart(key, fixed=tensor[:1]))
                continue
            codes = not tensor.is_floating_point()
            parts.append(InputPart(key, tuple(tensor.shape[1:]), codes))
            tables.append(tensor.reshape(len(tensor), -1).double())
        if len({len(table) for table in tables}) != 1:
            lengths = [len(table) for table in tables]
            raise InputError(
                f"the inputs of the example must have equally many rows; got {lengths}"
            )
        return cls(torch.cat(tables, dim=1), tuple(parts))

    def around(self, model: nn.Module, output: Key | None, label: int | None) -> nn.Module:
        """A module that takes these rows and returns one tensor; the model itself if it does."""
        model = unwrapped(model)
        _check_weights(model)
        if self.parts or output is not None or label is not None or _takes_any(model):
            whole = OneTensor(model, self.parts, output, label)
            if len(self.parts) == 1 and self.parts[0].codes:
                self._check_codes(whole)
            return whole
        kind = module_dtype(model, self.rows.dtype)
        rows = self.rows[:2].to(module_device(model), kind)
        try:
            with torch.no_grad(), evaluation_mode(model):
                returned = model(rows)
        except Exception:  # whatever a model raises is told when it is traced
            return model
        return model if isinstance(returned, Tensor) else OneTensor(model, (), output, label)

    def _check_codes(self, module: nn.Module) -> None:
        """See that a model takes whole numbers at all."""
        try:
            with torch.no_grad(), evaluation_mode(module):
                module(self.rows[:2].to(module_device(module)))
        except CaptureError:
            raise
        except Exception as error:
            raise InputError(
                "example must hold floating-point numbers: the model does not take whole ones as "
                "codes of categories. Convert it, for instance with example.float()."
            ) from error

    def features(self, model: nn.Module) -> tuple[str, ...] | None:
        """What the columns are called: by the names of inputs, with places behind."""
        if not self.parts or sum(part.width for part in self.parts) > 10_000:
            return self.names
        asked = list(inspect.signature(unwrapped(model).forward).parameters)
        names: list[str] = []
        for part in self.parts:
            key = part.key
            if isinstance(key, int):
                key = asked[key] if key < len(asked) and not _takes_any(model) else f"input {key}"
            many = part.width > 1
            names += [f"{key}[{i}]" if many else str(key) for i in range(part.width)]
        return tuple(names)


def _are_arrays(items: Sequence[Any]) -> bool:
    return bool(items) and all(getattr(item, "ndim", 0) > 0 for item in items)


def _as_tensor(values: Any, what: str) -> Tensor:
    try:
        return values if isinstance(values, Tensor) else torch.as_tensor(np.array(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{what} must hold numbers; got {type(values).__name__}: {str(error).splitlines()[0]}"
        ) from error


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside of ``torch.compile`` and of parallel wrappers."""
    inside = INSIDE.get(type(model).__name__)
    return model if inside is None else unwrapped(model.get_submodule(inside))


def _check_weights(model: nn.Module) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_meta:
            raise CaptureError(
                f"the weight {name} is on the meta device, where it has a shape and no values; "
                "load the model's weights first"
            )


def _takes_any(model: nn.Module) -> bool:
    """Whether ``forward`` takes whatever it is given, so that nothing can be told of its input."""
    try:
        asked = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in asked)


class OneTensor(nn.Module):
    """A model that is asked with one tensor of rows and answers with one tensor.

    Args:
        model: The model.
        parts: How it takes the rows; none if as they are.
        output: Which of the tensors that it returns to take; ``None`` if that can be told.
        label: Which of its outputs to take alone, if not all.
    """

    def __init__(
        self,
        model: nn.Module,
        parts: Sequence[InputPart],
        output: Key | None = None,
        label: int | None = None,
    ) -> None:
        super().__init__()
        self.model, self.parts, self.output, self.label = model, tuple(parts), output, label
        for place, part in enumerate(self.parts):
            fixed = part.fixed if isinstance(part.fixed, Tensor) else None
            self.register_buffer(f"fixed_{place}", fixed, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Ask the model."""
        returned = self.model(rows) if not self.parts else self._ask(rows)
        found = picked(returned, self.output)
        return found if self.label is None else found[:, self.label : self.label + 1]

    def _ask(self, rows: Tensor) -> Any:
        args: list[Any] = []
        named: dict[str, Any] = {}
        start = 0
        for place, part in enumerate(self.parts):
            value: Any = part.fixed
            if isinstance(value, Tensor):
                fixed = getattr(self, f"fixed_{place}")
                value = fixed.expand(rows.shape[0], *fixed.shape[1:])
            elif value is None:
                value = rows[:, start : start + part.width].reshape(rows.shape[0], *part.shape)
                value = value.long() if part.codes else value
                start += part.width
            if isinstance(part.key, str):
                named[part.key] = value
            else:
                args.append(value)
        return self.model(*args, **named)


def picked(returned: Any, output: Key | None) -> Tensor:
    """One tensor of what a model returns.

    Raises:
        CaptureError: If it is not there, or cannot be told.
    """
    named = dict(_tensors(returned))
    if output is not None:
        if output not in named:
            raise CaptureError(f"the model returns {_listed(named)}, and no output {output!r}")
        return named[output]
    if isinstance(returned, Tensor):
        return returned
    if "logits" in named:
        return named["logits"]
    floating = {key: each for key, each in named.items() if each.is_floating_point()}
    if len(floating) != 1:
        raise CaptureError(
            f"the model returns a {type(returned).__name__} with {len(floating)} tensors: "
            f"{_listed(floating)}; say which holds the logits: output={next(iter(floating), 0)!r}"
        )
    return next(iter(floating.values()))


def _tensors(returned: Any) -> Iterator[tuple[Key, Tensor]]:
    """The tensors that something holds, by name or place."""
    items: Any = ()
    if isinstance(returned, Mapping):
        items = returned.items()
    elif is_dataclass(returned) and not isinstance(returned, type):
        items = ((each.name, getattr(returned, each.name)) for each in fields(returned))
    elif hasattr(returned, "_asdict"):
        items = returned._asdict().items()
    elif isinstance(returned, (list, tuple)):
        items = enumerate(returned)
    elif hasattr(returned, "__dict__") and not isinstance(returned, Tensor):
        items = vars(returned).items()
    for key, item in items:
        if isinstance(item, Tensor):
            yield key, item


def _listed(named: Mapping[Key, Tensor]) -> str:
    return ", ".join(f"{key} {tuple(item.shape)}" for key, item in named.items()) or "no tensors"
