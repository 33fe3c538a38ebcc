"""Rays, surfaces and pictures of a report."""

import base64

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from audit_subjects import affine, random_subject, subject_of
from farfield.audit import curves
from farfield.audit.pictures import image_rays, pictures, png
from farfield.audit.subject import Moving


def test_a_ray_has_its_limit_and_its_exact_first_crossing():
    # Logits (2x, 0) from x = 0 upwards: 99.9% at log(999) / 2; the deviation of the data is 2.
    rows = np.array([[-2.0], [2.0]])
    subject = subject_of(affine([[2.0], [0.0]], [0.0, 0.0]), rows)
    found = curves.ray(subject, "x up", np.array([0.0]), np.array([1.0]))
    assert found.unit == "standard deviations"
    assert found.first == pytest.approx(np.log(999) / 2 / 2)
    assert found.limits["confidence"] == 1.0
    assert found.scores["confidence"][0] == 0.5
    assert found.t[-1] == pytest.approx(1e6)
    assert found.pieces == 1
    in_units = curves.ray(subject, "x up", np.array([0.0]), np.array([1.0]), unit="mg")
    assert in_units.first == pytest.approx(np.log(999) / 2)


def test_a_ray_says_from_where_on_its_answer_stands_and_not_only_its_units():
    # Logits (relu(x) - 140, 0) from x = -21.5: the unit settles at 21.5, the class at 161.5.
    late = nn.Sequential(nn.ReLU(), affine([[1.0], [0.0]], [-140.0, 0.0]))
    subject = subject_of(late, np.array([[-1.0], [1.0]]))
    found = curves.ray(subject, "x up", np.array([-21.5]), np.array([1.0]))
    assert found.reach == pytest.approx(21.5)
    assert found.final == pytest.approx(161.5)
    assert found.settled == pytest.approx(161.5 + np.log(999))
    assert found.exact


def test_members_that_part_are_never_settled():
    members = [affine([[1.0], [-1.0]], [0.0, 0.0]), affine([[-1.0], [1.0]], [0.0, 0.0])]
    subject = subject_of(members, np.array([[-1.0], [1.0]]))
    found = curves.ray(subject, "x up", np.array([0.0]), np.array([1.0]))
    assert found.settled == found.final == np.inf


def test_a_surface_is_the_model_on_a_grid():
    subject = random_subject(inputs=3, labels=np.zeros(200, dtype=np.int64))
    x, y = subject.moving[0], subject.moving[2]
    found = curves.surface(subject, x, y, np.random.default_rng(0))
    grid = np.frombuffer(base64.b64decode(found.grids["confidence"]), np.uint8).reshape(found.shape)
    low, high = found.ranges["confidence"]
    corner = subject.centre.copy()
    corner[0], corner[2] = found.extent[1], found.extent[3]
    p = float(subject.network.probabilities(corner).amax())
    assert low + grid[-1, -1] / 255 * (high - low) == pytest.approx(p, abs=(high - low) / 255)
    plane = ff.slice_plane(
        subject.network, subject.centre * [0, 1, 0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], found.extent
    )
    assert found.regions == len(plane)
    assert len(found.boundaries) == len(plane.boundaries())
    assert found.edges
    assert found.points
    assert all(label == 0 for _, _, label in found.points)


def test_surfaces_show_cells_unless_rows_are_asked_for():
    subject = random_subject(inputs=3, labels=np.zeros(200, dtype=np.int64))
    x, y = subject.moving[:2]
    rng = np.random.default_rng(0)
    rows = {tuple(map(float, f"{a:.5g} {b:.5g}".split())) for a, b, *_ in subject.rows}
    cells = {point[:2] for point in curves.surface(subject, x, y, rng).points}
    assert 0 < len(cells) < 40
    assert not cells & rows
    shown = {point[:2] for point in curves.surface(subject, x, y, rng, show_rows=True).points}
    assert len(shown & rows) > 150


def test_surfaces_of_ensembles_have_no_regions_but_mutual_information():
    subject = random_subject(members=2)
    found = curves.surface(subject, *subject.moving[:2], np.random.default_rng(0))
    assert found.regions is None
    assert "mutual_information" in found.grids


def test_a_surface_stays_within_bounds():
    rows = np.random.default_rng(0).random((30, 2))
    moving = (Moving("a", (0,), low=0.0, high=1.0), Moving("b", (1,)))
    subject = subject_of(affine([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), rows, moving=moving)
    found = curves.surface(subject, *moving, np.random.default_rng(0))
    assert found.extent[:2] == (0.0, 1.0)
    assert found.extent[2] < 0.0


def test_the_telling_feature_is_found():
    rows = np.random.default_rng(0).standard_normal((100, 3))
    subject = subject_of(affine([[0.0, 5.0, 0.1], [0.0, 0.0, 0.0]], [0.0, 0.0]), rows)
    names = [feature.name for feature in curves.most_telling(subject, 2, np.random.default_rng(0))]
    assert names == ["f1", "f2"]


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
