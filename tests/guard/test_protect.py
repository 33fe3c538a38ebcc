import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from torch import nn

from farfield.errors import CaptureError, InputError
from farfield.guard import GuardedFunction, GuardedModel, drawn, guard
from farfield.guard.verify import NEW_INSIDE, NEW_OUTSIDE
from farfield.guard.views import categories

pytestmark = pytest.mark.usefixtures("few_folds")


def rows_of(columns, count=100, seed=0):
    return np.random.default_rng(seed).normal(size=(count, columns))


def answer(X):
    """A black box: sure everywhere."""
    p = expit(50.0 * np.asarray(X, dtype=float)[:, 0])
    return np.column_stack([1 - p, p])


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


def test_of_very_many_rows_a_sample_is_drawn(quick, monkeypatch):
    """Ranges, and what is no number, are those of all rows."""
    monkeypatch.setattr(drawn, "MOST_ROWS", 200)
    monkeypatch.setattr(drawn, "PART", 300)
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    rows[:, 1] = np.arange(1000)
    labels = np.arange(1000) % 3
    safe = guard(quick(2, 8, 3), rows, labels=labels)
    assert safe.certificate.notes[0] == drawn.SAMPLED.format(200, 1000)
    assert safe.certificate.training.rows == 180
    assert safe.covered.ranges.low.numpy() == pytest.approx(rows.min(axis=0))
    assert safe.covered.ranges.high.numpy() == pytest.approx(rows.max(axis=0))
    assert safe.verify()
    with pytest.raises(InputError, match="labels must be whole numbers of shape"):
        guard(quick(2, 8, 3), rows, labels=labels[:200])
    rows[-1, 0] = np.inf
    with pytest.raises(InputError, match="infinite"):
        guard(quick(2, 8, 3), rows)


@pytest.mark.usefixtures("all_folds")
def test_the_same_seed_gives_the_same_guard(quick):
    model, rows = quick(3, 4, 2), rows_of(3)
    state = torch.get_rng_state(), str(np.random.mtrand._rand.get_state())
    first, second, other = (guard(model, rows, random_state=seed).certificate for seed in (1, 1, 2))
    assert first == second != other
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == str(np.random.mtrand._rand.get_state())


@pytest.mark.usefixtures("all_folds")
@pytest.mark.parametrize("count", [10, 11, 25])
def test_few_rows(quick, count):
    safe = guard(quick(3, 4, 2), rows_of(3, count))
    assert safe.certificate.training.share >= 0.9
    assert safe.verify()
    far = torch.full((1, 3), 1e6)
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability


@pytest.mark.usefixtures("all_folds")
@pytest.mark.parametrize("count", [3, 9])
def test_too_few_rows_are_refused(quick, count):
    with pytest.raises(InputError, match=f"X has {count} rows.*min_rows=10"):
        guard(quick(3, 4, 2), rows_of(3, count))
    assert guard(quick(3, 4, 2), rows_of(3, count), min_rows=1).verify()


def test_constant_and_duplicate_columns(quick):
    some = rows_of(3, 200)
    rows = np.hstack([some, some[:, :1], np.full((200, 1), 7.0), np.zeros((200, 1))])
    safe = guard(quick(6, 8, 2), rows, keep=0.95)
    assert safe.verify()
    # A column that never varied still counts when it does.
    moved = torch.tensor(rows[:50], dtype=torch.float32)
    moved[:, 4] += 1.0
    assert float(torch.softmax(safe(moved), dim=1).max()) <= safe.certificate.largest_probability
    assert "where every training value is 7" in str(safe.explain(moved[0]))


def test_identical_rows(quick):
    safe = guard(quick(3, 4, 2), np.ones((40, 3)))
    assert safe.certificate.training.share == 1.0
    assert safe.verify()


def test_a_value_or_a_pair_that_was_not_seen(quick, table):
    """One-hot block (3..6) whose last never occurs; a code in column 7."""
    safe = guard(quick(8, 16, 2), table, categorical=[(3, 4, 5, 6), 7])
    assert "categories" in safe.covered.names
    x = table[safe.is_inside(table)][:40]
    unseen = x.copy()
    unseen[:, 3:7] = [0.0, 0.0, 0.0, 1.0]
    assert not safe.is_inside(unseen).any()
    assert "no training row had" in str(safe.explain(unseen[0]))
    for value in (1e6, 0.5, -3.0):
        code = x.copy()
        code[:, 7] = value
        assert safe.predict_proba(code).max() <= 0.51
    neither = x.copy()
    neither[:, 3:7] = [0.5, 0.5, 0.0, 0.0]
    assert safe.predict_proba(neither).max() <= 0.51
    assert safe.verify()


