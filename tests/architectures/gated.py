"""Products of two values: squeeze-and-excite and its relatives, gated linear units."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.blocks import Apply, Residual, conv, pooled
from architectures.convolutional import inverted
from architectures.registry import architecture

IMAGE = (3, 8, 8)


class SqueezeExcite(nn.Module):
    """Hu et al. 2018."""

    def __init__(self, width, act=nn.ReLU, gate=nn.Sigmoid):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), act(), nn.Conv2d(4, width, 1), gate()
        )

    def forward(self, x):
        return x * self.gate(x)


def attended(width, gate, inner=None):
    """A residual block with a gate at its end."""
    inner = inner or (conv(width, width), conv(width, width, act=None))
    return nn.Sequential(Residual(*inner, gate), nn.ReLU())


@architecture(*IMAGE)
def se_resnet():
    """Hu et al. 2018."""
    return pooled(conv(3, 6), attended(6, SqueezeExcite(6)), width=6)


class SelectiveKernel(nn.Module):
    """Li et al. 2019: two sizes of kernels, mixed by a softmax."""

    def __init__(self, width):
        super().__init__()
        self.paths = nn.ModuleList([conv(width, width), conv(width, width, 5)])
        self.squeeze = nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, 2 * width))

    def forward(self, x):
        paths = torch.stack([path(x) for path in self.paths], dim=1)
        weights = self.squeeze(paths.sum(1).mean((2, 3))).view(-1, 2, paths.shape[2], 1, 1)
        return (paths * weights.softmax(dim=1)).sum(dim=1)


@architecture(*IMAGE)
def sk_resnet():
    """Li et al. 2019."""
    return pooled(conv(3, 6), attended(6, nn.BatchNorm2d(6), (SelectiveKernel(6),)), width=6)


class EfficientChannel(nn.Module):
    """Wang et al. 2020: a convolution across channels."""

    def __init__(self):
        super().__init__()
        self.across = nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.across(x.mean((2, 3)).unsqueeze(1)).transpose(1, 2)
        return x * y.unsqueeze(-1).sigmoid()


@architecture(*IMAGE)
def eca_resnet():
    """Wang et al. 2020."""
    return pooled(conv(3, 6), attended(6, EfficientChannel()), width=6)


class Cbam(nn.Module):
    """Woo et al. 2018: channels, then places."""

    def __init__(self, width):
        super().__init__()
        self.squeeze = nn.Sequential(nn.Linear(width, 3), nn.ReLU(), nn.Linear(3, width))
        self.places = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x):
        gate = self.squeeze(x.mean((2, 3))) + self.squeeze(x.amax((2, 3)))
        x = x * torch.sigmoid(gate)[..., None, None]
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.places(both))


@architecture(*IMAGE)
def cbam_resnet():
    """Woo et al. 2018."""
    return pooled(conv(3, 6), attended(6, Cbam(6)), width=6)


@architecture(*IMAGE)
class SplitAttention(nn.Module):
    """Zhang et al. 2020: ResNeSt with two splits."""

    def __init__(self):
        super().__init__()
        self.stem, self.body = conv(3, 6), conv(6, 12, groups=2)
        self.inner, self.outer = nn.Conv2d(6, 4, 1), nn.Conv2d(4, 12, 1)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.body(self.stem(x))
        splits = torch.split(x, 6, dim=1)
        gap = F.adaptive_avg_pool2d(sum(splits), 1)
        weights = self.outer(F.relu(self.inner(gap))).view(-1, 1, 2, 6).transpose(1, 2)
        shares = F.softmax(weights, dim=1).reshape(-1, 12, 1, 1).split(6, dim=1)
        return self.head(sum(a * s for a, s in zip(shares, splits, strict=True)).mean((2, 3)))


@architecture(*IMAGE)
def efficientnet():
    """Tan & Le 2019: inverted residuals with SiLU and squeeze-excite."""
    blocks = [Residual(*_mb(6, nn.SiLU, nn.Sigmoid)) for _ in range(2)]
    return pooled(conv(3, 6, act=nn.SiLU), *blocks, conv(6, 8, 1, act=nn.SiLU), width=8)


def _mb(width, act, gate, gate_act=None):
    inner = 2 * width
    squeeze = SqueezeExcite(inner, gate_act or act, gate)
    shape = {"groups": inner, "act": act}
    return (
        conv(width, inner, 1, act=act),
        conv(inner, inner, **shape),
        squeeze,
        conv(inner, width, 1, act=None),
    )


@architecture(*IMAGE)
def mobilenet_v3():
    """Howard et al. 2019: hard swish, hard sigmoid."""
    block = Residual(*_mb(6, nn.Hardswish, nn.Hardsigmoid, nn.ReLU))
    body = conv(3, 6, act=nn.Hardswish), inverted(6, act=nn.ReLU), block
    return nn.Sequential(
        *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 8), nn.Hardswish(),
        nn.Linear(8, 4),
    )  # fmt: skip


@architecture(*IMAGE)
def regnet_y():
    """Radosavovic et al. 2020: group convolutions with squeeze-excite."""
    inner = conv(8, 8, 1), conv(8, 8, groups=2), SqueezeExcite(8), conv(8, 8, 1, act=None)
    return pooled(conv(3, 8), nn.Sequential(Residual(*inner), nn.ReLU()), width=8)


class Ghost(nn.Module):
    """Han et al. 2020: half of the channels are cheap copies of the others."""

    def __init__(self, inputs, outputs, act=nn.ReLU):
        super().__init__()
        half = outputs // 2
        self.first, self.cheap = (
            conv(inputs, half, 1, act=act),
            conv(half, half, groups=half, act=act),
        )

    def forward(self, x):
        first = self.first(x)
        return torch.cat([first, self.cheap(first)], dim=1)


@architecture(*IMAGE)
def ghostnet():
    """Han et al. 2020."""
    gate = SqueezeExcite(12, gate=nn.Hardsigmoid)
    block = Residual(Ghost(6, 12), gate, Ghost(12, 6, act=None))
    return pooled(conv(3, 6), block, width=6)


class StandardisedConv(nn.Conv2d):
    """A convolution whose weights are standardised at every pass."""

    def forward(self, x):
        w = self.weight
        mean, variance = w.mean((1, 2, 3), keepdim=True), w.var((1, 2, 3), keepdim=True)
        w = (w - mean) / torch.sqrt(variance + 1e-6)
        return F.conv2d(x, 0.3 * w, self.bias, self.stride, self.padding)


@architecture(*IMAGE)
def nfnet():
    """Brock et al. 2021: no norms, scaled activations, squeeze-excite times two."""
    gelu = Apply(lambda x: F.gelu(x) * 1.7015)
    parts = StandardisedConv(6, 6, 3, padding=1), gelu, StandardisedConv(6, 6, 3, padding=1)
    block = Residual(gelu, *parts, SqueezeExcite(6), Apply(lambda x: 0.4 * x))
    return pooled(StandardisedConv(3, 6, 3, padding=1), block, gelu, width=6)


class Coordinate(nn.Module):
    """Hou et al. 2021: one gate along each axis."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Sequential(nn.Conv2d(width, 4, 1), nn.BatchNorm2d(4), nn.Hardswish())
        self.down, self.across = nn.Conv2d(4, width, 1), nn.Conv2d(4, width, 1)

    def forward(self, x):
        rows, columns = x.mean(3, keepdim=True), x.mean(2, keepdim=True).transpose(2, 3)
        both = self.mix(torch.cat([rows, columns], dim=2))
        down, across = torch.split(both, [x.shape[2], x.shape[3]], dim=2)
        return x * self.down(down).sigmoid() * self.across(across.transpose(2, 3)).sigmoid()


