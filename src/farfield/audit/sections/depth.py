"""Which weights have no part in what a model says far out.

Only of networks with growth orders whose logits converge: of others every layer has a part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.audit.case import Case
from farfield.audit.fields.depth import FarDepth
from farfield.exact.series.idle import idle_weights
from farfield.exact.series.walk import grows

# How many rays are followed, how often, and up to how many weights.
RAYS, WALKS, LARGEST = 4, 48, 2_000_000


def compute(case: Case) -> dict[str, Any]:
    """Change weights, and see whether limits change."""
    subject = case.subject
    if not subject.exact or not subject.is_free.any() or subject.weights > LARGEST:
        return {}
    network = subject.network
    if network.link != "softmax" or not all(grows(group.program) for group in network.groups):
        return {}
    case.stage("depth")
    rows = subject.spread(RAYS)
    directions = subject.whitened_directions(len(rows), np.random.default_rng(case.settings.seed))
    rays = (torch.from_numpy(each).to(network.dtype) for each in (rows, directions))
    idle = idle_weights(network, *rays, most_walks=WALKS)
    return {} if idle is None else {"depth": FarDepth(len(rows), subject.weights, idle)}
