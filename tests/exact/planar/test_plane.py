"""Exact regions of a plane: rational arithmetic, Euler's formula, a plain clipper, dense grids."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError, NumericalOverflow, UnsupportedOperation
from farfield.exact.planar import plane_walk
from farfield.exact.planar.plane import slice_plane
from oracles import Absolute, Pool, Residual
from plane_oracle import at, regions

AXES = ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0])
ARCHITECTURES = {
    "no-hidden": lambda: [nn.Linear(3, 2)],
    "shallow": lambda: [nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 3)],
    "deep": lambda: [
        nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(),
        nn.Linear(3, 2),
    ],
    "leaky": lambda: [
        nn.Linear(3, 4), nn.LeakyReLU(0.01), nn.Linear(4, 3), nn.LeakyReLU(-0.25), nn.Linear(3, 3)
    ],
    "prelu": lambda: [nn.Linear(3, 4), nn.PReLU(4), nn.Linear(4, 4), nn.PReLU(4), nn.Linear(4, 2)],
    "absolute": lambda: [nn.Linear(3, 4), Absolute(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)],
    "clamped": lambda: [
        nn.Linear(3, 4), nn.Hardtanh(-1.0, 2.0), nn.Linear(4, 3), nn.Hardtanh(0.0, 6.0),
        nn.Linear(3, 3),
    ],
    "max-pool": lambda: [nn.Linear(3, 5), nn.ReLU(), Pool("max", 3), nn.Linear(3, 3)],
    "pool-first": lambda: [Pool("max", 2), nn.Linear(2, 4), nn.ReLU(), Pool("max", 2),
                           nn.Linear(3, 2)],
    "mean-pool": lambda: [nn.Linear(3, 5), nn.ReLU(), Pool("mean", 3), nn.ReLU(), nn.Linear(3, 3)],
    "residual": lambda: [
        nn.Linear(3, 3), Residual(nn.Sequential(nn.ReLU(), nn.Linear(3, 3), nn.ReLU())),
        nn.ReLU(), nn.Linear(3, 3),
    ],
}  # fmt: skip


def randomized(module, rng, kind):
    """Weights that provoke ties, duplicates, parallel lines and dead units, or generic ones."""
    for part in module.modules():
        if isinstance(part, nn.PReLU):
            part.weight.data = torch.from_numpy(rng.choice([0.0, 0.25, 1.0, -0.5], 4))
        if not isinstance(part, nn.Linear):
            continue
        shape = tuple(part.weight.shape)
        if kind == "gaussian":
            weight, bias = rng.normal(size=shape), rng.normal(size=shape[0])
        else:
            weight = rng.integers(-2, 3, shape).astype(float)
            bias = rng.integers(-2, 3, shape[0]).astype(float)
        if kind == "duplicates" and shape[0] > 2:
            weight[-1], bias[-1] = weight[0], bias[0]
            weight[1], bias[1] = -weight[0], -bias[0]
        if kind == "dead" and rng.random() < 0.5:
            weight[0], bias[0] = 0, rng.integers(-1, 2)
            weight, bias = -np.abs(weight), -np.abs(bias)
        part.weight.data, part.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
    return module


KINDS = ("gaussian", "integers", "duplicates", "dead")


@functools.cache
def drawn(architecture, kind):
    """A network with such weights, and a plane."""
    rng = np.random.default_rng(sum(map(ord, architecture + kind)))
    module = nn.Sequential(*ARCHITECTURES[architecture]()).double()
    module = randomized(module, rng, kind)
    return module, rng.normal(size=(3, 3)) if kind == "gaussian" else np.eye(3)[[2, 0, 1]]


@functools.cache
def all_kinds(architecture):
    """An architecture with weights of all kinds, traced once."""
    return captured([drawn(architecture, kind)[0] for kind in KINDS], 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_polygons_equal_rational_arithmetic(architecture, kind):
    network, instance = all_kinds(architecture), KINDS.index(kind)
    module, frame = drawn(architecture, kind)
    extent = (-3.0, 4.0, -2.0, 5.0)
    plane = slice_plane(network, *frame, extent, instance=instance)
    exact = regions(module, *frame.tolist(), extent)
    assert sum(cell.area for cell in exact) == 49
    assert len(plane) == len(exact)
    # Cells match by their centres: each exact centre lies in the polygon with its function.
    centres = np.array(
        [np.mean([[float(x), float(y)] for x, y in cell.corners], axis=0) for cell in exact]
    )
    nearest = np.argmin(
        np.linalg.norm(centres[:, None] - plane.centres.numpy()[None], axis=2), axis=1
    )
    assert sorted(nearest) == list(range(len(plane)))
    for cell, index in zip(exact, nearest, strict=True):
        area = float(cell.area)
        assert plane.areas[index].item() == pytest.approx(area, rel=1e-9, abs=1e-12)
        functions = torch.cat([plane.slope[index], plane.intercept[index, :, None]], dim=1)
        expected = torch.from_numpy(np.array(cell.values, dtype=float))
        torch.testing.assert_close(functions, expected, rtol=1e-11, atol=1e-11)
        corner = tuple(cell.corners[0])
        value = [float(at(function, corner)) for function in cell.values]
        place = torch.tensor([[float(corner[0]), float(corner[1])]], dtype=torch.float64)
        logits = network.logits(plane.points(place))[instance, 0]
        assert logits.tolist() == pytest.approx(value, abs=1e-9)


def mlp(seed, *widths, outputs=3):
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for inputs, width in itertools.pairwise((2, *widths, outputs)):
        layer = nn.Linear(inputs, width, dtype=torch.float64)
        layer.weight.data.normal_(0, math.sqrt(2 / inputs), generator=generator)
        layer.bias.data.normal_(0, 1, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def captured(module, inputs=2):
    return ff.capture(module, torch.zeros(1, inputs, dtype=torch.float64))


@pytest.mark.parametrize("seed", range(5))
def test_a_single_layer_has_as_many_regions_as_euler_counts(seed):
    module = mlp(seed, 20)
    weight, bias = (p.detach().numpy() for p in module[0].parameters())
    corners = np.array([[-5, -5], [5, -5], [5, 5], [-5, 5]])
    side = corners @ weight.T + bias
    lines = np.flatnonzero((side.min(axis=0) < 0) & (side.max(axis=0) > 0))
    crossings = 0
    for i, j in itertools.combinations(lines, 2):
        point = np.linalg.solve(weight[[i, j]], -bias[[i, j]])
        crossings += bool((np.abs(point) < 5).all())
    assert len(slice_plane(captured(module), *AXES, 5.0)) == 1 + len(lines) + crossings


@pytest.mark.parametrize("seed", range(3))
def test_every_pattern_on_a_grid_is_a_polygon_and_every_polygon_has_its_own(seed):
    module = mlp(seed, 10, 10, 10)
    plane = slice_plane(captured(module), *AXES, 5.0)
    assert len(set(plane.pattern.tolist())) == len(plane)

    def patterns(points):
        signs, values = [], points
        for part in module:
            values = part(values)
            if isinstance(part, nn.ReLU):
                signs.append(values > 0)
        bits = torch.cat(signs, dim=1).long()
        return set((bits << torch.arange(bits.shape[1])).sum(dim=1).unique().tolist())

    steps = torch.linspace(-5, 5, 300, dtype=torch.float64)
    with torch.no_grad():
        on_grid = patterns(torch.cartesian_prod(steps, steps))
        inside = patterns(plane.centres)
    assert len(inside) == len(plane)
    # A point of the grid may lie on an edge, so a few patterns may be those of edges.
    assert len(on_grid - inside) == 0
    assert len(on_grid) > 0.5 * len(plane)


def test_areas_fill_the_window_and_affine_maps_are_the_network():
    for seed in range(3):
        network = captured(mlp(seed, 25, 25, 25, outputs=1))
        plane = slice_plane(network, *AXES, (-5, 5, -4, 6))
        assert plane.areas.sum().item() == pytest.approx(100, rel=1e-12)
        assert (plane.areas > 0).all()
        logits = (plane.slope @ plane.centres[:, :, None])[..., 0] + plane.intercept
        torch.testing.assert_close(logits, network.logits(plane.centres)[0], rtol=0, atol=1e-10)
        owner = torch.arange(len(plane)).repeat_interleave(plane.offsets.diff())
        at_corners = torch.einsum("nd,ncd->nc", plane.vertices, plane.slope[owner])
        torch.testing.assert_close(
            at_corners + plane.intercept[owner],
            network.logits(plane.points(plane.vertices))[0],
            rtol=0,
            atol=1e-10,
        )


@functools.cache
def small_network(seed):
    return captured(mlp(seed, 6, 6))


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 4),
    left=st.floats(-1e3, 1e3),
    low=st.floats(-1e3, 1e3),
    width=st.floats(1e-3, 1e4),
    height=st.floats(1e-3, 1e4),
)
def test_any_window_is_filled(seed, left, low, width, height):
    plane = slice_plane(small_network(seed), *AXES, (left, left + width, low, low + height))
    area = (plane.extent[1] - plane.extent[0]) * (plane.extent[3] - plane.extent[2])
    assert plane.areas.sum().item() == pytest.approx(area, rel=1e-9)
    assert (plane.areas > -1e-12 * area).all()


class Picture(nn.Module):
    """Convolution, padded max pooling, a residual and a view that asks for the batch size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 3, 3, padding=1)
        self.out = nn.Linear(3 * 9 + 2, 3)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.first(x)), 3, 2, 1)
        y = y + F.leaky_relu(self.second(y), 0.1)
        flat = y.view(x.shape[0], -1)
        extra = torch.zeros(x.shape[0], 2, dtype=x.dtype) + 0.5
        return self.out(torch.cat([flat, extra], dim=1)).clamp(-2.0, 2.0)


