"""Names of every message between a loader and its worker processes: frames of ``spdl._processes._transport``."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FromWorker", "ToWorker"]


class ToWorker(IntEnum):
    """To a worker. The number of a batch counts up over all workers and epochs. The end of the connection ends it."""

    FETCH = 1  #: load a batch. Number: the batch. Payload: its index or indices; nothing for an iterable dataset
    RESUME = 2  #: what was asked so far belongs to an older epoch; iterate an iterable dataset anew


class FromWorker(IntEnum):
    """From a worker: READY, then one answer to each FETCH, in order, except where its iterator has ended before."""

    READY = 0  #: the dataset is there
    BATCH = 1  #: number: the batch. Payload: the batch
    RAISED = 2  #: number: the batch. Payload: ``RemoteException``
    EXHAUSTED = 3  #: number: the batch that there is not. The worker answers nothing more until RESUME