@pytest.mark.usefixtures("all_folds")
@pytest.mark.parametrize(("count", "sure"), [(60, 0.999), (400, 0.6)])
def test_a_category_that_was_never_seen_is_outside_by_itself(count, sure):
    """However wide a likelihood budget makes the view: with many variables, pairs cost a lot."""
    rng = np.random.default_rng(0)
    codes = rng.choice(3, p=[0.5, 0.3, 0.2], size=(count, 5))
    rows = np.column_stack([rng.normal(size=count), codes])
    options = {"categorical": [1, 2, 3, 4, 5], "radii": 10.0 if count < 100 else 3.0}
    safe = guard(lambda X: np.tile([sure, 1 - sure], (len(X), 1)), rows, **options)
    assert NEW_OUTSIDE in safe.certificate.notes
    new = np.tile(np.append(0.0, np.zeros(5)), (5, 1))
    new[np.arange(5), 1 + np.arange(5)] = 7.0
    assert (safe.distance(new) >= 1).all()
    assert safe.predict_proba(new).max() <= 0.51
    assert safe.verify()
    for view in safe.covered.each_view:
        view.width.mul_(20.0)
    assert any("by themselves" in problem for problem in safe.verify().problems)


@pytest.mark.usefixtures("all_folds")
def test_categories_that_are_new_in_every_fold_are_nothing_to_wonder_about():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=400), np.arange(400) // 2])
    safe = guard(lambda X: np.tile([0.4, 0.6], (len(X), 1)), rows, categorical=[1])
    assert NEW_INSIDE in safe.certificate.notes
    assert safe.verify()


@pytest.mark.usefixtures("all_folds")
def test_a_dozen_categories_do_not_destroy_the_model():
    """Nearly every row is a combination of its own; pairs are not."""
    rng = np.random.default_rng(0)
    blocks, columns = [], []
    for index in range(13):
        kinds = 2 + index % 4
        start = sum(part.shape[1] for part in columns)
        columns.append(
            np.eye(kinds)[rng.choice(kinds, 700, p=np.arange(1, kinds + 1) / sum(range(kinds + 1)))]
        )
        blocks.append(tuple(range(start, start + kinds)))
    rows = np.hstack([*columns, rng.normal(size=(700, 3))])
    assert len(np.unique(rows[:, :-3], axis=0)) > 650
    safe = guard(answer, rows[:500], categorical=blocks)
    assert safe.certificate.held_out.high >= 0.99
    assert safe.is_inside(rows[500:]).mean() >= 0.97


def test_all_columns_may_be_categorical(quick):
    rows = np.eye(4)[np.random.default_rng(0).integers(0, 3, 60)]
    safe = guard(quick(4, 8, 2), rows, categorical=[(0, 1, 2, 3)])
    assert safe.certificate.training.share == 1.0
    assert safe.verify()
    assert safe.is_inside(np.eye(4)).tolist() == [True, True, True, False]
    assert safe.predict_proba(np.eye(4)[3:] * 1e5).max() <= 0.51


@pytest.mark.parametrize("columns", [[9], [0, 0], [(0, 0)], [-1], ["age"]])
def test_bad_categorical_columns(quick, columns):
    with pytest.raises(InputError, match="categorical"):
        guard(quick(3, 4, 2), rows_of(3), categorical=columns)


def test_a_promise_that_cannot_be_kept_says_what_can(quick):
    rows = rows_of(3)
    with pytest.raises(InputError, match=r"ask for radii >= [\d.]+") as caught:
        guard(quick(3, 8, 2), rows, radii=0.9)
    least = float(str(caught.value).split("radii >= ")[1])
    safe = guard(quick(3, 8, 2), rows, radii=1.02 * least)
    assert safe.certificate.radii <= 1.02 * least
    assert safe.verify()
    with pytest.raises(InputError, match="ask for epsilon >="):
        guard(quick(3, 8, 2), rows, epsilon=1e-9)


@pytest.mark.usefixtures("all_folds")
def test_a_guard_that_misses_its_share_is_not_made(quick):
    """Rows sorted by a drifting column: the last tenth is unlike the rest."""
    rows = rows_of(3, 400)
    other = rows_of(3, 60, seed=1) + 4.0
    with pytest.raises(InputError, match=r"held-out rows inside: \d+ of 60.*99% were asked") as e:
        guard(quick(3, 8, 2), rows, held_out=other)
    assert "keep=" in str(e.value)
    assert "column" in str(e.value)


