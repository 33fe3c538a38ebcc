"""Images with the interface of tables."""

import numpy as np
import pytest
import torch

from farfield.data import open_images
from farfield.errors import InputError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (23, 6, 5, 3), dtype=np.uint8)
LABELS = RNG.integers(0, 3, 23)


def test_images_in_chunks():
    source = open_images(IMAGES, LABELS)
    X = np.moveaxis(IMAGES, 3, 1) / 255
    assert (source.shape, source.n_rows, source.is_image) == ((3, 6, 5), 23, True)
    assert (source.columns, source.label, source.class_names) == ((), "labels", ("0", "1", "2"))
    assert source.class_counts == tuple(np.bincount(LABELS))
    assert source.feature_names[:2] == ("pixel 0,0,0", "pixel 0,0,1")
    assert len(source.feature_names) == 90
    for size in (1, 10, None):
        parts = list(source.chunks(size))
        assert parts[0][0].dtype == np.float32
        np.testing.assert_allclose(np.concatenate([x for x, _ in parts]), X, atol=1e-7)
        np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), LABELS)
    np.testing.assert_allclose(source.summary.mean, X.mean(0), atol=1e-7)
    np.testing.assert_allclose(source.summary.std, X.std(0), atol=1e-7)
    rows = source.sample(6)
    np.testing.assert_allclose(rows.X, X[rows.index], atol=1e-7)
    assert rows.y is not None
    np.testing.assert_array_equal(rows.y, LABELS[rows.index])
    assert bool(source.box().contains(rows.X).all())


def test_files_and_arrays_are_the_same(tmp_path):
    np.savez(tmp_path / "i.npz", images=IMAGES, labels=LABELS, classes=np.array(["a", "b", "c"]))
    source = open_images(tmp_path / "i.npz")
    assert (source.where, source.class_names) == ("i.npz", ("a", "b", "c"))
    np.testing.assert_array_equal(source.read().X, open_images(torch.from_numpy(IMAGES)).read().X)
    relabelled = open_images(str(tmp_path / "i.npz"), np.zeros(23, int), class_names=["q"])
    assert (relabelled.class_names, relabelled.class_counts) == (("q",), (23,))


def test_images_and_a_model():
    source = open_images(IMAGES, LABELS)
    fitted = source.fit_to(90, n_classes=10)
    assert fitted.class_names == tuple(str(k) for k in range(10))
    assert source.fit_to(90, class_labels=list("abc")).class_names == ("0", "1", "2")
    with pytest.raises(InputError, match=r"takes 784 numbers; images of shape \(3, 6, 5\) have 90"):
        source.fit_to(784)
    with pytest.raises(InputError, match="has 2 classes"):
        source.fit_to(90, n_classes=2)


def test_like_earlier_images():
    source = open_images(IMAGES, LABELS)
    assert open_images(IMAGES[:5], like=source).label is None
    with pytest.raises(InputError, match=r"shape \(1, 28, 28\); those of images have \(3, 6, 5\)"):
        open_images(np.zeros((2, 28, 28)), like=source)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((IMAGES.reshape(23, -1),), "Reshape flattened images"),
        ((IMAGES * 1.0,), "Pass scale=255"),
        ((IMAGES, LABELS[:-1]), "23 whole numbers"),
        ((IMAGES, LABELS - 1), "start at 0"),
        ((IMAGES, LABELS + 10**6), "no class indices"),
    ],
)
def test_bad_images_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        open_images(*arguments)


def test_names_must_cover_the_labels():
    with pytest.raises(InputError, match="labels go up to 2, but 2 classes have names"):
        open_images(IMAGES, LABELS, class_names=["a", "b"])
