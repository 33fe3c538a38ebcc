"""The model inside of a guard: modules that run and export, and a network that is analysed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.errors import CaptureError, InputError
from farfield.graph.export import evaluation_mode, module_dtype
from farfield.graph.models import capture
from farfield.graph.network import Label, Network
from farfield.graph.radial import is_radial
from farfield.graph.tracing import trace
from farfield.guard.program_module import (
    ProgramModule,
    instance_modules,
    traced,
    with_feature,
)
from farfield.guard.views.features import Described

BATCH = 8192
# A function of rows that returns probabilities, ``(rows, classes)``.
Predict = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Held:
    """A model as a guard holds it.

    Attributes:
        modules: One for each instance: the user's own where they return logits.
        classes: Number of classes.
        one_logit: Whether the model has a single logit f, read as ``(0, f)``.
        probabilities: Whether modules return probabilities; else they return logits.
        input_shape: Of one row.
        labels: Names of the classes, where the model knows them.
        features: Names of the columns, where the model knows them.
        reason: Why the model could not be read, if so.
        program: What the only module does, operation by operation, if that was found out.
    """

    modules: list[nn.Module]
    classes: int
    one_logit: bool
    probabilities: bool
    input_shape: tuple[int, ...]
    labels: tuple[Label, ...] | None = None
    features: tuple[str, ...] | None = None
    reason: str = ""
    program: ProgramModule | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The model's floating-point type."""
        return module_dtype(self.modules[0], torch.float64)


def own_array(values: Any) -> Any:
    """Copy arrays that may not be written to, and tables, so that torch can take them up."""
    return values if isinstance(values, Tensor) else np.array(values)


def predictor(model: Any) -> Predict | None:
    """The function of a black box that returns probabilities, if it has one.

    Trees and other networks without layers are asked for their answers; of several the mean.
    """
    if isinstance(model, Network) and not model.differentiable:
        network = model
        return lambda X: network.probabilities(X).mean(dim=0)
    if hasattr(model, "predict_proba"):
        found: Predict = model.predict_proba
        return found
    if callable(model) and not isinstance(model, nn.Module | type):
        return model  # type: ignore[no-any-return]
    return None


def hold(model: Any, example: Tensor) -> Held:
    """Take up any model that :func:`farfield.capture` reads, and modules that it does not.

    Args:
        model: The model.
        example: A few rows.

    Raises:
        CaptureError: If it is no module, and cannot be read.
    """
    modules, program = _modules(model), None
    try:
        if isinstance(model, nn.Module) and not is_radial(model):
            found = trace(model, example)
            network, program = found.network, ProgramModule(found.program, found.constants).eval()
        else:
            network = capture(model, example)
    except CaptureError as error:
        if modules is None:
            raise
        return _unread(modules, example, str(error))
    if not network.differentiable:
        raise CaptureError(
            f"{type(model).__name__} is no network of layers, which could stand inside of a guard; "
            "guard it by its answers: pass farfield.capture(model), or what has predict_proba"
        )
    if network.device.type != "cpu":
        raise InputError(f"the model is on {network.device}; move it to the CPU to guard it")
    if modules is None or network.head != "none":
        held: list[nn.Module] = list(instance_modules(network))
        program = None
    else:
        held = [frozen(module) for module in modules]
    return Held(
        held,
        network.classes,
        network.one_logit,
        False,
        network.input_shape,
        network.labels,
        network.features,
        program=program,
    )


@dataclass(frozen=True, eq=False)
class Onlooker:
    """What a network makes of rows, in its own precision.

    Attributes:
        module: The network.
        shape: Of one row.
    """

    module: ProgramModule
    shape: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Features, ``(rows, features)``."""
        return self.both(x)[1]

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, and features."""
        rows = x.reshape(-1, *self.shape)
        return self.module.both(rows.to(module_dtype(self.module, torch.float64)))

    def know(self, rows: NDArray[np.float64]) -> Described:
        """Features and classes of rows, in batches."""
        features, classes = [], []
        with torch.no_grad():
            for part in torch.from_numpy(rows).split(BATCH):
                output, found = self.both(part)
                single = output.numel() == len(output)
                classes.append(output.reshape(-1) > 0 if single else output.argmax(dim=1))
                features.append(found.double())
        return Described(torch.cat(features).numpy(), torch.cat(classes).long().numpy())


