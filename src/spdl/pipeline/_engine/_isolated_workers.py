"""The interface between the engine and the child processes of an isolated stage. It starts no process itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from spdl._processes._remote_failure import RemoteFailure

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import Retry


@dataclass(frozen=True, slots=True)
class IsolatedTask:
    """The task of the children of one stage."""

    info: StageInfo
    op: Callable[[Any], Any]
    is_generator: bool
    concurrency: int
    retry: Retry | None
    timeout: float | None  # seconds per attempt


class IsolatedReply(NamedTuple):
    """The outcome of a call in a child."""

    value: Any  # a list of the outputs, if the op is a generator
    failure: RemoteFailure | None
    may_retry: bool  # the stage's ``retry`` covers the exception, and nothing was yielded


class IsolatedWorker(Protocol):
    """The interface of a child process. Used by one thread, except ``kill``, which is thread-safe."""

    def wait_ready(self) -> None:
        """Wait until the op is loaded in the child.

        Raises:
            WorkerDiedError: The child died first.
            Exception: The op cannot be loaded there.
        """

    def is_alive(self) -> bool:
        """Whether the child can take another call."""

    def call(self, value: Any, timeout: float | None) -> IsolatedReply:
        """Run the op on an item.

        Raises:
            WorkerDiedError: The child died during the call or was killed.
            WorkerTimeoutError: The call took longer than ``timeout`` seconds; the child was killed.
            Exception: Pickling the item or unpickling the result failed. The child is still usable.
        """

    def call_again(self, timeout: float | None) -> IsolatedReply:
        """Run the op again on the item of the last call. Raises the same errors as ``call``."""

    def kill(self) -> None:
        """Kill the process without waiting. A thread waiting for a call gets ``WorkerDiedError``."""

    def stop(self) -> None:
        """End the process and join it. Blocks until it has ended."""


StartIsolated: TypeAlias = "Callable[[IsolatedTask], IsolatedWorker]"
