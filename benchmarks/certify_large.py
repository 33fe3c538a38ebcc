"""What does a proof cost on networks of the size that people use?"""

import torch
from torch import Tensor, nn

import farfield as ff
from benchmarks.certify import proof, rays_of

QUESTION = (
    "ResNet-18 and ResNet-50 at 64 x 64 with random weights, 8 uniform and 8 Gaussian rays each: "
    "what share is proven with certify=True, in how many forward passes of the same rays in the "
    "same type (CPU time, batches of the quickest size)?"
)
TARGETS = {
    "resnet18_share": ">= 1",
    "resnet18_passes": "<= 200",
    "resnet50_share": ">= 1",
    "resnet50_passes": "<= 200",
}
RAYS = 8


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    norm = nn.BatchNorm2d(outputs)
    norm.bias.data.normal_(0.0, 0.1)
    return [conv, norm]


class Block(nn.Module):
    """A basic or a bottleneck block of He et al. 2016."""

    def __init__(self, inputs: int, width: int, stride: int, deep: bool) -> None:
        super().__init__()
        outputs = 4 * width if deep else width
        if deep:
            layers = [*_conv(inputs, width, 1), nn.ReLU(), *_conv(width, width, 3, stride)]
            layers += [nn.ReLU(), *_conv(width, outputs, 1)]
        else:
            layers = [*_conv(inputs, width, 3, stride), nn.ReLU(), *_conv(width, width, 3)]
        self.branch = nn.Sequential(*layers)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Sequential(*([] if same else _conv(inputs, outputs, 1, stride)))

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the shortcut."""
        return torch.relu(self.branch(x) + self.shortcut(x))


def resnet(depths: tuple[int, ...], deep: bool) -> nn.Sequential:
    """Build a ResNet for images of 1000 classes with seeded weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for stage, depth in enumerate(depths):
            for place in range(depth):
                width, stride = 64 * 2**stage, 2 if stage and not place else 1
                layers.append(Block(inputs, width, stride, deep))
                inputs = width * (4 if deep else 1)
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
        return nn.Sequential(*layers).double().eval()


def measure() -> dict[str, float]:
    """Prove the rays of both."""
    results: dict[str, float] = {}
    for name, depths, deep in (
        ("resnet18", (2, 2, 2, 2), False),
        ("resnet50", (3, 4, 6, 3), True),
    ):
        model = resnet(depths, deep)
        network = ff.capture(model, torch.zeros(1, 3, 64, 64, dtype=torch.float64))
        proofs = [proof(model, network, rays) for _, rays in rays_of((3, 64, 64), RAYS)]
        results[f"{name}_share"] = min(share for share, _ in proofs)
        results[f"{name}_passes"] = max(passes for _, passes in proofs)
    return results
