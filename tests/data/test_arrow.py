"""CSV and parquet as tables: what is read, what is refused and how the refusal reads."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from farfield.data import open_table
from farfield.data.arrow import arrow_column
from farfield.errors import InputError

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
    rows = table.read()
    assert rows.X.dtype == np.float64
    assert rows.X.tolist() == [[1.0, 2.5], [3.0, -400.0], [5.0, 6.0]]
    assert table.feature_names == ("a", "b")
    assert (rows.y.dtype, rows.y.tolist()) == (np.int64, [0, 1, 1])
    assert (table.label, table.class_names, table.fills) == ("y", ("0", "1"), {})


def test_plain_numbers(csv):
    check_plain(open_table(csv(PLAIN), label="y"))
    check_plain(open_table(str(csv(PLAIN)), label="y"))
    unlabelled = open_table(csv(PLAIN))
    assert (unlabelled.read().X.shape, unlabelled.read().y) == ((3, 3), None)


@pytest.mark.parametrize("name", ["data.csv.gz", "data.csv", "data"])
def test_gzip_is_seen_from_the_content(csv, name):
    check_plain(open_table(csv(gzip.compress(PLAIN.encode()), name), label="y"))


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN + "\n\n",
        PLAIN.rstrip("\n"),
        PLAIN.replace("a,b,y", ' a,"b", y '),
        PLAIN.replace("1,2.5", " 1, 2.5"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
    ],
    ids=[
        "windows", "byte order mark", "blank lines", "no newline", "spaces", "spaces in cells",
        "semicolons", "tabs",
    ],
)  # fmt: skip
def test_variants_of_plain_files(csv, content):
    check_plain(open_table(csv(content), label="y"))


def test_labels_of_every_kind(csv):
    text = open_table(csv("x,who\n1,lion\n2,cat\n3,lion\n"), label="who")
    assert (text.class_names, text.read().y.tolist()) == (("cat", "lion"), [1, 0, 1])
    whole = open_table(csv("x,y\n1,10.0\n2,9\n"), label="y")
    assert (whole.class_names, whole.read().y.tolist()) == (("9", "10"), [1, 0])
    boolean = open_table(csv("x,y\n1,true\n2,false\n"), label="y")
    assert boolean.class_names == ("False", "True")
    target = open_table(csv("x,y\n1,0.5\n2,7\n"), label="y", label_kind="number")
    assert (target.class_names, target.read().y.tolist()) == (None, [0.5, 7.0])


MISSING = "a,b,y\n1,,0\n?,5,1\n4,NA,1\n4,nan,0\n"


@pytest.mark.parametrize(
    ("impute", "value"), [("mean", 3.0), ("median", 4.0), ("most_frequent", 4.0)]
)
def test_missing_values_are_filled_on_request(csv, impute, value):
    table = open_table(csv(MISSING), label="y", impute=impute)
    assert table.read().X.tolist() == [[1, 5], [value, 5], [4, 5], [4, 5]]
    assert table.fills == {"a": value, "b": 5.0}


def test_text_takes_its_most_frequent_value_and_ties_the_smallest(csv):
    table = open_table(csv("a,b\nx,1\n,2\ny,2\n,1\ny,\n"), impute="mean")
    assert table.fills == {"a": "y", "b": 1.5}
    assert table.read().X[:, :2].tolist() == [[1, 0], [0, 1], [0, 1], [0, 1], [0, 1]]
    tie = open_table(csv("a,b\n2,0\n1,0\n,0\n"), impute="most_frequent")
    assert tie.fills["a"] == 1.0


TEXT = "age,ward,smokes,code\n30,b,true,2\n40,a,false,10\n50,b,true,2\n"


def test_text_is_spread_out_and_numbers_on_request(csv):
    table = open_table(csv(TEXT))
    assert table.feature_names == ("age", "ward=a", "ward=b", "smokes=False", "smokes=True", "code")
    assert table.read().X[0].tolist() == [30, 0, 1, 0, 1, 2]
    named = open_table(csv(TEXT), categorical=["code"], ignore=["smokes"])
    assert named.feature_names == ("age", "ward=a", "ward=b", "code=2", "code=10")


def test_like_an_earlier_table_with_labels(csv):
    first = open_table(csv(TEXT), label="code", impute="mean")
    later = "extra,smokes,age,ward,code\n9,false,,a,10\n8,,20,b,10\n"
    table = open_table(csv(later, "later.csv"), label="code", like=first)
    assert table.feature_names == first.feature_names
    assert table.read().X.tolist() == [[40, 1, 0, 1, 0], [20, 0, 1, 0, 1]]
    assert (table.class_names, table.read().y.tolist()) == (("2", "10"), [1, 1])
    unknown = csv(later.replace(",b,10", ",b,3"), "later.csv")
    with pytest.raises(InputError, match=r"'code' holds '3' \(1 row\); the known classes are '2'"):
        open_table(unknown, label="code", like=first)


def test_a_file_names_its_own_columns(csv):
    with pytest.raises(InputError, match="features cannot name them"):
        open_table(csv(PLAIN), features=["u", "v", "w"])
    with pytest.raises(InputError, match="name it with label"):
        open_table(csv(PLAIN), [0, 1, 1])


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
    table = open_table(path, label="y")
    assert table.feature_names == ("i", "f", "d", "s=u", "s=v", "c=p", "c=q", "b=False", "b=True")
    assert table.read().X[1].tolist() == [2, 1.5, 2, 0, 1, 0, 1, 1, 0]
    assert (table.class_names, table.read().y.tolist()) == (("no", "yes"), [0, 1, 0])


def test_parquet_follows_the_rules_of_csv(parquet):
    path = parquet({"a": pa.array([1.0, None, 4.0]), "b": pa.array([[1], [2], [3]])})
    with pytest.raises(InputError, match=r"data.parquet.*'b' \(list"):
        open_table(path)
    with pytest.raises(InputError, match=r"'a' \(1 missing"):
        open_table(path, ignore=["b"])
    assert open_table(path, ignore=["b"], impute="mean").read().X.tolist() == [[1], [2.5], [4]]
    with pytest.raises(InputError, match="infinite"):
        open_table(parquet({"a": pa.array([np.inf])}))
    with pytest.raises(InputError, match="no data rows"):
        open_table(parquet({"a": pa.array([], pa.int64())}))
    path = parquet({"a": pa.array(["x", None, "x"]).dictionary_encode()})
    assert open_table(path, impute="mean").read().X.tolist() == [[1], [1], [1]]


def test_broken_parquet_is_refused_by_name(parquet, csv):
    whole = parquet({"a": pa.array(range(1000))}).read_bytes()
    for content in (whole[:-10], whole[: len(whole) // 2], b"PAR1", b""):
        with pytest.raises(InputError, match=r"cut\.parquet"):
            open_table(csv(content, "cut.parquet"))


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match=r"occur twice: \['a'\]"):
        open_table(tmp_path / "twice.parquet")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1.0, None, 3.0]), [1.0, np.nan, 3.0]),
        (pa.array([None, 1, 2, None]).slice(2), [2.0, np.nan]),
        (pa.array([1.5, 2.5, 3.5], pa.float32()).slice(1, 1), [2.5]),
        (pa.chunked_array([[1, 2], [], [None, 4]]), [1.0, 2.0, np.nan, 4.0]),
        (pa.chunked_array([], pa.int64()), []),
        (pa.array([None, None], pa.int8()), [np.nan, np.nan]),
        (pa.array([True, None, False, True]).slice(1), [-1, 0, 1]),
        (pa.array(["b", None, "a", "b"]).dictionary_encode().slice(1), [-1, 0, 1]),
    ],
)
def test_numbers_are_read_from_slices_chunks_and_gaps(column, values):
    np.testing.assert_array_equal(arrow_column("x", column, "here").values, values)
