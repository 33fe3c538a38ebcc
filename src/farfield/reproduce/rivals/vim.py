"""ViM (Wang et al. 2022): a further logit from the part of features that the data does not use.

Features are centred where all logits vanish as nearly as they can; the residual is what is left
of them outside of the data's principal subspace. The score is ``alpha |residual| - log sum exp z``,
with alpha such that both are alike on data: it is the further logit against all others. On a ray
both grow linearly, and the faster one wins.
"""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival

# The principal subspace has this share of the features' dimensions.
SHARE = 0.5


def vim(base: Base) -> Rival:
    """Fit the principal subspace and the scale of the further logit."""
    features = base.known
    origin_of = -torch.linalg.pinv(base.weight) @ base.bias
    centred = features - origin_of
    _, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    residual = vectors[:, : max(1, round((1 - SHARE) * features.shape[1]))]
    logits = features @ base.weight.T + base.bias
    usual = (centred @ residual).norm(dim=1).mean().clamp(min=1e-12)
    alpha = logits.amax(dim=1).mean() / usual

    def uncertainty(rows: Tensor) -> Tensor:
        values = base.features(rows)
        further: Tensor = alpha * ((values - origin_of) @ residual).norm(dim=1)
        return further - torch.logsumexp(values @ base.weight.T + base.bias, dim=1)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        slope, intercept = base.line(origin, rays)
        moving, resting = slope @ residual, (intercept - origin_of) @ residual
        speed = moving.norm(dim=1)
        along = (moving * resting).sum(dim=1) / speed.clamp(min=1e-300)
        start = torch.where(speed > 0, along, resting.norm(dim=1))
        fastest, starts = base.fastest(origin, rays)
        growth = alpha * speed - fastest
        rest = alpha * start - torch.logsumexp(starts, dim=1)
        return torch.where(growth == 0, rest, growth.sign() * torch.inf)

    return Rival(uncertainty, None, far, still=base.still)
