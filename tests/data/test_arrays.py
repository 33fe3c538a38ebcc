"""Arrays and archives of numpy: plain arrays only, nothing unpickled, no size trusted."""

import io
import struct
import zipfile

import numpy as np
import pytest

from farfield.data import open_table
from farfield.data.arrays import load_arrays, read_npy
from farfield.errors import InputError

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8])
def test_inputs_of_every_type(npz, dtype):
    table = open_table(npz(X=X.astype(dtype), y=np.array([0, 1, 1])))
    assert table.read().X.dtype == np.float64
    assert table.read().X.tolist() == X.tolist()
    assert (table.feature_names, table.label) == (("x0", "x1"), "y")


def test_names_labels_and_keys(npz):
    path = npz(inputs=X, who=np.array(["b", "a", "b"]), feature_names=np.array(["u", "v"]))
    table = open_table(path, label="who")
    assert table.feature_names == ("u", "v")
    assert (table.class_names, table.read().y.tolist()) == (("a", "b"), [1, 0, 1])
    target = open_table(npz(X=X, y=np.array([0.5, 1.5, 2.0])), label="y", label_kind="number")
    assert target.read().y.tolist() == [0.5, 1.5, 2.0]
    boolean = open_table(npz(X=X, y=np.array([True, False, True])))
    assert boolean.class_names == ("False", "True")


def test_missing_values_follow_the_rules_of_csv(npz):
    holes = X.copy()
    holes[1, 0] = np.nan
    with pytest.raises(InputError, match=r"data.npz.*'x0' \(1 missing"):
        open_table(npz(X=holes))
    first = open_table(npz(X=holes), impute="mean")
    assert first.read().X[1, 0] == 3.0
    assert open_table(npz(X=10 * holes), like=first).read().X[1, 0] == 3.0


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"Z": X}, {}, r"no array of inputs.*the arrays are \['Z'\]"),
        ({"X": X}, {"label": "y"}, "no column 'y' for the label"),
        ({"X": X[0]}, {}, r"shape \(2,\)"),
        ({"X": np.zeros((2, 3, 3))}, {}, "Flatten images"),
        ({"X": np.array([["a"]])}, {}, "must be numbers"),
        ({"X": X.astype(complex)}, {}, "complex"),
        ({"X": X[:0]}, {}, "no data rows"),
        ({"X": X[:, :0]}, {}, "no feature columns"),
        ({"X": X, "y": np.zeros(2, int)}, {"label": "y"}, r"shape \(3,\), got \(2,\)"),
        ({"X": X, "y": X[:, :1]}, {"label": "y"}, r"shape \(3,\), got \(3, 1\)"),
        ({"X": X, "y": np.zeros(3, complex)}, {"label": "y"}, "complex128"),
        ({"X": X, "feature_names": np.array(["u"])}, {}, "1 feature_names for 2"),
        ({"X": X, "feature_names": np.array(["u", "u"])}, {}, "occur twice"),
        ({"X": np.array([[np.inf, 1.0]])}, {}, "infinite"),
    ],
)
def test_bad_arrays_are_refused(npz, arrays, options, message):
    with pytest.raises(InputError, match=message):
        open_table(npz(**arrays), **options)


def test_objects_are_never_unpickled(npz):
    with pytest.raises(InputError, match="never loaded"):
        open_table(npz(X=np.array([[1, "a"]], dtype=object)))
    assert open_table(npz(X=X, other=np.array([object()]))).n_rows == 3


def test_broken_files_are_refused_by_name(npz, tmp_path):
    whole = npz(X=np.random.default_rng(0).random((100, 3))).read_bytes()
    damaged = bytearray(whole)
    damaged[500:520] = bytes(20)
    for content in (
        b"",
        whole[:200],
        whole[:-30],
        bytes(damaged),
        b"a,b\n1,2\n",
        b"\x80\x04pickle",
    ):
        path = tmp_path / "broken.npz"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"broken\.npz"):
            load_arrays(path, ["X"])
    np.save(tmp_path / "bare.npy", X)
    with pytest.raises(InputError, match="bare array"):
        load_arrays(tmp_path / "bare.npy", ["X"])
    with pytest.raises(InputError, match="No such file"):
        load_arrays(tmp_path / "absent.npz", ["X"])
    with pytest.raises(InputError, match="folder"):
        load_arrays(tmp_path, ["X"])


