"""What does the far field of transformers and gated networks cost, next to one forward pass?"""

import time

import torch
from torch import nn

import farfield as ff
from benchmarks.timing import in_turn

QUESTION = (
    "The far field in series, in units of one plain forward pass of the same batch in the same "
    "type (float64): 32 rays through a vision transformer of the size of ViT-tiny and through a "
    "network of ConvNeXt-atto's blocks, 10,000 rays through an FT-Transformer. And how many "
    "seconds capturing each of them takes."
)
TARGETS = {
    "vit_tiny": "<= 6",
    "convnext_atto": "<= 6",
    "ft_transformer": "<= 8",
    "vit_tiny_capture_seconds": "<= 10",
    "convnext_atto_capture_seconds": "<= 10",
    "ft_transformer_capture_seconds": "<= 10",
}


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a norm."""

    def __init__(self, width: int, heads: int, normed: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(width) if normed else nn.Identity()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.second = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate."""
        rows, tokens, width = x.shape
        split = self.qkv(self.first(x)).reshape(rows, tokens, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.feed(self.second(x))


class VisionTransformer(nn.Module):
    """Patches of 16 x 16, twelve blocks of width 192, a class token: ViT-tiny."""

    def __init__(self, size: int = 224, width: int = 192, depth: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (size // 16) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, 3) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.places
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvBlock(nn.Module):
    """A deep convolution, a norm, a feed-forward network, and what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep, self.norm = (
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            ChannelNorm(width),
        )
        self.feed = nn.Sequential(
            nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate."""
        return x + self.feed(self.norm(self.deep(x)))


def convnext(
    widths: tuple[int, ...] = (40, 80, 160, 320), depths: tuple[int, ...] = (2, 2, 6, 2)
) -> nn.Module:
    """The stages of ConvNeXt-atto."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage:
            layers += [ChannelNorm(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [ConvBlock(width) for _ in range(depth)]
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1])]
    return nn.Sequential(*layers, *pool, nn.Linear(widths[-1], 1000))


class FeatureTransformer(nn.Module):
    """Every feature a token, three blocks of width 64, the first of them without its first norm."""

    def __init__(self, features: int = 20, width: int = 64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width))
        self.offset = nn.Parameter(torch.randn(features, width))
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.Sequential(*(Block(width, 8, normed=place > 0) for place in range(3)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate."""
        tokens = x[..., None] * self.weight + self.offset
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1)
        return self.head(torch.relu(self.norm(self.blocks(tokens)[:, 0])))


def measured(name: str, model: nn.Module, rays: int, shape: tuple[int, ...]) -> dict[str, float]:
    """Capture a model, then time its far field next to the model itself."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(1)
    origin, direction = (
        torch.randn(rays, *shape, dtype=torch.float64, generator=generator) for _ in range(2)
    )
    start = time.perf_counter()
    network = ff.capture(model, origin[:1])
    seconds = time.perf_counter() - start
    with torch.no_grad():
        best = in_turn(
            {
                "forward": lambda: model(origin),
                "far": lambda: ff.at_infinity(network, origin, direction),
            },
            2,
        )
    return {
        name: best["far"] / best["forward"],
        f"{name}_forward_seconds": best["forward"],
        f"{name}_capture_seconds": seconds,
    }


def measure() -> dict[str, float]:
    """Measure all of it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            **measured("vit_tiny", VisionTransformer(), 32, (3, 224, 224)),
            **measured("convnext_atto", convnext(), 32, (3, 224, 224)),
            **measured("ft_transformer", FeatureTransformer(), 10_000, (20,)),
        }
