"""A few hostile files for every reader; ``make fuzz`` makes many."""

import pytest

from fuzz.cases import Reader
from fuzz.formats import FORMATS
from fuzz.watch import Watch

pytestmark = pytest.mark.whole

CASES = {"guard": 12, "pt2": 12, "onnx": 30, "estimator": 30, "audit.json": 20}


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    return Watch(tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", FORMATS)
def test_changed_files_are_read_or_refused(name, tmp_path, watch):
    reader = Reader(name, tmp_path, watch)
    for number in range(CASES.get(name, 75)):
        _, wrong = reader.run(0, number)
        assert not wrong, f"python -m fuzz --format {name} --seed 0 --only {number}: {wrong}"


def test_the_watch_sees_what_it_should(tmp_path, watch):
    import os
    import pickle

    with watch.watching():
        (tmp_path / "inside").write_text("")
        pickle.loads(pickle.dumps(os.getcwd))
    assert [each.split()[0] for each in watch.found] == ["pickle.find_class"]
    with watch.watching(), pytest.raises(FileNotFoundError):
        open("/proc/nowhere/x", "w")  # noqa: PTH123, SIM115 - refused by the system, and heard
    assert watch.found == ["/proc/nowhere/x was opened for writing"]
