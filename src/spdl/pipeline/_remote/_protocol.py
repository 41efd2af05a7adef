"""Names of every message between a pipeline and its child processes: one enumeration for each direction.

A message is a frame of ``spdl._processes._transport``: a kind, a number, and a payload.
"""

from __future__ import annotations

from enum import IntEnum


class ToIterator(IntEnum):
    """To a child that iterates. Number: the iteration, from 1. Closing the connection ends the child."""

    #: Stop the current iteration, if any, and begin this one. Payload: number of items that may be sent, int or
    #: infinity; 0: the child must first send STARTED and wait for CREDIT.
    START = 1
    #: More items may be sent. A count gives their number, which is also the number of items read since the last CREDIT;
    #: a payload, int or infinity, answers STARTED.
    CREDIT = 2
    #: For resumable pipelines: answer with STATE. Payload: number of items of the iteration that have been read,
    #: including its end.
    STATE = 3
    LOAD = 4  #: for resumable pipelines, before the first iteration: load this state, and answer with STATE
    HOLD = 5  #: for resumable pipelines: in the next iteration, READ, not CREDIT, gives the number of items read
    READ = 6  #: count: number of items of the iteration that have been read, including its end
    ENVIRONMENT = 7  #: payload: the environment variables that have changed. Before START


class FromIterator(IntEnum):
    """From a child that iterates. Number: the iteration."""

    READY = 1  #: initializers and function have returned
    ITEM = 2  #: payload: the item
    END = 3  #: the iterator is exhausted
    #: The child stops. Payload: (what was attempted, ``RemoteFailure``)
    BROKEN = 4
    #: No more messages of older iterations will follow. Sent first in an iteration whose shared memory is reset.
    STARTED = 5
    STATE = 6  #: payload: the state, or a ``RemoteFailure``


class FromMoved(IntEnum):
    """From a worker of a moved process pool to its owner, which sends nothing."""

    READY = 1  #: its initializer has returned
    INITIALIZER_FAILED = 2  #: the worker ends. Payload: ``RemoteFailure``


class MovedCall(IntEnum):
    """Between a worker of a moved process pool and the process where the pipeline runs. One call at a time."""

    CALL = 1  #: to the worker. Payload: (function, positional arguments, keyword arguments)
    RESULT = 2  #: from the worker. Payload: result of the function
    FAILED = 3  #: from the worker: the call failed, or its result cannot be sent. Payload: ``RemoteFailure``
    ENVIRONMENT = 4  #: to the worker, not answered. Payload: the environment variables that have changed


class ToIsolated(IntEnum):
    """To a child of an isolated stage, one call at a time: each is answered before the next."""

    CALL = 1  #: run the op on the payload
    AGAIN = 2  #: run the op again on the item of the last CALL
    ENVIRONMENT = 3  #: not answered. Payload: the environment variables that have changed


class FromIsolated(IntEnum):
    """From a child of an isolated stage."""

    READY = 1  #: the op is loaded
    RESULT = 2  #: payload: result of the op; for a generator, the list of its outputs
    #: The op raised. Payload: (list of what it had yielded, failure). Number: 1 if it may be tried again
    RAISED = 3


class ToRegionWorker(IntEnum):
    """To a worker of a region. A transfer is any number of ``ITEM`` and one ``DEALT``, in one write."""

    #: End the conversation there may be, build and start the pipeline. Number: of the new conversation, from 1.
    #: Payload: what the region is called
    OPEN = 1
    ITEM = 2  #: number: its position; payload: the item
    DEALT = 3  #: the transfer is complete
    CREDIT = 4  #: number: how many more transfers of outputs may be sent
    MARK = 5  #: the end of an epoch
    END = 6  #: the end of the stream
    CLOSE = 7  #: end the conversation now; another may follow
    ENVIRONMENT = 8  #: payload: the environment variables that have changed


class FromRegionWorker(IntEnum):
    """From a worker of a region. Number: the conversation.

    A transfer is any number of ``OUTPUT`` and one of the messages with a report, in one write.
    """

    READY = 1  #: the initializer has returned. Number: 0
    OUTPUT = 2  #: payload: the output
    REPORT = 3  #: payload: ``Report`` on the outputs before it and on everything else that happened
    AT_MARK = 4  #: the same, and all outputs of the epoch were sent
    AT_END = 5  #: the same, and all outputs were sent
    #: The pipeline, or the initializer (number: 0), has failed. Payload: (what was attempted,
    #: ``RemoteFailure``)
    BROKEN = 6
