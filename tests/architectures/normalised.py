"""Layer, group, instance and root-mean-square norms; features on a sphere; cosine heads."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.blocks import Apply, Residual, Scaled, conv, feed_forward, pooled
from architectures.convolutional import basic
from architectures.gated import StandardisedConv
from architectures.registry import architecture

IMAGE = (3, 8, 8)


@architecture(5)
def layer_norm_mlp():
    """Ba et al. 2016: a norm behind every layer."""
    return nn.Sequential(
        nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(),
        nn.Linear(8, 3),
    )  # fmt: skip


@architecture(5)
def pre_norm_residual():
    """Residual blocks that normalise what they read, and no norm at the end."""
    blocks = [Residual(nn.LayerNorm(8), feed_forward(8, 16)) for _ in range(2)]
    return nn.Sequential(nn.Linear(5, 8), *blocks, nn.Linear(8, 3))


@architecture(5)
def post_norm_residual():
    blocks = [nn.Sequential(Residual(feed_forward(8, 16)), nn.LayerNorm(8)) for _ in range(2)]
    return nn.Sequential(nn.Linear(5, 8), *blocks, nn.Linear(8, 3))


@architecture(5)
def rms_norm_mlp():
    """Zhang & Sennrich 2019."""
    return nn.Sequential(nn.Linear(5, 8), nn.RMSNorm(8), nn.SiLU(), nn.Linear(8, 3))


class _RmsByHand(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@architecture(5)
def rms_norm_by_hand():
    """As large language models have it."""
    return nn.Sequential(nn.Linear(5, 8), _RmsByHand(8), nn.SiLU(), nn.Linear(8, 3))


class _NormByHand(nn.Module):
    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        deviation = x.std(dim=-1, keepdim=True)
        return (x - mean) / (deviation + 1e-6)


@architecture(5)
def layer_norm_by_hand():
    """The annotated transformer's norm: a standard deviation in the denominator."""
    return nn.Sequential(nn.Linear(5, 8), _NormByHand(), nn.ReLU(), nn.Linear(8, 3))


@architecture(*IMAGE)
def group_norm_resnet():
    """Wu & He 2018."""
    norm = lambda width: nn.GroupNorm(2, width)  # noqa: E731 - as long as its use
    return pooled(conv(3, 4, norm=norm), basic(4, 4, norm=norm), basic(4, 8, 2, norm=norm), width=8)


@architecture(*IMAGE)
def instance_norm_cnn():
    """Ulyanov et al. 2016."""
    norm = lambda width: nn.InstanceNorm2d(width, affine=True)  # noqa: E731
    return pooled(conv(3, 4, norm=norm), conv(4, 6, norm=None), width=6)


@architecture(*IMAGE)
def big_transfer():
    """Kolesnikov et al. 2020: standardised weights, group norm, preactivation."""
    inner = nn.GroupNorm(2, 6), nn.ReLU(), StandardisedConv(6, 6, 3, padding=1)
    stem = StandardisedConv(3, 6, 3, padding=1)
    return pooled(stem, Residual(*inner), nn.GroupNorm(2, 6), nn.ReLU(), width=6)


class _ChannelsLast(nn.Module):
    """A norm of the channels of an image."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _NeXt(nn.Module):
    """The block of Liu et al. 2022, or with response normalisation that of Woo et al. 2023."""

    def __init__(self, width, middle):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.inner = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), middle,
            nn.Linear(2 * width, width), Scaled(width),
        )  # fmt: skip

    def forward(self, x):
        return x + self.inner(self.depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _ResponseNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma, self.beta = (nn.Parameter(torch.zeros(width)) for _ in range(2))

    def forward(self, x):
        size = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        return self.gamma * (x * size / (size.mean(-1, keepdim=True) + 1e-6)) + self.beta + x


def _next(middle):
    return nn.Sequential(
        nn.Conv2d(3, 6, 2, 2), _ChannelsLast(6), _NeXt(6, middle), _ChannelsLast(6),
        nn.Conv2d(6, 8, 2, 2), Apply(lambda x: x.mean((-2, -1))), nn.LayerNorm(8), nn.Linear(8, 4),
    )  # fmt: skip


@architecture(*IMAGE)
def convnext():
    """Liu et al. 2022."""
    return _next(nn.Identity())


@architecture(*IMAGE)
def convnext_v2():
    """Woo et al. 2023."""
    return _next(_ResponseNorm(12))


@architecture(*IMAGE)
class EvoNorm(nn.Module):
    """Liu et al. 2020, S0: a gate over the deviation of a group."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6, 4)
        self.v = nn.Parameter(torch.ones(6, 1, 1))

    def forward(self, x):
        x = self.body(x)
        deviation = x.unflatten(1, (2, 3)).var(dim=(2, 3, 4), keepdim=True, unbiased=False)
        deviation = torch.sqrt(deviation + 1e-5).expand(-1, 2, 3, 1, 1).flatten(1, 2)
        return self.head((x * torch.sigmoid(self.v * x) / deviation).mean((2, 3)))


def _features():
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 6))


@architecture(5)
class CosineHead(nn.Module):
    """Features and classes on a sphere: Gidaris & Komodakis 2018."""

    def __init__(self):
        super().__init__()
        self.body, self.classes = _features(), nn.Parameter(torch.randn(3, 6))

    def forward(self, x):
        return 10.0 * F.linear(F.normalize(self.body(x)), F.normalize(self.classes))


@architecture(5)
class CosineSimilarity(nn.Module):
    """The same by PyTorch's own function."""

    def __init__(self):
        super().__init__()
        self.body, self.classes = _features(), nn.Parameter(torch.randn(3, 6))

    def forward(self, x):
        return 5.0 * F.cosine_similarity(self.body(x)[:, None], self.classes[None], dim=-1)


@architecture(5)
class UnitFeatures(nn.Module):
    """Ranjan et al. 2017: L2-constrained softmax, the norm written out."""

    def __init__(self):
        super().__init__()
        self.body, self.head = _features(), nn.Linear(6, 3)

    def forward(self, x):
        h = self.body(x)
        return self.head(4.0 * h / h.norm(dim=1, keepdim=True).clamp_min(1e-6))


@architecture(5)
class DistanceAware(nn.Module):
    """Macêdo et al. 2021: IsoMax, minus the distance of normalised vectors."""

    def __init__(self):
        super().__init__()
        self.body, self.classes = _features(), nn.Parameter(torch.randn(3, 6))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        h, c = F.normalize(self.body(x)), F.normalize(self.classes)
        return -self.scale.abs() * torch.cdist(h, c) / 0.1


@architecture(5)
class GeneralisedOdin(nn.Module):
    """Hsu et al. 2020: a cosine over a learnt confidence."""

    def __init__(self):
        super().__init__()
        self.body, self.classes = _features(), nn.Parameter(torch.randn(3, 6))
        self.doubt = nn.Linear(6, 1)

    def forward(self, x):
        h = self.body(x)
        return F.linear(F.normalize(h), F.normalize(self.classes)) / torch.sigmoid(self.doubt(h))
