"""``PriorityExecutorEntrypoint``: the executor through which one stage uses a shared priority pool."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PriorityPool(Protocol):
    """The interface of a pool that its entry points use."""

    @property
    def is_process_pool(self) -> bool:
        """Whether calls run in other processes."""

    @property
    def is_interpreter_pool(self) -> bool:
        """Whether calls run in other interpreters of this process."""

    def submit_with_priority(
        self, priority: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Queue a call."""


class PriorityExecutorEntrypoint(Executor):
    """An executor for one stage. Its calls compete by priority with those of the pool's other entry points.

    Made by ``get_executor`` of a priority pool. Keeps the pool alive. Pickles: in another process, all entry points of
    one pool are restored as entry points of one pool there.

    Args:
        owner: Pool that runs the calls.
        priority: Priority of the calls. Higher runs first; equal priorities run in order of arrival.
    """

    def __init__(self, owner: PriorityPool, priority: int) -> None:
        self._owner = owner
        self._priority = priority

    @property
    def priority(self) -> int:
        """Priority of the calls; higher runs first."""
        return self._priority

    @property
    def is_process_pool(self) -> bool:
        """Whether calls run in other processes, so that functions, arguments and results must pickle."""
        return self._owner.is_process_pool

    @property
    def is_interpreter_pool(self) -> bool:
        """Whether calls run in other interpreters of this process, so that the same must pickle."""
        return self._owner.is_interpreter_pool

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call with the priority of this entry point.

        Raises:
            RuntimeError: The pool has been shut down.
            concurrent.futures.BrokenExecutor: The workers of the pool died or could not be initialized.
        """
        return self._owner.submit_with_priority(self._priority, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: the pool is shared, and its owner shuts it down."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._owner, self._priority))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} priority={self._priority} of {self._owner!r}>"
