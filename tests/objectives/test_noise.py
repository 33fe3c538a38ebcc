"""Noise: what it keeps of the data, what it does not, and where it refuses."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from farfield.errors import InputError
from farfield.objectives import ImageNoise, TableNoise
from farfield.objectives.noise import IMAGE_KINDS, TABLE_KINDS, noise_for
from farfield.objectives.noise_images import permute_pixels, smooth, stretch
from farfield.objectives.pixels import check_images, to_unit


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_permuted_pixels_keep_colours_together_and_differ_between_images() -> None:
    images = torch.rand(6, 3, 5, 7)
    permuted = permute_pixels(images, generator())
    before, after = images.flatten(2), permuted.flatten(2)
    for image in range(6):
        colours = [tuple(c.tolist()) for c in before[image].T]
        assert sorted(colours) == sorted(tuple(c.tolist()) for c in after[image].T)
    same = torch.arange(35.0).expand(2, 1, 35).view(2, 1, 5, 7)
    first, second = permute_pixels(same, generator())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.5])
def test_the_filter_is_a_gaussian_with_mirrored_borders(sigma: float) -> None:
    images = torch.rand(2, 3, 9, 13, dtype=torch.float64)
    expected = gaussian_filter(images.numpy(), sigma=(0, 0, sigma, sigma), mode="reflect")
    np.testing.assert_allclose(smooth(images, sigma), expected, atol=1e-12)


def test_a_filter_wider_than_the_image_still_averages() -> None:
    images = torch.rand(1, 1, 3, 3, dtype=torch.float64)
    expected = gaussian_filter(images.numpy(), sigma=(0, 0, 2.5, 2.5), mode="reflect")
    np.testing.assert_allclose(smooth(images, 2.5), expected, atol=1e-12)


@given(st.integers(1, 9), st.sampled_from(IMAGE_KINDS), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_noise_images_span_the_unit_interval(count: int, kind: Any, seed: int) -> None:
    data = torch.rand(4, 2, 6, 5, generator=generator(seed))
    noise = ImageNoise(kind)(data, count, generator(seed))
    assert noise.shape == (count, 2, 6, 5)
    assert noise.dtype == torch.float32
    assert torch.equal(noise.amin((1, 2, 3)), torch.zeros(count))
    torch.testing.assert_close(noise.amax((1, 2, 3)), torch.ones(count))


def test_mixed_images_are_half_permuted_and_half_uniform() -> None:
    # Permuted images of black squares are black; unfiltered uniform ones are not.
    noise = ImageNoise("mixed", 0, 0)(torch.zeros(3, 1, 4, 4), 7, generator())
    assert (noise.flatten(1).amax(1) == 0).tolist() == [True] * 4 + [False] * 3


def test_bytes_and_numbers_give_the_same_noise() -> None:
    data = torch.randint(256, (5, 1, 6, 6), dtype=torch.uint8)
    by_bytes = ImageNoise()(data, 8, generator(3))
    torch.testing.assert_close(by_bytes, ImageNoise()(to_unit(data), 8, generator(3)))


def test_a_constant_image_is_not_stretched() -> None:
    assert torch.equal(stretch(torch.full((1, 1, 2, 2), 0.5)), torch.full((1, 1, 2, 2), 0.5))


def test_permuted_columns_keep_columns_and_break_rows() -> None:
    data = torch.stack([torch.arange(50.0), 100 + torch.arange(50.0)], dim=1)
    noise = TableNoise("permuted")(data, 400, generator())
    assert set(noise[:, 0].tolist()) <= set(data[:, 0].tolist())
    assert set(noise[:, 1].tolist()) <= set(data[:, 1].tolist())
    assert abs(float(torch.corrcoef(noise.T)[0, 1])) < 0.2


def test_uniform_noise_fills_the_widened_box() -> None:
    data = torch.tensor([[0.0, -2.0, 5.0], [10.0, 2.0, 5.0]])
    noise = TableNoise("uniform", widen=0.5)(data, 5000, generator())
    low, high = torch.tensor([-5.0, -4.0, 5.0]), torch.tensor([15.0, 4.0, 5.0])
    assert bool((noise >= low).all())
    assert bool((noise <= high).all())
    torch.testing.assert_close(noise.amin(0), low, atol=0.05, rtol=0)
    torch.testing.assert_close(noise.amax(0), high, atol=0.05, rtol=0)


def test_gaussian_noise_has_the_inflated_covariance() -> None:
    data = torch.randn(300, 3) @ torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, -2.0], [0.0, 0.0, 3.0]])
    data = data + torch.tensor([1.0, 2.0, 3.0])
    noise = TableNoise("gaussian", inflation=9.0)(data, 40_000, generator())
    torch.testing.assert_close(noise.mean(0), data.mean(0), atol=0.15, rtol=0)
    torch.testing.assert_close(torch.cov(noise.T), 9 * torch.cov(data.T), atol=3.0, rtol=0.05)


@given(st.sampled_from(TABLE_KINDS), st.integers(1, 9), st.integers(2, 5), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_noise_is_what_its_generator_says(kind: Any, count: int, features: int, seed: int) -> None:
    data = torch.randn(7, features, generator=generator(seed))
    before = torch.get_rng_state()
    first = TableNoise(kind)(data, count, generator(seed))
    assert torch.equal(first, TableNoise(kind)(data, count, generator(seed)))
    assert torch.equal(before, torch.get_rng_state())
    assert first.shape == (count, features)
    assert bool(torch.isfinite(first).all())


def test_what_cannot_be_noise_is_refused() -> None:
    with pytest.raises(InputError, match=r"n_features=1.*noise='uniform'"):
        TableNoise("permuted")(torch.zeros(5, 1), 3, generator())
    with pytest.raises(InputError, match="two columns and two rows"):
        TableNoise("permuted")(torch.zeros(1, 5), 3, generator())
    with pytest.raises(InputError, match="at least two rows"):
        TableNoise("gaussian")(torch.zeros(1, 5), 3, generator())
    with pytest.raises(InputError, match="positive count"):
        TableNoise()(torch.zeros(4, 5), 0, generator())
    with pytest.raises(InputError, match="channels, height, width"):
        ImageNoise()(torch.zeros(4, 5), 2, generator())
    with pytest.raises(InputError, match="sigma needs 0 <= smallest <= largest, got 3 and 2"):
        ImageNoise("mixed", 3, 2)
    with pytest.raises(InputError, match="widen must be"):
        TableNoise(widen=-1)
    with pytest.raises(InputError, match="inflation must be"):
        TableNoise(inflation=math.inf)
    with pytest.raises(InputError, match="images must be one of mixed, permuted, uniform"):
        noise_for(3, "gaussian")
    with pytest.raises(InputError, match="2 dimensions"):
        noise_for(2)


@pytest.mark.parametrize(
    ("images", "match"),
    [
        (torch.full((2, 1, 3, 3), 200.0), r"from 200 to 200; divide them by 255"),
        (torch.randn(2, 1, 3, 3), r"\[0, 1\].*undo the normalisation"),
        (torch.full((2, 1, 3, 3), math.nan), "NaN"),
        (torch.zeros(2, 3, 3), r"images\[:, None\]"),
        (torch.zeros(0, 1, 3, 3), "at least one image"),
        (torch.zeros(2, 1, 3, 3, dtype=torch.int64), "astype"),
        ("pictures", "got str"),
    ],
)
def test_unusable_images_are_explained(images: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        check_images(images)


def test_images_as_numpy_arrays_and_doubles_are_taken() -> None:
    pixels = np.linspace(0, 1, 8).reshape(2, 1, 2, 2)
    assert check_images(pixels).dtype == torch.float32
    assert check_images((255 * pixels).astype(np.uint8)).dtype == torch.uint8
