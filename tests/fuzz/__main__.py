"""Fuzz every reader for as long as one likes: ``python -m fuzz --seconds 600 --seed 1``.

Each format has a process of its own, so that a crash is found and told as well. What is printed at
the end says how many files each reader was given and with which seed. A case is seen again with
``--format NAME --seed SEED --only NUMBER``.
"""

import argparse
import json
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.cases import Reader
from fuzz.formats import FORMATS

MEMORY = 12 << 30


def main():
    """Run as the command line says; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--format", action="append", choices=sorted(FORMATS))
    parser.add_argument("--only", type=int, help="read one case and show what it does")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.format or list(FORMATS)
    if options.worker or options.only is not None:
        sys.exit(work(names[0], options.seed, options.seconds, options.only))
    whole = sum(FORMATS[name].share for name in names)
    print(f"seed {options.seed}, {options.seconds:g} seconds, {len(names)} formats", flush=True)
    found = 0
    total = 0
    for name in names:
        seconds = options.seconds * FORMATS[name].share / whole
        cases, wrong = supervise(name, options.seed, seconds)
        total, found = total + cases, found + wrong
    print(f"{total} files, {found} problems, seed {options.seed}")
    sys.exit(1 if found else 0)


def supervise(name, seed, seconds):
    """Run one format in a process; count its files and its problems."""
    command = [sys.executable, "-m", "fuzz", "--worker", "--format", name]
    command += ["--seed", str(seed), "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    last = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    cases, wrong = last.get("files", 0), last.get("problems", 0)
    if done.returncode not in (0, 1) or not last:
        print(
            f"{name}: the process ended with {done.returncode}; its last case is in farfield-fuzz-*"
        )
        wrong += 1
    print(f"{name:12} {cases:9} files, {last.get('read', 0):8} read, {wrong} problems", flush=True)
    return cases, wrong


def work(name, seed, seconds, only):
    """Read the cases of one format until the time is over."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    shared = Path("/dev/shm")  # files in memory, where there are such
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        reader = Reader(name, Path(folder))
        if only is not None:
            read, wrong = reader.run(seed, only)
            print(f"{name} {seed} {only}: {'read' if read else 'refused'}", *wrong, sep="\n")
            return 1 if wrong else 0
        counts = {"files": 0, "read": 0, "problems": 0}
        trace = Path(tempfile.gettempdir()) / f"farfield-fuzz-{name}-{os.getpid()}"
        descriptor = os.open(trace, os.O_CREAT | os.O_WRONLY)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            number = counts["files"]
            os.pwrite(descriptor, f"{number:12}\n".encode(), 0)  # what a crash leaves behind
            read, wrong = reader.run(seed, number)
            counts["files"] += 1
            counts["read"] += read
            if wrong:
                counts["problems"] += 1
                print(
                    f"--format {name} --seed {seed} --only {number}",
                    *wrong,
                    sep="\n",
                    file=sys.stderr,
                )
                if counts["problems"] >= 20:
                    break
        os.close(descriptor)
        trace.unlink()
    print(json.dumps(counts))
    return 1 if counts["problems"] else 0


if __name__ == "__main__":
    main()
