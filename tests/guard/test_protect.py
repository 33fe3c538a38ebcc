import numpy as np
import pytest
import torch
from torch import nn

from farfield.errors import InputError, UnsupportedOperation
from farfield.guard import guard


def rows_of(columns, count=100, seed=0):
    return np.random.default_rng(seed).normal(size=(count, columns))


def test_the_package_is_the_function(quick):
    import farfield as ff
    import farfield.guard as package

    assert callable(package)
    assert package(quick(2, 4, 2), rows_of(2)).certificate.classes == 2
    assert ff.guard is package or callable(ff.guard)


def test_rows_stay_inside(safe):
    training, held_out = safe.certificate.training, safe.certificate.held_out
    assert training.rows == 360
    assert training.share >= 0.99
    assert held_out.rows == 40
    assert held_out.low < held_out.share <= held_out.high


def test_held_out_rows_may_be_given(quick):
    safe = guard(quick(2, 4, 2), rows_of(2), held_out=rows_of(2, 37, seed=1))
    assert safe.certificate.training.rows == 100
    assert safe.certificate.held_out.rows == 37
    assert guard(quick(2, 4, 2), rows_of(2), held_out=None).certificate.held_out is None


def test_the_same_seed_gives_the_same_guard(quick):
    model, rows = quick(3, 4, 2), rows_of(3)
    state = torch.get_rng_state(), str(np.random.mtrand._rand.get_state())
    first, second, other = (guard(model, rows, random_state=seed).certificate for seed in (1, 1, 2))
    assert first == second != other
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == str(np.random.mtrand._rand.get_state())


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_few_rows(quick, count):
    safe = guard(quick(3, 4, 2), rows_of(3, count))
    certificate = safe.certificate
    assert certificate.prototypes <= count
    assert certificate.training.share >= 0.99
    assert certificate.verify(safe)
    far = torch.full((1, 3), 1e6)
    assert float(torch.softmax(safe(far), dim=1).max()) <= certificate.largest_probability


def test_constant_and_duplicate_columns(quick):
    some = rows_of(3, 200)
    rows = np.hstack([some, some[:, :1], np.full((200, 1), 7.0), np.zeros((200, 1))])
    safe = guard(quick(6, 8, 2), rows)
    assert safe.certificate.verify(safe)
    assert "2 constant" in safe.certificate.metric
    # A column that never varied still counts when it does.
    moved = torch.tensor(rows[:50], dtype=torch.float32)
    moved[:, 4] += 1e4
    assert float(torch.softmax(safe(moved), dim=1).max()) <= safe.certificate.largest_probability


def test_identical_rows(quick):
    safe = guard(quick(3, 4, 2), np.ones((40, 3)))
    assert safe.certificate.prototypes == 1
    assert safe.certificate.training.share == 1.0
    assert safe.certificate.verify(safe)


def test_an_unseen_combination_counts_as_distance(quick, table):
    blocks = [(3, 4, 5, 6), 7]
    safe = guard(quick(8, 16, 2), table, categorical=blocks)
    x = torch.tensor(table[:40], dtype=torch.float32)
    assert float(safe.distance(x).max()) == pytest.approx(0.0, abs=1.0)
    unseen = x.clone()
    unseen[:, 3:7] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    away = safe.distance(unseen) - safe.distance(x)
    assert torch.allclose(away, torch.full_like(away, 1.0), atol=2e-3)
    assert "categorical" in safe.certificate.metric
    assert safe.certificate.verify(safe)
    code = x.clone()
    code[:, 7] = 1e6
    assert float(torch.softmax(safe(code), dim=1).max()) <= safe.certificate.largest_probability


def test_all_columns_may_be_categorical(quick):
    rows = np.eye(4)[np.random.default_rng(0).integers(0, 3, 60)]
    safe = guard(quick(4, 8, 2), rows, categorical=[(0, 1, 2, 3)])
    assert safe.certificate.training.share == 1.0
    assert safe.certificate.verify(safe)
    assert safe.distance(torch.eye(4)).tolist() == pytest.approx([0.0, 0.0, 0.0, 0.999])


