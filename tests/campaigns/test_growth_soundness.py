"""The campaign of certified series in short, and every broken rule is caught."""

import pytest
import torch

from campaigns import growth_soundness
from campaigns.growth_soundness import BLOCKS, Tally, campaign, main, run_network
from farfield.exact.series.domain import SeriesDomain
from farfield.exact.series.tube_domain import TubeDomain
from farfield.graph.growth import (
    Exponential,
    Logarithm,
    Normalisation,
    Power,
    Product,
    SharingOut,
)
from farfield.graph.rules import Affine

pytestmark = pytest.mark.whole

# How many networks a broken rule may survive.
PATIENCE = 20
HALF = torch.tensor(0.5, dtype=torch.float64)
CHANGES = {
    "rolled": Affine(lambda t: t.roll(1, -1)),
    "halved": Affine(torch.mul, (HALF,), terms=1),
}
KINDS = {
    Product: ("product",),
    Power: ("inverse root",),
    Normalisation: ("layer norm",),
    SharingOut: ("softmax",),
    Exponential: ("sigmoid", "bump"),
    Logarithm: ("logarithm",),
}


def test_certified_rays_are_right(monkeypatch):
    monkeypatch.setattr(growth_soundness, "EACH", 3)
    tally = Tally()
    campaign("short", 6, tally)
    assert tally.wrong == []
    assert tally.certified > 0


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_broken_rules_are_caught(kind, change, monkeypatch):
    for domain in (SeriesDomain, TubeDomain):

        def grow(self, operation, *values, honest=domain.grow):
            found = honest(self, operation, *values)
            return self.affine(CHANGES[change], found) if isinstance(operation, kind) else found

        monkeypatch.setattr(domain, "grow", grow)
    tally = Tally()
    for number in range(PATIENCE):
        run_network(f"mutant/{number}", tally, KINDS[kind])
        if tally.wrong:
            return
    pytest.fail(f"{change} {kind.__name__} was not noticed: {tally}")


def test_one_broken_walk_certifies_nothing(monkeypatch):
    honest = SeriesDomain.grow

    def grow(self, operation, *values):
        return self.affine(CHANGES["halved"], honest(self, operation, *values))

    monkeypatch.setattr(SeriesDomain, "grow", grow)
    tally = Tally()
    for number in range(3):
        run_network(f"mutant/{number}", tally, KINDS[Product])
    assert tally.rays > 0
    assert tally.certified == 0


def test_the_command_prints_its_seed_and_repeats_a_network(capsys):
    assert main(["--networks", "1", "--seed", "7"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 7\n")
    assert f"of {len(BLOCKS)} blocks, 0 wrong" in said
    assert main(["--case", "7/0/0"]) == 0
    assert "1 networks" in capsys.readouterr().out
