"""Work on many rows, a chunk at a time, here or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from farfield.audit.settings import EngineName
from farfield.errors import MissingDependency

Item = TypeVar("Item")
Result = TypeVar("Result")
# How many chunks may be under way on a cluster at a time: bounds the memory of the driver.
UNDER_WAY = 16


def in_order(
    engine: EngineName, work: Callable[[Any, Item], Result], shared: Any, items: Iterable[Item]
) -> Iterator[Result]:
    """Apply ``work(shared, item)`` to items, results in the order of the items.

    Args:
        engine: ``"local"`` does one after another; ``"ray"`` spreads them over a Ray cluster: the
            one that this process is connected to, or a new local one.
        work: A function of a module, so that workers can find it.
        shared: What every call needs, sent to the cluster once.
        items: The work, taken as it is needed.
    """
    if engine == "ray":
        return _on_ray(work, shared, items)
    return (work(shared, item) for item in items)


def _on_ray(
    work: Callable[[Any, Item], Result], shared: Any, items: Iterable[Item]
) -> Iterator[Result]:
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("engine='ray' needs Ray: pip install 'farfield[ray]'") from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    everywhere, remote = ray.put(shared), ray.remote(work)
    waiting: list[Any] = []
    for item in items:
        waiting.append(remote.remote(everywhere, item))
        if len(waiting) >= UNDER_WAY:
            yield ray.get(waiting.pop(0))
    for reference in waiting:
        yield ray.get(reference)
