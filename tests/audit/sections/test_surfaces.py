"""Two features at a time."""

import base64

import numpy as np
import pytest

import farfield as ff
from audit_subjects import affine, random_subject, subject_of
from farfield.audit.sections import surfaces
from farfield.audit.sections.surfaces import surface
from farfield.data import TableColumn


def test_a_surface_is_the_model_on_a_grid():
    subject = random_subject(inputs=3, labels=np.zeros(200, dtype=np.int64))
    x, y = subject.moving[0], subject.moving[2]
    found = surface(subject, x, y, np.random.default_rng(0))
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
    cells = {point[:2] for point in surface(subject, x, y, rng).points}
    assert 0 < len(cells) < 40
    assert not cells & rows
    shown = {point[:2] for point in surface(subject, x, y, rng, show_rows=True).points}
    assert len(shown & rows) > 150


def test_surfaces_of_ensembles_have_no_regions_but_mutual_information():
    subject = random_subject(members=2)
    found = surface(subject, *subject.moving[:2], np.random.default_rng(0))
    assert found.regions is None
    assert "mutual_information" in found.grids


def test_a_surface_stays_within_bounds():
    rows = np.random.default_rng(0).random((30, 2))
    moving = (TableColumn("a", (0,), low=0.0, high=1.0), TableColumn("b", (1,)))
    subject = subject_of(affine([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), rows, moving=moving)
    found = surface(subject, *moving, np.random.default_rng(0))
    assert found.extent[:2] == (0.0, 1.0)
    assert found.extent[2] < 0.0


def test_regions_are_counted_about_right_before_they_are_cut(monkeypatch):
    subject = random_subject(inputs=2, hidden=120)
    low, high = np.full(2, -6.0), np.full(2, 6.0)
    found = len(ff.slice_plane(subject.network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], 6.0))
    about = surfaces._about(subject.network, low, high, 1)
    assert found / 2 < about < 2 * found
    shown = surface(subject, *subject.moving, np.random.default_rng(0))
    assert shown.regions is not None
    monkeypatch.setattr(surfaces, "MOST_REGIONS", shown.regions // 10)
    monkeypatch.setattr(surfaces, "slice_plane", lambda *_, **__: pytest.fail("was cut"))
    assert surface(subject, *subject.moving, np.random.default_rng(0)).regions is None
