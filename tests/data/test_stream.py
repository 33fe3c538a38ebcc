"""Tables gone through piece by piece: the same columns whatever the pieces."""

import gzip
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from farfield import data
from farfield.data import delimited
from farfield.data.reading import frame_stream, open_stream
from farfield.errors import InputError


@pytest.fixture
def write(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("asked", [True, False])
def test_the_delimiter_is_told_from_the_file(write, delimiter, asked):
    text = delimiter.join(["size, cm", "b", "c"]).replace("size, cm", '"size, cm"')
    text += "".join(f"\n{delimiter.join(map(str, row))}" for row in ((1.5, 2, "x"), (3, 4, "y;z")))
    path = write(text.replace("y;z", '"y;z"'))
    stream = open_stream(path, delimiter=delimiter if asked else None)
    assert stream.names == ("size, cm", "b", "c")
    columns = next(stream.batches(9))
    assert columns[0].values.tolist() == [1.5, 3]
    assert words(columns[2]) == ["x", "y;z"]
    assert bool(stream.notes) == (not asked and delimiter != ",")


def test_decimal_commas_are_read_where_columns_are_not_separated_by_commas(write):
    stream = open_stream(write("a;b;c\n1,5;2;x\n-3;NA;y\n 1,5e3 ;4;z\n"))
    a, b, c = next(stream.batches(9))
    assert a.values.tolist() == [1.5, -3.0, 1500.0]
    np.testing.assert_array_equal(b.values, [2, np.nan, 4])
    assert c.kind == "category"
    assert stream.notes == (
        "Columns are separated by ';'.",
        "Numbers are written with a decimal comma.",
    )


def test_no_thread_of_arrow_waits_for_python(write, monkeypatch):
    """One that did when the process ended would abort it: a refusal must end with its own code."""
    monkeypatch.setattr(pa, "PythonFile", lambda *_args, **_more: pytest.fail("a Python file"))
    path = write("a,b\n1,2\n")
    assert [column.values.tolist() for column in next(open_stream(path).batches(9))] == [[1], [2]]
    packed = write(gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n"), "data.csv.gz")
    assert next(open_stream(packed).batches(9))[0].values.tolist() == [1, 3]


@pytest.mark.parametrize("name", ["t.xlsx", "t.csv"])
def test_spreadsheets_are_refused_with_the_way_out(tmp_path, name):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(InputError, match=f"{name}: this is a spreadsheet; save the sheet as CSV"):
        open_stream(path)
    path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500))
    with pytest.raises(InputError, match="an Excel file of the older kind; save the sheet as CSV"):
        open_stream(path)


def words(column):
    return [None if code < 0 else column.words[code] for code in column.values]


def gathered(stream, rows=3, names=None):
    """All rows of every column, and its kind."""
    found = {}
    for batch in stream.batches(rows, names):
        assert all(0 < len(column) <= rows for column in batch)
        for column in batch:
            kind, values = found.setdefault(column.name, (column.kind, []))
            assert kind == column.kind
            values += words(column) if kind == "category" else column.values.tolist()
    return found


def test_numbers_that_turn_into_text_late(write, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 64)
    rows = [f"{k},{k / 2},{'true' if k % 2 else 'FALSE'}" for k in range(200)]
    rows[150] = "oops,7,true"
    stream = open_stream(write("a,b,c\n" + "\n".join(rows) + "\n"))
    found = gathered(stream, rows=5)
    assert found["a"][0] == "category"
    assert found["a"][1][149:152] == ["149", "oops", "151"]
    assert found["b"] == ("number", [7.0 if k == 150 else k / 2 for k in range(200)])
    assert found["c"][1][:2] == ["False", "True"]
    assert gathered(stream, 5, ["c", "b"])["b"] == found["b"]


def test_booleans_that_turn_into_text_late(write, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 64)
    stream = open_stream(write("a\n" + "true\n" * 100 + "maybe\n"))
    assert gathered(stream)["a"][1][-2:] == ["true", "maybe"]


