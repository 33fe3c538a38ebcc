"""What holds for the models of all three libraries of boosted trees, each its own referee."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import farfield as ff
from boosted import LIBRARIES
from farfield.errors import CaptureError
from tree_rows import far_differences

EVERY_OPTION = [(library, option) for library, each in LIBRARIES.items() for option in each.options]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("name", "option"), EVERY_OPTION)
def test_probabilities_are_the_models_own(name, option, classes):
    library = LIBRARIES[name]
    network = library.agree(*library.fitted(classes, **library.options[option]))
    assert network.labels == tuple(range(classes))
    assert network.features is None


@pytest.mark.parametrize("name", LIBRARIES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_small_model(name, data):
    library = LIBRARIES[name]
    classes, columns = data.draw(st.integers(2, 4)), data.draw(st.integers(2, 4))
    seed, gaps = data.draw(st.integers(0, 10**6)), data.draw(st.booleans())
    X, y = library.table(seed, 70, columns, classes, gaps)
    X = np.float32(X).astype(float) if data.draw(st.booleans()) else X
    options = {option: data.draw(each) for option, each in library.drawn.items()}
    library.agree(*library.fitted(X=X, y=y, **options), most=200)


@pytest.mark.parametrize("name", LIBRARIES)
def test_at_infinity(name):
    library, rng = LIBRARIES[name], np.random.default_rng(5)
    rays = np.concatenate([np.eye(4), -np.eye(4), rng.normal(size=(40, 4))])
    for classes in (2, 3):
        model, _ = library.fitted(classes)
        differences = far_differences(ff.capture(model), model.predict_proba, rays)
        assert max(differences) < library.close


@pytest.mark.parametrize("name", LIBRARIES)
def test_other_estimators_are_refused(name):
    library = LIBRARIES[name]
    X, y = library.table(classes=2)
    kind = library.regressor.__name__
    with pytest.raises(CaptureError, match=f"{kind} of {name} is no classifier"):
        ff.capture(library.regressor(**library.few).fit(X, y))
    with pytest.raises(CaptureError, match="not fitted"):
        ff.capture(library.classifier())
