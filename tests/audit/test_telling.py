import numpy as np

from audit_subjects import affine, subject_of
from farfield.audit.telling import by_effect


def test_the_telling_feature_is_found():
    rows = np.random.default_rng(0).standard_normal((100, 3))
    subject = subject_of(affine([[0.0, 5.0, 0.1], [0.0, 0.0, 0.0]], [0.0, 0.0]), rows)
    names = [feature.name for feature in by_effect(subject, np.random.default_rng(0))[:2]]
    assert names == ["f1", "f2"]