def test_a_slice_through_pictures_is_the_network_on_every_pixel():
    torch.manual_seed(0)
    module = Picture().double()
    network = ff.capture(module, torch.zeros(2, 1, 6, 6, dtype=torch.float64))
    rng = np.random.default_rng(0)
    origin, u, v = rng.normal(size=(3, 1, 6, 6))
    plane = slice_plane(network, origin, u, v, 3.0)
    assert len(plane) > 500
    assert plane.areas.sum().item() == pytest.approx(36, rel=1e-12)
    assert len(set(plane.pattern.tolist())) == len(plane)
    raster = plane.raster(60)
    steps = (torch.arange(60, dtype=torch.float64) + 0.5) / 10 - 3
    b, a = torch.meshgrid(steps, steps, indexing="ij")
    points = plane.points(torch.stack([a, b], dim=-1).reshape(-1, 2))
    p = network.probabilities(points)[0]
    torch.testing.assert_close(raster.confidence.flatten(), p.amax(dim=1), rtol=0, atol=1e-10)
    assert set(raster.polygon.unique().tolist()) <= set(range(len(plane)))


def test_blocks_of_polygons_change_nothing(monkeypatch):
    torch.manual_seed(1)
    pictures = ff.capture(Picture().double(), torch.zeros(2, 1, 6, 6, dtype=torch.float64))
    rng = np.random.default_rng(1)
    frame = rng.normal(size=(3, 1, 6, 6))
    cases = [(pictures, (*frame, 0.15)), (captured(mlp(4, 8, 8, 8)), (*AXES, 5.0))]
    whole = [slice_plane(network, *window) for network, window in cases]
    monkeypatch.setattr(plane_walk, "BLOCK_ELEMENTS", 3000)
    for plane, (network, window) in zip(whole, cases, strict=True):
        parts = slice_plane(network, *window)
        assert len(plane) > 200
        order, other = plane.pattern.argsort(), parts.pattern.argsort()
        assert torch.equal(plane.pattern[order], parts.pattern[other])
        torch.testing.assert_close(plane.areas[order], parts.areas[other])
        torch.testing.assert_close(plane.slope[order], parts.slope[other])


