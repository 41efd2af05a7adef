"""Names of every message between a loader and its worker processes: frames of ``spdl._processes._transport``."""

from __future__ import annotations

from enum import IntEnum


class ToWorker(IntEnum):
    """Requests to a worker. Batch numbers count up over all workers and epochs. A closed connection ends the worker."""

    FETCH = 1  #: load a batch. Number: the batch. Payload: its index or indices; nothing for an iterable dataset
    RESUME = 2  #: all earlier requests belong to an older epoch; restart an iterable dataset. Payload: the environment
    #: variables that have changed


class FromWorker(IntEnum):
    """Answers of a worker: READY, then one for each FETCH, in order, until its iterator is exhausted."""

    READY = 0  #: the dataset is loaded
    BATCH = 1  #: number: the batch. Payload: the batch
    RAISED = 2  #: number: the batch. Payload: ``RemoteException``
    EXHAUSTED = 3  #: number: the batch that does not exist. No more answers until RESUME
    STATE = 4  #: number: the batch whose answer follows. Payload: ``Recorded``, the state of the dataset after it