def watched(held: Held) -> Held | None:
    """The same model with its features beside its output; ``None`` if it has none to look at.

    Models of several instances have several last layers, and no features in common.
    """
    if len(held.modules) != 1:
        return None
    try:
        rows = torch.zeros(2, *held.input_shape, dtype=held.dtype)
        program = held.program or traced(held.modules[0], rows)
    except CaptureError:
        return None
    module = with_feature(program)
    return None if module is None else replace(held, modules=[module], program=None)


def watch(held: Held) -> Onlooker | None:
    """How to find out what a held network makes of rows, if it tells."""
    module = held.modules[0]
    if not isinstance(module, ProgramModule) or module.feature is None:
        return None
    return Onlooker(module, held.input_shape)


def analysed(held: Held, modules: list[nn.Module]) -> Network:
    """The network that modules run now, in float64, whatever it was when they were taken up."""
    if held.reason:
        raise CaptureError(f"the model inside of the guard could not be read: {held.reason}")
    return capture(modules, torch.zeros(2, *held.input_shape))


def _modules(model: Any) -> list[nn.Module] | None:
    """A model's own modules, if it is made of them."""
    found = getattr(model, "instances_", model)
    if isinstance(found, nn.Module):
        return [found]
    if isinstance(found, (list, tuple)) and all(isinstance(each, nn.Module) for each in found):
        return list(found)
    return None


def frozen(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode that does not train; gradients of inputs still flow."""
    return copy.deepcopy(module).cpu().eval().requires_grad_(False)


def _unread(modules: list[nn.Module], example: Tensor, reason: str) -> Held:
    """Take modules as they are; their outputs tell what they return."""
    held = [frozen(module) for module in modules]
    rows = example[:64].cpu().to(module_dtype(held[0], example.dtype))
    with torch.no_grad(), evaluation_mode(held[0]):
        outputs = held[0](rows)
    if not isinstance(outputs, Tensor) or outputs.ndim > 2 or len(outputs) != len(rows):
        raise InputError("the model must return one row of logits per input: (rows, classes)")
    single = outputs.ndim == 1 or outputs.shape[1] == 1
    if single and bool(((outputs >= 0) & (outputs <= 1)).all()):
        raise InputError(
            "the model returns one number between 0 and 1 per row, which may be a probability or "
            "a logit; wrap it so that it returns probabilities of both classes"
        )
    answers = not single and are_probabilities(outputs)
    classes = 2 if single else outputs.shape[1]
    return Held(held, classes, single, answers, tuple(example.shape[1:]), reason=reason)


def own_probabilities(held: Held, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """A held model's probabilities, in batches: the mean over its instances."""
    parts = []
    with torch.no_grad():
        for part in torch.from_numpy(rows).split(BATCH):
            inputs = part.reshape(-1, *held.input_shape).to(held.dtype)
            each = [answer(module(inputs).double(), held) for module in held.modules]
            parts.append(torch.stack(each).mean(dim=0).numpy())
    return np.concatenate(parts)


def instance_mean(modules: Iterable[nn.Module], held: Held, x: Tensor) -> Tensor:
    """The mean probability of modules in their own type, ``(rows, classes)``."""
    each = [module(x) for module in modules]
    each = [answer(values, held) for values in each]
    return each[0] if len(each) == 1 else torch.stack(each).mean(dim=0)


def class_logits(values: Tensor, held: Held) -> Tensor:
    """Logits of all classes: a single one gets its partner, ``(0, f)``."""
    if not held.one_logit:
        return values
    logit = values.reshape(-1, 1)
    return torch.cat([torch.zeros_like(logit), logit], dim=1)


def answer(values: Tensor, held: Held) -> Tensor:
    """What a member returns, as probabilities of all classes."""
    return values if held.probabilities else torch.softmax(class_logits(values, held), dim=-1)


def are_probabilities(values: Tensor) -> bool:
    """Whether all rows are distributions."""
    sums = values.double().sum(dim=1)
    return bool((values >= 0).all() and (values <= 1).all() and ((sums - 1).abs() <= 1e-3).all())


def programs(modules: list[nn.Module]) -> list[ProgramModule] | None:
    """The modules, if all of them are captured programs."""
    found = [module for module in modules if isinstance(module, ProgramModule)]
    return found if len(found) == len(modules) else None