def test_how_words_are_written_is_kept(write):
    path = write("a,b,c\n x,x,x\n x,y , x\ny,y ,x\n")
    found = {column.name: column.spaced for column in data.open_table(path).columns}
    assert found == {"a": (("x", " x"),), "b": (("y", "y "),), "c": ()}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_spaces_missing_values_and_empty_columns(write, pack):
    text = "a,b,c,d\n 1, x ,,true\n NA ,?,, \n-2e3,y z,,NULL\n"
    found = gathered(open_stream(write(pack(text.encode()))))
    assert found["a"][0] == "number"
    np.testing.assert_array_equal(found["a"][1], [1, np.nan, -2000])
    assert found["b"] == ("category", ["x", None, "y z"])
    assert found["c"][0] == "number"
    assert np.isnan(found["c"][1]).all()
    assert found["d"] == ("category", ["True", None, None])


PLAIN = "a,b\n1,x\n2,y\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN + "\n\n",
        PLAIN.rstrip("\n"),
        PLAIN.replace("a,b", ' a,"b" '),
    ],
    ids=["windows", "byte order mark", "blank lines", "no newline", "spaces"],
)
def test_variants_of_plain_files(write, text):
    assert gathered(open_stream(write(text))) == {
        "a": ("number", [1.0, 2.0]),
        "b": ("category", ["x", "y"]),
    }


def test_quoted_newlines_and_delimiters(write):
    found = gathered(open_stream(write('a;b\n"x\ny";1\n"p;q";2\n'), delimiter=";"))
    assert found["a"][1] == ["x\ny", "p;q"]


def test_parquet_in_row_groups(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1, None, 3, 4, 5]),
            "s": pa.array(["u", "v", None, "u", " v "]).dictionary_encode(),
            "b": pa.array([True, False, None, True, True]),
            "__index_level_0__": pa.array(range(5)),
        }
    )
    pq.write_table(table, tmp_path / "x.csv", row_group_size=2)
    found = gathered(open_stream(tmp_path / "x.csv"))
    np.testing.assert_array_equal(found["n"][1], [1, np.nan, 3, 4, 5])
    assert found["s"][1] == ["u", "v", None, "u", "v"]
    assert found["b"][1] == ["True", "False", None, "True", "True"]
    assert list(found) == ["n", "s", "b"]


WHOLE_GZIP = gzip.compress(("a,b\n" + "1,2\n" * 5000).encode(), mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\n \n", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (WHOLE_GZIP[:-20], "cut off or damaged"),
        (WHOLE_GZIP[:30] + b"xxxx" + WHOLE_GZIP[34:], "cut off or damaged"),
        (b"a,b\n1,2\n3\n", "Expected 2 columns, got 1: 3"),
        (b"a,b\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
        (b"a,b,a\n1,2,3\n", "occur twice: .'a'"),
        (b"a,,c\n1,2,3\n", "column 2 of 3 has no name"),
        (b"1,2\n3,4\n", "first line holds numbers"),
        (b"a;b;c\n1,5;2;1.5\n", "'a' has decimal commas, column 'c' has points"),
        (b"a,b\n1,2\n" * 9 + b"1,\0\n", "zero bytes"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("é,b\n1,2\n".encode("latin-1"), "UTF-8"),
        ("a,b\né,2\n".encode("latin-1"), "UTF-8"),
        (b"a,b\n1," + b"9" * (9 << 20) + b"\n", "longer than 4 MB"),
        (b'a,b\n1,"' + b"x\n" * (5 << 20), "longer than 4 MB"),
        (b"PAR1" + bytes(100), "not a whole parquet file"),
        (b"PAR1", "not a whole parquet file"),
        (b"\0\0\x08\x03" + bytes(12), "IDX images, not a table"),
        (b"\x80\x04N.", "a Python pickle, not a table"),
        (b"\x89PNG\r\n\x1a\n", "a single picture"),
        (b"PK\x03\x04" + bytes(40), "not a whole .npz file"),
    ],
)
def test_broken_files_are_refused_by_name(write, content, message):
    with pytest.raises(InputError, match=message) as caught:
        gathered(open_stream(write(content)))
    assert "data.csv" in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            open_stream(path)
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match="one character"):
        open_stream(tmp_path / "x.csv", delimiter="::")


