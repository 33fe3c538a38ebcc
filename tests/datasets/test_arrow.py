"""CSV and parquet: what is read, what is refused and how the refusal reads."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from farfield.datasets import Table, read_csv, read_parquet
from farfield.errors import InputError, MissingDependency

PLAIN = "a,b,y\n1,2.5,0\n3,-4e2,1\n5,6,1\n"


@pytest.fixture
def csv(tmp_path):
    """Write text or bytes to a file and return its path."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def parquet(tmp_path):
    def write(columns, name="data.parquet"):
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return write


def check_plain(table):
    assert isinstance(table, Table)
    assert table.X.dtype == np.float64
    assert table.X.tolist() == [[1.0, 2.5], [3.0, -400.0], [5.0, 6.0]]
    assert table.feature_names == ("a", "b")
    assert table.y is not None
    assert (table.y.dtype, table.y.tolist()) == (np.int64, [0, 1, 1])
    assert (table.label_name, table.classes) == ("y", (0, 1))
    assert (table.categories, table.fills) == ({}, {})


def test_plain_numbers(csv):
    check_plain(read_csv(csv(PLAIN), label="y"))
    assert read_csv(str(csv(PLAIN)), label="y").classes == (0, 1)
    unlabelled = read_csv(csv(PLAIN))
    assert (unlabelled.X.shape, unlabelled.y, unlabelled.classes) == ((3, 3), None, None)


@pytest.mark.parametrize("name", ["data.csv.gz", "data.csv", "data"])
def test_gzip_is_seen_from_the_content(csv, name):
    check_plain(read_csv(csv(gzip.compress(PLAIN.encode()), name), label="y"))


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN + "\n\n",
        PLAIN.rstrip("\n"),
        PLAIN.replace("a,b,y", ' a,"b", y '),
        PLAIN.replace("1,2.5", " 1, 2.5"),
    ],
    ids=["windows", "byte order mark", "blank lines", "no newline", "spaces", "spaces in cells"],
)
def test_variants_of_plain_files(csv, content):
    check_plain(read_csv(csv(content), label="y"))


def test_other_delimiters(csv):
    check_plain(read_csv(csv(PLAIN.replace(",", ";")), label="y", delimiter=";"))
    check_plain(read_csv(csv(PLAIN.replace(",", "\t")), label="y", delimiter="\t"))
    with pytest.raises(InputError, match=r"pass delimiter=';'"):
        read_csv(csv(PLAIN.replace(",", ";")))
    with pytest.raises(InputError, match="one character"):
        read_csv(csv(PLAIN), delimiter="::")


def test_labels_of_every_kind(csv):
    text = read_csv(csv("x,who\n1,lion\n2,cat\n3,lion\n"), label="who")
    assert text.y is not None
    assert (text.classes, text.y.tolist()) == (("cat", "lion"), [1, 0, 1])
    whole = read_csv(csv("x,y\n1,10.0\n2,9\n"), label="y")
    assert whole.y is not None
    assert (whole.classes, whole.y.tolist()) == ((9, 10), [1, 0])
    boolean = read_csv(csv("x,y\n1,true\n2,false\n"), label="y")
    assert boolean.classes == ("False", "True")
    target = read_csv(csv("x,y\n1,0.5\n2,7\n"), label="y", label_kind="number")
    assert target.y is not None
    assert (target.classes, target.y.tolist()) == (None, [0.5, 7.0])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("x,y\n1,0.5\n", {"label": "y"}, r"fractions such as 0.5.*label_kind='number'"),
        ("x,y\n1,a\n", {"label": "y", "label_kind": "number"}, r"not numbers: 'a' in data row 1"),
        ("x,y\n1,\n2,1\n", {"label": "y", "impute": "mean"}, r"'y' has 1 missing values"),
        ("x,y\n1,1e999\n", {"label": "y"}, r"'y' holds an infinite"),
        ("x,y\n1,2020-01-01\n", {"label": "y"}, r"date32"),
        ("x,y\n1,2\n", {"label": "z"}, r"no column \['z'\].*\['x', 'y'\]"),
        ("x,y\n1,2\n", {"label_kind": "classes"}, r"'class' or 'number'"),
        ("x,y\n1,2\n", {"impute": "zero"}, r"'most_frequent'; got 'zero'"),
        ("x,y\n1,2\n", {"drop": ["q"]}, r"no column \['q'\]"),
        ("x,y\n1,2\n", {"drop": "x"}, r"list of column names"),
        ("x,y\n1,2\n", {"drop": ["x", "y"]}, r"no feature columns"),
    ],
)
def test_bad_labels_and_options_are_refused(csv, content, options, message):
    with pytest.raises(InputError, match=message):
        read_csv(csv(content), **options)


MISSING = "a,b,y\n1,,0\n?,5,1\n4,NA,1\n4,nan,0\n"


def test_missing_values_are_refused_by_column(csv):
    with pytest.raises(InputError, match=r"data.csv.*'a' \(1 missing\), 'b' \(3 missing\).*impute"):
        read_csv(csv(MISSING), label="y")


