"""The evaluation of Hein et al., on models whose confidence is known."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.evaluate import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    Attack,
    ConfidenceTable,
    confidence_table,
    detection,
)
from farfield.objectives import PGD


class Brightness(nn.Module):
    """Two classes: logits are plus and minus ten times (mean brightness - 0.5)."""

    def forward(self, images: Tensor) -> Tensor:
        margin = 10 * (images.flatten(1).mean(1) - 0.5)
        return torch.stack([margin, -margin], dim=1)


def flat(*levels: float) -> Tensor:
    return torch.tensor(levels).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).contiguous()


DATA = flat(1.0, 0.9, 0.1, 0.0), torch.tensor([0, 0, 1, 0])
GRAY = flat(0.5, 0.6, 0.95)
MILD = PGD(0.2, 30, 0.02)


def confidence(level: float) -> float:
    return float(1 / (1 + np.exp(-20 * abs(level - 0.5))))


def test_numbers_are_those_of_their_definitions() -> None:
    table = confidence_table({"plain": Brightness()}, DATA, {"gray": GRAY}, in_name="levels")
    model = table["plain"]
    assert model.test_error == 0.25
    levels = [1.0, 0.9, 0.1, 0.0]
    assert model["levels"].mmc == pytest.approx(np.mean([confidence(x) for x in levels]), abs=1e-6)
    assert model["levels"].auroc is None
    assert model["levels"].fpr95 is None
    gray = model["gray"]
    sure = np.array([confidence(x) for x in (0.5, 0.6, 0.95)])
    assert gray.mmc == pytest.approx(sure.mean(), abs=1e-6)
    inside = np.array([confidence(x) for x in levels])
    expected = detection(1 - inside, 1 - sure)
    assert gray.auroc == pytest.approx(expected.auroc)
    assert gray.fpr95 == pytest.approx(expected.fpr95)
    assert gray.points == 3
    assert sum(gray.histogram) == 3
    assert gray.histogram[25] == 1


def test_attacks_raise_confidence_and_move_labels() -> None:
    table = confidence_table(
        {"plain": Brightness()},
        DATA,
        {"noise": flat(0.45, 0.55, 0.7)},
        {"adversarial noise": Attack(MILD, on="noise"), "adversarial samples": Attack(MILD)},
    )
    noise = table["plain"]["adversarial noise"]
    # Each level moves by 0.2 away from one half, wherever its random start is on that side.
    assert noise.mmc > confidence(0.65) - 0.02
    assert noise.mmc <= np.mean([confidence(0.75), confidence(0.75), confidence(0.9)]) + 1e-3
    samples = table["plain"]["adversarial samples"]
    # The first three are pushed to the middle, the last (already wrong) stays at the border.
    expected = np.mean([confidence(x) for x in (0.8, 0.7, 0.3, 0.0)])
    assert samples.mmc == pytest.approx(expected, abs=1e-4)
    assert table.attacks["adversarial noise"]["pgd"]["steps"] == 30
    few = confidence_table(
        {"plain": Brightness()}, DATA, {"noise": GRAY}, {"a": Attack(MILD, on="noise", points=2)}
    )
    assert few["plain"]["a"].points == 2


def test_the_papers_attacks() -> None:
    assert (ADVERSARIAL_NOISE.pgd.steps, ADVERSARIAL_NOISE.on) == (200, "noise")
    assert (ADVERSARIAL_SAMPLES.pgd.steps, ADVERSARIAL_SAMPLES.on) == (80, None)
    for attack in (ADVERSARIAL_NOISE, ADVERSARIAL_SAMPLES):
        assert (attack.pgd.epsilon, attack.pgd.step_size) == (0.3, 0.0075)


def test_bytes_arrays_instances_and_batches_agree(monkeypatch: Any) -> None:
    bytes_in = (DATA[0] * 255).round().to(torch.uint8)
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(16, 2)) for _ in range(3)]
    attacks = {"adversarial": Attack(MILD, on="gray")}
    one = confidence_table({"m": networks}, (bytes_in.numpy(), DATA[1].numpy()), {"gray": GRAY})
    mean = sum(net(bytes_in / 255).detach().double().softmax(1) for net in networks) / 3
    assert one["m"]["test"].mmc == pytest.approx(float(mean.amax(1).mean()), abs=1e-7)
    whole = confidence_table({"m": networks}, DATA, {"gray": GRAY}, attacks)
    assert whole["m"]["adversarial"].mmc >= whole["m"]["gray"].mmc
    monkeypatch.setattr("farfield.evaluate.confidence_models.BATCH", 2)
    parts = confidence_table({"m": networks}, DATA, {"gray": GRAY})
    assert parts["m"]["gray"].mmc == pytest.approx(whole["m"]["gray"].mmc, abs=1e-7)


def test_models_and_global_random_state_stay_as_they_are() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2), nn.BatchNorm1d(2)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    attacks = {"adversarial": Attack(MILD, on="gray")}
    first = confidence_table({"m": model}, DATA, {"gray": GRAY}, attacks, random_state=1)
    again = confidence_table({"m": model}, DATA, {"gray": GRAY}, attacks, random_state=1)
    assert first == again
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


def test_one_logit_and_tables_of_rows() -> None:
    points = np.array([[3.0, 0.0], [-2.0, 1.0]])
    model = nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0]]))
    table = confidence_table({"m": model}, (points, np.array([1, 0])), {"far": 100 * points})
    assert table["m"].test_error == 0
    expected = np.mean([1 / (1 + np.exp(-3)), 1 / (1 + np.exp(-2))])
    assert table["m"]["test"].mmc == pytest.approx(expected)
    assert table["m"]["far"].mmc == pytest.approx(1.0)


def test_json_there_and_back_and_merging() -> None:
    table = confidence_table(
        {"a": Brightness()}, DATA, {"gray": GRAY}, {"adv": Attack(MILD, on="gray")}
    )
    again = ConfidenceTable.from_json(table.to_json())
    assert again == table
    json.loads(table.to_json())
    other = confidence_table(
        {"b": Brightness()}, DATA, {"gray": GRAY}, {"adv": Attack(MILD, on="gray")}
    )
    both = table.merge(other)
    assert [model.model for model in both.models] == ["a", "b"]
    with pytest.raises(InputError, match="cannot be merged"):
        table.merge(confidence_table({"c": Brightness()}, DATA, {"white": GRAY}))
    with pytest.raises(InputError, match="not a confidence table"):
        ConfidenceTable.from_json("[1]")
    with pytest.raises(InputError, match="format version 9"):
        ConfidenceTable.from_json('{"version": 9}')
    with pytest.raises(InputError, match="no row 'black'; there are test, gray, adv"):
        table["a"]["black"]
    with pytest.raises(InputError, match="no model 'z'"):
        table["z"]


def test_progress_names_every_set() -> None:
    seen: list[tuple[str, str]] = []
    confidence_table(
        {"a": Brightness(), "b": Brightness()},
        DATA,
        {"gray": GRAY},
        progress=lambda model, data: seen.append((model, data)),
    )
    assert seen == [("a", "test"), ("a", "gray"), ("b", "test"), ("b", "gray")]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"out_data": {"gray": GRAY[:0]}}, r"out_data\['gray'\] is empty; leave the set out"),
        ({"out_data": {"gray": GRAY * 255}}, "divide them by 255"),
        ({"out_data": {"gray": torch.zeros(2, 3, 4, 4)}}, r"shape \(3, 4, 4\), the data has"),
        ({"in_data": (DATA[0], torch.tensor([0, 1, 2, 0]))}, "got 2 at point 2"),
        ({"in_data": (DATA[0], torch.tensor([0, 1]))}, "shape"),
        ({"in_data": (DATA[0] * 2, DATA[1])}, "in_data must lie in"),
        ({"in_data": ("data", DATA[1])}, "got str"),
        ({"models": {}}, "models is empty"),
        ({"models": {"m": 3}}, "torch.nn.Module"),
        ({"models": {"m": nn.Identity()}}, r"logits of shape \(points, classes\)"),
        ({"in_name": "gray"}, "gray twice"),
        ({"attacks": {"adv": Attack(MILD, on="fog")}}, r"on 'fog', which is not in out_data"),
        ({"attacks": {"adv": Attack(MILD, points=0)}}, "positive number of points"),
    ],
)
def test_bad_input_is_explained(change: Any, match: str) -> None:
    given: dict[str, Any] = {
        "models": {"m": Brightness()},
        "in_data": DATA,
        "out_data": {"gray": GRAY},
    }
    with pytest.raises(InputError, match=match):
        confidence_table(**{**given, **change})


def test_a_network_of_nan_is_named() -> None:
    class Broken(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.full((len(images), 2), float("nan"))

    with pytest.raises(InputError, match="NaN at point 0"):
        confidence_table({"m": Broken()}, DATA, {"gray": GRAY})
