"""Names of every message between a pipeline and its child processes: one enumeration for each direction.

A message is a frame of ``spdl._processes._transport``: a kind, a number, and a payload.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "FromIsolated",
    "FromIterator",
    "FromMoved",
    "FromRegionWorker",
    "MovedCall",
    "ToIsolated",
    "ToIterator",
    "ToRegionWorker",
]


class ToIterator(IntEnum):
    """To a child that iterates. The number is that of the iteration, from 1. The end of the connection ends it."""

    #: Stop the present iteration, if any, and begin this one. Payload: so many items may be sent, int or infinity; 0 if
    #: the child is to send STARTED and wait for CREDIT first.
    START = 1
    #: So many more items may be sent. A count is also that of the items that have been read since; a payload, int or
    #: infinity, answers STARTED.
    CREDIT = 2
    #: Of resumable pipelines: answer with STATE. Payload: number of items of the iteration that have been read, its end
    #: included.
    STATE = 3
    LOAD = 4  #: of resumable pipelines, before the first iteration: load this state, and answer with STATE
    HOLD = 5  #: of resumable pipelines: in the next iteration, items have been read when READ says so, not by CREDIT
    READ = 6  #: count: number of items of the iteration that have been read, its end included


class FromIterator(IntEnum):
    """From a child that iterates. The number is that of the iteration."""

    READY = 1  #: initializers and function have returned
    ITEM = 2  #: payload: the item
    END = 3  #: the iterator is exhausted
    #: The child stops. Payload: (what was attempted, ``RemoteFailure``)
    BROKEN = 4
    #: Nothing of older iterations will come. Sent, before anything else of this one, where memory begins anew.
    STARTED = 5
    STATE = 6  #: payload: the state, or a ``RemoteFailure``


class FromMoved(IntEnum):
    """From a worker of a moved process pool to its owner, who sends nothing."""

    READY = 1  #: its initializer has returned
    INITIALIZER_FAILED = 2  #: it ends. Payload: ``RemoteFailure``


class MovedCall(IntEnum):
    """Between a worker of a moved process pool and the process where the pipeline runs. One call at a time."""

    CALL = 1  #: to the worker. Payload: (function, positional arguments, keyword arguments)
    RESULT = 2  #: from it. Payload: what the function returned
    FAILED = 3  #: from it: the call could not be made, or what it returned cannot be sent. Payload: ``RemoteFailure``


class ToIsolated(IntEnum):
    """To a child of an isolated stage, one at a time: each is answered before the next."""

    CALL = 1  #: run the op on the payload
    AGAIN = 2  #: run the op again on the item of the last CALL


class FromIsolated(IntEnum):
    """From a child of an isolated stage."""

    READY = 1  #: the op is here
    RESULT = 2  #: payload: what the op returned; a list of what it yielded
    #: The op raised. Payload: (list of what it had yielded, failure). Number: 1 if it may be tried again
    RAISED = 3


class ToRegionWorker(IntEnum):
    """To a worker of a region. A transfer is any number of ``ITEM`` and one ``DEALT``, in one write."""

    #: End the conversation there may be, build and start the pipeline. Number: of the new conversation, from 1.
    #: Payload: what the region is called
    OPEN = 1
    ITEM = 2  #: number: its position; payload: the item
    DEALT = 3  #: the transfer is complete
    CREDIT = 4  #: number: so many more transfers of outputs may be sent
    MARK = 5  #: the end of an epoch
    END = 6  #: the end of the stream
    CLOSE = 7  #: end the conversation now; another may follow


class FromRegionWorker(IntEnum):
    """From a worker of a region. The number is that of the conversation.

    A transfer is any number of ``OUTPUT`` and one of the messages with a report, in one write.
    """

    READY = 1  #: the initializer has returned. Number: 0
    OUTPUT = 2  #: payload: the output
    REPORT = 3  #: payload: ``Report``, of the outputs before it and of what else happened
    AT_MARK = 4  #: the same, and all of the epoch has come
    AT_END = 5  #: the same, and all has come
    #: The pipeline, or the initializer (number: 0), has failed. Payload: (what was attempted,
    #: ``RemoteFailure``)
    BROKEN = 6
