"""Which features tell a model most: those are drawn."""

from __future__ import annotations

import numpy as np

from farfield.audit.subject import Subject
from farfield.data import TableColumn

# How many features are shuffled, in how many rows, and how many numbers that may come to.
MOST_FEATURES, MOST_ROWS, FEWEST_ROWS = 300, 200, 8
MOST_NUMBERS = 100_000_000


def by_effect(subject: Subject, rng: np.random.Generator) -> list[TableColumn]:
    """Numeric features, by the mean change of ``p`` when they are shuffled, largest first."""
    numeric = [feature for feature in subject.moving if not feature.categorical]
    tried = numeric[:MOST_FEATURES]
    numbers = subject.centre.size * max(1, len(tried))
    rows = subject.spread(int(np.clip(MOST_NUMBERS // numbers, FEWEST_ROWS, MOST_ROWS)))
    before = subject.model.probabilities(rows).mean(dim=0)
    effect = np.zeros(len(numeric))
    for index, feature in enumerate(tried):
        moved = rows.copy()
        place = feature.places[0]
        moved[:, place] = moved[rng.permutation(len(rows)), place]
        after = subject.model.probabilities(moved).mean(dim=0)
        effect[index] = float((after - before).abs().sum(dim=-1).mean())
    return [numeric[place] for place in np.argsort(-effect, kind="stable")]
