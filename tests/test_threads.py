"""Few products stay on one thread; whatever happens, the number of threads is put back."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from farfield.threads import WORTH_SHARING, threads_for


@pytest.fixture(autouse=True)
def _three():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("products", "threads"), [(0, 1), (WORTH_SHARING - 1, 1), (WORTH_SHARING, 3)]
)
def test_many_products_are_shared(products, threads):
    with threads_for(products):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 3


def test_other_threads_leave_the_number_alone(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda count: pytest.fail("changed"))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: threads_for(0).__enter__()).result() is None


def test_errors_put_threads_back():
    with pytest.raises(KeyError), threads_for(1):
        raise KeyError
    assert torch.get_num_threads() == 3
