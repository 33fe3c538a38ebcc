"""The view of what a network makes of rows: fitted, guarded, written, read and tampered with."""

import copy
import json
import os

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from farfield.errors import InputError
from farfield.graph import tracing
from farfield.graph.recorded import read_steps
from farfield.guard import GuardedModel, falsify, guard, load, make, program_module
from farfield.guard.envelope import Envelope
from farfield.guard.files import open_guard
from farfield.guard.members import hold, watched
from farfield.guard.onnx_file import NO_FEATURES, extend
from farfield.guard.views.features import MOST_UNITS, Described, Features

pytestmark = pytest.mark.usefixtures("few_folds")


class Telling(nn.Module):
    """A network of two inputs that says what its last layer reads."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first, self.last = nn.Linear(2, 6), nn.Linear(6, 3)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)

    def forward(self, x):
        return self.last(self.first(x).relu())


@pytest.fixture(scope="module")
def rows():
    made = np.random.default_rng(0).normal(size=(300, 2))
    made[:, 1] = np.abs(made[:, 0]) + 0.1 * made[:, 1]
    return made


@pytest.fixture(scope="module")
def net():
    return Telling()


@pytest.fixture(scope="module")
def safe(net, rows) -> GuardedModel:
    """A guard that keeps the view of features, whatever it notices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "choose_views", lambda judge, *_: [0, 1, judge.scores.shape[1] - 1])
        made = guard(net, rows)
    assert made.covered.names == ("balls", "ranges", "features")
    return made


def features(net, rows):
    with torch.no_grad():
        return net.first(torch.from_numpy(rows).float()).relu().double().numpy()


def test_scores_are_distances_from_the_nearest_class():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 2000)
    values = np.exp(rng.normal(size=(4000, 3)) * 0.1) + 4.0 * classes[:, None]
    view = Features.fit(Described(values, classes), 10, 0)
    rooted = np.sqrt(values / np.abs(values).mean())
    means = [rooted[classes == each].mean(axis=0) for each in (0, 1)]
    around = rooted - np.stack(means)[classes]
    inverse = np.linalg.inv(around.T @ around / len(around))
    gaps = rooted[:50, None] - np.stack(means)
    expected = np.sqrt(np.einsum("nki,ij,nkj->nk", gaps, inverse, gaps)).min(axis=1)
    found = view.score_of(torch.from_numpy(values[:50])).numpy()
    assert found == pytest.approx(expected, rel=0.05)


def test_very_many_features_are_projected_and_still_seen():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, MOST_UNITS + 50)) ** 2
    view = Features.fit(Described(values, np.zeros(500, dtype=int)), 10, 0)
    assert view.matrix.shape == (MOST_UNITS + 50, MOST_UNITS)
    usual = view.score_of(torch.from_numpy(values)).median()
    strange = torch.from_numpy(values[:1]).clone()
    strange[0, :20] += 50.0
    assert view.score_of(strange) > 2 * usual


def test_slopes_are_numbers_where_features_are_zero():
    view = Features.fit(Described(np.eye(4)[np.arange(40) % 4], np.arange(40) % 2), 10, 0)
    zeros = torch.zeros(1, 4, requires_grad=True)
    view.distance(zeros).sum().backward()
    assert torch.isfinite(zeros.grad).all()
    assert view.distance(torch.full((1, 4), torch.nan)) == torch.inf


def test_it_looks_at_what_the_last_layer_reads(net, rows, safe):
    given = torch.from_numpy(rows)
    assert safe.covered.features(given).numpy() == pytest.approx(features(net, rows))
    expected = safe.covered.inner.distance(torch.from_numpy(features(net, rows)))
    torch.testing.assert_close(safe.covered.each(given)[:, -1], expected)


def test_the_promise_and_the_bits_stay(net, rows, safe):
    given = torch.from_numpy(rows).float()
    inside = torch.from_numpy(safe.is_inside(rows))
    assert 0.97 <= inside.double().mean() <= 1
    with torch.no_grad():
        assert torch.equal(safe(given)[inside], net(given)[inside])
        everywhere = torch.cat([given * scale for scale in (3.0, 100.0, 1e6)])
        assert torch.equal(safe(everywhere).argmax(dim=1), net(everywhere).argmax(dim=1))
        assert torch.softmax(safe(given * 1e6), dim=1).max() <= 1 / 3 + 0.01
    assert safe.verify()
    broken = falsify(safe, restarts=2, steps=3, rows=rows[:4])
    assert broken.holds
    assert "edge of features" in broken.families


def strange_row(safe):
    """A row that the view of features puts furthest outside."""
    tried = np.random.default_rng(1).normal(size=(4000, 2)) * 2
    each = safe.covered.each(torch.from_numpy(tried)).numpy()
    return tried[(each[:, -1] - each[:, :-1].max(axis=1)).argmax()]


