"""The members of a ``.pt2`` archive: exactly those that are known, each once, none compressed.

PyTorch stores members one after another as they are. Whatever else a zip file can do (compress,
repeat a name, let two members share bytes, hide things between them) is refused, so that nothing
in the file is larger than it looks and no two readers see different things.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farfield.errors import CaptureError

MODEL = "models/model.json"
WEIGHTS, WEIGHTS_INDEX = "data/weights", "data/weights/model_weights_config.json"
CONSTANTS, CONSTANTS_INDEX = "data/constants", "data/constants/model_constants_config.json"
# Members with a fixed content.
MARKS = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little"}
REQUIRED = (*MARKS, MODEL, WEIGHTS_INDEX, CONSTANTS_INDEX)
TENSOR = re.compile(r"data/(weights/weight|constants/tensor)_[0-9]{1,6}")
# What a guard puts beside its program.
CERTIFICATE, GUARD = "extra/farfield.certificate", "extra/farfield.guard"
# Members that are never opened: the examples are a pickle.
UNREAD = (".data/version", ".data/serialization_id", "data/sample_inputs/model.pt")
LOCAL_HEADER = 30
ENCRYPTED = 0x1


@dataclass(frozen=True)
class Archive:
    """An open ``.pt2`` archive whose table of contents has been checked."""

    path: Path
    size: int
    file: zipfile.ZipFile
    members: Mapping[str, zipfile.ZipInfo]

    def read(self, name: str) -> bytes:
        """The bytes of a member; the checksum is compared.

        Raises:
            CaptureError: If the archive has no such member.
        """
        if name not in self.members or name in UNREAD:
            raise CaptureError(f"{self.path} names the member {name!r}, which it does not hold")
        return self.file.read(self.members[name])


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a ``.pt2`` file and check its table of contents.

    Raises:
        CaptureError: If the file is damaged, or is not what ``torch.export.save`` writes.
    """
    if not path.is_file():
        raise CaptureError(f"there is no file {path}")
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as file:
            yield _checked(Archive(path, size, file, _members(file, path)))
    # zipfile raises the last three for damaged names, versions and headers.
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, ValueError) as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(
            f"{path} is not a .pt2 archive, or it is cut short ({error}); write it with "
            "torch.export.save(torch.export.export(model, (example,)), path)"
        ) from error


def _members(file: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The table of contents without its root folder, every entry checked."""
    infos = sorted(file.infolist(), key=lambda info: info.header_offset)
    if not any(info.filename.endswith("/archive_format") for info in infos):
        raise CaptureError(
            f"{path} is a zip file but not an archive of torch.export (it may be a torch.save "
            "file, or from a PyTorch before 2.8); write it with torch.export.save"
        )
    members: dict[str, zipfile.ZipInfo] = {}
    root = infos[0].filename.partition("/")[0]
    end = 0
    for info in infos:
        folder, _, name = info.filename.partition("/")
        if folder != root or name in members:
            raise CaptureError(f"{path} holds {info.filename!r} twice, or in two places; refused")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & ENCRYPTED:
            raise CaptureError(
                f"{path} holds {name!r} compressed or encrypted, which PyTorch does not do; refused"
            )
        if info.file_size != info.compress_size or info.header_offset < end:
            raise CaptureError(f"{path} holds {name!r} across other members; refused")
        end = info.header_offset + LOCAL_HEADER + len(info.filename.encode()) + info.file_size
        members[name] = info
    return members


def _checked(archive: Archive) -> Archive:
    members, path = archive.members, archive.path
    for name in members:
        known = (*REQUIRED, *UNREAD, CERTIFICATE, GUARD)
        if name not in known and not TENSOR.fullmatch(name):
            raise CaptureError(
                f"{path} holds {name!r}, which is no part of a plain exported program; pickled "
                "objects, compiled code and custom objects are never loaded"
            )
    missing = [name for name in REQUIRED if name not in members]
    if missing:
        raise CaptureError(f"{path} lacks {', '.join(missing)}; write it with torch.export.save")
    for name, content in MARKS.items():
        if members[name].file_size != len(content) or archive.read(name) != content:
            raise CaptureError(
                f"{path} is of another kind: its {name!r} is not {content.decode()!r}; write it "
                "with torch.export.save"
            )
    return archive
