"""``ff.entry_errors``: all rows in chunks, exact, against counts made one by one."""

import numpy as np
import pytest

import farfield as ff
from farfield.audit import entry_errors as module
from farfield.errors import InputError

RNG = np.random.default_rng(1)
X = np.round(RNG.uniform(1.0, 9.0, (400, 2)), 1)
Y = (X[:, 0] > 5).astype(int)


def model(rows):
    z = np.clip(np.asarray(rows)[:, 0] - 5, -30, 30)
    p = 1 / (1 + np.exp(-z))
    return np.column_stack([1 - p, p])


def named(found, column, error):
    (each,) = [m for m in found.mistakes if (m.column, m.error) == (column, error)]
    return each


def test_shares_of_all_rows_are_exact():
    found = ff.entry_errors(model, X, Y, features=["a", "b"])
    each = named(found, "a", "times 10")
    wrong = X.copy()
    wrong[:, 0] *= 10
    before, after = model(X), model(wrong)
    assert found.exact
    assert found.of == each.rows == 400
    assert each.flips == (before.argmax(1) != after.argmax(1)).mean()
    assert each.rises == (after.max(1) > before.max(1)).mean()
    assert each.certain == (after.max(1) >= 0.99).mean()
    assert each.spoils == ((before.argmax(1) == Y) & (after.argmax(1) != Y)).mean()
    limit = np.quantile(1 - before.max(1), 0.99, method="higher")
    assert each.noticed["one_minus_max_probability"] == (1 - after.max(1) > limit).mean()
    assert each.noticed["range"] == pytest.approx((wrong[:, 0] > 9).mean(), abs=0.02)
    assert named(found, "b", "times 10").flips == 0.0


def test_nothing_was_entered_where_values_are_missing():
    whole = np.round(X)
    rows = whole.copy()
    rows[:60, 0] = np.nan
    found = ff.entry_errors(model, rows, features=["a", "b"], impute="mean")
    assert np.nanmean(rows[:, 0]) % 1
    assert "decimal point lost" not in {each.error for each in found.mistakes}
    each = named(found, "a", "times 10")
    assert each.rows == 340
    before, after = model(whole[60:]), model(whole[60:] * [10, 1])
    assert each.flips == (before.argmax(1) != after.argmax(1)).mean()
    assert {each.rows for each in found.mistakes if each.column == "b"} == {400}


def test_chunks_change_nothing(monkeypatch):
    whole = ff.entry_errors(model, X, Y, features=["a", "b"])
    monkeypatch.setattr(module, "rows_together", lambda width: 37)
    assert ff.entry_errors(model, X, Y, features=["a", "b"]) == whole


def test_some_rows_carry_intervals():
    found = ff.entry_errors(model, X, features=["a", "b"], rows=100)
    each = named(found, "a", "times 10")
    assert (found.sampled, found.of, found.exact) == (100, 400, False)
    assert each.flips.low < each.flips.value < each.flips.high
    assert each.spoils is None


def test_more_rows_than_are_in_memory_are_sampled_from_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REFERENCE", 50)
    path = tmp_path / "rows.csv"
    lines = ["a,b", *(f"{a},{b}" for a, b in X)]
    path.write_text("\n".join(lines))
    found = ff.entry_errors(model, path, rows=100)
    assert found.sampled == 100
    assert named(found, "a", "times 10").rows == 100


def test_the_worst_rows_are_told_by_their_number():
    found = ff.entry_errors(model, X, features=["a", "b"])
    assert 0 < len(found.worst) <= 10
    assert all(text.startswith("a ") or "b " in text for text in found.worst)
    assert " in row " in found.worst[0]
    assert "Errors of data entry, worst first" in str(found)
    assert found.worst[0] in str(found)


def test_a_guard_is_asked_too():
    found = ff.entry_errors(model, X, Y, features=["a", "b"], guard=True, rows=100)
    assert named(found, "a", "times 1000").noticed["guard"].value == 1.0


def test_what_has_no_classes_or_no_columns_is_refused():
    with pytest.raises(InputError, match="images"):
        ff.entry_errors(lambda x: np.full((len(x), 2), 0.5), np.zeros((4, 1, 8, 8)))
    with pytest.raises(InputError, match="from 1 on"):
        ff.entry_errors(model, X, rows=0)
