"""The pre-activation ResNet-20 of Hein et al. 2019 for 32 x 32 images, and its published weights.

TensorFlow's SAME padding at stride 2 puts the extra row and column at the bottom and right; the
shortcut across a change of width is an average pool with zero channels before and after. The first
unit of a stage shares its first activation between branch and shortcut, other units do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.errors import InputError

WIDTHS = (16, 32, 64)
UNITS = 3
EPSILON = 1e-5


class Unit(nn.Module):
    """One residual unit: two 3 x 3 convolutions, each after batch norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, shared: bool) -> None:
        super().__init__()
        self.first_norm = nn.BatchNorm2d(inputs, eps=EPSILON)
        self.first = nn.Conv2d(inputs, outputs, 3, stride, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs, eps=EPSILON)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.stride, self.shared = stride, shared
        self.before = (outputs - inputs) // 2
        self.after = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the shortcut."""
        activated = F.relu(self.first_norm(x))
        shortcut = activated if self.shared else x
        edge = (0, 1, 0, 1) if self.stride == 2 else (1, 1, 1, 1)
        branch = self.second(F.relu(self.second_norm(self.first(F.pad(activated, edge)))))
        if self.stride > 1:
            shortcut = F.avg_pool2d(shortcut, self.stride)
        if self.before or self.after:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.before, self.after))
        result: Tensor = shortcut + branch
        return result


class PreActResNet20(nn.Module):
    """Three stages of three units with 16, 32 and 64 filters; input in [0, 1], logits out."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.entry = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        units = []
        inputs = WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            for unit in range(UNITS):
                stride = 2 if stage and not unit else 1
                units.append(Unit(inputs, width, stride, shared=not unit))
                inputs = width
        self.units = nn.Sequential(*units)
        self.last_norm = nn.BatchNorm2d(inputs, eps=EPSILON)
        self.exit = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the logits of ``(rows, 3, 32, 32)``."""
        features = F.relu(self.last_norm(self.units(self.entry(x))))
        logits: Tensor = self.exit(features.mean((2, 3)))
        return logits


def read_hein2019(path: str | Path) -> PreActResNet20:
    """Read one of the authors' networks from arrays under their TensorFlow names.

    Args:
        path: An ``.npz`` file, see the authors' repository max-andr/relu_networks_overconfident.

    Returns:
        The network in evaluation mode, with as many classes as the file has weights for.

    Raises:
        InputError: If the file is missing, damaged, or holds other arrays than expected.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} could not be read as an .npz file of arrays: {error}; it should hold the "
            "weights of one network under their TensorFlow names"
        ) from error
    state = {name: _tensor(arrays, source, path) for name, source in _sources().items()}
    network = PreActResNet20(classes=state["exit.bias"].numel())
    tracked = {key: value for key, value in network.state_dict().items() if "num_batches" in key}
    try:
        network.load_state_dict({**tracked, **state})
    except RuntimeError as error:
        raise InputError(f"{path} does not fit a ResNet-20: {error}") from error
    return network.eval()


def _tensor(arrays: dict[str, NDArray[Any]], name: str, path: str | Path) -> Tensor:
    if name not in arrays:
        raise InputError(f"{path} holds no array {name!r}; is it one of the authors' networks?")
    array = torch.from_numpy(arrays[name])
    if array.ndim == 4:
        return array.permute(3, 2, 0, 1).contiguous()
    return array.t().contiguous() if array.ndim == 2 else array


def _sources() -> dict[str, str]:
    """Map this module's parameter names to TensorFlow's."""
    table = {
        "entry.weight": "block_init/conv/weights",
        "exit.weight": "logit/fc/weights",
        "exit.bias": "logit/fc/biases",
        **_norm("last_norm", "unit_last"),
    }
    for index in range(len(WIDTHS) * UNITS):
        stage, unit = divmod(index, UNITS)
        here, there = f"units.{index}", f"block_{stage + 1}_{unit}"
        first = "residual_only_activation" if unit else "shared_activation"
        table |= _norm(f"{here}.first_norm", f"{there}/{first}")
        table |= _norm(f"{here}.second_norm", f"{there}/sub2")
        table[f"{here}.first.weight"] = f"{there}/sub1/conv1/weights"
        table[f"{here}.second.weight"] = f"{there}/sub2/conv2/weights"
    return table


def _norm(here: str, there: str) -> dict[str, str]:
    parts = {
        "weight": "gamma",
        "bias": "beta",
        "running_mean": "moving_mean",
        "running_var": "moving_variance",
    }
    return {f"{here}.{own}": f"{there}/batch_normalization/{name}" for own, name in parts.items()}
