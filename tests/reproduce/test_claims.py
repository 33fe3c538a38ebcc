"""Processes divide work among them, and take over what the dead had claimed."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

from farfield.files import alive
from farfield.reproduce.claims import Claims


def take_all(file, count, out):
    claims = Claims(file, "work")
    out.put([number for number in range(count) if claims.take(number)])


def test_no_number_is_claimed_twice(tmp_path):
    file = tmp_path / "claims.db"
    Claims(file, "work")
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    workers = [context.Process(target=take_all, args=(file, 60, out)) for _ in range(3)]
    for worker in workers:
        worker.start()
    taken = [number for _ in workers for number in out.get(timeout=60)]
    for worker in workers:
        worker.join()
    # A worker that ended may lose its claims to one that goes on, so numbers may occur twice
    # only if their first owner was gone; all are taken by somebody.
    assert set(taken) == set(range(60))


def test_living_owners_keep_their_claims(tmp_path):
    claims = Claims(tmp_path / "claims.db", "work")
    assert claims.take(7)
    other = (
        "import sys; from pathlib import Path; from farfield.reproduce.claims import Claims; "
        "print(Claims(Path(sys.argv[1]), 'work').take(7))"
    )
    command = [sys.executable, "-c", other, str(tmp_path / "claims.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_claim_can_be_given_back_and_grows_old(tmp_path, monkeypatch):
    claims = Claims(tmp_path / "claims.db", "work")
    assert claims.take(1)
    claims.release(1)
    assert claims.take(1)
    monkeypatch.setattr("farfield.reproduce.claims.LONGEST", -1.0)
    assert claims.take(1)


def test_the_dead_are_succeeded(tmp_path):
    file = tmp_path / "claims.db"
    claims = Claims(file, "work")
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not alive(process.pid)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO claims VALUES ('work', 3, ?, 0)", (process.pid,))
    assert claims.take(3)
    assert not claims.take(3)
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT process FROM claims").fetchall() == [(os.getpid(),)]
