"""Classifiers of skorch: a module of PyTorch, and the nonlinearity that makes probabilities of it.

What is read is the fitted ``module_`` with skorch's own nonlinearity behind it, traced together, so
that the head of the whole is what ``predict_proba`` gives, also where the nonlinearity is a
function of the user's. skorch itself is never imported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.export import (
    evaluation_mode,
    module_device,
    module_dtype,
)
from farfield.graph.heads import Head
from farfield.graph.program import Program
from farfield.graph.reading import Reading
from farfield.graph.recorded import read_steps
from farfield.graph.simplify import simplify

CLASSES = ("NeuralNetClassifier", "NeuralNetBinaryClassifier")
# What skorch does between rows and probabilities; who overrides it may do anything there.
OWN_METHODS = ("predict_proba", "forward_iter", "evaluation_step", "infer")
# Rows on which the module is compared with predict_proba, and by how much single precision is off.
TRIED, TOLERANCE = 8, 1e-4


def is_skorch(model: Any) -> bool:
    """Whether a model is a classifier of skorch, or of a class derived from one."""
    return _base(model) is not None


def _base(model: Any) -> type | None:
    for each in type(model).__mro__:
        if each.__name__ in CLASSES and each.__module__.split(".")[0] == "skorch":
            return each
    return None


class _Asked(nn.Module):
    """From rows to what ``predict_proba`` gives."""

    def __init__(self, net: Any, *, flat: bool) -> None:
        super().__init__()
        self.module = net.module_
        self._nonlinearity = net._get_predict_nonlinearity()
        self._flat = flat

    def forward(self, rows: Tensor) -> Tensor:
        """Keep the first of several outputs, as skorch does."""
        values = self.module(rows)
        values = values[0] if isinstance(values, tuple) else values
        shares: Tensor = self._nonlinearity(values.reshape(-1) if self._flat else values)
        return shares


def as_module(net: Any) -> nn.Module:
    """The module that gives what a fitted net's ``predict_proba`` does.

    Raises:
        CaptureError: If the net is not fitted.
        NotFollowed: If a class of the user's changes how it predicts.
    """
    base = _base(net)
    changed = [each for each in OWN_METHODS if getattr(type(net), each) is not getattr(base, each)]
    if changed:
        raise NotFollowed(
            f"{type(net).__name__} overrides skorch's {', '.join(changed)}, and may do anything "
            "there; capture its module_ instead."
        )
    if not getattr(net, "initialized_", False):
        raise CaptureError(f"{type(net).__name__} is not fitted; call fit or initialize first")
    return _Asked(net, flat=base is not None and base.__name__ == CLASSES[1])


def labels_of(net: Any) -> tuple[Any, ...] | None:
    """The names of the classes, if the net has seen any."""
    classes = getattr(net, "classes_", None)
    return None if classes is None else tuple(classes.tolist())


def check_head(net: Any, head: Head) -> None:
    """See that a net gives probabilities.

    Raises:
        CaptureError: If it gives logits or logarithms, which ``predict_proba`` passes on.
    """
    if head in ("none", "log-softmax"):
        given = "logarithms of probabilities" if head == "log-softmax" else "outputs"
        raise CaptureError(
            f"predict_proba of {type(net).__name__} gives the module's {given} as they are, which "
            f"are no probabilities (criterion {type(net.criterion_).__name__}, "
            f"predict_nonlinearity={net.predict_nonlinearity!r}); train with "
            "criterion=torch.nn.CrossEntropyLoss, set "
            "predict_nonlinearity, or let the module end in a softmax"
        )


def check_answers(net: Any, module: nn.Module, shape: tuple[int, ...]) -> None:
    """See that ``predict_proba`` agrees with the module: its data may pass a Dataset on the way.

    Raises:
        NotFollowed: If they differ on random rows.
    """
    dtype = module_dtype(module, torch.float32)
    rows = torch.randn((TRIED, *shape), generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.no_grad(), evaluation_mode(module):
        found = module(rows.to(module_device(module))).cpu()
        asked = torch.as_tensor(net.predict_proba(rows.numpy()))
    if found.shape != asked.shape or bool(((found - asked).abs() > TOLERANCE).any()):
        raise NotFollowed(
            f"predict_proba of {type(net).__name__} gives other numbers than its module_ and "
            "nonlinearity; something changes the rows on the way (dataset, iterator_valid). "
            "Capture its module_ instead."
        )


def read_net(net: Any, columns: int) -> Reading:
    """Read a fitted net that takes rows of a table, as the last step of a pipeline.

    Raises:
        NotFollowed: If it is a mixture of several distributions, or not what it seems.
    """
    module = as_module(net)
    head, reading = _read(module, columns, type(net).__name__)
    check_head(net, head)
    check_answers(net, module, (columns,))
    return replace(reading, labels=labels_of(net))


def read_module(module: nn.Module, columns: int) -> Reading:
    """Read a module that takes rows of a table, as the last step of a pipeline."""
    return _read(module, columns, type(module).__name__)[1]


def _read(module: nn.Module, columns: int, name: str) -> tuple[Head, Reading]:
    rows = torch.zeros(2, columns)
    program, constants, *_ = read_steps(module, rows)
    head, members = simplify(program, constants)
    if len(members) > 1:
        raise NotFollowed(
            f"{name} is a mean of {len(members)} members, which is followed on its own and not "
            "inside of a pipeline."
        )
    exact = {key: value.double() for key, value in constants.items()}
    used = _used(members[0].program)
    kept = {key: value for key, value in exact.items() if key in used}
    return head, Reading(members[0].program, kept)


def _used(program: Program) -> set[str]:
    return {name for step in program.steps for name in step.refs()}
