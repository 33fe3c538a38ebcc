"""Random frames and pipelines: what ``predict_proba`` takes, capture reads, and rightly."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import farfield as ff
from farfield.errors import InputError, UnsupportedOperation
from farfield.graph.columns import encode_rows
from farfield.graph.program import forward
from scikit_referee import own

FILLS = st.sampled_from(["mean", "median", "most_frequent"])
UNKNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
NUMERIC = st.sampled_from(
    [
        StandardScaler(),
        MinMaxScaler(clip=True),
        QuantileTransformer(n_quantiles=5),
        KBinsDiscretizer(3, strategy="uniform", encode="onehot-dense"),
        KBinsDiscretizer(2, strategy="uniform", encode="ordinal"),
        Binarizer(),
        FeatureUnion([("a", StandardScaler()), ("b", Binarizer(threshold=0.5))]),
        SplineTransformer(4, degree=2, extrapolation="constant"),
        SplineTransformer(4, degree=2, extrapolation="linear"),
        PowerTransformer(),
        "passthrough",
    ]
)
CODES = st.sampled_from(
    [
        OneHotEncoder(sparse_output=False),
        OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
        OneHotEncoder(sparse_output=False, handle_unknown="infrequent_if_exist", min_frequency=4),
        OneHotEncoder(sparse_output=False, drop="first"),
        OrdinalEncoder(),
        OrdinalEncoder(**UNKNOWN, min_frequency=4),
        TargetEncoder(),
    ]
)
LAST = st.sampled_from(
    [
        LogisticRegression(max_iter=5000),
        GaussianNB(),
        DecisionTreeClassifier(max_depth=3),
        KNeighborsClassifier(3),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
        CalibratedClassifierCV(LinearSVC(), cv=2),
        MLPClassifier((4,), max_iter=20),
    ]
)


@st.composite
def frames(draw):
    """A small frame of numbers, words, truths and whole numbers, with gaps."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = 24
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=count).round(draw(st.integers(0, 6))),
            "b": rng.exponential(size=count),
            "word": rng.choice(["x", "y", "z"], count),
            "truth": rng.choice([True, False], count),
            "whole": rng.integers(0, 4, count),
        }
    )
    if draw(st.booleans()):
        frame.loc[::5, "a"] = np.nan
    if draw(st.booleans()):
        frame.loc[::7, "word"] = np.nan
    return frame


def _has_one_spline_at_most(steps):
    return sum(isinstance(each, SplineTransformer) for each in steps) < 2


@st.composite
def pipelines(draw):
    """A pipeline from raw columns."""
    numbers = [SimpleImputer(strategy=draw(FILLS), add_indicator=draw(st.booleans()))]
    # Slopes of splines behind splines cancel but for rounding, which comes to show beyond 1e15.
    numbers += draw(st.lists(NUMERIC, max_size=2).filter(_has_one_spline_at_most))
    words = [SimpleImputer(strategy="most_frequent")] if draw(st.booleans()) else []
    own_numbers = draw(st.sampled_from([["a", "b"], ["a", "whole"], ["b"]]))
    own_words = draw(st.sampled_from([["word"], ["word", "truth"], ["word", "whole"]]))
    front = ColumnTransformer(
        [
            ("numbers", make_pipeline(*numbers), own_numbers),
            ("words", make_pipeline(*words, draw(CODES)), own_words),
        ]
    )
    middle = draw(st.sampled_from([[], [StandardScaler()], [PolynomialFeatures(2)]]))
    return make_pipeline(front, *middle, draw(LAST))


@settings(
    max_examples=int(os.environ.get("FARFIELD_EXAMPLES", "20")),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@pytest.mark.whole
@given(frames(), pipelines(), st.data())
def test_whatever_is_read_is_read_rightly(frame, model, data):
    labels = np.arange(len(frame)) % data.draw(st.sampled_from([2, 3]))
    strange = frame.copy()
    strange.loc[0, "word"] = "new"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = own(model.fit(frame, labels), frame)
        except ValueError:
            return  # gaps in front of something that takes none
        network = ff.capture(model)
        np.testing.assert_allclose(_said(network, frame), expected, atol=1e-6)
        # Trees take no number beyond single precision, nor a square of this.
        for sign in (-1e18, 1e18):
            out = frame.assign(b=sign)
            np.testing.assert_allclose(_said(network, out), own(model, out), atol=1e-6)
        try:
            expected = own(model, strange)
        except ValueError:
            with pytest.raises(InputError, match="'new'"):
                encode_rows(network.columns, strange)
        else:
            np.testing.assert_allclose(_said(network, strange), expected, atol=1e-6)
        try:
            _check_limits(model, network, frame)
        except UnsupportedOperation as refusal:
            powers = any(each in str(model) for each in ("PolynomialFeatures", "PowerTransformer"))
            if not powers or "power than t" not in str(refusal):
                raise


def _said(network, frame):
    group = network.groups[0]
    rows = torch.from_numpy(encode_rows(network.columns, frame))
    value = forward(group.program, rows, group.shared)
    if network.one_logit:
        value = torch.cat([torch.zeros_like(value), value], dim=-1)
    return (torch.softmax(value, dim=-1) if network.link == "softmax" else value).numpy()


def _check_limits(model, network, frame):
    complete = frame.dropna()[:3]
    neighbours = isinstance(model[-1], KNeighborsClassifier)
    for place, column in enumerate(network.columns):
        if column.categories is not None or not column.used or column.name == "whole":
            continue
        for sign in (-1.0, 1.0):
            way = sign * np.eye(len(network.columns))[place]
            far = ff.at_infinity(network, complete, way, undecided="mark")
            sure = ~far.undecided[0].numpy()
            limit = far.probabilities[0].numpy()[sure]
            reach = float(far.reach.max())
            times = (1e4, 1e6) if neighbours else (1e8,)
            if not np.isinf(reach) and not far.slope.any():
                beyond = 10.0 ** (np.floor(np.log10(max(reach, 1.0))) + 1)
                times = (beyond, 1e6 * beyond)
            said = [own(model, _moved(complete, column.name, sign * t))[sure] for t in times]
            # Squared distances to neighbours soon lose what tells those apart that lie level.
            told = (said[0] == said[-1]).all(axis=1) if neighbours else slice(None)
            for each in said:
                np.testing.assert_allclose(limit[told], each[told], atol=1e-5)


def _moved(frame, name, by):
    return frame.assign(**{name: frame[name] + by})
