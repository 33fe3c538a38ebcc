"""The soundness campaign in short: every operation once, and every broken rule is caught."""

import functools
from contextlib import nullcontext

import pytest

from campaigns.drawing import TEMPLATES, name_of
from campaigns.exact_operations import OPERATIONS
from campaigns.mutants import MUTATIONS, broken, heard, rolled
from campaigns.planted import PLANTED, run_planted
from campaigns.soundness import Tally, Trial, campaign, main, run_case
from farfield.exact import ladder
from farfield.graph.positions import place_of_largest
from farfield.graph.rules import RULES
from rule_cases import CASES, REWRITTEN, WRITTEN

pytestmark = pytest.mark.whole

TARGETS = {name_of(target): target for target in CASES}
# How many small cases a broken rule may survive.
PATIENCE = 40


def test_the_referee_knows_every_operation():
    # What readers write has referees of its own, in tests/exact/test_steps.py.
    assert set(RULES) - WRITTEN <= set(OPERATIONS)
    assert set(TARGETS) <= set(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_certified_rays_are_right_and_broken_rules_are_caught(name):
    target = TARGETS.get(name)
    breakable = target is not None and target not in REWRITTEN
    tally = Tally()
    with heard(target) if breakable else nullcontext(set()) as ways:
        # Seeds of its own for each operation: together they see every kind of weights.
        for seed in range(PATIENCE):
            run_case(name, f"{name}/{seed}", tally, instances=1 if seed else 2, rays=8)
            if seed > 0 and tally.certified:
                break
    assert tally.wrong == []
    assert tally.certified > 0
    harmful = [way for way in ways if does_harm(target, *way)]
    assert harmful or not breakable or RULES[target].kind == "copy"
    # The referee says once what all mutations are held against.
    trial = functools.cache(lambda seed: Trial(name, f"mutant/{seed}", instances=1, rays=16))
    for way in harmful:
        assert is_caught(trial, target, *way), f"{way} of {name} was not noticed"


def does_harm(target, method, change):
    """Not where places do not matter, or move along: they may be exchanged."""
    return change is not rolled or not (
        RULES[target].kind == "largest" or target is place_of_largest
    )


def is_caught(trial, target, method, change):
    """Whether a mutation is noticed."""
    found = Tally()
    with broken(target, method, change):
        for seed in range(PATIENCE):
            trial(seed).run(found)
            if found.wrong:
                break
    return bool(found.wrong)


SLICED = (
    "aten.relu.default",
    "aten.leaky_relu.default",
    "aten.hardtanh.default",
    "aten.convolution.default",
    "aten.max_pool2d.default",
    "aten.mean.dim",
    "aten.mul.Tensor",
)


@pytest.mark.parametrize("name", SLICED)
def test_slices_and_residues_alone_are_right(name, monkeypatch):
    monkeypatch.setattr(ladder, "SMALL", -1)
    monkeypatch.setattr(ladder, "settle_exactly", lambda *_: None)
    tally = Tally()
    for seed in range(2):
        run_case(name, f"slices/{seed}", tally, instances=1, rays=4)
    assert tally.wrong == []
    assert tally.certified + tally.overflowed > 0


def test_planted_answers_are_found():
    tally = Tally()
    for seed in range(20):
        run_planted(f"short/{seed}", tally)
    assert tally.planted == 20 * len(PLANTED)
    assert tally.wrong == []


def test_the_command_prints_its_seed_and_repeats_a_case(capsys):
    assert main(["--seconds", "0", "--rays", "1", "--seed", "7"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 7\n")
    assert "0 wrong" in said
    assert main(["--case", "aten.relu.default", "7/0/aten.relu.default"]) == 0


def test_a_wrong_ray_ends_the_campaign():
    tally = Tally()
    with broken(TARGETS["aten.relu.default"], "piecewise", MUTATIONS["piecewise"][0]):
        campaign("short", 600.0, 10**9, tally)
    assert tally.wrong