def npy(header, content=b"", version=1):
    width = "<H" if version == 1 else "<I"
    raw = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(width, len(raw)) + raw + content


def head(descr="'<f8'", fortran="False", shape="(2,)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "|u1", "|b1", "<i2", "<c8", "<U3"])
def test_npy_as_numpy_writes_it(tmp_path, dtype, order):
    array = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", array)
    read = read_npy(tmp_path / "x.npy")
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(head(), bytes(15)), r"16 bytes, but 15 follow"),
        (npy(head(), bytes(17)), r"16 bytes, but more follow"),
        (npy(head(shape="(10**15,)")), "header cannot be read"),
        (npy(head(shape="(1000000000000000,)")), "asks for 8000000000000000 bytes"),
        (npy(head(shape="(-2,)")), "gives the shape"),
        (npy(head(shape="(True,)")), "gives the shape"),
        (npy(head(shape="[2]")), "gives the shape"),
        (npy(head(fortran="1")), "gives the shape"),
        (npy(head(shape="(0, 99999999999999999999)")), "cannot be laid out"),
        (npy(head(descr="'|O'")), "never loaded"),
        (npy(head(descr="[('a', '<f8')]")), "never loaded"),
        (npy(head(descr="'<M8[s]'")), "numbers and text"),
        (npy(head(descr="'<f7'")), "unknown type"),
        (npy("{'descr': '<f8'}"), "header cannot be read"),
        (npy("__import__('os').system('true')"), "header cannot be read"),
        (npy("(" * 9000), "header cannot be read"),
        (npy("\0"), "header cannot be read"),
        (npy(" " * 20_000), "20,000 bytes long"),
        (npy(head(), bytes(16), version=3), "not a numpy .npy array"),
        (b"\x93NUMPY", "not a numpy .npy array"),
        (b"\x80\x04N.", "not a numpy .npy array"),
        (b"", "not a numpy .npy array"),
    ],
)
def test_broken_npy_is_refused(tmp_path, content, message):
    (tmp_path / "bad.npy").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_npy(tmp_path / "bad.npy")
    assert "bad.npy" in str(caught.value)


def archive(name, content, size=None, method=zipfile.ZIP_DEFLATED):
    """An archive that may lie about the size of its array."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        # Of a fixed date: what is written names the test, in all processes that collect it.
        file.writestr(zipfile.ZipInfo(name), content, method)
    raw = buffer.getvalue()
    if size is not None:
        raw = raw.replace(struct.pack("<I", len(content)), struct.pack("<I", size))
    return raw


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive("X.npy", npy(head(shape="(4, 2)"), bytes(64)), size=4_000_000_000), "cannot hold"),
        (archive("X.npy", npy(head(shape="(9, 9)"), bytes(64))), "but the archive holds"),
        (archive("X.npy", npy(head(shape="(4, 2)"), bytes(64)), method=zipfile.ZIP_LZMA), "numpy"),
        (archive("X.npy", b"not an array"), "not a numpy .npy array"),
        (archive("X.txt", b"1 2 3"), r"no array \['X'\]. The arrays are \[\]"),
        (b"PK\x05\x06" + bytes(18), "no array"),
    ],
)
def test_archives_that_lie_are_refused(tmp_path, content, message):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_arrays(tmp_path / "bad.npz", ["X"])
    assert "bad.npz" in str(caught.value)


def test_a_bomb_is_refused_by_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("farfield.data.arrays.MOST_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1 << 16, 3)))
    assert (tmp_path / "bomb.npz").stat().st_size < 10_000
    with pytest.raises(InputError, match="too much to load whole"):
        open_table(tmp_path / "bomb.npz")
