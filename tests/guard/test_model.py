import copy

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.guard import guard

pytestmark = pytest.mark.usefixtures("few_folds")


def test_the_predicted_class_is_the_same_everywhere(safe, everywhere):
    own, guarded = safe.unguarded(everywhere), safe(everywhere)
    finite = ~torch.isnan(own).any(dim=1)
    assert bool((own.argmax(dim=1) == guarded.argmax(dim=1))[finite].all())
    # Also when probabilities are what is compared, however hot the temperature.
    answer = torch.softmax(guarded, dim=1)
    assert bool((own.argmax(dim=1) == answer.argmax(dim=1))[finite].all())
    p, plain = safe.predict_proba(everywhere), safe.own_proba(everywhere)
    assert (p.argmax(axis=1) == plain.argmax(axis=1))[finite.numpy()].all()


def test_nothing_changes_inside(safe, classifier, moons):
    rows = torch.tensor(moons[0], dtype=torch.float32)
    inside = torch.from_numpy(safe.is_inside(rows))
    assert float(inside.double().mean()) >= 0.99
    with torch.no_grad():
        own = classifier.module_(rows)
    assert torch.equal(safe(rows)[inside], own[inside])
    assert torch.equal(safe.probabilities(rows)[inside], torch.softmax(own, dim=1)[inside])


def test_every_class_is_uniform_far_away(safe, everywhere):
    far = safe.covered.length(everywhere) >= safe.certificate.radius
    assert bool((safe.covered.distance(everywhere)[far] >= 1.0).all())
    top = torch.softmax(safe(everywhere), dim=1).amax(dim=1)
    assert int(far.sum()) > 1000
    assert float(top[far].max()) <= safe.certificate.largest_probability
    assert safe.predict_proba(everywhere)[far.numpy()].max() <= 0.51
    assert float(torch.softmax(safe.unguarded(everywhere), dim=1).amax(dim=1)[far].min()) > 0.9


def test_one_row_and_many_agree(safe, everywhere):
    together = safe(everywhere[:50])
    apart = torch.cat([safe(row[None]) for row in everywhere[:50]])
    assert float((together - apart).abs().max()) <= 1e-5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300, -1e300])
def test_values_that_are_no_values_get_the_uniform_answer(safe, value):
    rows = np.array([[value, 0.0], [0.5, value]])
    p = safe.predict_proba(rows)
    assert p == pytest.approx(0.5, abs=1e-6)
    assert not safe.is_inside(rows).any()
    assert float(torch.softmax(safe(torch.from_numpy(rows)), dim=1).max()) <= 0.51


def test_empty_batches_and_half_precision_inputs(safe, moons):
    assert safe.predict_proba(np.zeros((0, 2))).shape == (0, 2)
    assert safe.is_inside(np.zeros((0, 2))).shape == (0,)
    assert safe(torch.zeros(0, 2)).shape == (0, 2)
    rows = moons[0][:20].astype(np.float16)
    assert np.allclose(safe.predict_proba(rows), safe.predict_proba(rows.astype(np.float64)))


def test_a_model_that_overflows_gets_the_uniform_answer(mlp):
    model = mlp(2, 8, 3)
    with torch.no_grad():
        model[0].weight *= 1e20
        model[2].weight *= 1e10
    safe = guard(model, np.random.default_rng(0).normal(size=(50, 2)))
    huge = torch.tensor([[3e38, -3e38], [1e30, 1e30]])
    assert not bool(torch.isfinite(model(huge)).all())
    assert torch.softmax(safe(huge), dim=1).max().item() == pytest.approx(1 / 3, abs=1e-5)


def test_double_precision_models_have_no_end_either(mlp):
    safe = guard(mlp(2, 8, 2).double(), np.random.default_rng(0).normal(size=(60, 2)))
    far = torch.tensor([[1e100, 1.0], [1e200, -1e200], [1e300, 1e300]], dtype=torch.float64)
    out = safe(far)
    assert out.dtype == torch.float64
    assert float(torch.softmax(out, dim=1).max()) <= safe.certificate.largest_probability
    assert bool((out.argmax(dim=1) == safe.unguarded(far).argmax(dim=1)).all())


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_moving_to_another_type_leaves_the_guard_exact(safe, kind):
    safe = copy.deepcopy(safe)
    before = {name: value.clone() for name, value in safe.covered.named_buffers()}
    moved = safe.to(kind)
    assert moved.dtype == kind
    for name, value in moved.covered.named_buffers():
        assert value.dtype == before[name].dtype
        assert torch.equal(value.nan_to_num(), before[name].nan_to_num())
    assert moved.verify()
    far = torch.randn(300, 2) * torch.logspace(1, 4, 300)[:, None]
    far = far[moved.covered.distance(far) >= 1.0]
    assert float(torch.softmax(moved(far), dim=1).max()) <= moved.certificate.largest_probability


