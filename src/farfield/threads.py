"""How many threads PyTorch's operations share.

A step of training is a few products of small matrices, which threads take longer to share than to
multiply; and where another process has a core, each of them waits for a thread that does not run.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# From so many products of two numbers a step on, two threads were quicker than one (networks of 30
# inputs, one to ten members of 25 to 1,024 units in two layers, in batches of 64 to 2,000 rows).
WORTH_SHARING = 1 << 21


@contextmanager
def threads_for(products: int) -> Iterator[None]:
    """Use one thread for steps of a few products, and as many as before for others.

    PyTorch remembers one number for all threads that come: only the main one changes it.

    Example:
        >>> with threads_for(1_000):
        ...     torch.get_num_threads()
        1
    """
    if products >= WORTH_SHARING or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
