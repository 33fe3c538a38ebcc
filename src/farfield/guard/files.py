"""Guards in files of any kind, and whether they keep their promise."""

from __future__ import annotations

import json
import os

from farfield.formats import is_named
from farfield.guard.archive import read_guard
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered
from farfield.guard.onnx_read import read_guarded
from farfield.guard.pt2_file import read_pt2
from farfield.guard.records import failing_as_damage, restore_covered
from farfield.guard.verify import Verification, verify


def open_guard(path: str | os.PathLike[str]) -> tuple[Certificate, Verification]:
    """Read the certificate and the numbers of a guarded file, and prove it again.

    Args:
        path: An ``.onnx``, ``.pt2`` or ``.safetensors`` file.

    Raises:
        InputError: If there is no guard in it, or it is damaged.
    """
    if is_named(path, "pt2"):
        return read_pt2(path)
    if is_named(path, "onnx"):
        file = read_guarded(path)
        return file.certificate, file.verify()
    header, tensors = read_guard(path)
    own = {name: value for name, value in tensors.items() if name.startswith("covered.")}
    covered: Covered = failing_as_damage(
        os.fspath(path), lambda: restore_covered(header.covered, own)
    )
    certificate = Certificate.from_json(json.dumps(header.certificate))
    return certificate, verify(certificate, covered)
