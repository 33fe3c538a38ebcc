"""CIFAR files: read without unpickling, and nothing else is."""

import pickle
import struct

import numpy as np
import pytest

from farfield.data import CIFAR10_CLASSES, pickled, read_images
from farfield.data.image_files import read_cifar_binary, read_cifar_pickle
from farfield.data.pickled import read_pickled_arrays
from farfield.errors import InputError

RNG = np.random.default_rng(0)
DATA = RNG.integers(0, 256, (5, 3072), dtype=np.uint8)
LABELS = [6, 9, 9, 0, 1]


def text(value):
    """A string as Python 2 pickled it."""
    raw = value if isinstance(value, bytes) else value.encode()
    if len(raw) < 256:
        return b"U" + bytes([len(raw)]) + raw
    return b"T" + struct.pack("<i", len(raw)) + raw


def python2_batch(data=DATA, labels=LABELS, key="labels"):
    """A batch as the official files have it: protocol 2 of Python 2, with its memo."""
    numbers = b"".join(b"K" + bytes([label]) for label in labels)
    names = b"".join(text(f"image_{k}.png") for k in range(len(labels)))
    shape = b"".join(b"M" + struct.pack("<H", n) for n in data.shape) + b"\x86"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
        b"(K\x01" + shape + b"cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + text(data.tobytes())
        + b"tb"
    )
    return (
        b"\x80\x02}q\x01("
        + (text("batch_label") + b"q\x02" + text("testing batch 1 of 1") + b"q\x03")
        + (text(key) + b"q\x04]q\x05(" + numbers + b"e")
        + (text("data") + b"q\x06" + array)
        + (text("filenames") + b"]q\x0c(" + names + b"eu.")
    )


@pytest.fixture
def write(tmp_path):
    def write(content, name="test_batch"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def test_the_handmade_batch_is_what_python_unpickles():
    batch = pickle.loads(python2_batch(), encoding="bytes")
    np.testing.assert_array_equal(batch[b"data"], DATA)
    assert batch[b"labels"] == LABELS


def test_batch_of_python_2(write):
    images, labels, variant = read_cifar_pickle(write(python2_batch()))
    np.testing.assert_array_equal(images, DATA.reshape(5, 3, 32, 32))
    assert (labels.tolist(), variant) == (LABELS, "cifar10")
    read = read_images(write(python2_batch()))
    assert read.images.dtype == np.float32
    np.testing.assert_allclose(read.images.reshape(5, -1), DATA / 255, atol=1e-7)
    assert read.class_names == CIFAR10_CLASSES


@pytest.mark.parametrize("protocol", [3, 4])
def test_batch_saved_again_by_python_3(write, protocol):
    content = pickle.dumps({b"data": DATA, b"fine_labels": [99, 0, 5, 6, 7]}, protocol=protocol)
    images, labels, variant = read_cifar_pickle(write(content))
    np.testing.assert_array_equal(images.reshape(5, -1), DATA)
    assert (labels.tolist(), variant) == ([99, 0, 5, 6, 7], "cifar100")


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_nothing_is_executed(write, tmp_path, protocol):
    target = tmp_path / "touched"
    with pytest.raises(InputError, match="which no CIFAR file does"):
        read_cifar_pickle(write(pickle.dumps({"labels": Touch(target)}, protocol=protocol)))
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cos\nsystem\n(U\x04truetR.", "name 'os system'"),
        (b"\x80\x02cbuiltins\neval\nU\x011\x85R.", "name 'builtins eval'"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "name 'os system'"),
        (b"\x80\x02(cos\nsystem\no.", "name 'os system'"),
        (b"(S'true'\nios\nsystem\n.", "opcode STRING"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.", "other numbers than bytes"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "opcode NEWOBJ"),
        (b"\x80\x02K\x01.", "holds int, not a dictionary"),
        (b"\x80\x02}", "has no end|not a whole"),
        (b"\x80\x02.", "not a whole"),
        (b"\x80\x02e.", "not a whole"),
        (b"\x80\x02h\x05.", "not a whole"),
        (b"\x80\x02}K\x01K\x02s.", "not a whole"),
        (b"\x80\x02K\x01K\x02R.", "not a whole"),
        (b"\x80\x02}]K\x01tb.", "not a whole"),
        (b"\x80\x02T\xff\xff\xff\x7fabc.", "not a whole"),
        (b"", "not a whole|has no end"),
    ],
)
def test_programs_and_broken_pickles_are_refused(content, message):
    with pytest.raises(InputError, match=message):
        read_pickled_arrays(content, "batch")


def test_a_pickle_of_very_many_opcodes_is_given_up(monkeypatch):
    monkeypatch.setattr(pickled, "_MOST_OPCODES", 1000)
    with pytest.raises(InputError, match="too many opcodes"):
        read_pickled_arrays(b"\x80\x02" + b"N" * 1100 + b".", "batch")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (python2_batch(labels=[1, 2]), "2 labels for 5 images"),
        (python2_batch(labels=[1, 2, 3, 4, 10]), "from 1 to 10; those of cifar10 are 0 to 9"),
        (python2_batch(data=DATA[:, :100]), r"shape \(n, 3072\), got \(5, 100\)"),
        (python2_batch(key="names"), "no data and labels.*batch_label, data"),
        (python2_batch()[:-40], "not a whole"),
        (python2_batch()[:2000], "not a whole"),
        (pickle.dumps({"labels": [1], "data": [2]}, protocol=2), "got list"),
        (pickle.dumps({"labels": ["a"], "data": DATA[:1]}, protocol=3), "list of integers"),
    ],
)
def test_pickles_that_are_no_batch_are_refused(write, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_images(write(content))
    assert "test_batch" in str(caught.value)


def test_binary_batches(write):
    ten = np.hstack([np.array(LABELS, np.uint8)[:, None], DATA])
    images, labels, variant = read_cifar_binary(write(ten.tobytes(), "test_batch.bin"))
    np.testing.assert_array_equal(images.reshape(5, -1), DATA)
    assert (labels.tolist(), variant) == (LABELS, "cifar10")
    hundred = np.hstack([np.full((5, 1), 3, np.uint8), np.full((5, 1), 77, np.uint8), DATA])
    read = read_images(write(hundred.tobytes(), "test.bin"))
    assert read.labels is not None
    assert read.labels.tolist() == [77] * 5
    # The first bytes of this record look like the start of an IDX file.
    ten[0, :4] = [0, 0, 8, 1]
    assert read_images(write(ten.tobytes(), "data_batch_1.bin")).images.shape == (5, 3, 32, 32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(3072), "3,072 bytes are no whole number of CIFAR records"),
        (b"\x0b" + bytes(3072), "from 11 to 11"),
        (b"hello, this is text", "no whole number"),
    ],
)
def test_broken_binary_batches(write, content, message):
    with pytest.raises(InputError, match=message):
        read_images(write(content, "bad.bin"))
    with pytest.raises(InputError, match="empty"):
        read_images(write(b"", "bad.bin"))
