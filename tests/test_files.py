"""Files are written whole or not at all, and only regular files are touched."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from farfield.errors import InputError
from farfield.files import MACHINE, _remove_orphans, regular, replacing, writable


@pytest.fixture(autouse=True)
def fresh():
    _remove_orphans.cache_clear()


def test_a_new_file_in_a_new_folder_with_the_usual_rights(tmp_path):
    path = tmp_path / "a" / "b" / "text.txt"
    with replacing(path) as temporary:
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
    assert path.read_text() == "new"
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "text.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def write(path):
    with replacing(path) as temporary:
        temporary.write_text("x")


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "below", tmp_path / ("n" * 300), tmp_path / "a\0b"):
        with pytest.raises(InputError, match="cannot write"):
            write(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_places_are_tried_before_long_work(tmp_path, monkeypatch):
    new = tmp_path / "a" / "b.txt"
    assert writable(new) == new
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="a folder; name a file in it"):
        writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Not a directory; choose a place"):
        writable(tmp_path / "file" / "b.txt")
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path)  # root may do anything
    with pytest.raises(InputError, match="Permission denied; choose a place"):
        writable(new)


def test_long_names_have_room_for_the_temporary_one(tmp_path):
    write(tmp_path / ("n" * 250))
    assert [len(path.name) for path in tmp_path.iterdir()] == [250]


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling", "device", "socket"])
def test_what_is_not_a_regular_file_is_never_replaced(tmp_path, kind):
    import socket

    place, target = tmp_path / "out.json", tmp_path / "target"
    target.write_text("kept")
    server = None
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/full")
        with pytest.raises(InputError, match="cannot write /dev/full: it is a device"):
            write(type(place)("/dev/full"))
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.relpath(place))
    else:
        place.symlink_to(target if kind == "link" else tmp_path / "nowhere")
    before = place.lstat()
    with pytest.raises(InputError, match=r"cannot write .*: it is a"):
        write(place)
    after = place.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert target.read_text() == "kept"
    assert len(list(tmp_path.iterdir())) == 2
    if server is not None:
        server.close()


def test_a_folder_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link" / "text")
    assert (tmp_path / "real" / "text").read_text() == "x"


def test_only_files_that_end_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "nothing", "/dev/zero", "a\0b"):
        with pytest.raises(InputError, match="cannot read"):
            regular(path)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert regular(tmp_path / "link") == tmp_path / "link"


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    code = """
        import os, signal, sys
        from pathlib import Path
        from farfield.files import replacing
        with replacing(Path(sys.argv[1])) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    path = tmp_path / "text.txt"
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".text.farfield-")
    write(tmp_path / "other")
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


def test_what_may_be_someone_elses_stays(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [
        f".a.farfield-{MACHINE}-{os.getpid()}-00000000.txt",  # being written now
        f".a.farfield-{MACHINE}-1-00000000.txt",  # another process that lives
        f".a.farfield-abcdef-{dead.pid}-00000000.txt",  # on another machine
        f"a.farfield-{MACHINE}-{dead.pid}-00000000.txt",  # not hidden: not ours
        f".a.farfield-{MACHINE}-{dead.pid}-0000.txt",
        ".a-0badcafe.txt",
    ]
    for name in kept:
        (tmp_path / name).touch()
    (tmp_path / f".b.farfield-{MACHINE}-{dead.pid}-00000000").mkdir()
    (tmp_path / f".c.farfield-{MACHINE}-{dead.pid}-00000000").symlink_to("target")
    (tmp_path / f".d.farfield-{MACHINE}-{dead.pid}-00000000").touch()
    write(tmp_path / "new")
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {*kept, "new"}
    assert not any(name.startswith(".d.") for name in names)
    assert len(names) == len(kept) + 3