@pytest.mark.parametrize("columns", [[9], [0, 0], [(0, 0)], [-1]])
def test_bad_categorical_columns(quick, columns):
    with pytest.raises(InputError, match="categorical"):
        guard(quick(3, 4, 2), rows_of(3), categorical=columns)


def test_too_many_combinations(quick):
    """More than can be listed are covered by balls."""
    safe = guard(quick(3, 4, 2), rows_of(3, 5000), categorical=[0, 1])
    assert "ball of combinations" in safe.certificate.metric
    assert safe.certificate.training.share >= 0.99
    assert safe.certificate.verify(safe)
    far = torch.tensor([[1e5, 0.0, 0.0]])
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability


def test_a_promise_that_cannot_be_kept_says_what_can(quick):
    rows = rows_of(3, 300)
    with pytest.raises(InputError, match=r"ask for radii >= [\d.]+") as caught:
        guard(quick(3, 8, 2), rows, radii=0.9)
    least = float(str(caught.value).split("radii >= ")[1].split(",")[0])
    safe = guard(quick(3, 8, 2), rows, radii=1.02 * least)
    assert safe.certificate.radii == pytest.approx(1.02 * least)
    assert safe.certificate.verify(safe)
    with pytest.raises(InputError, match="ask for epsilon >="):
        guard(quick(3, 8, 2), rows, epsilon=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radii": -1.0}, "radii"),
        ({"radii": float("nan")}, "radii"),
        ({"epsilon": 0.7}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"prototypes": 0}, "prototypes"),
        ({"prototypes": 2.5}, "prototypes"),
        ({"held_out": 1.5}, "held_out"),
        ({"held_out": np.zeros((3, 9))}, "held_out"),
        ({"labels": [0, 1]}, "labels"),
        ({"labels": np.full(100, 7)}, "labels"),
        ({"random_state": -1}, "random_state"),
        ({"growth": -1.0}, "growth"),
        ({"growth": (1.0, float("inf"))}, "growth"),
    ],
)
def test_bad_options(quick, options, message):
    with pytest.raises(InputError, match=message):
        guard(quick(3, 4, 2), rows_of(3), **options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((5, 3), np.nan), "NaN"),
        (np.full((5, 3), np.inf), "NaN or infinite"),
        (np.zeros((0, 3)), "shape"),
        (np.zeros((5, 4)), "shape|4"),
        (np.zeros((5, 3), dtype=int), "floating-point"),
    ],
)
def test_bad_rows(quick, rows, message):
    with pytest.raises((InputError, ValueError), match=message):
        guard(quick(3, 4, 2), rows)


class Normed(nn.Module):
    """Layer norm has no rule, but its outputs are bounded."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def test_a_model_that_cannot_be_read_needs_a_growth_bound():
    model, rows = Normed(), rows_of(3)
    with pytest.raises(UnsupportedOperation, match="layer_norm"):
        guard(model, rows)
    difference = (model.last.weight[0] - model.last.weight[1]).detach()
    # |norm(x)| <= sqrt(8)
    most = float(difference.norm()) * 8**0.5 + float(model.last.bias.detach().abs().sum())
    safe = guard(model, rows, growth=(most, 0.0))
    far = torch.randn(100, 3) * 1e5
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability
    assert "not proven" in safe.certificate.method
    assert safe.certificate.verify(safe)
    with pytest.raises(InputError, match="export"):
        safe.save("unused.safetensors")


def test_a_lipschitz_constant_may_be_given(quick):
    model, rows = quick(3, 8, 2), rows_of(3)
    tight = guard(model, rows, growth=5.0).certificate
    loose = guard(model, rows, growth=500.0).certificate
    assert tight.unit > 5 * loose.unit
    assert tight.anchored


def test_labels_let_the_covered_set_know_the_likelihood(classifier, moons):
    X, y = moons
    with_labels = guard(classifier, X, labels=y).certificate
    assert with_labels.training.share >= 0.99


def test_more_growth_makes_a_harder_guard(quick):
    rows = rows_of(3)
    model = quick(3, 8, 2)
    before = guard(model, rows).certificate
    model.coefs_[-1] *= 100
    after = guard(model, rows).certificate
    assert after.slope > 50 * before.slope
    assert after.unit < before.unit / 5
