"""Work on many rows, a chunk at a time, here or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from farfield.audit.settings import EngineName
from farfield.errors import FarfieldError, MissingDependency

Item = TypeVar("Item")
Result = TypeVar("Result")
# How many chunks may be under way on a cluster at a time: bounds the memory of the driver.
UNDER_WAY = 16
# How often the work of a worker that died is done again.
RETRIES = 3


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
    everywhere, remote = ray.put(shared), ray.remote(max_retries=RETRIES)(work)
    waiting: list[Any] = []
    for item in items:
        waiting.append(remote.remote(everywhere, item))
        if len(waiting) >= UNDER_WAY:
            yield _got(ray, waiting.pop(0))
    for reference in waiting:
        yield _got(ray, reference)


def _got(ray: Any, reference: Any) -> Any:
    """A result; the work of a worker that dies is done again by another, a few times."""
    try:
        return ray.get(reference)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
        raise FarfieldError(
            f"workers of the Ray cluster died {RETRIES + 1} times over the same rows, perhaps for "
            "want of memory; give them more, or use engine='local' (--engine local)"
        ) from error
