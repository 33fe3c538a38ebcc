import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.guard import guard
from farfield.guard.model import temper


def test_the_predicted_class_is_the_same_everywhere(safe, everywhere):
    own, guarded = safe.unguarded(everywhere), safe(everywhere)
    finite = torch.isfinite(own).all(dim=1)
    assert bool((own.argmax(dim=1) == guarded.argmax(dim=1))[finite].all())
    # Also when probabilities are what is compared, however hot the temperature.
    answer = torch.softmax(guarded, dim=1)
    assert bool((own.argmax(dim=1) == answer.argmax(dim=1))[finite].all())


def test_nothing_changes_inside(safe, classifier, moons):
    rows = torch.tensor(moons[0], dtype=torch.float32)
    hot = safe.temperature(rows)
    inside = hot == 1.0
    assert float(inside.double().mean()) >= 0.99
    with torch.no_grad():
        own = classifier.module_(rows)
    assert torch.equal(safe(rows)[inside], own[inside])
    assert torch.equal(safe.probabilities(rows)[inside], torch.softmax(own, dim=1)[inside])


def test_every_class_is_uniform_far_away(safe, everywhere):
    far = safe.units(everywhere).norm(dim=1) >= safe.certificate.radius
    top = torch.softmax(safe(everywhere), dim=1).amax(dim=1)
    assert int(far.sum()) > 1000
    assert float(top[far].max()) <= safe.certificate.largest_probability
    assert float(torch.softmax(safe.unguarded(everywhere), dim=1).amax(dim=1)[far].min()) > 0.9


def test_the_shortcut_changes_no_number(safe, moons):
    generator = torch.Generator().manual_seed(0)
    rows = torch.tensor(moons[0], dtype=torch.float32)
    rows = torch.cat([rows, rows + torch.randn(rows.shape, generator=generator) * 0.2])
    with torch.no_grad():
        slow = temper(safe.unguarded(rows), safe.temperature(rows))
        assert safe.shortcut is not None
        assert bool(safe.shortcut(rows).any())
        assert float((safe(rows) - slow).abs().max()) <= 1e-6
        sure = safe.shortcut(rows)
    assert bool((safe.temperature(rows)[sure] == 1.0).all())


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_the_shortcut_knows_what_single_precision_does_to_the_mean(mlp, kind):
    # Steps of single precision at a million are a third of the standard deviation.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2)) * [0.2, 1.0] + [1e6 - 0.03, 0.0]
    safe = guard(mlp(2, 8, 2).float(), rows, metric=kind, prototypes=8)
    steps = torch.arange(-40, 41) * 2.0**-4
    grid = torch.cartesian_prod(1e6 + steps, torch.linspace(-4, 4, 401)).float()
    sure = safe.shortcut(grid)
    assert bool((safe.temperature(grid)[sure] == 1.0).all())
    assert bool((safe.temperature(grid) == 1.0).any())


def test_one_row_and_many_agree(safe, everywhere):
    together = safe(everywhere[:50])
    apart = torch.cat([safe(row[None]) for row in everywhere[:50]])
    assert float((together - apart).abs().max()) <= 1e-5


def test_nan_stays_nan_and_infinity_is_not_an_answer(safe):
    out = safe(torch.tensor([[float("nan"), 0.0]]))
    assert bool(torch.isnan(out).any())
    with pytest.raises(InputError, match="NaN"):
        safe.probabilities([[float("nan"), 0.0]])


def test_a_model_that_overflows_gets_the_uniform_answer(mlp):
    model = mlp(2, 8, 3)
    with torch.no_grad():
        model[0].weight *= 1e20
        model[2].weight *= 1e10
    safe = guard(model, np.random.default_rng(0).normal(size=(50, 2)))
    huge = torch.tensor([[3e38, -3e38], [1e30, 1e30]])
    assert not bool(torch.isfinite(model(huge)).all())
    assert torch.softmax(safe(huge), dim=1).max().item() == pytest.approx(1 / 3, abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=5),
    st.floats(1.0, 1e300, exclude_min=True),
)
def test_tempering_keeps_the_first_of_the_largest(values, hot):
    logits = torch.tensor([values])
    out = temper(logits, torch.tensor([hot], dtype=torch.float64))
    assert int(out.argmax()) == int(logits.argmax())
    # Probabilities of logits that differ by less than rounding are equal, before and after.
    p = torch.softmax(out, dim=1)[0]
    assert p[int(logits.argmax())] == p.max()
    if float(torch.tensor(hot, dtype=torch.float64).float()) > 1.0:
        assert float(out.max()) == 0.0


