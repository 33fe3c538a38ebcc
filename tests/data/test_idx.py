"""IDX files: promises of the header are checked before anything is read."""

import gzip
import struct

import numpy as np
import pytest

from farfield.data import read_idx
from farfield.errors import InputError


def idx(array, code=8):
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


@pytest.fixture
def write(tmp_path):
    def write(content, name="train-images-idx3-ubyte"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bytes_plain_and_compressed(write, pack):
    read = read_idx(write(pack(idx(IMAGES))))
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, IMAGES)


@pytest.mark.parametrize(
    ("code", "dtype"), [(9, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
)
def test_every_type_of_number(write, code, dtype):
    values = np.array([-3, 0, 7], dtype=dtype)
    read = read_idx(write(idx(values, code)))
    assert read.dtype.isnative
    assert read.tolist() == [-3, 0, 7]


WHOLE = idx(IMAGES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-1], "cut off"),
        (WHOLE + b"x", "but more follow"),
        (WHOLE[:10], "cut off within its 3 dimensions"),
        (WHOLE[:3], "not an IDX file"),
        (b"\x89PNG\r\n\x1a\n", "starts with 89 50 4e 47"),
        (b"\0\0\x07\x01\0\0\0\0", "not an IDX file"),
        (b"\0\0\x08\0", "not an IDX file"),
        (b"\0\0\x08\x03" + bytes(4) + b"\xff" * 8, "cannot be laid out"),
        (b"", "nothing"),
        (gzip.compress(WHOLE, mtime=0)[:-9], "cut off"),
        (gzip.compress(WHOLE[:-1], mtime=0), "23 follow"),
    ],
)
def test_broken_files_are_refused_by_name(write, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_idx(write(content, "bad-idx"))
    assert "bad-idx" in str(caught.value)


def test_promises_are_compared_with_the_file_before_memory_is_taken(write):
    enormous = bytes([0, 0, 8, 3]) + struct.pack(">3I", 60_000, 60_000, 60_000)
    for content in (enormous, gzip.compress(enormous + bytes(100))):
        with pytest.raises(InputError, match=r"216,000,000,000,000 bytes"):
            read_idx(write(content))


def test_a_bomb_is_read_no_further_than_its_promise(write):
    bomb = gzip.compress(idx(IMAGES) + bytes(1 << 24))
    with pytest.raises(InputError, match="24 bytes, but more follow"):
        read_idx(write(bomb))


def test_absent_files_and_folders(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            read_idx(path)
