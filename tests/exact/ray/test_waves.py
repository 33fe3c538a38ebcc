"""Waves kept as patches behave as the same waves kept as whole rows."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.exact.ray.waves import Waves, aligned, joined

WINDOWS = 3


def patches(seed, count=5, channels=2, side=3, size=(9, 8), first=0):
    """Random patches, some of them partly outside of the image."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.Size([channels, *size])
    corner = torch.stack(
        [torch.randint(1 - side, length, (count,), generator=generator) for length in size], dim=1
    )
    parts = torch.randn(count, channels, side, side, generator=generator)
    at = torch.arange(side)
    for axis, length in enumerate(size):
        inside = (corner[:, axis, None] + at >= 0) & (corner[:, axis, None] + at < length)
        parts = parts * (inside[:, None, :, None] if axis == 0 else inside[:, None, None, :])
    window = torch.randint(0, WINDOWS, (count,), generator=generator)
    return Waves(torch.arange(first, first + count), window, parts, row, corner)


def close(one, two):
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), side=st.integers(1, 6))
def test_sums_products_and_weights_agree(seed, side):
    waves = patches(seed, side=side)
    whole = waves.whole()
    assert whole.corner is None
    close(waves.mass(WINDOWS), whole.mass(WINDOWS))
    expected = torch.stack(
        [whole.parts[waves.window == window].abs().sum(dim=0) for window in range(WINDOWS)]
    )
    close(whole.mass(WINDOWS), expected)
    assert bool((whole.mass(WINDOWS) >= expected).all())
    factor = torch.randn(WINDOWS, *waves.row)
    close(waves.times(factor).whole().parts, whole.parts * factor[waves.window])
    weight = torch.rand(1, *waves.row)
    close(waves.weigh(weight), whole.weigh(weight))
    close(whole.weigh(weight), (whole.parts.abs() * weight).flatten(1).sum(dim=1))
    kept = torch.tensor([True, False, True, True, False])
    close(waves[kept].whole().parts, whole.parts[kept])


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), smaller=st.integers(1, 4))
def test_patches_are_cut_without_loss(seed, smaller):
    waves = patches(seed, side=5)
    offset = torch.randint(0, 6 - smaller, (len(waves), 2))
    core, rest = waves.core(offset, smaller)
    assert core.side == smaller
    close(core.mass(WINDOWS), core.whole().mass(WINDOWS))
    close(core.whole().parts + rest.whole().parts, waves.whole().parts)
    close(core.sizes.sum() + rest.sizes.sum(), waves.sizes.sum())
    weight = torch.rand(1, *waves.row)
    close(waves.pixels(weight).flatten(1).sum(dim=1), waves.weigh(weight))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    side=st.integers(1, 5),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
)
def test_a_sliding_window_over_patches_is_one_over_the_image(seed, side, kernel, stride, padding):
    if kernel < stride or padding >= kernel:
        return
    waves = patches(seed, side=side)
    weight = torch.randn(4, 2, kernel, kernel)
    expected = torch.conv2d(waves.whole().parts, weight, stride=stride, padding=padding)
    row = expected.shape[1:]
    slid = waves.slid(
        lambda parts: torch.conv2d(parts, weight, stride=stride), kernel, stride, padding, row
    )
    close(slid.whole().parts, expected)
    # What lies outside of the image is zero, so that a second window may follow.
    again = torch.randn(3, 4, 3, 3)
    expected = torch.conv2d(expected, again, padding=1)
    slid = slid.slid(lambda parts: torch.conv2d(parts, again), 3, 1, 1, expected.shape[1:])
    close(slid.whole().parts, expected)


def test_frames_move_patches():
    waves = patches(3)
    framed = waves.moved((2, 1), torch.Size([2, 12, 12]))
    expected = F.pad(waves.whole().parts, (1, 3, 2, 1))
    close(framed.whole().parts, expected)


@pytest.mark.parametrize("whole", [(False, False), (True, False), (True, True)])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_waves_are_joined_and_aligned_by_number(whole, seed):
    first = patches(seed, side=2, first=0)
    second = patches(seed + 1, side=4, first=5)
    one, two = (w.whole() if a else w for a, w in zip(whole, (first, second), strict=True))
    together = joined(two, one)
    assert together.ids.tolist() == list(range(10))
    close(together.whole().parts, torch.cat([first.whole().parts, second.whole().parts]))
    assert together.window.tolist() == [*first.window.tolist(), *second.window.tolist()]
    third = Waves(first.ids + 2, first.window, second.parts, first.row, second.corner)
    third = third.whole() if whole[1] else third
    parts, waves = aligned([one, third])
    assert waves.ids.tolist() == list(range(7))
    for part, own in zip(parts, (one, third), strict=True):
        expected = torch.zeros(7, *first.row)
        expected[own.ids] = own.whole().parts
        close(Waves(waves.ids, waves.window, part, first.row, waves.corner).whole().parts, expected)


def test_a_wave_is_born_in_one_unit():
    row = torch.Size([2, 3, 4])
    places = torch.tensor([5, 24 + 17, 48 + 23])
    waves = Waves.born(torch.arange(3), torch.tensor([1.0, 2.0, 3.0]), places, row)
    assert waves.window.tolist() == [0, 1, 2]
    flat = waves.whole().parts.flatten(1)
    assert torch.nonzero(flat).tolist() == [[0, 5], [1, 17], [2, 23]]
    plain = Waves.born(torch.arange(1), torch.tensor([1.0]), torch.tensor([7]), torch.Size([5]))
    assert plain.corner is None
    assert plain.window.tolist() == [1]
    assert plain.parts.tolist() == [[0.0, 0.0, 1.0, 0.0, 0.0]]
