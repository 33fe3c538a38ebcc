"""Architectures as their papers have them, small and with random weights: what users will bring.

One file per family; :mod:`architectures.registry` collects them, ``test_far.py`` holds every one of
them against its own float64 evaluation far away.
"""

from architectures import (  # noqa: F401 - each registers its own
    attention,
    convolutional,
    ensembles,
    gated,
    kernels,
    mixing,
    normalised,
    plain,
    recurrent,
    sets,
    tabular,
    vision_transformers,
)
