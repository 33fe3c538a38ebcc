"""Training: members apart from each other, early stopping, optimisers, weights, divergence."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from farfield.errors import InputError, NumericalOverflow
from farfield.estimators import (
    AnchoredEnsembleClassifier,
    EnsembleClassifier,
    EnsembleRegressor,
    ReLUClassifier,
)
from farfield.estimators.rows import TrainingRows
from farfield.objectives import ACET

OPTIONS: list[dict[str, Any]] = [
    {},
    {"dropout": 0.2},
    {"batch_norm": True},
    {"patience": 3, "validation_fraction": 0.3, "epochs": 20},
    {"objective": "adversarial"},
    {"objective": "virtual-adversarial", "dropout": 0.1},
    {"objective": "ceda", "batch_norm": True},
    {"objective": ACET(steps=3, step_size=0.1), "dropout": 0.1},
    {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 1e-3},
    {"batch_size": None},
    {"class_weight": "batch", "logits": "one"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_member_does_not_depend_on_how_many_train_beside_it(options: Any, moons: Any) -> None:
    X, y = moons[0][:100], moons[1][:100]
    shared: dict[str, Any] = {"hidden": (12, 12, 12), "epochs": 4, "random_state": 5, **options}
    six = EnsembleClassifier(members=6, **shared).fit(X, y).predict_instances(X)
    three = EnsembleClassifier(members=3, **shared).fit(X, y).predict_instances(X)
    alone = ReLUClassifier(**shared).fit(X, y).predict_instances(X)
    np.testing.assert_allclose(six[:3], three, atol=1e-5)
    np.testing.assert_allclose(six[:1], alone, atol=1e-5)
    assert np.abs(six[0] - six[1]).max() > 1e-3


@pytest.mark.parametrize(("options", "shared"), [({}, False), ({"hidden": (400, 400)}, True)])
def test_small_networks_are_trained_on_one_thread(
    options: Any, shared: bool, moons: Any, monkeypatch: Any
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    ReLUClassifier(epochs=1, random_state=0, **options).fit(*moons)
    assert seen == ([] if shared else [1, 5])


def test_anchors_and_modules_keep_members_apart(moons: Any) -> None:
    X, y = moons
    for kind, options in (
        (AnchoredEnsembleClassifier, {}),
        (
            EnsembleClassifier,
            {"module": lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))},
        ),
    ):
        shared: dict[str, Any] = {"hidden": (8,), "epochs": 10, "random_state": 5, **options}
        four = kind(members=4, **shared).fit(X, y).predict_instances(X)
        two = kind(members=2, **shared).fit(X, y).predict_instances(X)
        np.testing.assert_allclose(four[:2], two, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_full_batch_training_is_that_of_a_plain_loop(
    optimizer: Any, weight_decay: float, batch_norm: bool, moons: Any
) -> None:
    X, y = moons
    settings: dict[str, Any] = {
        "hidden": (6, 5),
        "standardize": False,
        "batch_size": None,
        "learning_rate": 0.01,
        "optimizer": optimizer,
        "weight_decay": weight_decay,
        "batch_norm": batch_norm,
        "schedule": (0.5,),
        "random_state": 0,
    }
    start = ReLUClassifier(**settings, epochs=1)
    # A step of size zero leaves the starting weights in place.
    start.learning_rate = 1e-30
    module = copy.deepcopy(start.fit(X, y).module_).train().requires_grad_()
    if batch_norm:
        module[1].reset_running_stats()
        module[4].reset_running_stats()
    kinds: dict[str, Any] = {
        "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=weight_decay),
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=weight_decay),
    }
    plain = kinds[optimizer](module.parameters())
    inputs, targets = torch.from_numpy(X).float(), torch.from_numpy(y)
    for epoch in range(20):
        if epoch == 10:
            plain.param_groups[0]["lr"] = 0.001
        plain.zero_grad()
        nn.functional.cross_entropy(module(inputs), targets).backward()
        if batch_norm:
            # In front of a normalisation these are rounding noise; ours has no such biases.
            module[0].bias.grad = module[3].bias.grad = None
        plain.step()
    ours = ReLUClassifier(**settings, epochs=20).fit(X, y)
    expected = module.eval()(inputs).detach().softmax(-1).numpy()
    np.testing.assert_allclose(ours.predict_proba(X), expected, atol=1e-4)


def test_early_stopping_puts_the_best_weights_back(moons: Any) -> None:
    X, y = moons
    flipped = np.where(np.arange(len(y)) % 4 == 0, 1 - y, y)
    shared: dict[str, Any] = {"hidden": (50,), "learning_rate": 0.05, "random_state": 0}
    model = EnsembleClassifier(members=4, epochs=60, patience=4, **shared)
    model.fit(X[:150], flipped[:150], validation=(X[150:], flipped[150:]))
    losses = np.array(model.history_.validation)
    stops = np.array(model.history_.best_epoch)
    assert model.history_.epochs == len(losses) < 60
    assert len(set(stops.tolist())) > 1
    probabilities = model.predict_instances(X[150:])
    codes = flipped[150:]
    for member in range(4):
        # The first minimum that patience could see, and the loss of the weights put back.
        best = stops[member] - 1
        assert losses[best, member] == losses[: best + 5, member].min()
        now = -np.log(probabilities[member, np.arange(50), codes]).mean()
        assert now == pytest.approx(losses[best, member], rel=1e-4)
        short = EnsembleClassifier(members=4, epochs=int(stops[member]), **shared)
        short.fit(X[:150], flipped[:150])
        np.testing.assert_allclose(
            short.predict_instances(X)[member], model.predict_instances(X)[member], atol=1e-5
        )


def test_patience_without_validation_data_holds_rows_out(moons: Any) -> None:
    X, y = moons
    model = ReLUClassifier(patience=2, epochs=200, learning_rate=0.05, random_state=0).fit(X, y)
    assert 0 < model.history_.best_epoch[0] <= model.history_.epochs < 200
    assert len(model.history_.validation) == model.history_.epochs


def test_every_class_is_held_out_alike() -> None:
    codes = np.repeat([0, 1, 2], [10, 30, 160])
    rows = TrainingRows(torch.arange(200.0)[:, None], torch.from_numpy(codes).float()[:, None])
    model = ReLUClassifier(validation_fraction=0.1)
    train, held = model._split(rows, codes, 0)
    assert np.bincount(held.targets[:, 0].int()).tolist() == [1, 3, 16]
    both = torch.cat([train.inputs, held.inputs]).flatten().sort().values
    assert torch.equal(both, rows.inputs.flatten())
    assert not torch.equal(model._split(rows, codes, 1)[1].inputs, held.inputs)


def test_divergence_is_explained(moons: Any) -> None:
    X, y = moons
    with pytest.raises(
        NumericalOverflow, match=r"member 0 .* epoch \d+.*learning_rate \(now 1e\+30"
    ):
        EnsembleRegressor(learning_rate=1e30, optimizer="sgd", epochs=50, random_state=0).fit(X, y)


def test_progress_goes_to_standard_error_and_only_when_asked(moons: Any, capsys: Any) -> None:
    X, y = moons
    ReLUClassifier(epochs=2, random_state=0).fit(X, y)
    assert capsys.readouterr() == ("", "")
    ReLUClassifier(epochs=2, patience=5, verbose=True, random_state=0).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("epoch 1/2: loss 0.")
    assert "validation 0." in err


def test_weights_move_the_boundary_as_expected() -> None:
    # Two overlapping classes on a line: the learned share follows the weights.
    X = np.zeros((40, 1))
    y = np.repeat([0, 1], [30, 10])
    shared: dict[str, Any] = {
        "hidden": (),
        "epochs": 150,
        "learning_rate": 0.1,
        "batch_size": None,
        "random_state": 0,
    }

    def share(model: Any, **fit: Any) -> float:
        return float(model.fit(X, y, **fit).predict_proba(X[:1])[0, 1])

    assert share(ReLUClassifier(**shared)) == pytest.approx(0.25, abs=1e-3)
    assert share(ReLUClassifier(class_weight="balanced", **shared)) == pytest.approx(0.5, abs=1e-3)
    assert share(ReLUClassifier(class_weight="batch", **shared)) == pytest.approx(0.5, abs=1e-3)
    one = ReLUClassifier(class_weight="batch", logits="one", **shared)
    assert share(one) == pytest.approx(0.5, abs=1e-3)
    third = ReLUClassifier(class_weight={0: 1, 1: 6}, **shared)
    assert share(third) == pytest.approx(60 / 90, abs=1e-3)
    weights = np.where(y == 1, 9.0, 1.0)
    assert share(ReLUClassifier(**shared), sample_weight=weights) == pytest.approx(0.75, abs=1e-3)
    adversarial = ReLUClassifier(objective="adversarial", **shared)
    assert share(adversarial, sample_weight=weights) == pytest.approx(0.75, abs=1e-3)


def test_batches_larger_than_a_block_are_the_same(moons: Any, monkeypatch: Any) -> None:
    X, y = moons
    model = EnsembleClassifier(members=3, epochs=3, dropout=0.1, random_state=0)
    whole = model.fit(X, y).predict_proba(X)
    monkeypatch.setattr("farfield.estimators.rows.BLOCK", 100)
    monkeypatch.setattr("farfield.estimators.learner.CHUNK", 1000)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), whole, atol=1e-12)


def test_partial_fit_goes_on_where_it_stopped(moons: Any) -> None:
    X, y = moons
    whole = ReLUClassifier(epochs=6, random_state=0, hidden=(8,)).fit(X, y)
    steps = ReLUClassifier(random_state=0, hidden=(8,))
    for epoch in range(6):
        if epoch == 3:
            # A copy in the middle must go on just the same.
            steps = pickle.loads(pickle.dumps(steps))
        steps.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(steps.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    before = steps.predict_proba(X)
    only = steps.partial_fit(X[:5], y[:5]).predict_proba(X)
    assert np.abs(only - before).max() > 1e-4
    with pytest.raises(InputError, match=r"labels \[2\]"):
        steps.partial_fit(X, np.full(len(X), 2))
    with pytest.raises(InputError, match="not the same as in the first call"):
        steps.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InputError, match="only one class"):
        ReLUClassifier().partial_fit(X, np.zeros(len(X)))


def test_random_state_none_differs_and_a_generator_moves_on(moons: Any) -> None:
    X, y = moons
    first, second = (ReLUClassifier(epochs=1).fit(X, y).predict_proba(X) for _ in range(2))
    assert not np.array_equal(first, second)
    state = np.random.RandomState(0)
    one = ReLUClassifier(epochs=1, random_state=state).fit(X, y).predict_proba(X)
    two = ReLUClassifier(epochs=1, random_state=state).fit(X, y).predict_proba(X)
    assert not np.array_equal(one, two)
