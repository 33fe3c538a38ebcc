"""Image models."""

import base64

import numpy as np
import pytest
import torch

from audit_subjects import subject_of
from farfield.audit.families import image_rays
from farfield.audit.sections.pictures import pictures, png


def test_png_is_a_picture_that_others_read(tmp_path):
    image = np.random.default_rng(0).random((3, 5, 7))
    data = base64.b64decode(png(image).removeprefix("data:image/png;base64,"))
    pillow = pytest.importorskip("PIL.Image")
    (tmp_path / "a.png").write_bytes(data)
    with pillow.open(tmp_path / "a.png") as opened:
        assert opened.size == (7, 5)
        pixels = np.asarray(opened)
    np.testing.assert_array_equal(pixels, np.round(255 * image).transpose(1, 2, 0).astype(np.uint8))


def test_pictures_say_where_they_are_sure():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    rows = np.random.default_rng(0).random((10, 3, 2, 2))
    subject = subject_of(model, rows, moving=())
    found = pictures(subject, np.random.default_rng(0))
    assert len(found) == 6
    assert all(len(each.images) == len(each.captions) for each in found)
    assert any("99.9% first exactly at" in each.captions[-1] for each in found)
    assert [rays.name for rays in image_rays(subject, 5, np.random.default_rng(0))] == [
        "scaling",
        "noise",
    ]
