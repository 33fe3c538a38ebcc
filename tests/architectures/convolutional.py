"""Convolutional networks of ReLU and its relatives, for images and for series."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.blocks import Apply, Residual, conv, pooled
from architectures.registry import architecture

IMAGE = (3, 8, 8)


@architecture(1, 12, 12)
def lenet():
    """LeCun et al. 1998, with ReLU and max pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 4),
    )  # fmt: skip


@architecture(*IMAGE, rate=0.5)
def alexnet():
    """Krizhevsky et al. 2012: local response normalisation, ``x / (k + a x^2)^(3/4)``."""
    return pooled(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.LocalResponseNorm(3, k=2.0),
        nn.MaxPool2d(3, 2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), width=8,
    )  # fmt: skip


@architecture(*IMAGE)
def vgg():
    """Simonyan & Zisserman 2015."""
    pool = nn.MaxPool2d(2)
    return pooled(
        conv(3, 6, norm=None), conv(6, 6, norm=None), pool, conv(6, 8, norm=None), pool, width=8
    )


def basic(inputs, outputs, stride=1, norm=nn.BatchNorm2d):
    """The basic block of He et al. 2016."""
    same = stride == 1 and inputs == outputs
    shortcut = None if same else conv(inputs, outputs, 1, stride, act=None, norm=norm)
    inner = Residual(
        conv(inputs, outputs, 3, stride, norm=norm),
        conv(outputs, outputs, act=None, norm=norm),
        shortcut=shortcut,
    )
    return nn.Sequential(inner, nn.ReLU())


@architecture(*IMAGE)
def resnet():
    """He et al. 2016."""
    return pooled(conv(3, 4), basic(4, 4), basic(4, 8, 2), width=8)


def preactivated(inputs, outputs):
    return Residual(
        nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs), nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1),
        shortcut=nn.Conv2d(inputs, outputs, 1),
    )  # fmt: skip


@architecture(*IMAGE)
def preactivated_resnet():
    """He et al. 2016, identity mappings."""
    return pooled(preactivated(3, 6), preactivated(6, 6), nn.BatchNorm2d(6), nn.ReLU(), width=6)


def bottleneck(width, inner, groups=1):
    parts = (
        conv(width, inner, 1),
        conv(inner, inner, groups=groups),
        conv(inner, width, 1, act=None),
    )
    return nn.Sequential(Residual(*parts), nn.ReLU())


class _Grow(nn.Module):
    def __init__(self, inputs, growth=4):
        super().__init__()
        self.inner = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, growth, 3, padding=1)
        )

    def forward(self, x):
        return torch.cat([x, self.inner(x)], 1)


@architecture(*IMAGE)
def densenet():
    """Huang et al. 2017."""
    between = nn.Sequential(nn.BatchNorm2d(11), nn.ReLU(), nn.Conv2d(11, 6, 1), nn.AvgPool2d(2))
    return pooled(_Grow(3), _Grow(7), between, _Grow(6), width=10)


class _Branches(nn.Module):
    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], dim=1)


@architecture(*IMAGE)
def inception():
    """Szegedy et al. 2015."""
    block = _Branches(
        conv(4, 2, 1),
        nn.Sequential(conv(4, 2, 1), conv(2, 3)),
        nn.Sequential(conv(4, 2, 1), conv(2, 2, 5)),
        nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(4, 2, 1)),
    )
    return pooled(conv(3, 4), block, width=9)


def inverted(width, expand=2, act=nn.ReLU6, stride=1):
    """The inverted residual of Sandler et al. 2018."""
    inner = expand * width
    parts = (
        conv(width, inner, 1, act=act),
        conv(inner, inner, 3, stride, groups=inner, act=act),
        conv(inner, width, 1, act=None),
    )
    return Residual(*parts) if stride == 1 else nn.Sequential(*parts)


@architecture(*IMAGE)
def mobilenet_v2():
    """Sandler et al. 2018."""
    return pooled(conv(3, 6, act=nn.ReLU6), inverted(6), inverted(6, stride=2), width=6)


