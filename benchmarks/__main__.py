"""Run benchmarks and write what they measured, with versions and CPU.

Benchmarks measure what things cost; experiments are in ``farfield.reproduce``.

``python -m benchmarks`` runs all of them, ``python -m benchmarks NAME ...`` some. A benchmark is a
module with a ``QUESTION``, a function ``measure`` that returns numbers, and ``TARGETS``: name of a
number -> ``"<= 2.5"`` or ``">= 10"``. In the end all results are put on ``docs/benchmarks.md``.
"""

import compileall
import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import sklearn
import torch

import farfield
from benchmarks import page
from benchmarks.missing import NotHere
from farfield.errors import MissingDependency

HERE = Path(__file__).parent
RESULTS = HERE / "results"
INFRASTRUCTURE = {"__init__", "__main__", "missing"}


def main() -> int:
    """Run the benchmarks named on the command line, or all of them."""
    known = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in INFRASTRUCTURE)
    known = [name for name in known if hasattr(_module(name), "measure")]
    names = sys.argv[1:] or known
    unknown = set(names) - set(known)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
        return 2
    # As pip does with what it installs; commands start in less time.
    compileall.compile_dir(Path(farfield.__file__).parent, quiet=1)
    missed = 0
    for name in names:
        missed += _run(name)
    page.main()
    return 0 if not missed else 1


def _module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{name}")


def _run(name: str) -> int:
    module = _module(name)
    print(f"{name}: {module.QUESTION}")
    start = time.perf_counter()
    try:
        numbers = module.measure()
    except (NotHere, MissingDependency) as reason:
        print(f"  skipped: {reason}")
        return 0
    verdicts = {key: _verdict(numbers[key], text) for key, text in module.TARGETS.items()}
    result = {
        "question": module.QUESTION,
        "targets": verdicts,
        "numbers": numbers,
        "seconds": round(time.perf_counter() - start, 1),
        "environment": environment(),
    }
    for key, verdict in verdicts.items():
        mark = "met" if verdict["met"] else "MISSED"
        print(f"  {key}: {verdict['measured']:.4g} (target {verdict['target']}, {mark})")
    _write(RESULTS / f"{name}.json", result)
    return sum(not verdict["met"] for verdict in verdicts.values())


def _verdict(measured: float, target: str) -> dict[str, Any]:
    relation, bound = target.split()
    met = measured <= float(bound) if relation == "<=" else measured >= float(bound)
    return {"target": target, "measured": measured, "met": bool(met)}


def environment() -> dict[str, Any]:
    """Say what was measured on what."""
    return {
        "farfield": farfield.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "system": platform.system(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (li.split(":")[1].strip() for li in lines if li.startswith("model name")), "unknown"
    )


def _write(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