def test_a_window_with_too_many_regions_is_refused():
    network = captured(mlp(4, 12, 12, 12))
    count = len(slice_plane(network, *AXES, 5.0))
    assert len(slice_plane(network, *AXES, 5.0, most=count)) == count
    with pytest.raises(InputError, match=f"more than {count - 1} regions"):
        slice_plane(network, *AXES, 5.0, most=count - 1)


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_boundaries_are_where_two_classes_tie_above_all_others(outputs):
    network = captured(mlp(2, 15, 15, outputs=outputs))
    plane = slice_plane(network, *AXES, 5.0)
    found = plane.boundaries()
    assert len(found) > 5
    for share in (0.0, 0.3, 1.0):
        place = torch.lerp(found.segments[:, 0], found.segments[:, 1], share)
        logits = network.logits(place)[0]
        tied = logits.gather(1, found.classes)
        torch.testing.assert_close(tied[:, 0], tied[:, 1], rtol=0, atol=1e-9)
        assert (logits.amax(dim=1) - tied[:, 0] < 1e-9).all()
    # Neighbours on a grid with different classes have a segment between them.
    steps = torch.linspace(-4.99, 4.99, 200, dtype=torch.float64)
    label = network.logits(torch.cartesian_prod(steps, steps))[0].argmax(dim=1).reshape(200, 200)
    changes = torch.nonzero(label[1:] != label[:-1])
    x, y = (steps[changes[:, 0]] + steps[changes[:, 0] + 1]) / 2, steps[changes[:, 1]]
    start, along = found.segments[:, 0], found.segments[:, 1] - found.segments[:, 0]
    offset = torch.stack([x, y], dim=1)[:, None] - start
    t = ((offset * along).sum(-1) / (along * along).sum(-1)).clamp(0, 1)
    distance = (offset - t[..., None] * along).norm(dim=-1).amin(dim=1)
    assert len(changes) > 20
    assert (distance <= steps.diff()[0] / 2 + 1e-9).all()


