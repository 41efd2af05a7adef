"""The warnings of loaders. torch's are word for word, so that filters and web searches for them work.

``stacklevel`` is that of ``warnings.warn`` in the caller.
"""

import os
import warnings
from typing import Any

from ._thread_bound import find_bound


def warn_of_workers(num_workers: int, *, stacklevel: int) -> None:
    """Warn of more worker processes than CPUs, which are counted as torch does: a container's quota is ignored."""
    if num_workers <= 0:
        return
    is_cpuset = hasattr(os, "sched_getaffinity")
    num_cpus = len(os.sched_getaffinity(0)) if is_cpuset else os.cpu_count()
    if num_cpus is None:
        suggestion = "DataLoader is not able to compute a suggested max number of worker in current system."
    elif num_workers > num_cpus:
        suggestion = (
            f"Our suggested max number of worker in current system is {num_cpus}"
            f"{'' if is_cpuset else ' (`cpuset` is not taken into account)'}, which is smaller than what this "
            "DataLoader is going to create."
        )
    else:
        return
    text = (
        f"This DataLoader will create {num_workers} worker processes in total. {suggestion} Please be aware that "
        "excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to avoid "
        "potential slowness/freeze if necessary."
    )
    warnings.warn(text, stacklevel=stacklevel + 1)


def longer_than_reported(dataset: Any, reported: int, num_taken: int, *, in_processes: bool) -> str:
    """The warning about an iterable dataset that yields more samples than its length."""
    text = (
        f"Length of IterableDataset {dataset} was reported to be {reported}(when accessing len(dataloader)), but "
        f"{num_taken} samples have been fetched. "
    )
    if in_processes:
        text += (
            "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
            "replica at each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data."
            "IterableDataset for examples."
        )
    return text


def warn_of_bound(dataset: Any, collate_fn: Any, num_workers: int, *, stacklevel: int) -> bool:
    """Warn of objects that the loader's threads cannot share. Returns whether there are any."""
    bound = find_bound(dataset=dataset, collate_fn=collate_fn)
    if bound is None or bound.is_serial or (num_workers == 1 and not bound.is_owned):
        return False
    text = (
        f"workers='thread' loads with a dataset that threads cannot share: {bound}. They move each other's position in "
        "it, so samples may be wrong, or calls fail. Use workers='process', or let each thread open its own "
        "(threading.local)."
    )
    warnings.warn(text, stacklevel=stacklevel + 1)
    return True


def warn_of_discarding(dataset: Any, num_batches: int, *, stacklevel: int) -> None:
    """Warn of batches that resuming loads once more."""
    text = (
        f"{num_batches} batches of {type(dataset).__name__} are loaded again and discarded, to resume where the loader "
        "was; this is not needed if the dataset, or its iterator, has state_dict() and load_state_dict()"
    )
    warnings.warn(text, stacklevel=stacklevel + 1)


def warn_of_pinning(message: str) -> None:
    """Warn that batches are not pinned as asked, at the user's ``iter(loader)``."""
    warnings.warn(message, stacklevel=8)
