import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff
from farfield.errors import InputError
from farfield.guard import GuardedRegressor, guard
from farfield.guard.onnx_file import extend

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return X, 10 * X[:, 0] + rng.normal(size=300)


@pytest.fixture(scope="module")
def model(data):
    return ff.EnsembleRegressor(members=2, hidden=(16,), epochs=10, random_state=0).fit(*data)


@pytest.fixture(scope="module")
def safe(model, data):
    return guard(model, data[0], labels=data[1])


@pytest.fixture(scope="module")
def process(data):
    """Another regressor, and its guard."""
    X, y = data[0][:80], data[1][:80]
    made = GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0).fit(X, y)
    return made, guard(made, X)


def test_the_spread_grows_and_the_mean_stays(safe, model, data):
    X, y = data
    assert isinstance(safe, GuardedRegressor)
    mean, std = model.predict(X, return_std=True)
    new_mean, new_std = safe.predict(X, return_std=True)
    inside = safe.is_inside(X)
    assert inside.mean() >= 0.99
    assert np.array_equal(mean, new_mean)
    assert np.array_equal(std[inside], new_std[inside])
    assert (new_std >= std).all()
    assert safe.verify()
    assert safe.certificate.spread == pytest.approx(y.std())
    assert "no predicted deviation is below" in safe.certificate.statement()


def test_no_deviation_collapses_far_away(safe, model):
    rng = np.random.default_rng(1)
    far = rng.normal(size=(300, 2)) * 10.0 ** rng.uniform(1, 6, (300, 1))
    beyond = safe.distance(far) >= 1.0
    assert beyond.sum() > 250
    mean, std = safe.predict(far, return_std=True)
    assert (std[beyond] >= safe.certificate.spread).all()
    assert np.array_equal(mean, model.predict(far))
    lengths = safe.distance(far)[beyond]
    assert (std[beyond] >= 0.999 * lengths * safe.certificate.spread).all()


def test_any_regressor_that_gives_deviations(process, data):
    (model, safe), X = process, data[0][:80]
    assert safe.predict([[1e3, 0.0]], return_std=True)[1][0] > 100 * model.predict(X).std()
    assert safe.predict(X).shape == (80,)


def test_pipelines_that_end_in_one(data):
    X, y = pd.DataFrame(data[0], columns=["a", "b"]), data[1]
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(X, y)
    for each in (model, make_pipeline(model)):
        safe = guard(each, X, labels=y)
        for own, same in zip(
            model.predict(X, return_std=True), safe.predict(X, return_std=True), strict=True
        ):
            inside = safe.is_inside(X)
            assert np.array_equal(own[inside], same[inside])
        assert safe.predict(X.head(1) * 1e6, return_std=True)[1][0] > 1e3 * y.std()
    with pytest.raises(InputError, match="return_std"):
        guard(make_pipeline(StandardScaler(), Ridge()).fit(X, y), X)


def test_several_targets_are_refused(data):
    X, y = data[0][:80], data[1][:80]
    process = GaussianProcessRegressor(RBF() + WhiteKernel()).fit(X, np.column_stack([y, 2 * y]))
    with pytest.raises(InputError, match="2 targets at once"):
        guard(process, X)


def test_targets_without_a_scale(model, data):
    with pytest.raises(InputError, match="deviation"):
        guard(model, data[0], labels=np.zeros(len(data[0])))
    with pytest.raises(InputError, match="classifiers"):
        ff.envelope(model, data[0], labels=data[1])


def test_regressors_without_deviations_are_refused(moons, tmp_path):
    """Neither guarded as if they were classifiers, nor refused for another reason."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(3, random_state=0).fit(*moons)
    with pytest.raises(InputError, match="return_std"):
        guard(model, moons[0])
    skl2onnx = pytest.importorskip("skl2onnx")
    file = tmp_path / "model.onnx"
    file.write_bytes(skl2onnx.to_onnx(model, moons[0][:1].astype(np.float32)).SerializeToString())
    safe = guard(lambda X: np.full((len(X), 2), 0.5), moons[0][:60])
    for envelope in (False, True):
        with pytest.raises(InputError, match="regressor"):
            extend(
                file,
                tmp_path / "safe.onnx",
                safe.covered,
                safe.columns,
                safe.certificate,
                envelope=envelope,
            )


def test_what_is_no_number_has_no_mean_and_no_end_to_its_deviation(process):
    model, safe = process
    rows = np.array([[0.0, 0.0], [np.nan, 0.0], [np.inf, 0.0], [1e300, 0.0]])
    mean, std = safe.predict(rows, return_std=True)
    assert mean[0] == model.predict(rows[:1])[0]
    assert np.isnan(mean[1:]).all()
    assert np.isinf(std[1:]).all()
    assert [len(each) for each in safe.predict(rows[:0], return_std=True)] == [0, 0]
