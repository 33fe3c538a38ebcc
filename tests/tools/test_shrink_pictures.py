"""Pictures of the documentation are small, and look as they did."""

import runpy
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="comes with matplotlib")
ROOT = Path(__file__).parents[2]
DRAWN = ("kinds", "one-feature", "entry-errors", "far-field")


def test_a_smaller_file_of_the_same_picture(tmp_path):
    shrink = runpy.run_path(str(ROOT / "tools" / "shrink_pictures.py"))["shrink"]
    ramp = np.linspace(0, 255, 300).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 3, (200, 300), dtype=np.uint8)
    before = np.stack([np.tile(ramp, (200, 1)), noise, np.full((200, 300), 90, np.uint8)], axis=2)
    path = tmp_path / "picture.png"
    Image.fromarray(before).save(path)
    size = path.stat().st_size
    shrink(path)
    assert path.stat().st_size < size
    with Image.open(path) as picture:
        after = np.asarray(picture.convert("RGB")).astype(int)
    assert np.abs(after - before).max() <= 4


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_can_be_loaded_over_a_phone(name):
    path = ROOT / "docs" / "images" / f"{name}.png"
    assert path.stat().st_size < 300_000
    with Image.open(path) as picture:
        assert picture.width >= 1200
