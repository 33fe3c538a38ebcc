"""A referee for classifiers of scikit-learn: their own ``predict_proba``, near and far."""

import warnings

import numpy as np

import farfield as ff

FAR = 1e9


def own(model, rows):
    """What the model itself says; its remarks about column names are none of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.predict_proba(rows), dtype=float)


def beside(rows):
    """Rows one unit in the last place below and above."""
    return np.concatenate([np.nextafter(rows, -np.inf), np.nextafter(rows, np.inf)])


def outliers(rows, size=1e30):
    """The first row with every column in turn far out, at both ends."""
    ends = np.repeat(rows[:1], 2 * rows.shape[1], axis=0)
    for column in range(rows.shape[1]):
        ends[2 * column, column] = size
        ends[2 * column + 1, column] = -size
    return ends


def check_values(model, network, rows, tolerance=1e-6):
    """Probabilities on rows are the model's own."""
    found = network.probabilities(rows).mean(dim=0).numpy()
    np.testing.assert_allclose(found, own(model, rows), rtol=0, atol=tolerance)


def directions(columns, seed=0, count=12):
    """Both ends of every axis, and some in between."""
    rng = np.random.default_rng(seed)
    axes = np.eye(columns)
    return np.concatenate([axes, -axes, rng.normal(size=(count, columns))])


def check_limits(model, network, origin, *, far=FAR, tolerance=1e-6, scale=1.0, along=None):
    """Limits are what the model says far out; ``scale`` is the size of the data's columns."""
    columns = network.input_shape[0]
    ways = directions(columns) * scale if along is None else along
    limit = ff.at_infinity(network, origin, ways).probabilities.mean(dim=0).numpy()
    np.testing.assert_allclose(limit, own(model, origin + far * ways), rtol=0, atol=tolerance)
    np.testing.assert_allclose(limit.sum(axis=1), 1.0, rtol=0, atol=1e-9)


def referee(model, rows, *, far=FAR, tolerance=1e-6, size=1e30):
    """Capture a model, and compare what it says on rows, beside them, far out and at infinity."""
    network = ff.capture(model)
    ends = [outliers(rows, size)] if size else []
    check_values(model, network, np.concatenate([rows, beside(rows[:20]), *ends]), tolerance)
    ways = directions(rows.shape[1]) * (rows.std(axis=0) + 1e-3)
    origins, along = np.repeat(rows[:2], len(ways), axis=0), np.tile(ways, (2, 1))
    check_limits(model, network, origins, far=far, tolerance=tolerance, along=along)
    return network
