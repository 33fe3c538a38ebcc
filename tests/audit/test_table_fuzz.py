"""Any bytes at all are read or refused: no other error, no endless work, nothing executed."""

import contextlib
import gzip
import io
import pickle
import struct
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farfield.audit.images import open_images
from farfield.audit.table import open_table
from farfield.datasets import read_csv, read_images, read_npz, read_parquet
from farfield.errors import FarfieldError


def seeds():
    """Small whole files of every format."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array([0, 1, 0, 1, 1, 0])
    images = rng.integers(0, 256, (2, 4, 4), dtype=np.uint8)
    csv = b'a,b,c\n1,x,true\n2.5,"y ""z""",false\n,?,true\n4,x,\n'
    parquet, npz, packed, npy, pictures = (io.BytesIO() for _ in range(5))
    table = pa.table({"a": X[:, 0], "b": ["u", "v", None, "u", "v", "w"], "c": y == 1})
    pq.write_table(table, parquet, row_group_size=4)
    np.savez(npz, X=X, y=y)
    np.savez_compressed(packed, images=images, labels=np.array([0, 1]))
    np.save(npy, X)
    np.save(pictures, images)
    idx = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 4, 4) + images.tobytes()
    cifar = {b"data": rng.integers(0, 256, (2, 3072), dtype=np.uint8), b"labels": [3, 4]}
    whole = [file.getvalue() for file in (parquet, npz, packed, npy, pictures)]
    return [
        csv,
        gzip.compress(csv, mtime=0),
        idx,
        gzip.compress(idx, mtime=0),
        pickle.dumps(cifar, 4),
        *whole,
    ]


SEEDS = seeds()
READERS = (
    lambda path: open_table(path, impute="mean").sample(3),
    lambda path: open_table(path, label="c").quantiles(),
    lambda path: open_images(path).sample(3),
    lambda path: read_csv(path, one_hot=True, impute="mean"),
    read_parquet,
    read_npz,
    read_images,
)


def read_or_refuse(path):
    for read in READERS:
        with contextlib.suppress(FarfieldError), warnings.catch_warnings():
            # Python warns of odd literals, which a header of an array may hold.
            warnings.simplefilter("ignore", SyntaxWarning)
            read(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fuzz"


@st.composite
def damaged(draw):
    """A whole file with some bytes changed, taken out, doubled or cut off."""
    content = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 5))):
        # The first and the last bytes hold what everything else depends on.
        place = draw(st.integers(0, len(content)) | st.integers(0, min(120, len(content))))
        place = len(content) - place if draw(st.booleans()) else place
        change = draw(st.sampled_from(["set", "cut", "insert", "remove", "repeat"]))
        some = draw(st.binary(min_size=1, max_size=8))
        if change == "set":
            content[place : place + len(some)] = some
        elif change == "cut":
            del content[place:]
        elif change == "insert":
            content[place:place] = some
        elif change == "remove":
            del content[place : place + len(some)]
        else:
            content[place:place] = content[place : place + 64]
    return bytes(content)


FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FUZZ
@given(damaged())
def test_damaged_files(path, content):
    path.write_bytes(content)
    read_or_refuse(path)


@FUZZ
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"PAR1", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\0\0\x08", b"\x80\x04"]),
    st.sampled_from([bytes, gzip.compress]),
)
def test_random_bytes_after_every_magic_number(path, content, magic, pack):
    path.write_bytes(pack(magic + content))
    read_or_refuse(path)


cells = st.sampled_from(
    [
        "1",
        "-2.5",
        "1e400",
        "nan",
        "inf",
        "",
        "NA",
        "x",
        "true",
        "False",
        "é",
        '"',
        '"a',
        "\r",
        " 7 ",
    ]
)


@FUZZ
@given(
    st.lists(st.lists(cells, min_size=1, max_size=4).map(",".join), max_size=6).map("\n".join),
    st.sampled_from(["a,b,c\n", "a\n", "a,a\n", ""]),
)
def test_text_that_looks_like_a_table(path, text, header):
    path.write_text(header + text, "utf-8", newline="")
    read_or_refuse(path)


@pytest.mark.parametrize("content", SEEDS, ids=lambda content: repr(content[:6]))
def test_the_seeds_themselves_can_be_read(path, content):
    path.write_bytes(content)
    read = 0
    for reader in READERS:
        with contextlib.suppress(FarfieldError):
            reader(path)
            read += 1
    assert read
