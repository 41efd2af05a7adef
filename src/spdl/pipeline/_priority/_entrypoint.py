"""``PriorityExecutorEntrypoint``: what one stage holds of a pool that several share."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["PriorityExecutorEntrypoint", "PriorityPool"]

P = ParamSpec("P")
T = TypeVar("T")


class PriorityPool(Protocol):
    """What an entry point needs of its pool."""

    @property
    def is_process_pool(self) -> bool:
        """Whether calls run in other processes."""

    def submit_with_priority(
        self, priority: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Queue a call."""


class PriorityExecutorEntrypoint(Executor):
    """An executor for one stage; its calls compete by priority with those of the other entry points of the pool.

    Made by ``get_executor`` of a priority pool. Keeps the pool alive. Pickles: entry points of one pool are restored as
    entry points of one pool in the other process.

    Args:
        owner: The pool.
        priority: Higher goes first; equal ones are served in order of arrival.
    """

    def __init__(self, owner: PriorityPool, priority: int) -> None:
        self._owner = owner
        self._priority = priority

    @property
    def priority(self) -> int:
        """Higher goes first."""
        return self._priority

    @property
    def is_process_pool(self) -> bool:
        """Whether calls run in other processes, so that functions, arguments and results must pickle."""
        return self._owner.is_process_pool

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call with the priority of this entry point.

        Raises:
            RuntimeError: The pool has been shut down.
            concurrent.futures.BrokenExecutor: The pool has lost its workers or could not initialize them.
        """
        return self._owner.submit_with_priority(self._priority, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: the pool is shared, and its owner shuts it down."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._owner, self._priority))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} priority={self._priority} of {self._owner!r}>"
