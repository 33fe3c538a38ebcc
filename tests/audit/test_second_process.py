"""The second process of an audit: the same numbers and errors, and nothing that stays behind."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from farfield import forks
from farfield.audit import second_process as second
from farfield.audit.second_process import begin

# Each way of running the command is a fork of one process that has loaded everything already.
SCRIPT = """
import gc, os, signal, sys, time
from pathlib import Path
import torch
import farfield.audit.run, farfield.cli.terminal, farfield.progress
import farfield.guard.function, farfield.guard.protect
from farfield import cli
from farfield.audit import case, sections
from farfield.errors import InputError
from farfield.report.html.page import COMPILED, compile_templates
COMPILED.known.update(compile_templates())
gc.collect(), gc.freeze()
torch.set_num_threads(2)  # as where there is a second core
home = Path(sys.argv[1])
elsewhere, guarded = sections._elsewhere, case.guarded

def noted(given, receive):
    (home / "elsewhere").write_text(str(os.getpid()))
    return elsewhere(given, receive)

def dying(given, receive):
    os._exit(9)

def sleeping(given, receive):
    (home / "sleeper").write_text(str(os.getpid()))
    time.sleep(600)

def no_guard(*args, **options):
    raise InputError("no guard today")

def run(name, work=noted, guard=guarded, more=()):
    pid = os.fork()
    if pid:
        return pid
    for each in (noted, dying, sleeping):  # found there by whoever is sent them
        setattr(sys.modules["__main__"], each.__name__, each)
    sections._elsewhere, case.guarded = work, guard
    os.dup2(os.open(home / f"{name}.err", os.O_WRONLY | os.O_CREAT), 2)
    sys.argv = ["farfield", "audit", str(home / "model.pt2"), "--data", str(home / "rows.csv"),
                "--label", "y", "--directions", "3", "--samples", "20", "--quiet",
                "--out", str(home / name), *more]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.program()

def code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def asleep():
    for _ in range(12000):
        if (home / "sleeper").exists() and (home / "sleeper").read_text():
            break
        time.sleep(0.01)
    pid = int((home / "sleeper").read_text())
    (home / "sleeper").unlink()
    return pid

def is_gone(pid):
    for _ in range(1000):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\\tZ" in status.read_text():
            return True
        time.sleep(0.01)
    return False

found = {
    "two": code(run("two")),
    "dying": code(run("dying", dying)),
    "asked": code(run("asked", guard=no_guard, more=["--guard"])),
    "refused": code(run("refused", guard=no_guard)),
}
for name, sent in (("interrupted", signal.SIGINT), ("killed", signal.SIGKILL)):
    pid = run(name, sleeping)
    other = asleep()
    os.kill(pid, sent)
    found[name] = code(pid)
    found[f"{name} alone"] = is_gone(other)
import json
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory, nursery):
    """A small network audited in every way there is, and what became of each."""
    home = tmp_path_factory.mktemp("second")
    X = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["y"] = (X[:, 0] + X[:, 1] > 0).astype(int)
    frame.to_csv(home / "rows.csv", index=False)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    rows = {0: torch.export.Dim("rows", min=1)}
    exported = torch.export.export(model, (torch.zeros(2, 3),), dynamic_shapes=(rows,))
    torch.export.save(exported, home / "model.pt2")
    done = nursery.run(SCRIPT, home)
    assert done.returncode == 0, done.stderr
    return home, json.loads(done.stdout.splitlines()[-1])


def audited(home, name):
    found = json.loads((home / name / "audit.json").read_text())
    for measured in ("made", "seconds", "command"):
        found["provenance"].pop(measured, None)
    found.pop("at_hand")
    for name in [each for each in found["guard"]["rows"] if each.startswith("milliseconds")]:
        del found["guard"]["rows"][name]
    return found


pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(not forks.TASKS.exists(), reason="needs Linux"),
]


def test_numbers_are_the_same_if_the_second_process_dies(ran):
    home, codes = ran
    assert codes["two"] == codes["dying"] == 0
    assert (home / "elsewhere").exists()
    whole = audited(home, "two")
    assert audited(home, "dying") == whole
    assert whole["rays"]
    assert whole["surfaces"]
    assert whole["entry_errors"]
    assert whole["what_if"]
    assert whole["guard"]["features"]


def test_errors_are_told_in_the_same_line(ran):
    home, codes = ran
    assert codes["asked"] == 2
    assert (home / "asked.err").read_text() == "farfield: no guard today\n"


def test_a_guard_that_nobody_asked_for_may_fail(ran):
    home, codes = ran
    found = json.loads((home / "refused" / "audit.json").read_text())
    assert codes["refused"] == 0
    assert found["guard"] is None
    assert found["entry_errors"]
    assert "no guard today" in json.dumps(found["provenance"])


@pytest.mark.parametrize(("name", "code"), [("interrupted", 130), ("killed", -9)])
def test_nothing_stays_behind(ran, name, code):
    home, codes = ran
    assert codes[name] == code
    assert codes[f"{name} alone"]
    assert "Traceback" not in (home / f"{name}.err").read_text()


def test_what_cannot_be_sent_is_not_begun(monkeypatch):
    monkeypatch.setattr(second, "_WAITING", [])
    assert begin(print, list) is None
    second._WAITING.append(second.SecondProcess(None))
    assert begin(print, lambda: lambda: None) is None
    monkeypatch.setattr(second, "MOST_BYTES", 10)
    assert begin(print, lambda: "much") is None
    assert second._WAITING
