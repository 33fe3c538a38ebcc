"""Tables to audit: the same numbers from every format, in pieces of every size."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.data import open_table, parse_schema
from farfield.errors import InputError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.uniform(20, 90, 500),
        "ward": RNG.choice(["c", "a", "b"], 500),
        "dose": RNG.normal(size=500),
        "smokes": RNG.random(500) < 0.3,
        "grade": RNG.integers(1, 4, 500),
        "died": RNG.choice(["yes", "no"], 500),
    }
)
NAMES = (
    *("age", "ward=a", "ward=b", "ward=c", "dose", "smokes=False", "smokes=True"),
    *("grade=1", "grade=2", "grade=3"),
)


def expected():
    X = np.column_stack(
        [FRAME["age"]]
        + [FRAME["ward"] == ward for ward in "abc"]
        + [FRAME["dose"], ~FRAME["smokes"], FRAME["smokes"]]
        + [FRAME["grade"] == grade for grade in (1, 2, 3)]
    ).astype(float)
    return X, (FRAME["died"] == "yes").to_numpy().astype(int)


@pytest.fixture(params=["csv", "csv.gz", "parquet", "frame", "arrow"])
def source(request, tmp_path):
    path = tmp_path / f"data.{request.param}"
    options = {"label": "died", "categorical": ["grade"]}
    if request.param == "frame":
        return open_table(FRAME, **options)
    if request.param == "arrow":
        return open_table(pa.Table.from_pandas(FRAME), **options)
    if request.param == "parquet":
        pq.write_table(pa.Table.from_pandas(FRAME), path, row_group_size=77)
    elif request.param == "csv":
        FRAME.to_csv(path, index=False)
    else:
        path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
    return open_table(path, **options)


def test_every_format_gives_the_same(source):
    X, y = expected()
    assert source.feature_names == NAMES
    assert (source.n_rows, source.shape, source.is_image) == (500, (10,), False)
    assert (source.label, source.label_kind, source.class_names) == ("died", "class", ("no", "yes"))
    assert source.class_counts == tuple(np.bincount(y))
    for size in (1, 7, 64, 500, 10_000, None):
        chunks = list(source.chunks(size, np.float64))
        assert all(0 < len(part) <= (size or 500) for part, _ in chunks)
        np.testing.assert_array_equal(np.concatenate([part for part, _ in chunks]), X)
        np.testing.assert_array_equal(np.concatenate([labels for _, labels in chunks]), y)
    first, labels = next(source.chunks())
    assert (first.dtype, labels.dtype) == (np.float32, np.int64)
    assert first.flags.c_contiguous
    rows = source.read()
    np.testing.assert_array_equal(rows.X, X)
    assert rows.X.dtype == np.float64


def test_statistics_are_exact(source):
    X, _ = expected()
    summary = source.summary
    assert summary.count == 500
    np.testing.assert_allclose(summary.mean, X.mean(0), rtol=1e-12)
    np.testing.assert_allclose(summary.std, X.std(0), rtol=1e-12)
    np.testing.assert_array_equal(summary.low, X.min(0))
    np.testing.assert_array_equal(summary.high, X.max(0))


def test_columns_describe_themselves(source):
    ward = source.columns[1]
    assert (ward.name, ward.kind, ward.places) == ("ward", "categorical", (1, 2, 3))
    assert ward.values == ("a", "b", "c")
    assert ward.counts == tuple((FRAME["ward"] == value).sum() for value in "abc")
    assert [column.kind for column in source.columns] == [
        *("numeric", "categorical", "numeric", "categorical", "categorical")
    ]


def test_samples_are_rows_of_the_table(source):
    X, y = expected()
    rows = source.sample(40)
    assert len(np.unique(rows.index)) == 40
    np.testing.assert_array_equal(rows.X, X[rows.index])
    np.testing.assert_array_equal(rows.y, y[rows.index])
    np.testing.assert_array_equal(source.sample(40).index, rows.index)
    assert (source.sample(40, random_state=1).index != rows.index).any()
    assert len(source.sample(501)) == 500
    with pytest.raises(InputError, match="k=0"):
        source.sample(0)


@pytest.mark.parametrize(("k", "others", "more"), [(5, 7, 7), (5, 100, 55), (60, 3, 0)])
def test_other_rows_beside_a_sample(k, others, more):
    table = open_table(np.arange(120.0).reshape(60, 2), np.arange(60) % 2)
    rows, rest = table.sample_both(k, others, random_state=3)
    np.testing.assert_array_equal(rows.X, table.sample(k, random_state=3).X)
    assert len(rest) == more == len(set(rest.index) - set(rows.index))
    np.testing.assert_array_equal(rest.X[:, 0], 2.0 * rest.index)
    np.testing.assert_array_equal(rest.y, rest.index % 2)
    again = table.sample_both(k, others, random_state=3)[1]
    np.testing.assert_array_equal(again.index, rest.index)


def test_samples_are_uniform():
    table = open_table(np.arange(20.0)[:, None])
    counts = np.zeros(20)
    for seed in range(2000):
        counts[table.sample(5, random_state=seed).index] += 1
    # 2000 draws of 5 of 20: mean 500, deviation 19.4 each.
    assert np.abs(counts - 500).max() < 5 * 19.4


def test_the_global_random_state_stays():
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    table = open_table(RNG.normal(size=(50, 2)))
    table.sample(5)
    assert (np.random.get_state()[1] == before[0]).all()  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), before[1])


SCHEMA = {
    "order": ["ward", "age", "smokes"],
    "features": {
        "age": {"min": 0, "max": 120, "unit": "years"},
        "ward": {"values": ["c", "b", "a", "d"]},
        "smokes": {"kind": "numeric"},
        "dose": {"kind": "ignore"},
        "grade": {"kind": "ignore"},
    },
    "label": {"column": "died", "classes": ["yes", "no"]},
}


def test_a_schema_gives_order_values_bounds_and_classes():
    table = open_table(FRAME, schema=parse_schema(SCHEMA))
    assert table.feature_names == ("ward=c", "ward=b", "ward=a", "ward=d", "age", "smokes")
    assert (table.label, table.class_names) == ("died", ("yes", "no"))
    age = table.columns[1]
    assert (age.low, age.high, age.unit, age.bounded) == (0.0, 120.0, "years", True)
    rows = table.read()
    np.testing.assert_array_equal(rows.X[:, 5], FRAME["smokes"])
    np.testing.assert_array_equal(rows.y, FRAME["died"] == "no")
    box = table.box()
    assert box is not None
    assert box.categorical == ((0, 1, 2, 3),)
    assert box.low.tolist() == [0, 0, 0, 0, 0, 0]
    assert box.high.tolist() == [1, 1, 1, 1, 120, 1]
    assert bool(box.contains(rows.X).all())


def test_boxes():
    assert open_table(np.eye(3)).box() is None
    one_value = open_table(pd.DataFrame({"a": ["u", "u"], "b": [1.0, 2.0]}))
    box = one_value.box()
    assert box is not None
    assert (box.categorical, box.low[0].item(), box.high[0].item()) == ((), 1.0, 1.0)
    assert one_value.constant == ("a",)
    assert bool(box.contains(one_value.read().X).all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": ["age", "ward"]}, "order leaves out column 'smokes'"),
        ({"order": ["age", "ward", "smokes", "x"]}, "'x' of the schema's order"),
        ({"features": {"agge": {"min": 0}}, "order": None}, "'agge' of the schema.*mean 'age'"),
        ({"features": {"age": {"max": 50}}, "order": None}, "'age' goes from 2.*bounded by -inf"),
        ({"features": {"ward": {"values": ["a", "b"]}}, "order": None}, r"'ward' holds 'c' \(1"),
        ({"features": {"ward": {"kind": "numeric"}}, "order": None}, r"'ward' \('.' in data row 1"),
        ({"label": {"column": "dead"}}, "no column 'dead' for the label. Did you mean 'died'"),
        ({"label": {"column": "died", "classes": ["no", "maybe"]}}, r"'yes' \(2.. rows\); the kn"),
    ],
)
def test_a_schema_that_does_not_fit(change, message):
    content = {key: value for key, value in (SCHEMA | change).items() if value is not None}
    with pytest.raises(InputError, match=message):
        open_table(FRAME, schema=parse_schema(content))


HOLES = "a,b,w,y\n1,5,u,0\n,5,v,1\n3,,,0\n8,7,v,1\n"


@pytest.fixture
def holes(tmp_path):
    (tmp_path / "holes.csv").write_text(HOLES)
    return tmp_path / "holes.csv"


def test_missing_values_are_refused_by_column_and_row(holes):
    with pytest.raises(
        InputError,
        match=r"3 of 3 columns, 4 rows: 'a' \(1 missing, first in data row 2\), "
        r"'b' \(1 missing, first in data row 3\), 'w' \(1 missing",
    ):
        open_table(holes, label="y")


@pytest.mark.parametrize(
    ("impute", "a", "b"), [("mean", 4.0, 17 / 3), ("median", 3.0, 5.0), ("most_frequent", 1, 5.0)]
)
def test_missing_values_are_filled_and_reported(holes, impute, a, b, monkeypatch):
    # Columns are collected one at a time for their medians.
    monkeypatch.setattr("farfield.data.layout._COLLECTED", 4)
    table = open_table(holes, label="y", impute=impute)
    X = np.array([[1, 5, 1, 0], [a, 5, 0, 1], [3, b, 0, 1], [8, 7, 0, 1]])
    np.testing.assert_allclose(table.read().X, X)
    assert table.missing == {"a": 1, "b": 1, "w": 1}
    assert table.fills == {"a": a, "b": pytest.approx(b), "w": "v"}
    np.testing.assert_allclose(table.summary.mean, X.mean(0))
    np.testing.assert_allclose(table.summary.std, X.std(0))
    assert table.columns[2].counts == (1, 3)
    assert table.notes == ("Missing values were filled in 'a' (1), 'b' (1), 'w' (1).",)


def test_like_an_earlier_table(holes, tmp_path):
    first = open_table(holes, label="y", impute="mean")
    (tmp_path / "later.csv").write_text("extra,w,b,a\n9,v,,100\n8,u,2,\n")
    later = open_table(tmp_path / "later.csv", like=first)
    assert (later.feature_names, later.label) == (first.feature_names, None)
    np.testing.assert_allclose(later.read().X, [[100, 17 / 3, 0, 1], [4, 2, 1, 0]])
    for text, message in (
        ("w,b\nv,1\n", "column 'a' of the earlier table is missing"),
        ("w,b,a\nz,1,1\n", r"'w' holds 'z' \(1 row\), first in data row 1.*earlier table"),
        ("w,b,a\nv,x,1\n", r"text in columns of numbers: 'b' \('x' in data row 1\)"),
    ):
        (tmp_path / "later.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            open_table(tmp_path / "later.csv", like=first)
    whole = open_table([[1.0], [2.0]])
    with pytest.raises(InputError, match=r"'x0' \(1 missing.*opening the earlier"):
        open_table([[np.nan], [2.0]], like=whole)
    reordered = first.fit_to(4, feature_names=["w=v", "b", "w_u", "a"])
    (tmp_path / "later.csv").write_text("w,b,a\nv,2,3\n")
    np.testing.assert_array_equal(
        open_table(tmp_path / "later.csv", like=reordered).read().X, [[1, 2, 0, 3]]
    )


def test_targets_of_a_regression():
    table = open_table([[1.0], [2.0]], [0.5, 7.0], label_kind="number")
    assert (table.label_kind, table.class_names) == ("number", None)
    rows = table.read()
    assert rows.y is not None
    assert (rows.y.dtype, rows.y.tolist()) == (np.float64, [0.5, 7.0])


def test_names_of_classes():
    X = [[1.0], [2.0], [3.0]]
    names = open_table(X, [0, 2, 0], class_names=["a", "b", "c"])
    assert (names.class_names, names.class_counts) == (("a", "b", "c"), (2, 0, 1))
    texts = open_table(X, ["b", "a", "b"], class_names=["b", "a"])
    assert texts.read().y.tolist() == [0, 1, 0]
    booleans = open_table(X, np.array([True, False, True]))
    assert (booleans.class_names, booleans.read().y.tolist()) == (("False", "True"), [1, 0, 1])
    with pytest.raises(InputError, match=r"'3' \(1 row\); the known classes are 'a', 'b'"):
        open_table(X, [0, 1, 3], class_names=["a", "b"])


def test_npz_and_npy(tmp_path):
    X, y = RNG.normal(size=(30, 3)), RNG.integers(0, 2, 30)
    np.savez(tmp_path / "d.npz", X=X, y=y)
    archive = open_table(tmp_path / "d.npz")
    assert (archive.label, archive.class_names) == ("y", ("0", "1"))
    np.testing.assert_array_equal(archive.read().X, X)
    np.testing.assert_array_equal(archive.read().y, y)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    assert open_table(tmp_path / "x.npy").label is None
    both = open_table(tmp_path / "x.npy", label=str(tmp_path / "y.npy"))
    np.testing.assert_array_equal(both.read().y, y)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e9, 1e9) | st.none(),
            st.sampled_from(["u", "v", "w", None]),
            st.booleans(),
            st.integers(0, 2),
        ),
        min_size=2,
        max_size=30,
    ),
    st.integers(1, 7),
    st.sampled_from(["mean", "median", "most_frequent"]),
)
def test_pieces_and_formats_never_matter(tmp_path_factory, rows, size, impute):
    names = ["n", "c", "b", "y"]
    frame = pd.DataFrame(rows, columns=names)
    if frame["n"].isna().all() or frame["c"].isna().all() or frame["y"].nunique() < 2:
        return
    folder = tmp_path_factory.getbasetemp()
    frame.to_csv(folder / "f.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / "f.parquet")
    tables = [
        open_table(folder / "f.csv", label="y", impute=impute),
        open_table(folder / "f.parquet", label="y", impute=impute),
        open_table(frame, label="y", impute=impute),
    ]
    X, y = tables[2].read().X, frame["y"].to_numpy()
    for table in tables:
        assert table.feature_names == tables[2].feature_names
        chunks = list(table.chunks(size, np.float64))
        np.testing.assert_allclose(np.concatenate([part for part, _ in chunks]), X, rtol=1e-15)
        labels = np.concatenate([part for _, part in chunks])
        assert [table.class_names[k] for k in labels] == [str(k) for k in y]
        np.testing.assert_allclose(table.summary.mean, X.mean(0), atol=1e-6, rtol=1e-9)
        np.testing.assert_allclose(table.summary.std, X.std(0), atol=1e-6, rtol=1e-7)


CODED = pd.DataFrame(
    {
        "ward_b": [0, 1, 0, 1],
        "age": [1.0, 2.0, 3.0, 4.0],
        "ward_a": [1.0, 0.0, 1.0, 0.0],
        "sex": ["f", "m", "f", "f"],
    }
)
BLOCKS = {"blocks": {"ward": ["ward_a", "ward_b"]}, "order": ["age", "ward_b", "ward_a", "sex"]}


def test_columns_that_are_a_one_hot_code_already(tmp_path):
    CODED.to_csv(tmp_path / "coded.csv", index=False)
    table = open_table(tmp_path / "coded.csv", schema=parse_schema(BLOCKS))
    assert table.feature_names == ("age", "ward_b", "ward_a", "sex=f", "sex=m")
    ward = table.columns[1]
    assert (ward.name, ward.kind, ward.places) == ("ward", "categorical", (2, 1))
    assert (ward.values, ward.counts, ward.sources) == (("a", "b"), (2, 2), ("ward_a", "ward_b"))
    X = table.read().X
    assert X[:, 1:3].tolist() == CODED[["ward_b", "ward_a"]].to_numpy().tolist()
    np.testing.assert_allclose(table.summary.mean, X.mean(0))
    np.testing.assert_allclose(table.summary.std, X.std(0))
    box = table.box()
    assert box is not None
    assert box.categorical == ((2, 1), (3, 4))
    assert bool(box.contains(X).all())
    fitted = table.fit_to(5, feature_names=["ward_a", "ward_b", "age", "sex_m", "sex_f"])
    later = open_table(CODED[::-1], like=fitted)
    np.testing.assert_array_equal(later.read().X, X[::-1][:, [2, 1, 0, 4, 3]])
    np.testing.assert_allclose(later.summary.mean, X.mean(0)[[2, 1, 0, 4, 3]])


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("ward_a", [1, 0, 1, 1], "'ward' are no one-hot code in data row 4: ward_a = 1, ward_b ="),
        ("ward_a", [1, 0, 0, 0], "in data row 3: ward_a = 0, ward_b = 0"),
        ("ward_a", [1, 0, np.nan, 0], "in data row 3: ward_a = nan"),
        ("ward_a", [0.5, 0, 1, 0], "in data row 1: ward_a = 0.5"),
    ],
)
def test_codes_that_are_not_one_hot(column, values, message):
    with pytest.raises(InputError, match=message):
        open_table(CODED.assign(**{column: values}), schema=parse_schema(BLOCKS), impute="mean")


def test_codes_of_text_and_absent_columns():
    with pytest.raises(InputError, match=r"'ward_a' \('x' in data row 1\)"):
        open_table(CODED.assign(ward_a=list("xyxy")), schema=parse_schema(BLOCKS))
    with pytest.raises(InputError, match=r"column 'ward_a' of \[blocks\] is not in the table"):
        open_table(CODED.drop(columns="ward_a"), schema=parse_schema({"blocks": BLOCKS["blocks"]}))
