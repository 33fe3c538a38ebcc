"""Models that broke the promise of a guard that had to bound their growth."""

import numpy as np
import pytest
import torch
from torch import nn

from farfield.guard import falsify, guard

pytestmark = pytest.mark.usefixtures("few_folds")
ROWS = np.random.default_rng(0).normal(size=(80, 2))


class Jump(nn.Module):
    """Softplus with a tiny slope and its threshold at zero jumps by half a million."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return nn.functional.softplus(self.inner(x), beta=1e-6, threshold=0.0)


class Grown(nn.Module):
    """Grows faster than any polynomial."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def forward(self, x):
        return torch.exp(self.inner(x).abs().clamp(max=80.0)) * torch.tensor([1.0, 0.0, -1.0])


MODELS = {
    "celu of negative alpha": lambda: nn.Sequential(
        nn.Linear(2, 8), nn.CELU(alpha=-1.0), nn.Linear(8, 2)
    ),
    "softplus that jumps": Jump,
    "exponential": Grown,
    "steep": lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_promise_does_not_depend_on_the_model(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    if name == "steep":
        with torch.no_grad():
            model[2].weight *= 1e30
    safe = guard(model, ROWS)
    assert safe.verify()
    assert falsify(safe, restarts=4, steps=6).holds
    far = torch.randn(500, 2) * torch.logspace(0, 38, 500)[:, None].clamp(max=1e38)
    far = far[safe.covered.distance(far) >= 1.0]
    top = torch.softmax(safe(far).double(), dim=1).max()
    assert float(top) <= safe.certificate.largest_probability


def test_classes_stay_at_the_ends_of_single_precision():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    safe = guard(model, ROWS)
    way = nn.functional.normalize(torch.randn(2000, 2), dim=1)
    for scale in (1.2e38, 3e38):
        x = way * scale
        own = model(x)
        known = ~torch.isnan(own).any(dim=1)
        assert int(known.sum()) > 1000
        assert bool((safe(x).argmax(dim=1) == own.argmax(dim=1))[known].all())
        assert float(torch.softmax(safe(x), dim=1).max()) <= 1 / 3 + 0.01


def test_the_older_exporter_keeps_the_guard(tmp_path):
    """Traced on rows that are all inside."""
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    safe = guard(model, ROWS)
    inside = torch.from_numpy(ROWS[safe.is_inside(ROWS)][:4]).float()
    import warnings

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            safe, (inside,), str(tmp_path / "old.onnx"), dynamo=False, input_names=["x"],
            output_names=["logits"], dynamic_axes={"x": {0: "rows"}}, opset_version=17,
        )  # fmt: skip
    session = runtime.InferenceSession(str(tmp_path / "old.onnx"))
    rows = (torch.randn(300, 2) * torch.logspace(0, 6, 300)[:, None]).float()
    (found,) = session.run(None, {"x": rows.numpy()})
    assert float((torch.from_numpy(found) - safe(rows)).detach().abs().max()) <= 1e-5
