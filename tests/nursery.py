"""Programs run in processes of their own that are quick to begin.

What farfield imports takes seconds to load, and so does farfield. One process loads the former and
forks another, which loads farfield too; both fork for every program. Programs that exit by
themselves, as commands do, end as an interpreter ends; those that come to their last line leave at
once, which saves the time of taking PyTorch down.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = """
import functools, gc, io, json, os, signal, sys, warnings
gc.disable()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flint, jinja2, onnx, pydantic.main, rich.table, safetensors.torch, torch, torch.export
    import onnx.reference, pandas, pyarrow.compute, pyarrow.csv, pyarrow.parquet
    import scipy.linalg, scipy.optimize, scipy.spatial, scipy.special, scipy.stats
    import sklearn.cluster, sklearn.covariance, sklearn.datasets, sklearn.ensemble, sklearn.mixture
    import sklearn.neighbors, sklearn.neural_network, sklearn.pipeline
    rows = {0: torch.export.Dim("rows")}
    small = torch.nn.Linear(1, 1), (torch.zeros(2, 1),)
    torch.export.save(torch.export.export(*small, dynamic_shapes=(rows,)), io.BytesIO())
assert not [name for name in sys.modules if name.startswith("farfield")]
LONGEST = 300


def begin(folder, code, arguments, environment, said):
    signal.alarm(LONGEST)
    os.chdir(folder)
    os.environ.update(environment)
    for descriptor, place in enumerate([os.devnull, *said]):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if descriptor else os.O_RDONLY
        os.dup2(os.open(place, flags), descriptor)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding=os.environ.get("PYTHONIOENCODING", "utf-8"))
    sys.argv = ["-c", *arguments]
    warnings.filterwarnings("error", category=DeprecationWarning, module="__main__")
    exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(0)


def serve(requests, answers, answer):
    gc.collect(), gc.freeze()  # children share what was loaded
    gc.set_threshold(50_000, 20, 20), gc.enable()
    for line in requests:
        print(answer(*json.loads(line)), file=answers, flush=True)


def run(*request):
    child = os.fork()
    if child == 0:
        begin(*request)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_onnx_quickly():
    # PyTorch reads the source of what it writes ONNX with for every file.
    try:
        import onnxscript
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:
        return
    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(*small, dynamic_shapes=(rows,))
        torch.onnx.export(program, dynamo=True, verbose=False)


@functools.cache
def experienced():
    (theirs, requests), (answers, mine) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(requests), os.close(answers)
        import farfield, farfield.cli
        from farfield.report.html.page import COMPILED, compile_templates
        [getattr(farfield, name) for name in farfield.__all__]
        COMPILED.known.update(compile_templates())
        write_onnx_quickly()
        serve(open(theirs), open(mine, "w"), run)
        os._exit(0)
    os.close(theirs), os.close(mine)
    return open(requests, "w"), open(answers)


def chosen(new, *request):
    if new:
        return run(*request)
    requests, answers = experienced()
    print(json.dumps(request), file=requests, flush=True)
    return answers.readline().strip()


print("ready", flush=True)
serve(sys.stdin, sys.stdout, chosen)
"""
COMMAND = "from farfield.cli import main; main()"


class Nursery:
    """A process that forks; a context manager."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def run(self, code, *arguments, folder=None, env=None, new=False):
        """Run a program, by default in an empty folder; what became of it, in bytes.

        In a new one farfield has not been loaded.
        """
        said = [Path(self.folder.name, name) for name in ("out", "err")]
        with tempfile.TemporaryDirectory() as empty:
            words = [new, str(folder or empty), code, list(map(str, arguments)), env or {}]
            self.process.stdin.write(json.dumps([*words, list(map(str, said))]) + "\n")
            self.process.stdin.flush()
            status = int(self.process.stdout.readline())
        return subprocess.CompletedProcess(code, status, *(path.read_bytes() for path in said))