@pytest.mark.parametrize(
    ("impute", "value"), [("mean", 3.0), ("median", 4.0), ("most_frequent", 4.0)]
)
def test_missing_values_are_filled_on_request(csv, impute, value):
    table = read_csv(csv(MISSING), label="y", impute=impute)
    assert table.X.tolist() == [[1, 5], [value, 5], [4, 5], [4, 5]]
    assert table.fills == {"a": value, "b": 5.0}


def test_text_takes_its_most_frequent_value_and_ties_the_smallest(csv):
    table = read_csv(csv("a,b\nx,1\n,2\ny,2\n,1\ny,\n"), one_hot=True, impute="mean")
    assert table.fills == {"a": "y", "b": 1.5}
    assert table.X[:, :2].tolist() == [[1, 0], [0, 1], [0, 1], [0, 1], [0, 1]]
    tie = read_csv(csv("a,b\n2,0\n1,0\n,0\n"), impute="most_frequent")
    assert tie.fills["a"] == 1.0


def test_a_column_without_values_is_refused(csv):
    with pytest.raises(InputError, match=r"without a single value: \['b'\]"):
        read_csv(csv("a,b\n1,\n2,\n"), impute="mean")


TEXT = "age,ward,smokes,code\n30,b,true,2\n40,a,false,10\n50,b,true,2\n"


def test_text_is_refused_with_its_first_value(csv):
    with pytest.raises(InputError, match=r"'ward' \(text, 'b' in data row 1\), 'smokes' \(boolean"):
        read_csv(csv(TEXT))
    with pytest.raises(InputError, match=r"'a' \(text, 'oops' in data row 3\)"):
        read_csv(csv("a\n1\n2\noops\n4\n"))
    with pytest.raises(InputError, match=r"'a' \(date32"):
        read_csv(csv("a,b\n2020-01-01,1\n"), one_hot=True)


def test_text_is_spread_out_on_request(csv):
    table = read_csv(csv(TEXT), one_hot=True)
    assert table.feature_names == ("age", "ward=a", "ward=b", "smokes=False", "smokes=True", "code")
    assert table.X[0].tolist() == [30, 0, 1, 0, 1, 2]
    assert table.categories == {"ward": ("a", "b"), "smokes": ("False", "True")}
    assert table.feature_names[table.block("ward")] == ("ward=a", "ward=b")
    named = read_csv(csv(TEXT), one_hot=["ward", "code"], drop=["smokes"])
    assert named.feature_names == ("age", "ward=a", "ward=b", "code=2", "code=10")
    with pytest.raises(InputError, match="'smokes'"):
        read_csv(csv(TEXT), one_hot=["ward"])


def test_identifiers_are_not_spread_out(csv):
    rows = "\n".join(f"{k},name{k}" for k in range(300))
    with pytest.raises(InputError, match=r"'who' has 300 different values.*drop=\['who'\]"):
        read_csv(csv(f"x,who\n{rows}\n"), one_hot=True)


def test_category_names_that_collide_are_refused(csv):
    with pytest.raises(InputError, match="same name"):
        read_csv(csv("a,a=x\nx,1\ny,2\n"), one_hot=True)


def test_like_an_earlier_table(csv):
    first = read_csv(csv(TEXT), label="code", one_hot=True, impute="mean")
    later = "extra,smokes,age,ward,code\n9,false,,a,10\n8,,20,b,10\n"
    table = read_csv(csv(later, "later.csv"), label="code", like=first)
    assert table.feature_names == first.feature_names
    assert table.X.tolist() == [[40, 1, 0, 1, 0], [20, 0, 1, 0, 1]]
    assert table.y is not None
    assert (table.classes, table.y.tolist()) == ((2, 10), [1, 1])


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ("age,ward\n1,a\n", r"columns \['smokes'\], this file does not"),
        ("age,ward,smokes,code\n1,c,true,2\n", r"'ward' holds 'c'.*Known: 'a', 'b'"),
        ("age,ward,smokes,code\n,a,true,2\n1,a,true,2\n", r"'age' \(1 missing\).*earlier table"),
        ("age,ward,smokes,code\nold,a,true,2\n", r"'age' \(text, 'old' in data row 1\)"),
        ("age,ward,smokes,code\n1,a,true,3\n", r"label column 'code' holds \['3'\]"),
    ],
)
def test_what_does_not_fit_the_earlier_table_is_refused(csv, later, message):
    first = read_csv(csv(TEXT), label="code", one_hot=True)
    label = "code" if "code" in later else None
    with pytest.raises(InputError, match=message):
        read_csv(csv(later, "later.csv"), label=label, like=first)


WHOLE_GZIP = gzip.compress(("a,b\n" + "1,2\n" * 5000).encode(), mtime=0)

