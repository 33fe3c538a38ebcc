"""Small files that unpack to large ones are refused before memory is taken."""

import gzip
import io
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from farfield import budget
from farfield.data import open_images, open_table, read_images
from farfield.errors import InputError

SIDE = 2000


@pytest.fixture(autouse=True)
def low_floor(monkeypatch):
    """A floor that tests can afford to exceed."""
    monkeypatch.setattr(budget, "BYTES_FLOOR", 2**20)


def npz():
    file = io.BytesIO()
    np.savez_compressed(file, X=np.zeros((SIDE, SIDE), np.uint8), y=np.arange(SIDE) % 2)
    return file.getvalue()


def images():
    file = io.BytesIO()
    np.savez_compressed(file, images=np.zeros((SIDE, SIDE, 1), np.uint8))
    return file.getvalue()


def idx():
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", SIDE, SIDE, 1)
    return gzip.compress(header + bytes(SIDE * SIDE))


def idx_that_lies():
    return gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 2, 1) + bytes(4_000_000))


def csv():
    return gzip.compress(b"a,b\n" + b"1,2\n" * 400_000)


def npy():
    file = io.BytesIO()
    np.save(file, np.zeros((SIDE, SIDE), np.uint8))
    return gzip.compress(file.getvalue())


def parquet():
    file = io.BytesIO()
    pq.write_table(pa.table({"a": np.zeros(300_000, np.int8), "b": np.ones(300_000)}), file)
    return file.getvalue()


CASES = [
    (npz, (open_table,)),
    (images, (read_images, open_images)),
    (idx, (read_images, open_images)),
    (csv, (open_table,)),
    (npy, (open_table,)),
    (parquet, (open_table,)),
]


@pytest.mark.parametrize(
    ("make", "readers"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_files_that_unpack_to_too_much(make, readers, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(make())
    for read in readers:
        tracemalloc.start()
        with pytest.raises(InputError, match="are left of what a file of its size may ask for"):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**26


def test_more_than_is_promised(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(idx_that_lies())
    with pytest.raises(InputError, match="more follow"):
        read_images(path)


@pytest.mark.parametrize(
    ("make", "readers"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_they_are_read_where_the_floor_allows_it(make, readers, tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "BYTES_FLOOR", 2**28)
    path = tmp_path / "file"
    path.write_bytes(make())
    readers[0](path)
