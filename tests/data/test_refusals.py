"""Bad tables: what is wrong, in which column and row, and what to do."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from farfield.data import open_table
from farfield.errors import InputError


@pytest.fixture
def csv(tmp_path):
    def write(text):
        path = tmp_path / "data.csv"
        path.write_text(text)
        return path

    return write


MANY = "\n".join(f"{k},name{k},{k % 2}" for k in range(300))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n", {}, "there are no data rows"),
        ("a,b\n1,inf\n2,3\n", {}, "'b' holds an infinite number, first in data row 1"),
        ("a,b\n1,2\n2,1e999\n", {}, "'b' holds an infinite number, first in data row 2"),
        ("a,b\n1,2\n,3\n", {}, r"'a' \(1 missing, first in data row 2\)"),
        ("a,b\n1,\n2,\n", {"impute": "mean"}, "without a single value: 'b'"),
        ("a,Outcome\n1,0\n2,1\n", {"label": "outcome"}, "no column 'outcome'.*mean 'Outcome'"),
        ("a,b\n1,0\n2,1\n", {"label": "target"}, "no column 'target'.*The columns are 'a', 'b'"),
        ("a,y\n1,0\n2,0\n", {"label": "y"}, "one class only: '0'"),
        ("a,y\n1,0.5\n2,1\n", {"label": "y"}, "fractions such as 0.5.*label_kind='number'"),
        ("a,y\n1,x\n2,z\n", {"label": "y", "label_kind": "number"}, "not numbers: 'x' in data ro"),
        ("a,y\n1,0\n2,\n", {"label": "y"}, "1 missing values, first in data row 2"),
        ("y\n1\n0\n", {"label": "y"}, "no feature columns are left"),
        ("a,b\n1,2\n3,4\n", {"ignore": ["a", "b"]}, "no feature columns are left"),
        ("a,b\n1,2\n3,4\n", {"ignore": ["c"]}, "column 'c' of ignore is not in the table"),
        ("a,b\n1,2\n3,4\n", {"categorical": "a"}, "list of column names"),
        ("a,b\n1,2\n3,4\n", {"categorical": ["A"]}, "Did you mean 'a'"),
        ("a,b\n1,2\n3,4\n", {"impute": "zero"}, "'most_frequent'; got 'zero'"),
        ("a,b\n1,2\n3,4\n", {"label_kind": "x"}, "'class' or 'number'"),
        (f"n,who,y\n{MANY}\n", {"label": "y"}, r"'who' has 300 different.*--ignore 'who'"),
        ("a,b\n1,2\noops,3\n3,4\n", {}, r"text in columns of numbers: 'a' \('oops' in data row 2"),
        ("a,a=x\nx,1\ny,2\n", {}, "same name, 'column=value'"),
    ],
)
def test_what_is_wrong_is_said(csv, text, options, message):
    with pytest.raises(InputError, match=message) as caught:
        open_table(csv(text), **options)
    assert {"impute", "categorical", "label_kind"} & set(options) or "data.csv" in str(caught.value)


def test_a_typing_error_may_be_declared_a_category(csv):
    table = open_table(csv("a,b\n1,2\noops,3\n3,4\n"), categorical=["a"])
    assert table.feature_names == ("a=1", "a=3", "a=oops", "b")


def test_dates_and_lists_are_named(tmp_path):
    pq.write_table(
        pa.table({"d": pa.array([1, 2], pa.date32()), "l": [[1], [2]], "x": [1.0, 2.0]}),
        tmp_path / "d.parquet",
    )
    with pytest.raises(InputError, match=r"'d' \(date32\[day\]\), 'l' \(list.*ignore"):
        open_table(tmp_path / "d.parquet")
    assert open_table(tmp_path / "d.parquet", ignore=["d", "l"]).feature_names == ("x",)


def test_one_row_is_enough(csv):
    table = open_table(csv("a,b\n1,x\n"))
    assert (table.n_rows, table.constant) == (1, ("a", "b"))
    assert table.summary.std.tolist() == [0.0, 0.0]
    assert len(table.sample(10)) == 1


def test_thousands_of_columns(csv):
    header = ",".join(f"f{k}" for k in range(3000))
    rows = "\n".join(",".join(str(k % 7 + r) for k in range(3000)) for r in range(3))
    table = open_table(csv(f"{header}\n{rows}\n"))
    assert table.shape == (3000,)
    chunks = [part for part, _ in table.chunks(2)]
    assert np.concatenate(chunks).shape == (3, 3000)
    assert table.summary.mean[5] == 6.0
    with pytest.raises(InputError, match="takes 30 features, the table gives 3000"):
        table.fit_to(30)


def test_numbers_that_leave_float32():
    table = open_table([[1e300], [1.0]])
    with pytest.raises(InputError, match=r"1e\+300 leave the range of float32"):
        list(table.chunks())
    assert table.read().X.max() == 1e300
    with pytest.raises(InputError, match="float32 or float64"):
        list(table.chunks(dtype=np.int64))
    with pytest.raises(InputError, match="size=0"):
        list(table.chunks(0))


def test_a_file_that_changes_under_us(csv):
    path = csv("a,b\n1,x\n2,y\n")
    table = open_table(path)
    path.write_text("a,b\nfoo,x\n2,y\n")
    with pytest.raises(InputError, match="'a' changed while"):
        table.read()
    path.write_text("a,b\n1,x\n2,z\n")
    with pytest.raises(InputError, match="'b' changed while"):
        table.read()


def test_identifiers_do_not_fill_the_memory(csv, monkeypatch):
    monkeypatch.setattr("farfield.data.scan._MOST_WORDS", 20)
    monkeypatch.setattr("farfield.data.scan._BLOCK", 60)
    with pytest.raises(InputError, match="'y' holds more than"):
        open_table(csv("n,y\n" + "\n".join(f"{k},w{k}" for k in range(300))), label="y")
    monkeypatch.setattr("farfield.data.layout._MOST_CATEGORIES", 10)
    with pytest.raises(InputError, match="'y' has more than"):
        open_table(csv("n,y\n" + "\n".join(f"{k},w{k}" for k in range(300))))


def test_frames_that_hold_no_rows_yet():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    lazy = polars.DataFrame({"a": [1.0, 2.0]}).lazy()
    with pytest.raises(InputError, match=r"X: a LazyFrame holds no rows yet; .* collect\(\)"):
        open_table(lazy, [0, 1])
