"""``Starting``: start workers in the background while the consumer's thread loads batches."""

import threading

from spdl.dataloader._torch._plan import Plan
from spdl.dataloader._torch.resuming._progress import Progress
from spdl.pipeline import PipelineStateError

from ._worker_pool import WorkerPool, pack


class Starting:
    """Starts the workers of ``plan`` in a thread, which waits until they have the dataset.

    The first start takes seconds, because the fork server imports torch. The constructor pickles the dataset, so the
    caller may change it afterwards. Forked workers are ready at once; the constructor starts them, because the process
    must not fork while another thread runs.

    Args:
        plan: Plan with a context of ``multiprocessing``.
        base_seed: Base seed of the epoch.
        progress: Where the epoch begins.

    Raises:
        TypeError: An object that the workers need cannot be pickled.
        WorkerError: The system cannot start a process.
    """

    def __init__(self, plan: Plan, base_seed: int, progress: Progress) -> None:
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None
        self._error: Exception | None = None
        self._is_unwanted = False
        self._thread: threading.Thread | None = None
        payload = pack(plan)
        if payload is None:
            self._pool = WorkerPool(plan, base_seed, progress=progress)
            return

        def start() -> None:
            try:
                with payload:
                    pool = WorkerPool(plan, base_seed, payload, progress)
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
        """Wait for the workers and take ownership of them.

        Raises:
            TypeError: An argument of each process, such as a lock, cannot be sent.
            WorkerError: The system cannot start a process, or a worker failed before it had the dataset.
            PipelineStateError: This process was forked from the one that starts the workers.
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
        """End the workers as soon as they have started. Does not wait."""
        with self._lock:
            self._is_unwanted = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
