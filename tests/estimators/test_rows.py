"""Tables of rows: however they are stored, every member sees each row once, in its own order."""

from typing import Any

import pytest
import torch

from farfield.estimators.rows import NARROW, TrainingRows, TrainingTable
from farfield.networks.streams import Purpose, Streams
from farfield.objectives.likelihood import Squared

FEATURES: dict[str, tuple[int, ...]] = {
    "one": (1,),
    "widest narrow": (NARROW - 3,),
    "narrowest wide": (NARROW - 2,),
    "image": (1, 2, 3),
    "wide": (40,),
}


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_parts_are_the_rows_in_each_members_order(features: Any, batch_size: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = TrainingRows(
        torch.randn(30, *features, generator=generator),
        torch.randn(30, 1, generator=generator),
        torch.rand(30, generator=generator),
    )
    shuffle = Streams(3, 4, Purpose.SHUFFLE)
    table = TrainingTable(rows, Squared(), shuffle, batch_size, balance=False)
    order = torch.arange(30).expand(4, -1)
    if batch_size is not None:
        order = Streams(3, 4, Purpose.SHUFFLE).permutations(30)
    parts = list(table.parts())
    for part, chosen in zip(parts, torch.split(order, batch_size or 30, dim=1), strict=True):
        batch = table.batch(part)
        assert torch.equal(batch.inputs, rows.inputs[chosen])
        assert torch.equal(batch.targets, rows.targets[chosen])
        assert rows.weights is not None
        torch.testing.assert_close(batch.weights, rows.weights[chosen] / chosen.shape[1])
        assert torch.equal(table.homogeneous(part)[..., :-1], batch.inputs.flatten(2))
        assert bool((table.homogeneous(part)[..., -1] == 1).all())
