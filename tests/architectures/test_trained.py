"""One network of every family with weights that were trained: what is learnt is not random."""

import pytest
import torch

import farfield as ff
from architectures.referee import approached
from architectures.registry import ARCHITECTURES
from architectures.unread import UNREAD

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
ROWS, STEPS, CLASSES = 48, 40, 3


def loss(module, rows, labels):
    """The negative log-likelihood, of logits or of probabilities."""
    outputs = module(rows)
    shared = bool(torch.allclose(outputs.detach().sum(dim=1), torch.ones(ROWS).double()))
    said = outputs if shared else outputs.softmax(dim=1)
    return -said[torch.arange(ROWS), labels].clamp(min=1e-12).log().mean()


def trained(architecture):
    """A network that has learnt to tell three groups of rows; and by how much it lost less."""
    module, generator = architecture.module(), torch.Generator().manual_seed(3)
    labels = torch.arange(ROWS) % CLASSES
    centres = torch.randn(CLASSES, *architecture.shape, generator=generator, dtype=torch.float64)
    noise = torch.randn(ROWS, *architecture.shape, generator=generator, dtype=torch.float64)
    rows = centres[labels] + 0.5 * noise
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    before = loss(module, rows, labels).item()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(module, rows, labels).backward()
        optimizer.step()
    return module, before, loss(module, rows, labels).item()


@pytest.mark.parametrize("name", CHOSEN)
def test_a_trained_model_approaches_its_limit(name):
    module, before, after = trained(ARCHITECTURES[name])
    assert after < 0.7 * before
    rays = ARCHITECTURES[name].rays()
    network = ff.capture(module, rays[0][:1])
    far = ff.at_infinity(network, *rays)
    assert far.doubtful is None or not bool(far.doubtful.any())
    approached(network, module, far, *rays, ARCHITECTURES[name].rate)


def test_every_family_has_one():
    read = {each.family for name, each in ARCHITECTURES.items() if name not in UNREAD}
    assert {ARCHITECTURES[name].family for name in CHOSEN} == read
