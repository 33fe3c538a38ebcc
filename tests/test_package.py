"""The public surface."""

import subprocess
import sys

import pytest

import farfield as ff


@pytest.mark.parametrize("name", ff.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(ff, name) is not None
    assert name in dir(ff)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ff.nonsense


def test_importing_the_package_is_free():
    code = "import sys, farfield; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
