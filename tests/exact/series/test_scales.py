"""Powers and logarithms of columns against the same model in many digits, far out."""

import copy
import warnings
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

import farfield as ff

DIGITS = 500
# Where models are evaluated: scales of exponents a quarter apart are told there.
FAR = mpmath.mpf(10) ** 120
UPWARDS = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [3.0, 1.0]]
EITHER_WAY = [*UPWARDS, [-1.0, 0.0], [0.0, -1.0], [-2.0, 1.0], [1.0, -1.0], [-1.0, -3.0]]
EXPONENTS = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 2.25, 3.0])
WHOLE = st.integers(-3, 3).map(float)


def yeo_johnson(x, e):
    """As Yeo and Johnson define it."""
    if x >= 0:
        return mpmath.log1p(x) if e == 0 else ((1 + x) ** e - 1) / e
    return -mpmath.log1p(-x) if e == 2 else -((1 - x) ** (2 - e) - 1) / (2 - e)


def box_cox(x, e):
    """As Box and Cox define it."""
    return mpmath.log(x) if e == 0 else (x**e - 1) / e


def layers(model, row):
    """Logits of a perceptron with ReLU."""
    for place, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        row = [
            mpmath.fsum(mpmath.mpf(w) * v for w, v in zip(column, row, strict=True)) + b
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
        ]
        if place + 1 < len(model.coefs_):
            row = [max(v, mpmath.mpf(0)) for v in row]
    return row


def softmax(logits):
    """Shares of the logits; of one, those of it and zero."""
    logits = [mpmath.mpf(0), *logits] if len(logits) == 1 else logits
    top = max(logits)
    shares = [mpmath.exp(v - top) if v - top > -(10**6) else mpmath.mpf(0) for v in logits]
    return [float(each / mpmath.fsum(shares)) for each in shares]


@cache
def fitted(columns, hidden, classes):
    """A network that was fitted on something."""
    rows = np.random.default_rng(0).standard_normal((12, columns))
    with warnings.catch_warnings(action="ignore"):
        return MLPClassifier((hidden,), max_iter=1).fit(rows, np.arange(12) % classes)


def perceptron(columns, hidden, classes, numbers):
    """A network with given weights."""
    model = copy.copy(fitted(columns, hidden, classes))
    given = (*model.coefs_, *model.intercepts_)
    sizes = [each.size for each in given]
    parts = np.split(np.array(numbers), np.cumsum(sizes)[:-1])
    shaped = [p.reshape(e.shape) for p, e in zip(parts, given, strict=True)]
    model.coefs_, model.intercepts_ = shaped[:2], shaped[2:]
    return model


@settings(max_examples=8, deadline=None)
@given(st.data())
@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_networks_behind_powers_of_columns(method, data):
    columns, hidden, classes = 2, 3, data.draw(st.integers(2, 3))
    outputs = 1 if classes == 2 else classes
    count = columns * hidden + hidden * outputs + hidden + outputs
    numbers = data.draw(st.lists(WHOLE, min_size=count, max_size=count))
    model = perceptron(columns, hidden, classes, numbers)
    power = PowerTransformer(method=method, standardize=False)
    power.fit(np.random.default_rng(0).uniform(1, 2, (12, columns)))
    power.lambdas_ = np.array(data.draw(st.lists(EXPONENTS, min_size=2, max_size=2)))
    network = ff.capture(make_pipeline(power, model))
    either = method == "yeo-johnson"
    origin = np.array(data.draw(st.lists(WHOLE, min_size=2, max_size=2)))
    origin = origin if either else np.abs(origin) + 1
    directions = np.array(EITHER_WAY if either else UPWARDS)
    far = ff.at_infinity(network, origin, directions)
    curve = yeo_johnson if either else box_cox
    with mpmath.workdps(DIGITS):
        for shares, direction in zip(far.probabilities[0].numpy(), directions, strict=True):
            ends = zip(origin, direction, strict=True)
            at = [mpmath.mpf(o) + FAR * mpmath.mpf(d) for o, d in ends]
            row = [curve(x, mpmath.mpf(e)) for x, e in zip(at, power.lambdas_, strict=True)]
            # What is left of the fourth root of t, at most.
            assert np.abs(shares - softmax(layers(model, row))).max() < 1e-12