class _Shuffle(nn.Module):
    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.inner = nn.Sequential(
            conv(half, half, 1), conv(half, half, groups=half, act=None), conv(half, half, 1)
        )

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        y = torch.cat([left, self.inner(right)], 1)
        rows, width, height, across = y.shape
        return y.view(rows, 2, width // 2, height, across).transpose(1, 2).reshape(y.shape)


@architecture(*IMAGE)
def shufflenet():
    """Ma et al. 2018: channels are shuffled by reshaping."""
    return pooled(conv(3, 8), _Shuffle(8), _Shuffle(8), width=8)


@architecture(*IMAGE)
class Res2Net(nn.Module):
    """Gao et al. 2019: parts of the channels, one after another."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 8)
        self.parts = nn.ModuleList([conv(2, 2) for _ in range(3)])
        self.mix, self.head = conv(8, 8, 1, act=None), nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        first, *rest = torch.split(x, 2, 1)
        done = [first]
        for part, piece in zip(self.parts, rest, strict=True):
            done.append(part(piece + done[-1] if len(done) > 1 else piece))
        x = F.relu(x + self.mix(torch.cat(done, 1)))
        return self.head(x.mean((2, 3)))


@architecture(*IMAGE)
class RepVGG(nn.Module):
    """Ding et al. 2021, as it is trained: three branches."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = conv(3, 6), nn.Linear(6, 4)
        self.branches = nn.ModuleList(
            [conv(6, 6, act=None), conv(6, 6, 1, act=None), nn.BatchNorm2d(6)]
        )

    def forward(self, x):
        x = self.stem(x)
        x = F.relu(sum(branch(x) for branch in self.branches))
        return self.head(F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1))


class _UNet(nn.Module):
    """Ronneberger et al. 2015, one level deep; the mean over pixels is the class."""

    def __init__(self, up):
        super().__init__()
        self.down, self.bottom = conv(3, 4), conv(4, 6)
        self.up, self.out = up, conv(10, 4)
        self.head = nn.Conv2d(4, 3, 1)

    def forward(self, x):
        side = self.down(x)
        low = self.bottom(F.max_pool2d(side, 2))
        return self.head(self.out(torch.cat([side, self.up(low)], 1))).mean(dim=(-2, -1))


UPSAMPLING = {
    "nearest": lambda: nn.Upsample(scale_factor=2),
    "bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
    "bicubic": lambda: nn.Upsample(scale_factor=2, mode="bicubic"),
    "transposed": lambda: nn.ConvTranspose2d(6, 6, 2, stride=2),
    "pixel_shuffle": lambda: nn.Sequential(nn.Conv2d(6, 24, 1), nn.PixelShuffle(2)),
}
for _name, _up in UPSAMPLING.items():
    architecture(*IMAGE, name=f"unet_{_name}")(lambda up=_up: _UNet(up()))


@architecture(*IMAGE)
def circular_padding():
    """Images without an edge: panoramas, simulations on a torus."""
    return pooled(
        nn.Conv2d(3, 6, 3, padding=1, padding_mode="circular"), nn.ReLU(),
        nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect"), nn.ReLU(), width=6,
    )  # fmt: skip


@architecture(*IMAGE)
def lp_pooling():
    """Gulcehre et al. 2014: the root of a sum of squares in a window."""
    return pooled(conv(3, 6, norm=None), nn.LPPool2d(2, 2), conv(6, 6, norm=None), width=6)


@architecture(*IMAGE)
class GeneralisedMean(nn.Module):
    """Radenovic et al. 2018: GeM pooling, with the usual exponent 3."""

    def __init__(self):
        super().__init__()
        self.body, self.head = conv(3, 6), nn.Linear(6, 4)

    def forward(self, x):
        x = self.body(x).clamp(min=1e-6)
        return self.head(F.avg_pool2d(x.pow(3), 8).pow(1 / 3).flatten(1))


@architecture(*IMAGE)
class Antialiased(nn.Module):
    """Zhang 2019: max, then a fixed blur."""

    def __init__(self):
        super().__init__()
        self.body, self.head = conv(3, 6), nn.Linear(6, 4)
        row = torch.tensor([1.0, 2.0, 1.0])
        self.register_buffer("blur", (row[:, None] * row / 16).expand(6, 1, 3, 3).clone())

    def forward(self, x):
        x = F.max_pool2d(self.body(x), 2, stride=1)
        x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.blur, stride=2, groups=6)
        return self.head(x.mean((2, 3)))


@architecture(*IMAGE)
class CoordConv(nn.Module):
    """Liu et al. 2018: positions as two more channels."""

    def __init__(self):
        super().__init__()
        self.body, self.head = conv(5, 6), nn.Linear(6, 4)

    def forward(self, x):
        line = torch.linspace(-1, 1, x.shape[-1], dtype=x.dtype, device=x.device)
        grid = torch.stack(torch.meshgrid(line, line, indexing="ij"))
        x = torch.cat([x, grid.unsqueeze(0).expand(x.shape[0], -1, -1, -1)], 1)
        return self.head(self.body(x).amax(dim=(2, 3)))


@architecture(2, 16)
def temporal():
    """Bai et al. 2018: dilated causal convolutions of a series."""

    def block(dilation):
        return Residual(
            nn.ConstantPad1d((2 * dilation, 0), 0.0),
            nn.Conv1d(2, 2, 3, dilation=dilation),
            nn.ReLU(),
        )

    return nn.Sequential(block(1), block(2), Apply(lambda x: x[..., -1]), nn.Linear(2, 3))
