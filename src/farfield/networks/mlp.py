"""Multilayer perceptrons: many members as stacked weights, and one member as a plain module.

A layer is stored in homogeneous coordinates: ``weight[k]`` has shape ``(out, in + 1)``, its last
column is the bias. Inside, rows of data come last, ``(members, features, rows)``: long
contiguous rows are what small batched matrix products need to be fast.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from farfield.networks.stack import Parameters
from farfield.networks.streams import Streams

Activation = Literal["relu", "leaky_relu"]

LEAKY_SLOPE = 0.01
NORM_EPSILON = 1e-5
NORM_MOMENTUM = 0.1


def mlp(
    weights: Sequence[Tensor],
    activation: Activation = "relu",
    norms: Sequence[nn.Module] = (),
) -> nn.Sequential:
    """Build affine layers with an activation between them, as plain torch layers.

    Args:
        weights: One ``(out, in + 1)`` matrix per layer, its last column the bias.
        activation: ``"relu"`` or ``"leaky_relu"`` (slope 0.01).
        norms: Normalisation layers to put before the activations, one each, or none.

    Example:
        >>> mlp([torch.zeros(5, 3), torch.zeros(3, 6)])
        Sequential(
          (0): Linear(in_features=2, out_features=5, bias=True)
          (1): ReLU()
          (2): Linear(in_features=5, out_features=3, bias=True)
        )
    """
    layers: list[nn.Module] = []
    for index, weight in enumerate(weights):
        if index > 0:
            layers.extend(norms[index - 1 : index])
            layers.append(nn.ReLU() if activation == "relu" else nn.LeakyReLU(LEAKY_SLOPE))
        layers.append(_linear(weight))
    return nn.Sequential(*layers)


def _linear(weight: Tensor) -> nn.Linear:
    """Make a layer of given weights."""
    # Linear.__init__ draws weights, which would move the global random state.
    layer = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape[0], weight.shape[1] - 1
    layer.weight = nn.Parameter(weight[:, :-1].clone())
    layer.bias = nn.Parameter(weight[:, -1].clone())
    return layer


def _norm(affine: Tensor, running: Tensor) -> nn.BatchNorm1d:
    """Make a normalisation layer of given ``(scale, shift)`` and running ``(mean, variance)``."""
    layer = nn.BatchNorm1d(affine.shape[1], eps=NORM_EPSILON, momentum=NORM_MOMENTUM)
    layer.load_state_dict(
        {
            "weight": affine[0],
            "bias": affine[1],
            "running_mean": running[0],
            "running_var": running[1],
            "num_batches_tracked": torch.tensor(0),
        }
    )
    return layer


class StackedMLP:
    """Several perceptrons of one shape; every layer is one batched matrix product.

    Args:
        sizes: Widths from input to output.
        initial: Streams for the starting weights, one per member; the distribution is
            ``torch.nn.Linear``'s own, uniform within ``1 / sqrt(fan_in)``.
        noise: Streams for dropout masks.
        activation: ``"relu"`` or ``"leaky_relu"``.
        dropout: Share of hidden units dropped after each activation while training.
        batch_norm: Normalise before each activation.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        initial: Streams,
        noise: Streams,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        self.sizes = tuple(sizes)
        self.members = len(initial)
        self.noise = noise
        self.activation = activation
        self.dropout = dropout
        self.batch_norm = batch_norm
        hidden = self.sizes[1:-1]
        layers = [(self.members, out, fan + 1) for fan, out in pairwise(sizes)]
        norms = [(self.members, 2, width) for width in hidden] if batch_norm else []
        self.parameters = Parameters([*layers, *norms])
        self.buffers = (
            [torch.zeros(self.members, 2, width) for width in hidden] if batch_norm else []
        )
        self._initialize(initial)

    def _initialize(self, initial: Streams) -> None:
        """Draw the starting weights; normalisation starts as the identity."""
        count = len(self.sizes) - 1
        for view in self.parameters.views[:count]:
            bound = 1 / math.sqrt(max(view.shape[2] - 1, 1))
            view.copy_(initial.uniform(*view.shape[1:]).mul_(2 * bound).sub_(bound))
        for index, running in enumerate(self.buffers):
            self.parameters.views[count + index][:, 0] = 1.0
            running[:, 1] = 1.0
            # Normalisation cancels a bias in front of it: its gradient would be rounding noise,
            # which Adam blows up to full steps. It stays zero and unused.
            self.parameters.views[index][..., -1] = 0.0

    def activate(self, values: Tensor) -> Tensor:
        """Apply the activation."""
        if self.activation == "relu":
            return functional.relu(values)
        return functional.leaky_relu(values, LEAKY_SLOPE)

    def masks(self, rows: int) -> list[Tensor]:
        """Draw dropout factors for every hidden layer, each ``(members, width, rows)``."""
        widths = self.sizes[1:-1]
        kept = self.noise.uniform(sum(widths), rows).ge_(self.dropout).mul_(1 / (1 - self.dropout))
        return list(torch.split(kept, list(widths), dim=1))

    def apply(self, tensors: Sequence[Tensor], inputs: Tensor, *, training: bool) -> Tensor:
        """Map ``(members, rows, inputs)`` to ``(members, rows, outputs)``; differentiable."""
        count = len(self.sizes) - 1
        values = inputs.transpose(1, 2)
        masks = self.masks(inputs.shape[1]) if training and self.dropout > 0 else []
        for index, weight in enumerate(tensors[:count]):
            last = index == count - 1
            if self.batch_norm and not last:
                values = torch.bmm(weight[..., :-1], values)
                norm, running = tensors[count + index], self.buffers[index]
                values = _normalize(values, norm, running, training=training)
            else:
                values = torch.baddbmm(weight[..., -1:], weight[..., :-1], values)
            if last:
                break
            values = self.activate(values)
            if masks:
                values = values * masks[index]
        return values.transpose(1, 2)

    def penalty(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """Return nothing: a plain network adds no loss of its own."""
        return None

    def begin(self, progress: float) -> None:
        """Ignore the progress of the training."""

    def module(self, member: int) -> nn.Sequential:
        """Return one member as ``nn.Sequential`` in evaluation mode."""
        count = len(self.sizes) - 1
        views = [view[member] for view in self.parameters.views]
        norms = [
            _norm(affine, running[member])
            for affine, running in zip(views[count:], self.buffers, strict=True)
        ]
        return mlp(views[:count], self.activation, norms).eval()


def _normalize(values: Tensor, affine: Tensor, running: Tensor, *, training: bool) -> Tensor:
    """Normalise each unit over the rows (training) or by its running statistics."""
    if training:
        rows = values.shape[2]
        mean, variance = values.mean(2), values.var(2, correction=0)
        with torch.no_grad():
            unbiased = variance * (rows / max(rows - 1, 1))
            running.lerp_(torch.stack([mean, unbiased], dim=1), NORM_MOMENTUM)
    else:
        mean, variance = running[:, 0], running[:, 1]
    factor = affine[:, 0] * (variance + NORM_EPSILON).rsqrt()
    return values * factor[..., None] + (affine[:, 1] - mean * factor)[..., None]