class GlobalContext(nn.Module):
    """Cao et al. 2019: pool by a softmax over places, add to every place."""

    def __init__(self, width):
        super().__init__()
        self.where = nn.Conv2d(width, 1, 1)
        self.change = nn.Sequential(nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1))

    def forward(self, x):
        weights = self.where(x).flatten(2).softmax(-1)
        context = (x.flatten(2) @ weights.transpose(1, 2)).unsqueeze(-1)
        return x + self.change(context)


@architecture(*IMAGE)
def gc_resnet():
    """Cao et al. 2019."""
    return pooled(conv(3, 6), attended(6, GlobalContext(6)), width=6)


class _Gated(nn.Module):
    """Shazeer 2020: an activation of one half times the other."""

    def __init__(self, act):
        super().__init__()
        self.value, self.gate, self.out = nn.Linear(5, 8), nn.Linear(5, 8), nn.Linear(8, 3)
        self.act = act

    def forward(self, x):
        return self.out(self.value(x) * self.act(self.gate(x)))


GATES = {
    "glu": torch.sigmoid,
    "bilinear": lambda x: x,
    "swiglu": F.silu,
}
for _name, _act in GATES.items():
    architecture(5, name=f"gated_{_name}")(lambda act=_act: _Gated(act))


@architecture(5)
def glu_layer():
    """Dauphin et al. 2017, by PyTorch's own layer."""
    return nn.Sequential(nn.Linear(5, 16), nn.GLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


@architecture(2, 12)
class WaveNet(nn.Module):
    """Van den Oord et al. 2016: tanh times sigmoid."""

    def __init__(self):
        super().__init__()
        self.filter, self.gate = (nn.Conv1d(2, 4, 3, padding=1) for _ in range(2))
        self.skip, self.head = nn.Conv1d(4, 4, 1), nn.Linear(4, 3)

    def forward(self, x):
        h = torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        return self.head(F.relu(self.skip(h)).sum(-1))


@architecture(6)
class FiLM(nn.Module):
    """Perez et al. 2018: some columns scale and shift what the others give."""

    def __init__(self):
        super().__init__()
        self.body, self.condition = nn.Linear(4, 8), nn.Linear(2, 16)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        scale, shift = self.condition(x[:, 4:]).chunk(2, dim=-1)
        return self.head(F.relu(scale * self.body(x[:, :4]) + shift))


@architecture(6)
class HyperNetwork(nn.Module):
    """Ha et al. 2017: the weights of a layer come from some of the columns."""

    def __init__(self):
        super().__init__()
        self.weights, self.head = nn.Linear(2, 4 * 5), nn.Linear(5, 3)

    def forward(self, x):
        weights = self.weights(x[:, 4:]).view(-1, 4, 5)
        h = torch.bmm(x[:, None, :4], weights).squeeze(1)
        return self.head(torch.tanh(h))


@architecture(*IMAGE)
class BilinearPooling(nn.Module):
    """Lin et al. 2015: outer products, signed roots, normalised."""

    def __init__(self):
        super().__init__()
        self.body, self.head = conv(3, 4), nn.Linear(16, 4)

    def forward(self, x):
        x = self.body(x).flatten(2)
        outer = (x @ x.transpose(1, 2) / x.shape[-1]).flatten(1)
        return self.head(F.normalize(outer, dim=1))


@architecture(5)
class StarNet(nn.Module):
    """Ma et al. 2024: the star operation, several times in a row."""

    def __init__(self):
        super().__init__()
        self.pairs = nn.ModuleList(
            [nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5)]) for _ in range(2)]
        )
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        for one, other in self.pairs:
            x = x + F.relu6(one(x)) * other(x)
        return self.head(x)
