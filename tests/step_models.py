"""Small models of trees, and ensembles made by hand, that several tests share."""

import functools

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff
from farfield.graph.assemble import from_reading
from farfield.graph.reading import Reading, Writer
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import write_trees

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.8)
MODELS = {
    "forest": lambda: RandomForestClassifier(6, max_depth=4, random_state=0),
    "boosted": lambda: make_pipeline(
        StandardScaler(), GradientBoostingClassifier(n_estimators=3, random_state=0)
    ),
    "rotated": lambda: make_pipeline(PCA(), RandomForestClassifier(3, random_state=0)),
}


@functools.cache
def step_model(name):
    """A fitted model of four features and three classes, and its network."""
    model = MODELS[name]().fit(X, Y)
    return model, ff.capture(model)


def stumps(columns, splits, link="softmax"):
    """A network of stumps: column, threshold, and what lower and higher values add to the outputs.

    Comparisons are ``x <= threshold``, in double precision.
    """
    width = len(splits[0][2])
    builder = TreeBuilder(columns, np.zeros(width))
    for column, threshold, low, high in splits:
        builder.add(
            feature=[column, -1, -1],
            threshold=[threshold, 0.0, 0.0],
            left=[1, 0, 0],
            right=[2, 0, 0],
            values=np.array([np.zeros(width), low, high]),
        )
    writer = Writer(columns)
    out = write_trees(writer, writer.input, builder.build())
    reading = Reading(writer.program(out), writer.constants, link)
    return from_reading(reading, None, torch.float64)
