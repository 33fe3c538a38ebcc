"""Models that jump in planes and on the circle of directions, against their own predictions."""

import numpy as np
import pytest
import torch

import farfield as ff
from farfield.errors import InputError, UnsupportedOperation
from farfield.exact.planar import plane_walk
from step_models import MODELS, X, step_model, stumps

AXES = np.eye(4)[:2]
SLANTED = np.random.default_rng(2).normal(size=(2, 4))
FRAMES = {"axes": AXES, "slanted": SLANTED}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", MODELS)
def test_polygons_are_what_the_model_predicts(name, frame):
    model, network = step_model(name)
    plane = ff.slice_plane(network, X[0], *FRAMES[frame], (-2, 3, -3, 2))
    assert float(plane.areas.sum()) == pytest.approx(25.0)
    rows = plane.points(plane.centres).numpy()
    assert np.allclose(plane.probabilities, model.predict_proba(rows), atol=1e-12)
    assert not plane.slope.any()
    assert len(torch.unique(plane.pattern)) == len(plane)
    raster = plane.raster(60)
    a, b = np.meshgrid(-2 + (np.arange(60) + 0.5) / 12, -3 + (np.arange(60) + 0.5) / 12)
    points = plane.points(np.stack([a.ravel(), b.ravel()], axis=1)).numpy()
    sure = model.predict_proba(points).max(axis=1)
    assert np.allclose(raster.confidence.ravel(), sure, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_boundaries_have_a_class_on_either_side(name):
    model, network = step_model(name)
    plane = ff.slice_plane(network, X[0], *AXES, 2.0)
    found = plane.boundaries()
    middle = found.segments.mean(dim=1)
    across = (found.segments[:, 1] - found.segments[:, 0]).flip(1) * torch.tensor([-1.0, 1.0])
    across = across / across.norm(dim=1, keepdim=True)
    sides = [
        model.predict_proba(plane.points(middle + step * across).numpy()).argmax(axis=1)
        for step in (1e-9, -1e-9)
    ]
    assert len(found) > 0
    assert np.array_equal(np.sort(np.stack(sides, axis=1), axis=1), found.classes)


def test_the_length_of_a_boundary():
    """A square in which another class wins: its outline, with a side that two polygons share."""
    in_, out = np.array([1.0, 0.0]), np.array([0.0, 0.3])
    splits = [(0, -1.0, out, in_), (0, 1.0, in_, out), (1, -1.0, out, in_), (1, 0.5, in_, out)]
    start = [(0, 9.0, np.array([-3.5, 0.0]), out)]
    network = stumps(2, splits + start)
    plane = ff.slice_plane(network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], 3.0)
    found = plane.boundaries()
    assert float(found.lengths.sum()) == pytest.approx(7.0)
    assert set(map(tuple, found.classes.tolist())) == {(0, 1)}


def test_zero_probabilities_in_a_plane():
    one, two = np.array([0.5, 0.0]), np.array([0.0, 0.5])
    network = stumps(2, [(0, 0.0, one, two), (1, 0.0, one, two)], "identity")
    plane = ff.slice_plane(network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], 1.0)
    assert sorted(plane.probabilities[:, 0].tolist()) == [0.0, 0.5, 0.5, 1.0]
    assert not torch.isnan(plane.by_class().intercept).any()
    raster = plane.raster(4)
    assert raster.confidence.unique().tolist() == [0.5, 1.0]
    assert float(plane.boundaries().lengths.sum()) == 2.0
    arcs = ff.blind_arcs(network)
    assert (arcs.share, len(arcs)) == (0.5, 4)


def test_blocks_of_polygons_and_how_many_there_may_be(monkeypatch):
    _, network = step_model("forest")
    whole = ff.slice_plane(network, X[0], *SLANTED, 2.0)
    monkeypatch.setattr(plane_walk, "BLOCK_ELEMENTS", 1000)
    parts = ff.slice_plane(network, X[0], *SLANTED, 2.0)
    assert torch.equal(parts.pattern.sort().values, whole.pattern.sort().values)
    with pytest.raises(InputError, match="more than 10 regions"):
        ff.slice_plane(network, X[0], *SLANTED, 2.0, most=10)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", MODELS)
def test_arcs_are_limits(name, frame):
    model, network = step_model(name)
    u, v = FRAMES[frame]
    arcs = ff.blind_arcs(network, 0.6, origin=X[0], u=u, v=v)
    angle = (arcs.start + arcs.width / 2).numpy()[:, None]
    rows = X[0] + 1e9 * (np.cos(angle) * u + np.sin(angle) * v)
    assert np.allclose(arcs.probabilities[0], model.predict_proba(rows), atol=1e-12)


def test_monotonicity_of_steps_is_refused():
    with pytest.raises(UnsupportedOperation, match=r"take_steps.*steps"):
        ff.check_monotonicity(step_model("forest")[1], -np.ones(4), np.ones(4))
