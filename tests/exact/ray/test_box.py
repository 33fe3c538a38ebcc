"""Bounded domains: where rays leave, what clipping does to them, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact.ray.box import Box
from farfield.exact.ray.line import along

INF = float("inf")


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
    module = nn.Sequential(module, nn.Linear(16, 3)).double()
    for parameter in module.parameters():
        parameter.data *= 3
    return ff.capture(module, torch.zeros(1, 3, dtype=torch.float64))


def test_rays_stop_where_they_leave(network):
    box = Box([0.0, 0.0, -INF], [1.0, 2.0, INF])
    origin = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 0.0]]
    direction = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, -2.0, 5.0], [1.0, 0.0, 0.0]]
    lines = along(network, origin, direction, box=box)
    assert lines.stop.tolist() == [0.5, INF, 0.5, 0.0]
    assert along(network, origin, direction, 0.25, box=box).stop.tolist() == [0.25, 0.25, 0.25, 0]
    free = along(network, origin, direction, lines.stop)
    for one, two in zip(lines, free, strict=True):
        torch.testing.assert_close(one.breakpoints, two.breakpoints)
    assert lines[3].edges.tolist() == [0.0, 0.0]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    stop=st.sampled_from([INF, 4.0]),
    budget=st.sampled_from([1, 1 << 20]),
)
def test_projected_rays_follow_the_clipped_input(network, seed, stop, budget):
    generator = torch.Generator().manual_seed(seed)
    origin, direction = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    box = Box([0.0, -0.5, -INF], [1.0, INF, 0.25])
    line = along(network, origin, direction, stop, box=box, leaving="project", budget=budget)[0]
    t = torch.cat([torch.linspace(0, 4, 300, dtype=torch.float64), line.breakpoints.clamp(max=4)])
    expected = network.logits(box.project(origin + t[:, None] * direction))
    torch.testing.assert_close(line.logits_at(t), expected, rtol=1e-10, atol=1e-10)
    low, high = torch.tensor([0.0, -0.5, -INF]), torch.tensor([1.0, INF, 0.25])
    walls = torch.cat([(low - origin) / direction, (high - origin) / direction])
    walls = walls[(walls > 0) & (walls < stop)]
    for wall in walls:
        assert float((line.breakpoints - wall).abs().min()) < 1e-12 * float(wall)


def test_scaled_images_saturate_at_the_corners_of_the_box():
    # alpha * x clipped to [0, 1]: in the end every positive pixel is 1.
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).double()
    network = ff.capture(module, torch.zeros(1, 1, 2, 2, dtype=torch.float64))
    image = torch.tensor([[[[0.5, 0.25], [0.0, 0.8]]]], dtype=torch.float64)
    line = along(network, 0 * image, image, box=Box(0.0, 1.0), leaving="project")[0]
    assert line.breakpoints.tolist() == [1.25, 2.0, 4.0]
    corner = network.logits((image > 0).double())[0, 0]
    torch.testing.assert_close(line.intercept[-1], corner)
    assert line.slope[-1].tolist() == [0.0, 0.0]


def test_rays_that_start_outside_are_refused_or_projected(network):
    box = Box(0.0, 1.0)
    origin = [[0.5, 0.5, 0.5], [0.5, 1.5, 0.5]]
    with pytest.raises(InputError, match=r"1 of 2 rays start outside the box \(rows \[1\]\)"):
        along(network, origin, [1.0, 0.0, 0.0], box=box)
    inside = box.project(torch.tensor(origin))
    assert bool(box.contains(inside).all())
    along(network, inside, [1.0, 0.0, 0.0], box=box)
    lines = along(network, origin, [0.0, -1.0, 0.0], box=box, leaving="project")
    # The second ray comes back into the box at t = 0.5, and leaves it at 1.5.
    assert {0.5, 1.5} <= {round(t, 12) for t in lines[1].breakpoints.tolist()}


def test_categories_are_moved_not_scaled(network):
    box = Box(0.0, INF, categorical=[[1, 2]])
    origin = [0.5, 1.0, 0.0]
    assert box.moves(origin).tolist() == [[0.5, 0.0, 1.0]]
    assert along(network, origin, [1.0, 0.0, 0.0], box=box).stop.tolist() == [INF]
    for leaving in ("stop", "project"):
        with pytest.raises(InputError, match="categories are not scaled"):
            along(network, origin, [1.0, 0.5, 0.0], box=box, leaving=leaving)
        with pytest.raises(InputError, match="not one-hot"):
            along(network, [0.5, 0.5, 0.5], [1.0, 0.0, 0.0], box=box, leaving=leaving)
    assert box.contains([[0.5, 1.0, 0.0], [0.5, 1.0, 1.0], [0.5, 0.5, 0.5]]).tolist() == [
        True,
        False,
        False,
    ]
    assert box.project([[-1.0, 0.4, 0.3]]).tolist() == [[0.0, 1.0, 0.0]]
    with pytest.raises(InputError, match="one-hot"):
        box.moves([0.5, 0.4, 0.3])
    with pytest.raises(InputError, match="takes one row"):
        box.moves([origin, origin])


@pytest.mark.parametrize(
    ("low", "high", "blocks", "message"),
    [
        (1.0, 0.0, (), "low is above high"),
        ([0.0, 2.0], [1.0, 1.0], (), r"features \[1\]"),
        (math.nan, 1.0, (), "low holds NaN"),
        (0.0, [1.0, math.nan], (), "high holds NaN"),
        (INF, INF, (), "the box is empty"),
        (0.0, -INF, (), "the box is empty"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], (), "one number each"),
        ("a", 1.0, (), "cannot be read"),
        (0.0, 1.0, [[0, 1], [1, 2]], "overlap"),
        (0.0, 1.0, [[0]], "at least two"),
        (0.0, 1.0, [[-1, 1]], "from 0"),
    ],
)
def test_bad_boxes_are_refused(low, high, blocks, message):
    with pytest.raises(InputError, match=message):
        Box(low, high, blocks)


def test_boxes_of_another_shape_are_refused(network):
    with pytest.raises(InputError, match=r"inputs have \(3,\)"):
        along(network, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], box=Box([0.0, 0.0], 1.0))
    with pytest.raises(InputError, match="beyond the 3"):
        along(network, [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], box=Box(0.0, 1.0, [[2, 3]]))
    with pytest.raises(InputError, match="'stop' or 'project'"):
        along(network, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], box=Box(0.0, 1.0), leaving="bounce")


def test_exits_broadcast_and_are_exact():
    box = Box(-1.0, 1.0)
    exits = box.exit(np.zeros((1, 2)), np.array([[0.5, 0.0], [-0.1, 0.2], [2.0**-900, 0.0]]))
    assert exits.tolist() == [2.0, 5.0, 2.0**900]
    assert "Box(" in repr(box)
