"""Programs run in processes that are new where farfield is concerned, and quick to begin.

What farfield itself imports takes seconds to load. One process loads it once, without farfield,
and forks for every program.
"""

import json
import os
import subprocess
import sys

CODE = """
import json, os, runpy, sys, traceback, warnings
import flint, jinja2, onnx, pydantic, rich.table, safetensors, torch, torch.export
import pyarrow.compute, pyarrow.csv, pyarrow.parquet, scipy.special, scipy.stats
import sklearn.cluster, sklearn.covariance, sklearn.datasets, sklearn.ensemble, sklearn.mixture
import sklearn.neighbors, sklearn.neural_network
torch.export.export(torch.nn.Linear(1, 1), (torch.zeros(1, 1),))
assert not [name for name in sys.modules if name.startswith("farfield")]


def run(folder, script):
    os.chdir(folder)
    said = os.open("said.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1), os.dup2(said, 2)
    sys.argv = [script]
    warnings.filterwarnings("error", category=DeprecationWarning, module="__main__")
    code = 1
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = int(bool(stop.code))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)


print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(*json.loads(line))
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Nursery:
    """A process that forks; a context manager."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CODE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def run(self, folder, script):
        """Run a script in a folder; whether it failed, and what it said."""
        self.process.stdin.write(json.dumps([str(folder), script]) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        return status, (folder / "said.txt").read_text("utf-8")