def test_hundreds_of_contenders_have_the_boundaries_of_an_envelope():
    # One polygon: parabolas' tangents, every class leads on its own strip of the window.
    classes = 400
    places = torch.linspace(-0.99, 0.99, classes, dtype=torch.float64)
    layer = nn.Linear(2, classes, dtype=torch.float64)
    layer.weight.data = torch.stack([2 * places, torch.zeros_like(places)], dim=1)
    layer.bias.data = -places.square()
    plane = slice_plane(captured(layer), *AXES, 1.0)
    found = plane.boundaries()
    assert found.classes.tolist() == [[k, k + 1] for k in range(classes - 1)]
    halfway = (places[1:] + places[:-1]) / 2
    torch.testing.assert_close(found.segments[:, :, 0], halfway[:, None].expand(-1, 2))
    assert (found.lengths == 2).all()


def test_among_many_classes_few_contend_and_their_boundaries_tie():
    network = captured(mlp(3, 12, 12, outputs=1000))
    plane = slice_plane(network, *AXES, 5.0)
    found = plane.boundaries()
    assert len(found) > 5
    logits = network.logits(found.segments.mean(dim=1))[0]
    tied = logits.gather(1, found.classes)
    torch.testing.assert_close(tied[:, 0], tied[:, 1], rtol=0, atol=1e-9)
    assert (logits.amax(dim=1) - tied[:, 0] < 1e-9).all()
    parts = plane.by_class()
    assert parts.areas.sum().item() == pytest.approx(100, rel=1e-12)
    label = network.logits(parts.centres)[0].argmax(dim=1)
    owner = torch.arange(len(parts)).repeat_interleave(parts.offsets.diff())
    corner = network.logits(parts.vertices)[0]
    assert (corner.amax(dim=1) - corner.gather(1, label[owner, None])[:, 0]).max() < 1e-9


def test_of_classes_that_are_equal_the_first_has_the_boundary():
    layer = nn.Linear(2, 500, dtype=torch.float64)
    layer.weight.data.zero_()
    layer.bias.data.zero_()
    layer.weight.data[::2, 0] = 1.0
    plane = slice_plane(captured(layer), *AXES, 1.0)
    assert plane.boundaries().classes.tolist() == [[0, 1]]
    assert len(plane.by_class()) == 2


def test_cut_by_class_each_part_has_one_class_and_the_same_total_area():
    network = captured(mlp(7, 15, 15, outputs=5))
    plane = slice_plane(network, *AXES, 5.0)
    parts = plane.by_class()
    assert len(parts) > len(plane)
    assert parts.areas.sum().item() == pytest.approx(100, rel=1e-12)
    owner = torch.arange(len(parts)).repeat_interleave(parts.offsets.diff())
    label = network.logits(parts.centres)[0].argmax(dim=1)
    logits = network.logits(parts.vertices)[0]
    behind = logits.amax(dim=1) - logits.gather(1, label[owner, None])[:, 0]
    assert behind.max() < 1e-9
    flat = slice_plane(captured(nn.Sequential(nn.Linear(2, 1))), *AXES, 1.0)
    single = slice_plane(captured(mlp(0, 4)), *AXES, 1e-9)
    assert single.by_class() is single
    assert len(flat) == 1


def test_dead_units_and_constant_networks_cut_nothing():
    module = mlp(0, 5, 5)
    module[0].weight.data.zero_()
    module[0].bias.data.fill_(-1.0)
    plane = slice_plane(captured(module), *AXES, 2.0)
    assert len(plane) == 1
    assert plane.slope.abs().max() == 0
    assert plane.areas.tolist() == [16.0]
    module[0].bias.data.zero_()
    assert len(slice_plane(captured(module), *AXES, 2.0)) == 1


def test_a_unit_and_its_copies_cut_once():
    module = mlp(3, 6)
    for row in range(1, 6):
        module[0].weight.data[row] = module[0].weight[0] * (-1) ** row * 0.1 * row
        module[0].bias.data[row] = module[0].bias[0] * (-1) ** row * 0.1 * row
    assert len(slice_plane(captured(module), *AXES, 5.0)) == 2


