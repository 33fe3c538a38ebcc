"""Networks that mix tokens without attention: MLP-Mixer and what followed."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.attention import classified
from architectures.blocks import Apply, Residual, Scaled, Transposed, conv, feed_forward, patches
from architectures.registry import architecture

IMAGE = (3, 8, 8)
WIDTH, TOKENS = 6, 4


@architecture(*IMAGE)
def mlp_mixer():
    """Tolstikhin et al. 2021."""
    mix = Residual(nn.LayerNorm(WIDTH), Transposed(feed_forward(TOKENS, 8)))
    channels = Residual(nn.LayerNorm(WIDTH), feed_forward(WIDTH, 12))
    return classified(patches(WIDTH), mix, channels, width=WIDTH, classes=4)


class _Affine(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.addcmul(self.shift, self.scale, x)


@architecture(*IMAGE)
def resmlp():
    """Touvron et al. 2021: no norms at all."""
    mix = Residual(_Affine(WIDTH), Transposed(nn.Linear(TOKENS, TOKENS)), Scaled(WIDTH))
    channels = Residual(_Affine(WIDTH), feed_forward(WIDTH, 12), Scaled(WIDTH))
    body = patches(WIDTH), mix, channels, _Affine(WIDTH)
    return classified(*body, width=WIDTH, classes=4, norm=False)


class _SpatialGate(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.norm, self.across = nn.LayerNorm(width), nn.Linear(tokens, tokens)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        return u * self.across(self.norm(v).transpose(-1, -2)).transpose(-1, -2)


@architecture(*IMAGE)
def gmlp():
    """Liu et al. 2021."""
    block = Residual(
        nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12), nn.GELU(), _SpatialGate(6, TOKENS),
        nn.Linear(6, WIDTH),
    )  # fmt: skip
    return classified(patches(WIDTH), block, width=WIDTH, classes=4)


class _PoolMixer(nn.Module):
    """Yu et al. 2022: the mean of the neighbours, minus oneself."""

    def forward(self, x):
        return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False) - x


@architecture(*IMAGE)
def poolformer():
    """Yu et al. 2022."""
    mix = Residual(nn.GroupNorm(1, WIDTH), _PoolMixer())
    channels = Residual(
        nn.GroupNorm(1, WIDTH), nn.Conv2d(WIDTH, 12, 1), nn.GELU(), nn.Conv2d(12, WIDTH, 1)
    )
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 2, 2), mix, channels, Apply(lambda x: x.mean((2, 3))),
        nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4),
    )  # fmt: skip


@architecture(*IMAGE)
def convmixer():
    """Trockman & Kolter 2022."""
    stem = nn.Sequential(nn.Conv2d(3, WIDTH, 2, 2), nn.GELU(), nn.BatchNorm2d(WIDTH))
    across = nn.Conv2d(WIDTH, WIDTH, 3, padding="same", groups=WIDTH)
    mix = Residual(across, nn.GELU(), nn.BatchNorm2d(WIDTH))
    return nn.Sequential(
        stem, mix, nn.Conv2d(WIDTH, WIDTH, 1), nn.GELU(), nn.BatchNorm2d(WIDTH),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(WIDTH, 4),
    )  # fmt: skip


@architecture(*IMAGE)
class Shifted(nn.Module):
    """Yu et al. 2022: S2-MLP, channels are shifted by one place."""

    def __init__(self):
        super().__init__()
        self.stem, self.mix, self.head = conv(3, 8), nn.Conv2d(8, 8, 1), nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        left, right, up, down = x.chunk(4, dim=1)
        moved = [left.roll(1, 3), right.roll(-1, 3), up.roll(1, 2), down.roll(-1, 2)]
        return self.head((x + self.mix(F.gelu(torch.cat(moved, 1)))).mean((2, 3)))


class _Fourier(nn.Module):
    """Lee-Thorp et al. 2022: the real part of a Fourier transform over tokens and features."""

    def __init__(self, tokens, width):
        super().__init__()
        self.register_buffer("tokens", torch.fft.fft(torch.eye(tokens)).real)
        self.register_buffer("tokens_sine", torch.fft.fft(torch.eye(tokens)).imag)
        self.register_buffer("width", torch.fft.fft(torch.eye(width)).real)
        self.register_buffer("width_sine", torch.fft.fft(torch.eye(width)).imag)

    def forward(self, x):
        return self.tokens @ x @ self.width - self.tokens_sine @ x @ self.width_sine


@architecture(4, 6)
def fnet():
    """Lee-Thorp et al. 2022, the transform as matrices."""
    first = nn.Sequential(Residual(_Fourier(4, 6)), nn.LayerNorm(6))
    second = nn.Sequential(Residual(feed_forward(6, 12)), nn.LayerNorm(6))
    return classified(first, second, norm=False)


@architecture(4, 6)
def fnet_by_fft():
    """The same by complex numbers."""
    fourier = Apply(lambda x: torch.fft.fft2(x).real)
    return classified(nn.Sequential(Residual(fourier), nn.LayerNorm(6)), norm=False)


@architecture(4, 4, 3)
class GlobalFilter(nn.Module):
    """Rao et al. 2021: every frequency of an image is scaled by a complex weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 2))
        self.norm, self.head = nn.LayerNorm(3), nn.Linear(3, 3)

    def forward(self, x):
        frequencies = torch.fft.rfft2(self.norm(x), dim=(1, 2), norm="ortho")
        scaled = frequencies * torch.view_as_complex(self.weight)
        x = x + torch.fft.irfft2(scaled, s=(4, 4), dim=(1, 2), norm="ortho")
        return self.head(F.gelu(x).mean((1, 2)))
