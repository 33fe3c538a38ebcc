"""What no model should be asked: an answer that is uniform, outside and says why, or one error."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import farfield as ff
from farfield.errors import InputError

pytestmark = pytest.mark.usefixtures("few_folds")

CODES = 3
OPTIONS = {"categorical": [2], "radii": 10.0}
ALLOWED = 0.51 + 1e-6


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=(120, 2)), rng.integers(0, CODES, 120)])


@pytest.fixture(scope="module")
def net():
    generator = torch.Generator().manual_seed(0)
    made = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    for parameter in made.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return made


@pytest.fixture(scope="module")
def guards(rows, net, tmp_path_factory):
    """Everything that can be asked about rows, as functions of them to probabilities."""
    labels = (rows[:, 0] > 0).astype(int)
    forest = RandomForestClassifier(5, random_state=0)
    fitted = forest.fit(rows, labels)
    safe, beside = ff.guard(net, rows, **OPTIONS), ff.envelope(net, rows, **OPTIONS)
    function = ff.guard(lambda X: fitted.predict_proba(np.asarray(X)), rows, **OPTIONS)
    envelope = ff.envelope(lambda X: fitted.predict_proba(np.asarray(X)), rows, **OPTIONS)
    classifier = ff.guard.GuardedClassifier(forest, **OPTIONS).fit(rows, labels)
    folder = tmp_path_factory.mktemp("files")
    safe.to_onnx(folder / "safe.onnx")
    beside.to_onnx(folder / "beside.onnx")
    return {
        "module": safe.predict_proba,
        "called": lambda X: torch.softmax(safe(torch.from_numpy(X)).double(), dim=1).numpy(),
        "envelope": lambda X: beside.look(X).guarded,
        "function": function.predict_proba,
        "envelope of a function": lambda X: envelope.look(X).guarded,
        "classifier": classifier.predict_proba,
        "onnx": _session(folder / "safe.onnx", -1),
        "onnx envelope": _session(folder / "beside.onnx", -1),
    }


def _session(path, output):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given, name = session.get_inputs()[0], session.get_outputs()[output].name

    def ask(X):
        kind = np.float32 if given.type == "tensor(float)" else np.float64
        with np.errstate(over="ignore"):
            found = session.run([name], {given.name: X.astype(kind)})[0]
        sums = found.sum(axis=1, keepdims=True)
        if found.size and not np.allclose(sums, 1.0, atol=1e-3):  # logits
            found = np.exp(found - found.max(axis=1, keepdims=True))
            found /= found.sum(axis=1, keepdims=True)
        return found

    return ask


NAMES = ["module", "called", "envelope", "function", "envelope of a function"]
FILES = ["classifier", "onnx", "onnx envelope"]
BAD = {
    "nan": (0, np.nan, np.float64),
    "infinity": (0, np.inf, np.float64),
    "minus infinity": (1, -np.inf, np.float32),
    "beyond single precision": (1, 1e300, np.float64),
    "huge in single precision": (0, 3e38, np.float32),
    "half precision": (0, 6e4, np.float16),
    "half precision, overflown": (0, np.inf, np.float16),
    "a category never seen": (2, 9.0, np.float64),
    "no category": (2, np.nan, np.float64),
    "between categories": (2, 0.5, np.float64),
}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES + FILES)
@pytest.mark.parametrize("what", BAD)
def test_no_class_is_believed(guards, rows, name, what):
    column, value, kind = BAD[what]
    given = np.repeat(rows[:1].astype(kind), 2, axis=0)
    given[1, column] = value
    if name == "classifier" and np.isinf(value):
        # Scikit-learn's own rule for its estimators.
        with pytest.raises(InputError, match="infinity"):
            guards[name](given)
        return
    found = guards[name](given)
    assert np.isfinite(found).all()
    assert found[1].max() <= ALLOWED
    assert found[0] == pytest.approx(guards[name](given[:1])[0], abs=1e-6)


@pytest.mark.parametrize("name", NAMES + FILES)
def test_no_rows_have_no_answers(guards, rows, name):
    if name == "classifier":
        with pytest.raises(InputError, match="0 sample"):
            guards[name](rows[:0])
        return
    assert guards[name](rows[:0]).shape == (0, 2)


@pytest.mark.parametrize("name", ["module", "envelope", "function", "envelope of a function"])
@pytest.mark.parametrize("given", [np.zeros((2, 2)), np.array([["a", "b", "c"]]), np.zeros(4)])
def test_other_rows_are_refused(guards, name, given):
    with pytest.raises(InputError, match=r"has shape|has dtype"):
        guards[name](given)


@pytest.fixture(scope="module")
def table(rows):
    return pd.DataFrame(rows, columns=["a", "b", "c"])


@pytest.fixture(scope="module", params=[ff.guard, ff.envelope], ids=["guard", "envelope"])
def of_tables(request, net, table):
    """A network and a function, guarded by rows with names, and what guarded them."""
    return [request.param(model, table, **OPTIONS) for model in (net, _even)], request.param


def test_columns_in_another_order_are_refused(of_tables, table):
    for safe in of_tables[0]:
        with pytest.raises(InputError, match="in another order"):
            safe.predict_proba(table[["b", "a", "c"]])
        with pytest.raises(InputError, match="lacks b"):
            safe.is_inside(table[["a", "c"]])


@pytest.mark.parametrize("name", ["module", "function", "envelope", "envelope of a function"])
def test_one_row_by_itself_is_a_batch_of_one(guards, rows, name):
    assert np.array_equal(guards[name](rows[0]), guards[name](rows[:1]))


WORDS = pd.DataFrame({"site": ["north", "south"] * 100, "age": np.arange(200.0), "dose": 1.5})


def _even(X):
    return np.tile([0.2, 0.8], (len(X), 1))


def test_one_row_of_a_table_is_read_by_its_names(of_tables, table):
    guards, made = of_tables
    row = table.iloc[0]
    for safe in guards:
        assert safe.explain(row).inside
        assert safe.is_inside(row).all()
        assert np.array_equal(safe.predict_proba(row), safe.predict_proba(table.head(1)))
        with pytest.raises(InputError, match="in another order"):
            safe.explain(row[["b", "a", "c"]])
        assert safe.explain(pd.Series(row.to_numpy())).inside
    safe = made(_even, WORDS)
    assert safe.explain(WORDS.iloc[0]).inside
    assert safe.predict_proba(WORDS.iloc[0]).tolist() == [[0.2, 0.8]]


def test_a_new_word_is_named():
    safe = ff.guard(_even, WORDS)
    said = safe.explain(WORDS.head(1).assign(site="west")).reason
    assert said == "site = west is a category that no training row had; they had north, south"


def test_columns_that_are_too_many_are_named(of_tables, table):
    with pytest.raises(InputError, match="it has more, new;"):
        of_tables[0][0].is_inside(table.assign(more=1, new=2))


def test_times_are_no_numbers():
    safe = ff.guard(_even, WORDS)
    with pytest.raises(InputError, match="holds times in age"):
        safe.predict_proba(WORDS.assign(age=pd.Timestamp("2020-01-01")))


@pytest.mark.parametrize("name", ["module", "function", "envelope", "envelope of a function"])
def test_what_is_masked_is_not_believed(guards, rows, name):
    given = np.ma.masked_array(rows[:2], mask=[[False] * 3, [True, False, False]])
    assert guards[name](given)[1].max() <= ALLOWED


def test_other_frames_are_refused_by_name(rows, net, guards):
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(rows, schema=["a", "b", "c"])
    for model in (net, _even, RandomForestClassifier(2).fit(rows, rows[:, 0] > 0)):
        with pytest.raises(InputError, match=r"DataFrame of polars.*to_pandas"):
            ff.guard(model, table)
    with pytest.raises(InputError, match=r"DataFrame of polars.*to_pandas"):
        guards["module"](table)


def test_one_column_alone_is_no_table(rows):
    forest = RandomForestClassifier(2).fit(rows, rows[:, 0] > 0)
    with pytest.raises(InputError, match=r"shape"):
        ff.guard(forest, pd.Series(rows[:, 0]))
