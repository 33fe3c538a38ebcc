"""Models and points of a confidence table, checked and made ready to run."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.objectives.pixels import check_images, to_unit

# Points that go through a network at once.
BATCH = 250


@dataclass(frozen=True)
class Evaluated:
    """Instances in evaluation mode, how many classes they tell apart, and their precision."""

    instances: Sequence[nn.Module]
    classes: int
    dtype: torch.dtype

    @classmethod
    def of(cls, model: Any, points: Tensor) -> "Evaluated":
        """Copy a module, a list of modules, or an estimator's instances, and try them."""
        found = getattr(model, "instances_", [model] if isinstance(model, nn.Module) else model)
        modules = list(found) if isinstance(found, Sequence) else []
        if not modules or not all(isinstance(module, nn.Module) for module in modules):
            raise InputError(
                "a model must be a torch.nn.Module, a list of them, or a fitted estimator, got "
                f"{type(model).__name__}"
            )
        ready = [copy.deepcopy(module).eval().requires_grad_(False) for module in modules]
        dtype = next((p.dtype for p in ready[0].parameters()), torch.float32)
        with torch.no_grad():
            logits = ready[0](take(points, slice(0, 1)).to(dtype))
        if logits.dim() != 2:
            raise InputError(
                f"a model must map points to logits of shape (points, classes), got "
                f"{tuple(logits.shape)} for one point"
            )
        return cls(ready, max(2, logits.shape[1]), dtype)

    def probabilities(self, points: Tensor) -> NDArray[np.float64]:
        """Return the mean over instances, ``(points, classes)``, softmax in float64."""
        parts = []
        with torch.inference_mode():
            for part in self.parts(len(points)):
                inputs = take(points, part).to(self.dtype)
                each = [_softmax(instance(inputs)) for instance in self.instances]
                parts.append(each[0] if len(each) == 1 else torch.stack(each).mean(0))
        result: NDArray[np.float64] = torch.cat(parts).numpy()
        if np.isnan(result).any():
            where = int(np.isnan(result).any(axis=1).argmax())
            raise InputError(f"the model gives NaN at point {where}; check its weights")
        return result

    def parts(self, count: int) -> Iterator[slice]:
        """Yield slices of a bounded number of points."""
        for start in range(0, count, BATCH):
            yield slice(start, min(start + BATCH, count))


def check_points(data: NDArray[Any] | Tensor, name: str, like: Tensor | None = None) -> Tensor:
    """Return points as a tensor; images stay bytes where they are.

    Args:
        data: ``(points, *features)``.
        name: What to call them in an error.
        like: Points whose features these must have.
    """
    tensor = torch.as_tensor(data) if isinstance(data, np.ndarray | Tensor) else None
    if tensor is None or tensor.dim() < 2:
        got = type(data).__name__ if tensor is None else f"shape {tuple(tensor.shape)}"
        raise InputError(f"{name} must be an array of shape (points, *features), got {got}")
    if not len(tensor):
        raise InputError(f"{name} is empty; leave the set out, or add points")
    if like is not None and tensor.shape[1:] != like.shape[1:]:
        raise InputError(
            f"{name} has points of shape {tuple(tensor.shape[1:])}, the data has "
            f"{tuple(like.shape[1:])}; resize them, or change their channels"
        )
    if tensor.dim() == 4:
        return check_images(tensor, name)
    if not tensor.is_floating_point():
        tensor = tensor.float()
    if not bool(torch.isfinite(tensor).all()):
        raise InputError(f"{name} holds NaN or infinite values; remove or repair such points")
    return tensor


def take(points: Tensor, part: slice) -> Tensor:
    """Return some points as the network sees them: bytes become numbers in [0, 1]."""
    return to_unit(points[part])


def _softmax(logits: Tensor) -> Tensor:
    wide = logits.double()
    if wide.shape[-1] == 1:
        wide = torch.cat([torch.zeros_like(wide), wide], dim=-1)
    return wide.softmax(-1)
