"""``Starting``: workers that are on their way while somebody else loads."""

import threading

from spdl.pipeline import PipelineStateError

from ._plan import Plan
from ._worker_pool import WorkerPool, pack

__all__ = ["Starting"]


class Starting:
    """Starts the workers of ``plan`` in a thread of its own, and waits there until they have the dataset.

    The first start of all takes as long as the fork server needs to import torch: seconds. Whoever made this goes on
    meanwhile, and may change the dataset: it is pickled here, before. Workers that are forked are there at once, and
    are started here, since a fork wants no other thread.

    Args:
        plan: With a context of ``multiprocessing``.
        base_seed: Of the epoch.

    Raises:
        TypeError: What the workers need cannot be pickled.
        WorkerError: The system cannot start a process.
    """

    def __init__(self, plan: Plan, base_seed: int) -> None:
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None
        self._error: Exception | None = None
        self._is_unwanted = False
        self._thread: threading.Thread | None = None
        payload = pack(plan)
        if payload is None:
            self._pool = WorkerPool(plan, base_seed)
            return

        def start() -> None:
            try:
                with payload:
                    pool = WorkerPool(plan, base_seed, payload)
                    pool.await_ready()
            except Exception as exc:  # noqa: BLE001 - raised by ``pool``
                self._error = exc
                return
            with self._lock:
                if not self._is_unwanted:
                    self._pool = pool
                    return
            pool.close()

        self._thread = threading.Thread(target=start, name="spdl-starting")
        try:
            self._thread.start()
        except BaseException:
            payload.close()
            raise

    def is_done(self) -> bool:
        """Whether ``pool`` would not have to wait."""
        return self._thread is None or not self._thread.is_alive()

    def pool(self) -> WorkerPool:
        """Wait for the workers, and take them over.

        Raises:
            TypeError: What goes along with each process cannot be pickled.
            WorkerError: The system cannot start a process, or a worker failed before it had the dataset.
            PipelineStateError: This process was forked from the one that starts them.
        """
        if self._thread is not None:
            self._thread.join()
        pool, self._pool = self._pool, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        if pool is None:
            raise PipelineStateError("the workers belong to the process that this one was forked from")
        return pool

    def abandon(self) -> None:
        """End the workers as soon as they are there. Does not wait for that."""
        with self._lock:
            self._is_unwanted = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