def test_an_edge_of_the_window_on_a_kink_cuts_nothing():
    layer = nn.Linear(2, 2, dtype=torch.float64)
    layer.weight.data, layer.bias.data = torch.eye(2).double(), torch.tensor([-1.0, 3.0]).double()
    network = captured(nn.Sequential(layer, nn.ReLU()))
    assert len(slice_plane(network, *AXES, (1.0, 2.0, -3.0, 0.0))) == 1
    assert len(slice_plane(network, *AXES, (0.0, 2.0, -4.0, 0.0))) == 4


@pytest.mark.parametrize("extent", [1e12, 1e-9])
def test_huge_and_tiny_windows_keep_their_area_and_their_centre(extent):
    network = captured(mlp(1, 12, 12))
    plane = slice_plane(network, *AXES, extent)
    assert plane.areas.sum().item() == pytest.approx(4 * extent**2, rel=1e-9)
    logits = (plane.slope @ plane.centres[:, :, None])[..., 0] + plane.intercept
    expected = network.logits(plane.centres)[0]
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)


def test_a_huge_window_shows_the_same_regions_around_the_data():
    network = captured(mlp(1, 12, 12))
    small, huge = (slice_plane(network, *AXES, extent) for extent in (20.0, 1e10))
    patterns = {int(p): i for i, p in enumerate(huge.pattern)}
    lowest = small.vertices.new_zeros(len(small))
    inner = []
    for index in range(len(small)):
        corners = small.polygon(index)
        lowest[index] = corners.abs().max()
        if lowest[index] < 19.99:
            inner.append(index)
    assert len(inner) > 20
    for index in inner:
        other = patterns[int(small.pattern[index])]
        assert huge.areas[other].item() == pytest.approx(small.areas[index].item(), rel=1e-6)


def test_instances_are_taken_one_at_a_time():
    modules = [mlp(seed, 5, 5) for seed in range(3)]
    network = captured(modules)
    with pytest.raises(InputError, match=r"3 instances.*instance=0 to instance=2"):
        slice_plane(network, *AXES, 1.0)
    with pytest.raises(InputError, match="instance=3"):
        slice_plane(network, *AXES, 1.0, instance=3)
    for index, module in enumerate(modules):
        one, same = (
            slice_plane(network, *AXES, 3.0, instance=index),
            slice_plane(captured(module), *AXES, 3.0),
        )
        torch.testing.assert_close(one.vertices, same.vertices)


def test_smooth_operations_are_refused_by_name_all_at_once():
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3), nn.GELU())
    network = ff.capture(module, torch.zeros(1, 2))
    with pytest.raises(UnsupportedOperation, match=r"(?s)2 operations.*aten\.tanh.*aten\.gelu"):
        slice_plane(network, *AXES, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": [0.0, 0.0]}, "u is zero"),
        ({"v": [0.0, 0.0]}, "v is zero"),
        ({"v": [-3.0, 0.0]}, "parallel"),
        ({"u": [1e-200, 1e-200], "v": [1e200, 1e200]}, "parallel"),
        ({"u": [[1.0, 0.0], [0.0, 1.0]]}, "u has 2 rows"),
        ({"origin": [0.0, float("nan")]}, "origin holds NaN"),
        ({"origin": [0.0, 0.0, 0.0]}, "origin has shape"),
        ({"extent": 0.0}, "empty"),
        ({"extent": -1.0}, "empty"),
        ({"extent": (0, 1, 2, 2)}, "empty"),
        ({"extent": (1, 0, 0, 1)}, "empty"),
        ({"extent": (0, 1, 2)}, "3 numbers"),
        ({"extent": float("inf")}, "finite"),
        ({"extent": (0, float("nan"), 0, 1)}, "finite"),
    ],
)
def test_bad_input_is_named(change, message):
    network = captured(mlp(0, 3))
    arguments = dict(zip(("origin", "u", "v"), AXES, strict=True)) | {"extent": 1.0} | change
    with pytest.raises(InputError, match=message):
        slice_plane(network, **arguments)


def test_overflow_is_an_error():
    module = mlp(0, 3, 3)
    for part in module:
        if isinstance(part, nn.Linear):
            part.weight.data *= 1e160
            part.bias.data *= 0
    with pytest.raises(NumericalOverflow):
        slice_plane(captured(module), *AXES, 1.0)


def test_pixels_must_be_positive():
    with pytest.raises(InputError, match="pixels"):
        slice_plane(captured(mlp(0, 3)), *AXES, 1.0).raster(0)


def test_float32_networks_are_cut_in_float64():
    network = ff.capture(mlp(0, 5, 5).float(), torch.zeros(1, 2), dtype=torch.float32)
    plane = slice_plane(network, *AXES, 3.0)
    assert plane.vertices.dtype == torch.float64
    assert plane.areas.sum().item() == pytest.approx(36, rel=1e-12)