def test_autocast_does_not_touch_the_guard(safe, everywhere):
    far = everywhere[safe.covered.distance(everywhere) >= 1.0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = safe(far)
        hot = safe.covered(far)
    assert float(torch.softmax(out.float(), dim=1).max()) <= safe.certificate.largest_probability
    assert torch.equal(hot, safe.covered(far))


def test_state_brings_the_scale_and_the_certificate(safe, classifier, moons):
    other = guard(classifier, moons[0], epsilon=0.05, radii=4.0)
    assert float(safe.covered.unit) != float(other.covered.unit)
    other.load_state_dict(safe.state_dict())
    assert other.certificate == safe.certificate
    assert other.verify()
    rows = torch.randn(100, 2) * 10
    assert torch.equal(safe(rows), other(rows))


def test_deep_copies_are_guards(safe, everywhere):
    again = copy.deepcopy(safe)
    assert again.verify()
    assert torch.equal(again(everywhere), safe(everywhere))


@pytest.fixture(params=["trace", "export", "compile"])
def traced(request, safe, moons):
    """Traced on rows that are all inside: nothing may depend on that."""
    safe = copy.deepcopy(safe)
    example = torch.tensor(moons[0][:4], dtype=torch.float32)
    assert safe.is_inside(example).all()
    with torch.no_grad():
        if request.param == "trace":
            return safe, torch.jit.trace(safe, example)
        if request.param == "export":
            shapes = ({0: torch.export.Dim("rows")},)
            return safe, torch.export.export(safe, (example,), dynamic_shapes=shapes).module()
        compiled = torch.compile(safe, backend="eager", fullgraph=True)
        compiled(example)
        return safe, compiled


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_the_guard_survives_tracing(traced, everywhere):
    safe, other = traced
    with torch.no_grad():
        assert torch.allclose(other(everywhere), safe(everywhere), atol=1e-6)


def test_the_guard_can_be_mapped_and_differentiated(safe, everywhere):
    rows = everywhere[:64]
    mapped = torch.func.vmap(lambda row: safe(row[None])[0])(rows)
    assert torch.allclose(mapped, safe(rows), atol=1e-5)
    inputs = rows.clone().requires_grad_()
    (slope,) = torch.autograd.grad(safe(inputs).sum(), inputs)
    assert slope.shape == rows.shape


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
    assert safe.verify()


def test_ensembles_guard_the_mean(mlp):
    members = [mlp(2, 8, 3, seed=seed) for seed in range(3)]
    rows = np.random.default_rng(0).normal(size=(100, 2))
    safe = guard(members, rows)
    x = torch.tensor(rows, dtype=torch.float32)
    with torch.no_grad():
        mean = torch.stack([torch.softmax(m(x), dim=1) for m in members]).mean(dim=0)
    inside = torch.from_numpy(safe.is_inside(x))
    assert torch.equal(safe.probabilities(x)[inside], mean[inside])
    assert torch.allclose(torch.softmax(safe(x), dim=1)[inside], mean[inside], atol=1e-6)
    far = x * 1e5
    assert float(safe.probabilities(far).max()) <= safe.certificate.largest_probability
    assert safe.certificate.members == 3
    assert safe.verify()


class Fixed(nn.Module):
    """The same logits for every row."""

    def __init__(self, *logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))
        self.last = nn.Linear(2, len(logits))
        nn.init.zeros_(self.last.weight)

    def forward(self, x):
        return self.last(x) * 0.0 + self.logits


def test_near_ties_of_ensembles_keep_their_class():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2))
    safe = guard([Fixed(0.0, 0.0), Fixed(0.0, 0.0)], rows, held_out=None)
    for _ in range(20):
        gap = float(rng.normal() * 10.0 ** rng.uniform(-8, -5))
        shift = float(rng.normal())
        pairs = [shift, -shift + gap], [-shift, shift]
        for member, logits in zip(safe.members, pairs, strict=True):
            member.logits.data = torch.tensor(logits)
        x = torch.from_numpy(rng.normal(size=(20, 2)) * 10.0 ** rng.uniform(0, 20, (20, 1)))
        expected = torch.tensor(pairs).softmax(dim=1).mean(dim=0).numpy()
        assert safe.own_proba(x) == pytest.approx(np.tile(expected, (20, 1)))
        own = safe.own_proba(x).argmax(axis=1)
        assert (safe.predict_proba(x).argmax(axis=1) == own).all()
        assert (safe(x).argmax(dim=1).numpy() == own).all()


def test_scikit_learn_models_run_in_double_precision(moons):
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    net = MLPClassifier((8,), solver="lbfgs", max_iter=200, random_state=0)
    model = make_pipeline(StandardScaler(), net).fit(*moons)
    safe = guard(model, moons[0])
    assert safe.certificate.dtype == "float64"
    inside = safe.is_inside(moons[0])
    own = model.predict_proba(moons[0])
    assert np.allclose(safe.predict_proba(moons[0])[inside], own[inside], atol=1e-6)


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
    images = torch.rand(80, 1, 8, 8)
    safe = guard(model, images)
    assert "root mean square" in safe.certificate.metric
    far = images * 1e4
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability
    assert safe.verify()


def test_capture_of_the_inside(safe):
    assert isinstance(safe.network, ff.Network)
    assert safe.network.classes == 2
