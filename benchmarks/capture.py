"""What does reading a module cost, next to ``torch.export`` alone?"""

import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.export import Dim

import farfield as ff
from farfield.graph.export import quiet_export
from farfield.networks import PreActResNet20, lenet

QUESTION = (
    "ff.capture of a 20-64-64-3 network, a LeNet, a ResNet-20 and a transformer layer on 16 tokens "
    "(its check against the module's own numbers included): how many times quicker than "
    "torch.export, which is one of the steps that it would need otherwise? CPU time, the least of "
    "five, in turn. And the first capture of a process, PyTorch being loaded."
)
TARGETS = {"mlp_export_over_capture": ">= 5", "transformer_export_over_capture": ">= 2"}
REPEATS = 5
FIRST = """
import time, torch, farfield as ff
model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
start = time.process_time()
{}
print(time.process_time() - start)
"""
FIRSTS = {
    "capture": "ff.capture(model, torch.zeros(2, 20))",
    "export": "torch.export.export(model.eval(), (torch.zeros(2, 20),))",
}


def measure() -> dict[str, float]:
    """Measure both in turn."""
    torch.manual_seed(0)
    layers = [nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)]
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    subjects = {
        "mlp": (nn.Sequential(*layers), (20,)),
        "lenet": (lenet(), (1, 28, 28)),
        "resnet20": (PreActResNet20(), (3, 32, 32)),
        "transformer": (nn.Sequential(layer, nn.Flatten(), nn.Linear(512, 3)), (16, 32)),
    }
    results: dict[str, float] = {}
    for name, (module, shape) in subjects.items():
        module.eval()
        rows = torch.randn(4, *shape)
        capture, export = _in_turn(
            lambda m=module, x=rows: ff.capture(m, x), lambda m=module, x=rows: _export(m, x)
        )
        results[f"{name}_capture_ms"] = 1000 * capture
        results[f"{name}_export_ms"] = 1000 * export
        results[f"{name}_export_over_capture"] = export / capture
    for name, line in FIRSTS.items():
        results[f"first_{name}_seconds"] = min(_alone(line) for _ in range(3))
    return results


def _in_turn(*calls: Callable[[], object]) -> list[float]:
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS + 1):  # the first loads what is needed
        for place, call in enumerate(calls):
            start = time.process_time()
            call()
            best[place] = min(best[place], time.process_time() - start)
    return best


def _export(module: nn.Module, rows: torch.Tensor) -> object:
    with torch.no_grad(), quiet_export():
        return torch.export.export(module, (rows,), dynamic_shapes=({0: Dim.AUTO},))


def _alone(line: str) -> float:
    """CPU seconds in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST.format(line)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)