def test_double_precision_models_have_no_end_either(mlp):
    safe = guard(mlp(2, 8, 2).double(), np.random.default_rng(0).normal(size=(60, 2)))
    far = torch.tensor([[1e100, 1.0], [1e200, -1e200], [1e300, 1e300]], dtype=torch.float64)
    out = safe(far)
    assert out.dtype == torch.float64
    assert float(torch.softmax(out, dim=1).max()) <= safe.certificate.largest_probability
    assert bool((out.argmax(dim=1) == safe.unguarded(far).argmax(dim=1)).all())


def test_moving_to_another_type_leaves_the_guard_exact(classifier, moons):
    safe = guard(classifier, moons[0])
    before = {name: value.clone() for name, value in safe.near.named_buffers()}
    moved = safe.double()
    assert moved.dtype == torch.float64
    assert moved(torch.zeros(1, 2)).dtype == torch.float64
    for name, value in moved.near.named_buffers():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])
    assert moved.certificate.verify(moved)


def test_the_far_field_is_uniform(safe):
    far = safe.at_infinity([0.0, 0.0], [[1.0, 0.0], [0.0, -1.0]])
    assert far.confidence.tolist() == [0.5, 0.5]
    assert far.probabilities.shape == (1, 2, 2)


class Sigmoid(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.sigmoid(self.inner(x))


@pytest.mark.parametrize("head", [nn.Identity, Sigmoid])
def test_single_logits_become_two(mlp, head):
    inner = mlp(2, 8, 1)
    model = Sigmoid(inner) if head is Sigmoid else inner
    rows = np.random.default_rng(0).normal(size=(100, 2))
    safe = guard(model, rows)
    x = torch.tensor(rows, dtype=torch.float32)
    own = inner(x).detach()
    assert torch.equal(safe.unguarded(x), torch.cat([torch.zeros_like(own), own], dim=1))
    assert safe(x * 1e6).shape == (100, 2)
    assert safe.certificate.verify(safe)


def test_ensembles_guard_the_mean(mlp):
    members = [mlp(2, 8, 3, seed=seed) for seed in range(3)]
    rows = np.random.default_rng(0).normal(size=(100, 2))
    safe = guard(members, rows)
    x = torch.tensor(rows, dtype=torch.float32)
    with torch.no_grad():
        mean = torch.stack([torch.softmax(m(x), dim=1) for m in members]).mean(dim=0)
    inside = safe.temperature(x) == 1.0
    assert torch.equal(safe.probabilities(x)[inside], mean[inside])
    assert torch.allclose(torch.softmax(safe(x), dim=1)[inside], mean[inside], atol=1e-6)
    far = x * 1e5
    assert float(safe.probabilities(far).max()) <= safe.certificate.largest_probability
    assert bool((safe(far).argmax(dim=1) == safe.unguarded(far).argmax(dim=1)).all())
    assert safe.certificate.members == 3
    assert safe.certificate.verify(safe)


def test_scikit_learn_models_run_in_double_precision(moons):
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    net = MLPClassifier((8,), solver="lbfgs", max_iter=200, random_state=0)
    model = make_pipeline(StandardScaler(), net).fit(*moons)
    safe = guard(model, moons[0])
    assert safe.certificate.dtype == "float64"
    assert np.allclose(safe.predict_proba(moons[0]), model.predict_proba(moons[0]), atol=1e-6)


def test_the_user_s_model_is_not_touched(mlp):
    model = mlp(2, 8, 2).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    safe = guard(model, np.random.default_rng(0).normal(size=(50, 2)))
    safe(torch.randn(3, 2))
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_images_are_guarded_in_pixel_space():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )
    images = torch.rand(120, 1, 8, 8)
    safe = guard(model, images, prototypes=8)
    assert "root mean square" in safe.certificate.metric
    far = images * 1e4
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability
    assert safe.certificate.verify(safe)


def test_a_second_guard_on_features_only_heats(classifier, moons, safe):
    both = guard(classifier, moons[0], features=True)
    x = torch.randn(200, 2) * 2
    assert bool((both.temperature(x) >= safe.temperature(x)).all())
    assert bool((both.temperature(x) > safe.temperature(x)).any())
    assert any("no promise" in note for note in both.certificate.notes)
    assert both.certificate.verify(both)
    assert bool((both(x).argmax(dim=1) == safe(x).argmax(dim=1)).all())


def test_capture_of_the_inside(safe):
    assert isinstance(safe.network, ff.Network)
    assert safe.network.classes == 2
