"""Kill farfield at random moments: nothing is corrupt, the next run gives what it should give.

``python kill_campaign.py --count 60 --seed 1`` from the folder of the tests; the tests do a few.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import farfield as ff
from farfield.audit.record import Audit
from farfield.cli import farfield as command
from farfield.guard import load as load_guard
from farfield.reproduce import RunRequest
from farfield.reproduce.runner import run_experiment


def invoke(*args):
    done = CliRunner().invoke(command, [str(arg) for arg in args])
    if done.exit_code:
        raise SystemExit(str(done.exception))


def train(home, out):
    invoke(
        "train", "ensemble", "--data", home / "train.csv", "--label", "y", "--epochs", 8,
        "--hidden", "8", "--set", "members=2", "--quiet", "-o", out / "model.safetensors",
    )  # fmt: skip


def guard(home, out):
    invoke(
        "guard", home / "model.safetensors", "--data", home / "train.csv", "--label", "y",
        "--quiet", "-o", out / "safe.safetensors",
    )  # fmt: skip


def audit(home, out):
    invoke(
        "audit", home / "model.safetensors", "--data", home / "train.csv", "--label", "y",
        "--directions", 30, "--samples", 30, "--quiet", "--out", out,
    )  # fmt: skip


def reproduce(home, out):
    from reproduce import toy_experiment

    run_experiment(toy_experiment, RunRequest(out), changes={"pause": 0.05})


def without_times(path):
    """An audit or the results of an experiment, without what depends on the clock."""

    def plain(tree):
        if isinstance(tree, dict):
            return {
                key: plain(value)
                for key, value in tree.items()
                if not CLOCK.intersection(key.replace("_", " ").split())
            }
        return [plain(item) for item in tree] if isinstance(tree, list) else tree

    return plain(json.loads(path.read_text("utf-8")))


CLOCK = {
    "seconds",
    "milliseconds",
    "time",
    "date",
    "made",
    "created",
    "when",
    "started",
    "duration",
}
# What each command writes, how it is read, and how two of them are compared.
WORK = {
    "train": (train, "model.safetensors", ff.load, Path.read_bytes),
    "guard": (guard, "safe.safetensors", load_guard, Path.read_bytes),
    "audit": (audit, "audit.json", Audit.from_json, without_times),
    "reproduce": (reproduce, "results.json", without_times, without_times),
}


def in_child(work, home, out, patience=None):
    """Run in a process of its own, killed after ``patience`` seconds; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work(home, out)
            os._exit(0)
        except BaseException as error:
            print(repr(error)[:300], file=sys.stderr)
            os._exit(1)
    if patience is not None:
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        raise RuntimeError("the run failed by itself")
    return False


def prepare(home):
    """Data, and a model for it."""
    rows = np.random.default_rng(0).normal(size=(200, 3))
    lines = [",".join(f"{x:.4f}" for x in row) + f",{int(row.sum() > 0)}" for row in rows]
    (home / "train.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    in_child(train, home, home)


def campaign(name, count, seed, home):
    """Kill one command ``count`` times; a list of what was wrong."""
    work, product, read, compare = WORK[name]
    source = random.Random(f"{name} {seed}")
    whole = home / f"{name}-whole"
    start = time.monotonic()
    in_child(work, home, whole)
    lasts = time.monotonic() - start
    expected = compare(whole / product)
    wrong, killed = [], 0
    out = home / f"{name}-killed"
    for number in range(count):
        killed += in_child(work, home, out, source.uniform(0, lasts))
        try:
            if (out / product).exists():
                read(out / product)
        except Exception as error:
            wrong.append(f"{name} {number}: {product} is damaged: {error!r:.200}")
        if source.random() < 0.3 or number == count - 1:
            in_child(work, home, out)
            if compare(out / product) != expected:
                wrong.append(f"{name} {number}: the next run gave another {product}")
            left = [path.name for path in out.rglob(".*.farfield-*")]
            if left:
                wrong.append(f"{name} {number}: {left} were left behind")
            shutil.rmtree(out)
    return killed, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home)
        for name in WORK:
            killed, wrong = campaign(name, -(-options.count // len(WORK)), options.seed, home)
            print(f"{name:10} {killed} killed, {len(wrong)} problems", *wrong, sep="\n", flush=True)
            problems += wrong
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