@pytest.mark.usefixtures("all_folds")
@pytest.mark.parametrize("keep", [0.9, 0.99])
def test_new_rows_are_kept_as_asked(keep):
    shares = [
        guard(answer, rows_of(4, 500, seed), keep=keep, random_state=seed)
        .is_inside(rows_of(4, 1000, 50 + seed))
        .mean()
        for seed in range(2)
    ]
    assert np.mean(shares) >= keep - 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radii": -1.0}, "radii"),
        ({"radii": float("nan")}, "radii"),
        ({"epsilon": 0.7}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"keep": 1.0}, "keep"),
        ({"keep": "all"}, "keep"),
        ({"min_rows": 0}, "min_rows"),
        ({"held_out": 1.5}, "held_out"),
        ({"held_out": np.zeros((3, 9))}, "held_out"),
        ({"labels": [0, 1]}, "labels"),
        ({"labels": np.full(100, 7)}, "labels"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_options(quick, options, message):
    with pytest.raises(InputError, match=message):
        guard(quick(3, 4, 2), rows_of(3), **options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((50, 3), np.nan), "NaN"),
        (np.full((50, 3), np.inf), "infinite"),
        (np.full((50, 3), 1e300), "1e100"),
        (np.zeros((0, 3)), "rows|shape"),
        (np.zeros((50, 4)), "shape|4"),
    ],
)
def test_bad_rows(quick, rows, message):
    with pytest.raises((InputError, ValueError), match=message):
        guard(quick(3, 4, 2), rows)


class Normed(nn.Module):
    """Layer norm has no rule; the guard does not need one."""

    def __init__(self, *, head):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 2)
        self.head = head

    def forward(self, x):
        # Something that cannot be traced either.
        z = self.last(self.norm(self.first(x))) * (2.0 if float(x.abs().sum()) >= 0 else 1.0)
        return torch.softmax(z, dim=1) if self.head else z


@pytest.mark.parametrize("head", [False, True])
def test_a_module_that_cannot_be_read_is_guarded_too(head):
    model, rows = Normed(head=head), rows_of(3)
    safe = guard(model, rows)
    assert isinstance(safe, GuardedModel)
    own = model(torch.tensor(rows, dtype=torch.float32)).detach()
    own = own if head else torch.softmax(own, dim=1)
    inside = safe.is_inside(rows)
    assert np.array_equal(safe.predict_proba(rows)[inside], own.numpy()[inside])
    far = torch.randn(100, 3) * 1e5
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability
    with pytest.raises(InputError, match="export"):
        safe.save("unused.safetensors")
    with pytest.raises(CaptureError, match="could not be read"):
        _ = safe.network


def test_any_function_that_returns_probabilities():
    rows = rows_of(3, 200)
    safe = guard(answer, rows)
    assert isinstance(safe, GuardedFunction)
    inside = safe.is_inside(rows)
    assert np.array_equal(safe(rows)[inside], answer(rows)[inside])
    far = rows * 1e6
    assert safe(far).max() <= 0.51
    assert (safe(far).argmax(axis=1) == answer(far).argmax(axis=1)).all()
    assert safe.verify()
    bad = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [1e300, 0, 0]])
    assert safe(bad) == pytest.approx(0.5)
    assert "column 0 = nan" in str(safe.explain(bad[0]))
    assert safe(np.zeros((0, 3))).shape == (0, 2)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: np.zeros((len(X), 1, 1)), "shape"),
        (lambda X: np.full((len(X), 2), 2.0), "sum to one"),
        (lambda X: np.zeros((len(X), 2), dtype=int), "floating"),
        (lambda X: np.full((3, 2), 0.5), "shape"),
    ],
)
def test_functions_that_return_something_else(function, message):
    with pytest.raises(InputError, match=message):
        guard(function, rows_of(3))


def test_trees_take_no_value_beyond_single_precision(moons):
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(10, random_state=0).fit(*moons)
    safe = guard(forest, moons[0][:100])
    rows = np.vstack([moons[0][:3], [[1e300, 0.0]], [[np.nan, 0.0]]])
    p = safe.predict_proba(rows)
    assert p[3:] == pytest.approx(0.5)
    assert np.array_equal(p[:3], forest.predict_proba(moons[0][:3]))