def test_it_is_named_and_explained(safe):
    levels = {view.name: view for view in safe.certificate.views}
    assert levels["features"].threshold == float(safe.covered.inner.threshold)
    row = strange_row(safe)
    look = safe.look(row[None])
    assert look.view.tolist() == ["features"]
    assert look.column.tolist() == [""]
    found = safe.explain(row)
    assert (found.view, found.column) == ("features", "")
    assert "what the network makes of it" in str(found)


def test_copies_look_at_their_own_network(safe, rows):
    other = copy.deepcopy(safe)
    with torch.no_grad():
        for value in other.members.buffers():
            value.mul_(3.0)
    given = torch.from_numpy(rows)
    assert not torch.equal(other.covered.features(given), safe.covered.features(given))
    again = copy.deepcopy(safe).double()
    assert again.covered.features(given).dtype == torch.float64


def test_save_and_load(safe, rows, tmp_path):
    safe.save(tmp_path / "safe.safetensors")
    again = load(tmp_path / "safe.safetensors")
    far = torch.from_numpy(np.vstack([rows, 3 * rows])).float()
    with torch.no_grad():
        assert torch.equal(again(far), safe(far))
    assert open_guard(tmp_path / "safe.safetensors")[1]


def test_a_view_without_its_network_says_so(safe):
    alone = copy.deepcopy(safe.covered)
    alone._describe = None
    with pytest.raises(InputError, match="not here"):
        alone.distance(torch.zeros(1, 2))


@pytest.fixture(scope="module")
def file(safe, tmp_path_factory):
    """The guard's ONNX file."""
    pytest.importorskip("onnxscript")
    path = tmp_path_factory.mktemp("features") / "safe.onnx"
    safe.to_onnx(path)
    return path


@pytest.mark.parametrize("envelope", [False, True])
def test_onnx(safe, net, rows, file, tmp_path, envelope):
    runtime = pytest.importorskip("onnxruntime")
    path = file
    if envelope:
        path = tmp_path / "beside.onnx"
        Envelope(safe, net).to_onnx(path)
    assert open_guard(path)[1]
    row = strange_row(safe)
    given = np.vstack([rows, 3 * rows, row[None]]).astype(np.float32)
    session = runtime.InferenceSession(path)
    found = session.run(None, {session.get_inputs()[0].name: given})
    if envelope:
        look = safe.look(given)
        assert found[2] == pytest.approx(look.distance, rel=1e-3, abs=1e-3)
        assert found[3][-1] == "features"
        assert found[4][-1] == ""
    else:
        with torch.no_grad():
            expected = safe(torch.from_numpy(given)).numpy()
        assert found[0] == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_an_onnx_file_whose_features_were_changed_is_refused(file, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(file)
    entry = next(each for each in model.metadata_props if each.key == "farfield.guard")
    record = json.loads(entry.value)
    entry.value = json.dumps({**record, "features": None})
    onnx.save(model, tmp_path / "x.onnx")
    with pytest.raises(InputError, match="features"):
        open_guard(tmp_path / "x.onnx")
    entry.value = json.dumps({**record, "features": record["scores"]})
    onnx.save(model, tmp_path / "x.onnx")
    with pytest.raises(InputError, match="nodes of its guard"):
        open_guard(tmp_path / "x.onnx")


def test_a_file_without_a_last_layer_has_no_view_of_features(safe, rows, tmp_path):
    convert = pytest.importorskip("skl2onnx")
    forest = RandomForestClassifier(3, max_depth=2, random_state=0)
    forest.fit(rows, np.arange(300) % 3)
    shape = [("X", convert.common.data_types.FloatTensorType([None, 2]))]
    proto = convert.to_onnx(forest, initial_types=shape, options={"zipmap": False})
    (tmp_path / "forest.onnx").write_bytes(proto.SerializeToString())
    written = tmp_path / "safe.onnx"
    extend(
        os.fspath(tmp_path / "forest.onnx"), written, safe.covered, safe.columns, safe.certificate
    )
    certificate, proof = open_guard(written)
    assert proof
    assert "features" not in [view.name for view in certificate.views]
    assert NO_FEATURES in certificate.notes


def test_models_without_features_have_no_such_view(rows, net):
    several = hold([net, Telling()], torch.from_numpy(rows[:4]))
    assert watched(several) is None
    assert watched(hold(nn.Linear(2, 3), torch.from_numpy(rows[:4]))) is None
    box = guard(lambda X: np.full((len(X), 2), 0.5), rows[:60])
    assert box.covered.inner is None


def test_a_module_is_traced_once(monkeypatch):
    calls = []
    monkeypatch.setattr(
        tracing, "read_steps", lambda *a, **k: calls.append(1) or read_steps(*a, **k)
    )
    monkeypatch.setattr(program_module, "read_steps", tracing.read_steps)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    guard(module, np.random.default_rng(0).normal(size=(60, 4)))
    assert len(calls) == 1
