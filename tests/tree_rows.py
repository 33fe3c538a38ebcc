"""Rows that tell whether trees are read rightly: at every threshold and just beside it."""

import numpy as np
import torch

from farfield.graph.rules import Steps

FAR = [1e30, -1e30, 3e38, -3e38]
SMALL = [0.0, -0.0, 1e-35, -1e-35, 9e-36, -9e-36, 1.1e-35, -1.1e-35, 1e-45, -1e-45, 1e-300]


def breaks(network):
    """The places at which a network of trees jumps, for each column."""
    found = {}
    for step in network.groups[0].program.steps:
        for steps in (arg for arg in step.args if isinstance(arg, Steps)):
            bounds = steps.offsets.tolist()
            for output, column in enumerate(steps.columns.tolist()):
                own = steps.breaks[bounds[output] : bounds[output + 1]]
                found.setdefault(column, set()).update(own.tolist())
    return found


def beside(value):
    """A number, its neighbours in double precision, in single precision, and theirs."""
    ends = np.float32([np.inf, -np.inf])
    with np.errstate(over="ignore"):  # some thresholds are the largest float32 number
        narrow = np.float32(value)
        near = [value, narrow, *(np.nextafter(narrow, end) for end in ends)]
        out = [each for at in map(float, near) for each in (at, *np.nextafter(at, [-9e99, 9e99]))]
    return [float(each) for each in out if abs(each) < 3.4e38]


def telling_rows(network, rows, seed=0, most=1500, missing=True):
    """Rows of data with some columns moved to where something may happen, or taken away."""
    rng = np.random.default_rng(seed)
    places = breaks(network)
    special = [*FAR, *SMALL, *([np.nan] if missing else [])]
    out = [rows]
    for column in range(rows.shape[1]):
        values = [each for place in sorted(places.get(column, ())) for each in beside(place)]
        values = np.array([*values, *special])
        if len(values) > most:
            values = np.append(rng.choice(values, most, replace=False), special)
        moved = rows[rng.integers(0, len(rows), len(values))].copy()
        moved[:, column] = values
        out.append(moved)
    both = rows[rng.integers(0, len(rows), 200)].copy()
    both[rng.random(both.shape) < 0.5] = np.nan if missing else 0.0
    return np.concatenate([*out, both])


def probabilities(network, rows):
    """What a network says of rows in which values may be missing, ``(rows, classes)``."""
    outputs = network.groups[0].forward(torch.from_numpy(np.asarray(rows, dtype=np.float64)))
    logits = network.as_classes(outputs)
    return torch.softmax(logits, dim=-1)[0].numpy()


def far_differences(network, predict, rays):
    """How far limits are from what the library says beyond their reach, twice."""
    import farfield as ff

    origin = np.zeros(rays.shape[1])
    far = ff.at_infinity(network, origin, rays)
    reach = far.reach.numpy().reshape(-1)
    assert np.isfinite(reach).all()
    found = []
    for times in (1.0, 1e6):
        t = times * 10.0 ** np.ceil(np.log10(np.maximum(reach, 1.0)) + 1e-9)
        rows = origin + t[:, None] * rays
        found.append(np.abs(predict(rows) - far.probabilities.numpy()).max())
    return found