BROKEN = {
    "empty": (b"", "data.csv: the file is empty"),
    "blank": (b" \n\n", "the file is empty"),
    "header only": (b"a,b\n", "no data rows"),
    "cut off gzip": (WHOLE_GZIP[:-20], "cut off or damaged"),
    "damaged gzip": (WHOLE_GZIP[:30] + b"xxxx" + WHOLE_GZIP[34:], "cut off or damaged"),
    "gzip of nothing": (gzip.compress(b"", mtime=0), "the file is empty"),
    "short row": (b"a,b\n1,2\n3\n", "Expected 2 columns, got 1: 3"),
    "long row": (b"a,b\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
    "same name twice": (b"a,b,a\n1,2,3\n", r"occur twice: \['a'\]"),
    "no name": (b"a,,c\n1,2,3\n", "column 2 of 3 has no name"),
    "no header": (b"1,2\n3,4\n", r"first line holds numbers \(1, 2\)"),
    "parquet": (b"PAR1\x15\x04", "use read_parquet"),
    "npz": (b"PK\x03\x04\x14", "use read_npz"),
    "picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a single picture"),
    "zero bytes": (b"a,b\n1,2\0\n", "zero bytes"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "latin-1 header": ("é,b\n1,2\n".encode("latin-1"), "header is not UTF-8"),
    "latin-1 cells": ("a,b\né,2\n".encode("latin-1"), "'a' is not UTF-8"),
    "too large": (b"a,b\n1,2\n1e400,3\n", r"'a' holds an infinite number, first in data row 2"),
    "infinity": (b"a,b\n-inf,2\n", "infinite"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_files_are_refused_by_name(csv, fault):
    content, message = BROKEN[fault]
    with pytest.raises(InputError, match=message) as caught:
        read_csv(csv(content))
    assert "data.csv" in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path):
    for read in (read_csv, read_parquet):
        with pytest.raises(InputError, match=r"absent.*No such file"):
            read(tmp_path / "absent")
        with pytest.raises(InputError, match="folder"):
            read(tmp_path)


def test_parquet_of_every_type(parquet):
    path = parquet(
        {
            "i": pa.array([1, 2, 3], pa.int8()),
            "f": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "d": pa.array([1, 2, 3], pa.decimal128(5, 2)),
            "s": pa.array(["u", "v", "u"]),
            "c": pa.array(["p", "q", "p"]).dictionary_encode(),
            "b": pa.array([True, False, True]),
            "y": pa.array(["no", "yes", "no"], pa.large_string()),
            "__index_level_0__": pa.array([7, 8, 9]),
        }
    )
    table = read_parquet(path, label="y", one_hot=True)
    assert table.feature_names == ("i", "f", "d", "s=u", "s=v", "c=p", "c=q", "b=False", "b=True")
    assert table.X[1].tolist() == [2, 1.5, 2, 0, 1, 0, 1, 1, 0]
    assert table.y is not None
    assert (table.classes, table.y.tolist()) == (("no", "yes"), [0, 1, 0])


def test_parquet_follows_the_rules_of_csv(parquet):
    path = parquet({"a": pa.array([1.0, None, 4.0]), "b": pa.array([[1], [2], [3]])})
    with pytest.raises(InputError, match=r"data.parquet.*'b' \(list"):
        read_parquet(path, one_hot=True)
    with pytest.raises(InputError, match=r"'a' \(1 missing\)"):
        read_parquet(path, drop=["b"])
    assert read_parquet(path, drop=["b"], impute="mean").X.tolist() == [[1], [2.5], [4]]
    with pytest.raises(InputError, match="infinite"):
        read_parquet(parquet({"a": pa.array([np.inf])}))
    with pytest.raises(InputError, match="no data rows"):
        read_parquet(parquet({"a": pa.array([], pa.int64())}))
    dictionary = read_parquet(
        parquet({"a": pa.array(["x", None, "x"]).dictionary_encode()}), one_hot=True, impute="mean"
    )
    assert dictionary.X.tolist() == [[1], [1], [1]]


def test_broken_parquet_is_refused_by_name(parquet, csv):
    whole = parquet({"a": pa.array(range(1000))}).read_bytes()
    for content in (whole[:-10], whole[: len(whole) // 2], b"PAR1", PLAIN.encode(), b""):
        with pytest.raises(InputError, match=r"cut\.parquet"):
            read_parquet(csv(content, "cut.parquet"))


def test_missing_pyarrow_names_the_extra(csv, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, module, None)
    for read in (read_csv, read_parquet):
        with pytest.raises(MissingDependency, match=r"farfield\[data\]"):
            read(csv(PLAIN))


def test_a_parquet_bomb_is_refused_by_its_size(parquet, monkeypatch):
    path = parquet({"a": pa.array(np.zeros(200_000))})
    assert path.stat().st_size < 10_000
    monkeypatch.setattr("farfield.datasets.arrow.MOST_BYTES", 1 << 20)
    with pytest.raises(InputError, match=r"1,600,000 bytes or more"):
        read_parquet(path)


def test_a_gzip_bomb_is_refused_by_its_size(csv, monkeypatch):
    path = csv(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000_000))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr("farfield.datasets.content.MOST_BYTES", 1 << 20)
    with pytest.raises(InputError, match="too much to load whole"):
        read_csv(path)


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="two columns are named 'a'"):
        read_parquet(tmp_path / "twice.parquet")
