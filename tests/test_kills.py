"""A few kills of every command; ``python kill_campaign.py --count 60`` does many."""

import os

import pytest

from kill_campaign import WORK, campaign, prepare

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Data and a model that all of them use."""
    folder = tmp_path_factory.mktemp("kills")
    prepare(folder)
    return folder


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes the POSIX way")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", WORK)
def test_killed_runs_leave_nothing_corrupt(name, home):
    _, wrong = campaign(name, 1, 0, home)
    assert not wrong
