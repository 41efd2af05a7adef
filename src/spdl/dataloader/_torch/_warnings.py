"""The warnings of loaders. torch's are word for word, so that filters and web searches for them work. No imports."""

import os
from typing import Any


def too_many_workers(num_workers: int) -> str | None:
    """The warning about more worker processes than CPUs; ``None`` if there are enough CPUs.

    CPUs are counted as torch does, by affinity; the quota of a container is ignored.
    """
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
        return None
    return (
        f"This DataLoader will create {num_workers} worker processes in total. {suggestion} Please be aware that "
        "excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to avoid "
        "potential slowness/freeze if necessary."
    )


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


def thread_bound(what: str) -> str:
    """The warning about an object that threads share and should not."""
    return (
        f"workers='thread' loads with a dataset that threads cannot share: {what}. They move each other's position in "
        "it, so samples may be wrong, or calls fail. Use workers='process', or let each thread open its own "
        "(threading.local)."
    )
