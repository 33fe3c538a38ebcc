import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.mark.usefixtures("all_folds")
def test_outputs_are_untouched_and_alarms_are_as_rare_as_asked(moons):
    from sklearn.ensemble import RandomForestClassifier

    X, y = moons
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    found = ff.envelope(model, X, keep=0.95)
    rows = np.vstack([X, X * 1e3])
    assert np.array_equal(found.predict_proba(rows), model.predict_proba(rows))
    assert np.array_equal(found(rows), model.predict_proba(rows))
    look = found.look(rows)
    assert look.inside[:400].mean() >= 0.93
    assert not look.inside[400:][np.abs(X).max(axis=1) > 0.1].any()
    assert look.guarded[400:][look.distance[400:] >= 1].max() <= 0.51
    assert np.array_equal(look.inside, found.is_inside(rows))
    assert found.certificate.keep == 0.95


def test_words(moons):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(20, 70, 200), "chol": rng.normal(245, 30, 200)})
    found = ff.envelope(lambda X: np.tile([0.4, 0.6], (len(X), 1)), table)
    row = table.iloc[[0]].assign(chol=0.0)
    low, high = table["chol"].min(), table["chol"].max()
    said = str(found.explain(row))
    assert said.startswith(f"chol = 0 is below every training value ({low:.4g} to {high:.4g}), ")
    assert said.endswith(f"by {low:.4g}")


class Softmaxed(nn.Module):
    """Returns probabilities in a way that cannot be followed."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def forward(self, x):
        return torch.softmax(torch.sin(3 * self.inner(x)), dim=1)


class Halved(nn.Module):
    """Returns one logit without a dimension for classes."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 1)

    def forward(self, x):
        return self.inner(x)[:, 0]


def modules():
    torch.manual_seed(0)
    linear = nn.Linear(2, 3)
    return {
        "logits": linear,
        "probabilities": nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=1)),
        "log": nn.Sequential(nn.Linear(2, 3), nn.LogSoftmax(dim=1)),
        "unread": Softmaxed(),
        "logit": Halved(),
        "sigmoid": nn.Sequential(nn.Linear(2, 1), nn.Sigmoid()),
        "double": nn.Linear(2, 3).double(),
    }


@pytest.mark.parametrize("name", modules())
def test_modules_of_every_kind(moons, tmp_path, name):
    """A file gives out what the module returns; probabilities are never squashed again."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = modules()[name]
    kind = next(model.parameters()).dtype
    few = moons[0][:80]
    found = ff.envelope(model, few)
    rows = torch.from_numpy(np.vstack([few, 30 * few])).to(kind)
    with torch.no_grad():
        own = model(rows)
    p = found.predict_proba(rows)
    expected = {"logit": torch.sigmoid(own), "sigmoid": own.flatten()}
    if name in expected:
        assert np.allclose(p[:, 1], expected[name].numpy(), atol=1e-6)
    else:
        squashed = own if name in ("probabilities", "unread") else torch.softmax(own, dim=1)
        assert np.array_equal(p, squashed.numpy())
    look = found.look(rows)
    assert np.array_equal(look.guarded[look.inside], p[look.inside])
    found.to_onnx(tmp_path / "safe.onnx")
    session = runtime.InferenceSession(tmp_path / "safe.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    said = dict(zip(names, session.run(None, {"x": rows.numpy()}), strict=True))
    assert said[names[0]].shape == tuple(own.shape)
    assert np.allclose(said[names[0]], own.numpy(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(said["inside"], look.inside)
    assert np.allclose(said["guarded"], look.guarded, atol=1e-5)


def test_ensembles_and_estimators_give_their_mean(moons, classifier, tmp_path):
    pytest.importorskip("onnxscript")
    members = [nn.Linear(2, 3) for _ in range(2)]
    for model in (members, classifier):
        found = ff.envelope(model, moons[0][:80])
        found.to_onnx(tmp_path / "safe.onnx")
        assert found.predict_proba(moons[0]).shape[1] == found.certificate.classes
        own = found.guard.own_proba(moons[0])
        assert np.array_equal(found.predict_proba(moons[0]), own)


def test_a_file_that_was_given_is_extended(moons, tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnx = pytest.importorskip("onnx")
    from sklearn.ensemble import RandomForestClassifier

    X, y = moons[0].astype(np.float32), moons[1]
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    source, out = tmp_path / "forest.onnx", tmp_path / "safe.onnx"
    source.write_bytes(skl2onnx.to_onnx(forest, X[:1]).SerializeToString())
    found = ff.envelope(forest, X[:80])
    with pytest.raises(InputError, match="source="):
        found.to_onnx(out)
    with pytest.raises(InputError, match=r"\.onnx"):
        found.to_pt2(tmp_path / "safe.pt2")
    found.to_onnx(out, source=source)
    before, after = (onnx.load(str(path)).graph.node for path in (source, out))
    assert [n.SerializeToString() for n in after[: len(before)]] == [
        n.SerializeToString() for n in before
    ]


def test_regressors_are_refused(moons):
    from sklearn.linear_model import BayesianRidge

    model = BayesianRidge().fit(*moons)
    with pytest.raises(InputError, match="classifiers"):
        ff.envelope(model, moons[0])


def blobs(rng, count):
    centres = np.array([[0.0, 0, 0, 0], [6, 6, 0, 0], [0, 6, 6, 0]])
    return centres[rng.integers(0, 3, count)] + rng.normal(size=(count, 4))


def heavy(rng, count):
    return rng.standard_t(4, size=(count, 4)) @ np.array(
        [[1, 0.5, 0, 0], [0, 1, 0.5, 0], [0, 0, 1, 0.5], [0.2, 0, 0, 1]]
    )


def skewed(rng, count):
    return np.exp(rng.normal(size=(count, 4)))


def ring(rng, count):
    angle, radius = rng.uniform(0, 2 * np.pi, count), rng.normal(5, 0.3, count)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=count)])


def mixed(rng, count):
    return np.column_stack([rng.normal(size=(count, 2)), rng.integers(0, 4, count)])


@pytest.mark.usefixtures("all_folds")
@pytest.mark.parametrize(
    ("draw", "keep"),
    [(blobs, 0.9), (heavy, 0.99), (skewed, 0.9), (ring, 0.99), (mixed, 0.9), (mixed, 0.99)],
)
def test_false_alarms_are_as_rare_as_asked_on_new_rows(draw, keep):
    """New rows from the same source: the share inside is at least what was asked, within chance.

    The rows of the guard are a sample too, so a guard's own share varies from guard to guard; the
    certificate's interval from held-out rows is checked to hold what 20,000 new rows show.
    """
    rng = np.random.default_rng(7)
    X, held_out, new = (draw(rng, count) for count in (800, 200, 20_000))
    found = ff.envelope(
        lambda rows: np.tile([0.4, 0.6], (len(rows), 1)),
        X,
        keep=keep,
        held_out=held_out,
        categorical=[2] if draw is mixed else None,
    )
    share = found.is_inside(new).mean()
    counted = found.certificate.held_out
    assert counted.high >= keep
    assert counted.low - 0.01 <= share <= counted.high + 0.01
    assert share >= keep - 3 * np.sqrt(keep * (1 - keep) / 500)
