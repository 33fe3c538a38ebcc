import numpy as np
import pandas as pd

import farfield as ff


def test_outputs_are_untouched_and_alarms_are_as_rare_as_asked(moons):
    from sklearn.ensemble import RandomForestClassifier

    X, y = moons
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    found = ff.envelope(model, X, keep=0.95)
    rows = np.vstack([X, X * 1e3])
    assert np.array_equal(found.predict_proba(rows), model.predict_proba(rows))
    assert np.array_equal(found(rows), model.predict_proba(rows))
    look = found.look(rows)
    assert look.inside[:400].mean() >= 0.93
    assert not look.inside[400:][np.abs(X).max(axis=1) > 0.1].any()
    assert look.guarded[400:][look.distance[400:] >= 1].max() <= 0.51
    assert np.array_equal(look.inside, found.is_inside(rows))
    assert found.certificate.keep == 0.95


def test_words(moons):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(20, 70, 200), "chol": rng.normal(245, 30, 200)})
    found = ff.envelope(lambda X: np.tile([0.4, 0.6], (len(X), 1)), table)
    row = table.iloc[[0]].assign(chol=0.0)
    low, high = table["chol"].min(), table["chol"].max()
    said = str(found.explain(row))
    assert said.startswith(f"chol = 0 is below every training value ({low:.4g} to {high:.4g}); ")
    assert said.endswith("deviations outside")
