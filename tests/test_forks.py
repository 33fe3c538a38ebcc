"""Work in a process of its own."""

import os
import signal
import threading

import pytest

from farfield import forks
from farfield.forks import forked

pytestmark = pytest.mark.skipif(not forks.TASKS.exists(), reason="needs Linux")
ALONE = "from pathlib import Path\nassert len([*Path('/proc/self/task').iterdir()]) == 1\n"
WORK = (
    ALONE
    + """
import os, signal
from farfield.forks import forked

def work(pipe):
    pipe.send((os.getpid(), signal.getsignal(signal.SIGINT) == signal.SIG_IGN, pipe.recv()))
    signal.pause()

with forked(work) as pipe:
    pipe.send("given")
    other, ignores, given = pipe.recv()
    assert other != os.getpid() and ignores and given == "given"
    os.kill(other, 0)
try:
    os.kill(other, 0)
except ProcessLookupError:
    print("gone")
"""
)


def test_a_process_works_until_the_block_ends(nursery):
    done = nursery.run(WORK)
    assert done.stdout.split() == [b"gone"], done.stderr


def test_nothing_is_forked_beside_threads():
    held = threading.Event()
    thread = threading.Thread(target=held.wait)
    thread.start()
    try:
        with forked(lambda pipe: os.kill(os.getppid(), signal.SIGKILL)) as pipe:
            assert pipe is None
    finally:
        held.set()
        thread.join()
