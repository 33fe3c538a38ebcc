"""One network of every family with weights that were trained: what is learnt is not random."""

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import nn

import farfield as ff
from architectures.registry import ARCHITECTURES
from farfield.graph.network import InstanceGroup, Network

CHOSEN = (
    *(
        "transformer_pre_norm",
        "resnet",
        "MeanProbabilities",
        "se_resnet",
        "Prototypes",
        "mlp_mixer",
    ),
    *("pre_norm_residual", "mlp_gelu", "LstmCells", "DeepSets", "FTTransformer", "vit"),
)
ROWS, STEPS, CLASSES = 12, 25, 3


@dataclass(frozen=True)
class Read:
    """A module before and after training, and the networks that were read of both, traced once.

    Attributes:
        modules: The module with random weights, and with trained ones.
        networks: What was read of each.
        losses: What each of them loses on the rows of the training.
    """

    modules: tuple[nn.Module, nn.Module]
    networks: tuple[Network, Network]
    losses: tuple[float, float]


@cache
def read(name):
    """An architecture, trained and read."""
    architecture = ARCHITECTURES[name]
    first, (second, *losses) = architecture.module(), trained(architecture)
    both = ff.capture([first, second], architecture.rays()[0][:1])
    return Read((first, second), (alone(both, 0), alone(both, 1)), tuple(losses))


def alone(both, which):
    """One of two modules that were captured together, which may be several instances each."""
    each = both.instances // 2
    own = range(which * each, (which + 1) * each)
    groups = []
    for group in both.groups:
        places = [place for place, member in enumerate(group.members) if member in own]
        if not places:
            continue
        made = InstanceGroup.of(group.program, [group.instance(place) for place in places])
        members = tuple(group.members[place] - own.start for place in places)
        groups.append(replace(made, members=members))
    return replace(both, groups=tuple(groups))


def trained(architecture):
    """A network that has learnt to tell three groups of rows; its loss before and after."""
    module, generator = architecture.module(), torch.Generator().manual_seed(3)
    labels = torch.arange(ROWS) % CLASSES
    centres = torch.randn(CLASSES, *architecture.shape, generator=generator, dtype=torch.float64)
    noise = torch.randn(ROWS, *architecture.shape, generator=generator, dtype=torch.float64)
    rows = centres[labels] + 0.5 * noise
    optimizer = torch.optim.Adam(module.parameters(), 3e-2)
    before = loss(module, rows, labels).item()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(module, rows, labels).backward()
        optimizer.step()
    return module, before, loss(module, rows, labels).item()


def loss(module, rows, labels):
    """The negative log-likelihood, of logits or of probabilities."""
    outputs = module(rows)
    shared = bool(torch.allclose(outputs.detach().sum(dim=1), torch.ones(ROWS).double()))
    said = outputs if shared else outputs.softmax(dim=1)
    return -said[torch.arange(ROWS), labels].clamp(min=1e-12).log().mean()
