"""Multilayer perceptrons, their activations, and the ways in which people write them."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from architectures.blocks import Apply, Residual
from architectures.registry import architecture

INPUTS, WIDTH, CLASSES = 5, 12, 3


def mlp(*acts):
    """Layers with an activation behind each but the last."""
    widths = [INPUTS, *[WIDTH] * len(acts)]
    layers = [
        part
        for inputs, act in zip(widths, acts, strict=False)
        for part in (nn.Linear(inputs, WIDTH), act)
    ]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


ACTIVATIONS = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "softshrink": lambda: nn.Softshrink(0.3),
    "squared_relu": lambda: Apply(lambda x: F.relu(x) ** 2),
    "gelu_by_hand": lambda: Apply(lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
    "gelu_tanh_by_hand": lambda: Apply(
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu_by_hand": lambda: Apply(lambda x: x * torch.sigmoid(x)),
    "relu_by_where": lambda: Apply(lambda x: torch.where(x > 0, x, 0.1 * x)),
    "relu_by_mask": lambda: Apply(lambda x: x * (x > 0)),
    "gaussian": lambda: Apply(lambda x: torch.exp(-(x**2))),
}
for _name, _act in ACTIVATIONS.items():
    architecture(INPUTS, name=f"mlp_{_name}")(lambda act=_act: mlp(act(), act()))


@architecture(INPUTS)
def siren():
    """Sitzmann et al. 2020: no limit exists."""
    return mlp(Apply(lambda x: torch.sin(3 * x)), nn.ReLU())


@architecture(INPUTS)
class Functional(nn.Module):
    """Weights as parameters, no layers at all."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(WIDTH, INPUTS))
        self.shift = nn.Parameter(torch.randn(WIDTH))
        self.second = nn.Parameter(torch.randn(WIDTH, CLASSES))

    def forward(self, x):
        h = F.relu(F.linear(x, self.first, self.shift))
        return torch.einsum("bh,hc->bc", h, self.second)


@architecture(INPUTS)
def hooks():
    """A forward hook that clips what a layer gives."""
    model = mlp(nn.ReLU(), nn.ReLU())
    model[1].register_forward_hook(lambda module, args, output: output.clamp(max=4.0))
    model[2].register_forward_pre_hook(lambda module, args: (args[0] - 0.5,))
    return model


@architecture(INPUTS)
def weight_norm():
    """Salimans & Kingma 2016."""
    model = mlp(nn.ReLU(), nn.ReLU())
    for number in (0, 2, 4):
        parametrizations.weight_norm(model[number])
    return model


@architecture(INPUTS)
def spectral_norm():
    """Miyato et al. 2018."""
    model = mlp(nn.ReLU(), nn.ReLU())
    for number in (0, 2, 4):
        parametrizations.spectral_norm(model[number])
    return model


class _Positive(nn.Module):
    def forward(self, weight):
        return F.softplus(weight)


@architecture(INPUTS)
def monotone():
    """Positive weights by a parametrisation of one's own: a monotone network."""
    model = mlp(nn.ReLU(), nn.ReLU())
    for number in (0, 2, 4):
        parametrize.register_parametrization(model[number], "weight", _Positive())
    return model


@architecture(INPUTS)
class Maxout(nn.Module):
    """Goodfellow et al. 2013."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(INPUTS, WIDTH * 3), nn.Linear(WIDTH, CLASSES * 2)

    def forward(self, x):
        h = self.first(x).view(len(x), WIDTH, 3).amax(dim=2)
        return self.second(h).unflatten(1, (CLASSES, 2)).max(dim=2).values


@architecture(INPUTS)
def residual_mlp():
    """Gorishniy et al. 2021: ResNet for tables."""
    blocks = [
        Residual(nn.BatchNorm1d(8), nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8))
        for _ in range(2)
    ]
    return nn.Sequential(
        nn.Linear(INPUTS, 8), *blocks, nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


@architecture(INPUTS)
def softmax_head():
    return nn.Sequential(mlp(nn.ReLU()), nn.Softmax(dim=1))


@architecture(INPUTS)
def single_logit():
    return nn.Sequential(mlp(nn.ReLU()), nn.Linear(CLASSES, 1))


@architecture(INPUTS)
def sigmoid_head():
    return nn.Sequential(mlp(nn.ReLU()), nn.Linear(CLASSES, 1), nn.Sigmoid())


@architecture(INPUTS)
def standardised():
    """Preprocessing inside: shift, scale, clip to five standard deviations."""
    mean, scale = torch.randn(INPUTS), torch.rand(INPUTS) + 0.5
    front = Apply(lambda x: torch.clamp((x - mean.to(x)) / scale.to(x), -5.0, 5.0))
    return nn.Sequential(front, mlp(nn.ReLU()))


@architecture(INPUTS)
def missing_filled():
    """Gaps are filled inside the model."""
    return nn.Sequential(Apply(lambda x: torch.nan_to_num(x, nan=0.0)), mlp(nn.ReLU()))


@architecture(INPUTS)
class Highway(nn.Module):
    """Srivastava et al. 2015: a gate between a layer and the identity."""

    def __init__(self):
        super().__init__()
        self.plain, self.gate = nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, INPUTS)
        self.head = nn.Linear(INPUTS, CLASSES)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        return self.head(gate * F.relu(self.plain(x)) + (1 - gate) * x)


@architecture(INPUTS)
class SortedGroups(nn.Module):
    """Anil et al. 2019: GroupSort, 1-Lipschitz networks."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        groups = self.first(x).view(len(x), WIDTH // 4, 4)
        return self.second(groups.sort(dim=-1).values.flatten(1))


@architecture(INPUTS)
class ZeroedColumn(nn.Module):
    """A column is switched off by assignment."""

    def __init__(self):
        super().__init__()
        self.body = mlp(nn.ReLU())

    def forward(self, x):
        x = x.clone()
        x[:, 0] = 0
        return self.body(x)


@architecture(INPUTS)
def cumulative_logits():
    """An ordinal model: one score, rising thresholds by a cumulative sum."""
    steps = torch.tensor([0.3, 0.8, 0.5])
    return nn.Sequential(mlp(nn.ReLU()), Apply(lambda z: torch.cumsum(F.relu(z), 1) - steps.to(z)))