@pytest.mark.usefixtures("all_folds")
def test_tables_with_words_and_gaps():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, 300).round(),
            "chol": rng.normal(245, 30, 300).round(),
            "ward": rng.choice(["a", "b", "c"], 300),
        }
    )
    table.loc[::7, "chol"] = np.nan

    def model(frame):
        return answer(frame[["age"]].to_numpy() - 50)

    safe = guard(model, table)
    assert safe.is_inside(table).mean() > 0.98
    row = table.iloc[[1]]
    assert safe.explain(row).inside
    assert "chol = 0 is below every training value" in str(safe.explain(row.assign(chol=0.0)))
    assert "age = nan" in str(safe.explain(row.assign(age=np.nan)))
    assert safe.explain(row.assign(chol=np.nan)).view != "values"
    new = safe.explain(row.assign(ward="z"))
    assert not new.inside
    assert (new.view, new.column) == ("categories", "ward")
    with pytest.raises(InputError, match="another order"):
        safe.predict_proba(table[["chol", "age", "ward"]])
    with pytest.raises(InputError, match="lacks age"):
        safe.predict_proba(table[["chol", "ward"]])
    with pytest.raises(InputError, match="words in age"):
        safe.predict_proba(row.assign(age="old"))


def test_labels_let_the_covered_set_know_the_likelihood(classifier, moons):
    X, y = moons
    with_labels = guard(classifier, X, labels=y).certificate
    assert with_labels.training.share >= 0.99


def test_explain_names_the_column_and_the_values(quick):
    rows = np.abs(rows_of(3, 300)) + 1.0
    safe = guard(quick(3, 4, 2), rows)
    found = safe.explain([-40.0, 1.5, 1.5])
    assert (found.inside, found.column) == (False, "column 0")
    assert found.distance > 1
    inside = safe.explain(rows[0])
    assert inside.inside
    assert str(inside).startswith("inside")
    with pytest.raises(InputError, match="one row"):
        safe.explain(rows[:2])


def test_look_says_everything_at_once(quick):
    rows = rows_of(3, 300)
    safe = guard(quick(3, 4, 2), rows)
    found = safe.look(np.vstack([rows[:5], [[0.0, 99.0, 0.0]], [[0.0, 0.0, np.nan]]]))
    assert found.inside.tolist()[5:] == [False, False]
    assert found.column.tolist()[5:] == ["column 1", "column 2"]
    assert found.distance[6] == np.inf
    assert found.guarded.shape == (7, 2)


def test_every_category_of_all_rows_is_known(monkeypatch):
    """Views are fitted to a sample, and a tenth of the rows is only counted."""
    monkeypatch.setattr("farfield.guard.fit.FITTED_ROWS", 300)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(5000, 2)).astype(float)
    codes[:, 1] = np.where(codes[:, 0] == 0, 0.0, codes[:, 1])
    rows = np.column_stack([rng.normal(size=(5000, 2)), codes])
    for place, pair in enumerate([(7.0, 1.0), (0.0, 2.0), (1.0, 8.0)]):
        rows[place, 2:] = pair
    for seed in range(3):
        safe = guard(answer, rows, categorical=[2, 3], random_state=seed)
        middle = np.zeros((5, 4))
        middle[:, 2:] = [(7.0, 1.0), (0.0, 2.0), (1.0, 8.0), (0.0, 1.0), (5.0, 0.0)]
        scores = safe.covered.each_view[-1].score(safe.covered.place(torch.from_numpy(middle))[0])
        assert scores[:4].tolist() == [0.0, 0.0, 0.0, 1.0]
        assert scores[4] >= 2.0
        assert "never occurred together" in str(safe.explain(middle[3]))
        assert "no training row had" in str(safe.explain(middle[4]))
        assert safe.verify()


def test_too_many_categories_are_refused(monkeypatch):
    assert categories.MOST_CATEGORIES == 4096
    monkeypatch.setattr(categories, "MOST_CATEGORIES", 400)  # as many as rows, which take time
    rows = np.column_stack([np.zeros(500), np.arange(500.0)])
    with pytest.raises(InputError, match=r"more than 400 .* column 1 \(counted from 0\)"):
        guard(answer, rows, categorical=[1])


def test_one_number_is_the_probability_of_the_second_class():
    rows = rows_of(2)
    safe = guard(lambda X: answer(X)[:, 1], rows)
    assert np.array_equal(safe.predict_proba(rows[:5])[:, 1], answer(rows[:5])[:, 1])
    assert safe.predict_proba(1e6 * rows).max() <= 0.51