def test_arrays_of_numpy(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.array([0, 1, 0]))
    assert gathered(open_stream(tmp_path / "x.npy")) == {
        "x0": ("number", [0.0, 2.0, 4.0]),
        "x1": ("number", [1.0, 3.0, 5.0]),
    }
    labelled = open_stream(tmp_path / "x.npy", label=str(tmp_path / "y.npy"))
    assert labelled.default_label == labelled.names[-1] == str(tmp_path / "y.npy")
    np.savez(tmp_path / "d.npz", x=X, labels=np.array(["b", "a", "b"]), feature_names=["u", "v"])
    archive = open_stream(tmp_path / "d.npz")
    assert (archive.names, archive.default_label) == (("u", "v", "labels"), "labels")
    assert gathered(archive)["labels"] == ("category", ["b", "a", "b"])
    np.savez(tmp_path / "e.npz", Z=X)
    with pytest.raises(InputError, match=r"no array of inputs.*\['Z'\]"):
        open_stream(tmp_path / "e.npz")
    np.save(tmp_path / "i.npy", np.zeros((2, 3, 4)))
    with pytest.raises(InputError, match="read them as images"):
        open_stream(tmp_path / "i.npy")


FRAME = pd.DataFrame(
    {
        "f": [1.5, np.nan, 3.0],
        "i": pd.array([1, None, 3], dtype="Int64"),
        "s": ["u", None, " v "],
        "c": pd.Categorical(["p", "q", "p"]),
        "b": [True, False, True],
        "n": pd.array([True, None, False], dtype="boolean"),
    }
)


def check_frame(found):
    np.testing.assert_array_equal(found["f"][1], [1.5, np.nan, 3.0])
    np.testing.assert_array_equal(found["i"][1], [1, np.nan, 3])
    assert found["s"][1] == ["u", None, "v"]
    assert found["c"][1] == ["p", "q", "p"]
    assert found["b"][1] == ["True", "False", "True"]
    assert found["n"][1] == ["True", None, "False"]


def test_data_frames():
    check_frame(gathered(frame_stream(FRAME)))
    check_frame(gathered(frame_stream(pa.Table.from_pandas(FRAME))))


def test_matrices_and_labels():
    for X in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])):
        stream = frame_stream(X, torch.tensor([1, 0]), ["u", "v"])
        assert gathered(stream) == {
            "u": ("number", [1.0, 3.0]),
            "v": ("number", [2.0, 4.0]),
            "y": ("number", [1.0, 0.0]),
        }
    mixed = frame_stream(np.array([["a", 1], ["b", 2]], dtype=object))
    assert gathered(mixed) == {"x0": ("category", ["a", "b"]), "x1": ("number", [1.0, 2.0])}
    series = pd.Series(["p", "q"], name="who")
    assert frame_stream(np.eye(2), series).default_label == "who"
    assert frame_stream(np.eye(2), [0, 1], ["x", "y"]).default_label == "label 0"
    assert frame_stream(np.eye(2), [0, 1], label="died").default_label == "died"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 2, 2)),), "read them as images"),
        ((np.zeros(3),), r"shape \(3,\)"),
        (([[1, 2], [3]],), "cannot be read as an array"),
        ((np.eye(2), [1]), "1 labels for 2 rows"),
        ((np.eye(2), np.eye(2)), r"a column for each class; .* y\.argmax\(axis=1\)"),
        ((np.eye(2), np.ones((2, 3))), "head='multilabel', label=0"),
        ((np.eye(2), 0.5 * np.eye(2)), "one value per row"),
        ((np.eye(2), None, ["a"]), "1 feature_names for 2"),
        ((np.eye(2), None, ["a", "a"]), "occur twice"),
        ((FRAME, None, ["a"]), "1 feature names for 6"),
        ((FRAME, [1, 2, 3], None, "f"), "given twice"),
        ((pd.DataFrame([[1, 2]], columns=["a", "a"]),), "occur twice"),
        ((np.eye(2, dtype=complex),), "complex"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        frame_stream(*arguments)


def test_strange_objects_are_named():
    stream = frame_stream(pd.DataFrame({"a": [{1}, {2}], "d": pd.to_datetime(["2020", "2021"])}))
    kinds = {column.name: (column.kind, column.stored_as) for column in next(stream.batches(2))}
    assert kinds["a"][0] == kinds["d"][0] == "other"
    mixed = frame_stream(pd.DataFrame({"a": [1, "x"], "b": [True, 2.5]}))
    assert [column.stored_as for column in next(mixed.batches(2))] == [
        "objects: int, str",
        "objects: bool, float",
    ]
