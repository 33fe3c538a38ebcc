"""Histogram boosting from raw columns: categories of words and numbers, unknown and missing."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

import farfield as ff

WORDS = ["alpine", "dry", "polar", "wet"]


def boosted(**options):
    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2, **options)


def frame(rng, rows=120):
    """Words, numbers that are categories, and numbers, with gaps."""
    table = pd.DataFrame(
        {
            "height": rng.normal(size=rows),
            "climate": pd.Categorical(rng.choice(WORDS, rows)),
            "zone": pd.Categorical(rng.choice([3, 11, 7], rows)),
        }
    )
    outcome = (table.climate.isin(["dry", "polar"]) ^ (table.zone.astype(int) == 7)).astype(int)
    outcome += table.height > 1
    gaps = rng.random((rows, 3)) < 0.1
    return table.mask(gaps), outcome.to_numpy()


def encoded(network, table):
    """The numbers of a frame, by what the network says of its columns."""
    columns = []
    for known, name in zip(network.columns, table.columns, strict=True):
        values = table[name].astype(object).where(table[name].notna(), np.nan)
        if known.categories is not None:
            codes = {value: float(code) for code, value in enumerate(known.categories)}
            values = values.map(lambda value, codes=codes: codes.get(value, np.nan))
        columns.append(values.to_numpy(dtype=np.float64))
    return np.stack(columns, axis=1)


def ours(network, rows):
    outputs = network.as_classes(network.groups[0].forward(torch.as_tensor(rows)))[0]
    return outputs.softmax(dim=1).numpy()


@pytest.mark.parametrize("seed", range(3))
def test_a_frame_of_words_and_numbers(seed):
    table, outcome = frame(np.random.default_rng(seed))
    model = boosted().fit(table, outcome)
    network = ff.capture(model)
    assert any(p.nodes["is_categorical"].any() for stage in model._predictors for p in stage)
    assert network.features == ("height", "climate", "zone")
    assert network.columns[1].categories == tuple(WORDS)
    assert network.columns[2].categories == (3, 7, 11)
    assert network.columns[0].categories is None
    np.testing.assert_allclose(
        ours(network, encoded(network, table)), model.predict_proba(table), atol=1e-12
    )


def test_categories_move_between_their_values_and_numbers_to_infinity():
    table, outcome = frame(np.random.default_rng(0))
    model = boosted().fit(table, outcome)
    network = ff.capture(model)
    row = table.dropna().iloc[[0]]
    far = ff.at_infinity(network, row, torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]]))
    for place, sign in enumerate((1, -1)):
        expected = model.predict_proba(row.assign(height=sign * 1e12))
        np.testing.assert_allclose(far.probabilities[0, place], expected[0], atol=1e-12)


def test_categories_in_an_array_are_known_by_their_numbers():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=120), rng.choice([2.0, 5.0, 9.0], 120)], axis=1)
    y = ((x[:, 1] == 5) ^ (x[:, 0] > 0)).astype(int)
    x[:5, 1] = np.nan
    model = boosted(categorical_features=[1]).fit(x, y)
    network = ff.capture(model)
    assert network.columns[1].categories == (2.0, 5.0, 9.0)
    rows = np.concatenate([x, [[0.0, 4.0], [0.0, 5.5], [0.0, -1.0], [0.0, 300.0], [0.5, 9.0]]])
    np.testing.assert_allclose(
        ours(network, encoded(network, pd.DataFrame(rows))), model.predict_proba(rows), atol=1e-12
    )
