"""``ProcessRun``: worker processes load the batches; the consumer's thread requests and receives them.

Batch ``i`` of an epoch is requested from worker ``i`` modulo the number of workers. ``prefetch_factor`` batches per
worker are in flight, and another one is requested whenever one has been taken. Nothing else determines which worker
draws which random numbers, so they are the same as with ``torch.utils.data.DataLoader``. Large tensors and arrays of a
batch are views of memory shared with its worker, which can reuse it once they are collected. A consumer that keeps all
batches gets the later ones as copies.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spdl._failure_log import log_failed
from spdl._processes._calls import Answer, Request
from spdl._processes._transport._pickling import NOTHING
from spdl._reports import short_repr
from spdl.dataloader._losses import Losses
from spdl.dataloader._torch._fetching import draw_base_seed
from spdl.dataloader._torch.resuming._progress import Progress
from spdl.pipeline import PipelineStateError

from ._worker_pool import WorkerPool, prepare_start

if TYPE_CHECKING:
    from spdl._processes._transport._frame import Frame
    from spdl.dataloader._torch._arguments import Plan
    from spdl.dataloader._torch.resuming._progress import Recorded

_logger = logging.getLogger("spdl.dataloader")


class ProcessRun:
    """See ``Run``. Not persistent: each iterator starts its own workers, with the dataset as it is then, and they end
    with it. Persistent: there is one iterator, which is restarted for the next epoch, as in torch.

    Raises:
        ValueError: There is no such start method here.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._batches: weakref.WeakSet[_Batches] = weakref.WeakSet()  # iterators that may have workers
        self._kept: _Batches | None = None  # the one of a persistent run
        self._pid = os.getpid()
        prepare_start(plan.multiprocessing_context)

    def iterate(self, progress: Progress | None = None) -> Iterator[Any]:
        if self._pid != os.getpid():  # this process was forked from the one that has the workers
            self._pid, self._kept = os.getpid(), None
        kept = self._kept
        progress = progress or Progress()
        if kept is not None and kept.restart(progress):
            return kept
        return self.iterate_with(None, progress)

    def iterate_with(self, pool: WorkerPool | None, progress: Progress) -> Iterator[Any]:
        """Begin the first epoch with idle workers, which it owns from now on; ``None``: start them here."""
        batches = _Batches(self._plan, pool, progress)
        self._batches.add(batches)
        if self._plan.persistent_workers:
            self._kept = batches
        return batches

    def close(self) -> None:
        self._kept = None
        for each in list(self._batches):
            each.end()


class _Batches(Iterator[Any]):
    """Iterator of one epoch, or of all epochs of a persistent run. Not thread-safe."""

    def __init__(self, plan: Plan, pool: WorkerPool | None, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._states: dict[int, Recorded] = {}  # number -> state of the worker's dataset after that batch
        self._sent = 0  # number of the next batch to request; counts up over all epochs
        self._next = 0  # number of the next batch to return, in order
        self._first = 0  # number of the first batch of this epoch
        self._dealt: dict[int, int] = {}  # number -> worker, of batches requested and not answered
        #: number -> worker and answer, of batches received and not returned
        self._arrived: dict[int, tuple[int, Frame]] = {}
        self._asked: dict[int, Any] = {}  # number -> indices, if failures are logged with them
        self._sampler_error: BaseException | None = None
        self._pool = pool
        self._pid = os.getpid()
        if pool is None:
            self._begin_sampler()  # as torch does, before the seed: a sampler that draws in its __iter__ draws twice
            self._pool = WorkerPool(plan, draw_base_seed(plan.generator), progress=progress)
        try:
            self._begin(self._begin_sampler(), progress)
        except BaseException:
            self.end()
            raise

    def _begin_sampler(self) -> Iterator[Any]:
        return itertools.repeat(None) if self._plan.indices is None else iter(self._plan.indices)

    def _begin(self, indices: Iterator[Any], progress: Progress) -> None:
        num_workers = self._plan.num_workers
        self._progress = progress
        progress.open_streams(num_workers)
        self._states.clear()
        self._indices = indices
        self._first = self._next = self._sent
        self._dealt.clear()
        for _, frame in self._arrived.values():
            frame.discard()
        self._arrived.clear()
        self._asked.clear()
        self._sampler_error = None
        self._losses = Losses()
        self._is_active = [True] * num_workers  # not exhausted
        self._num_tasks = [0] * num_workers  # number of batches requested and not returned
        self._turns = itertools.islice(itertools.cycle(range(num_workers)), progress.turn, None)
        for _ in range(self._max_tasks):
            self._deal()

    def num_in_flight(self) -> tuple[int, int]:
        """Number of batches that were requested and not answered, and that wait for the consumer."""
        return len(self._dealt), len(self._arrived)

    def restart(self, progress: Progress) -> bool:
        """Begin another epoch with the same workers; False if they have ended."""
        pool = self._pool
        if pool is None:
            return False
        indices = self._begin_sampler()
        pool.restart()
        self._begin(indices, progress)
        return True

    @property
    def _max_tasks(self) -> int:
        return self._plan.prefetch_factor * self._plan.num_workers

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        """Number of batches in an epoch. Raises ``TypeError`` if the sampler has no length."""
        indices: Any = self._plan.indices
        return len(indices)

    def __next__(self) -> Any:
        if self._pid != os.getpid():  # the parent also has the received batches, and returns their memory
            raise PipelineStateError("the workers belong to the process that this one was forked from")
        while True:
            number, worker, frame = self._next_answer()
            self._num_tasks[worker] -= 1
            self._count(number, worker)
            self._deal()
            indices = self._asked.pop(number, None)
            if frame.kind == Answer.RAISED:
                exc = frame.load().revive()
                if not self._plan.drops_failures:
                    raise exc
                self._losses.add(exc, indices, is_batch=self._plan.is_batched)
                text, seen = "batch %d was dropped, indices %s", self._plan.failures_seen
                log_failed(_logger, seen, "batch", text, number - self._first, short_repr(indices), error=exc)
                continue
            batch = frame.load()
            return batch if self._plan.pin is None else self._plan.pin(batch)

    def _count(self, number: int, worker: int) -> None:
        """Record that the consumer takes an answer."""
        progress = self._progress
        progress.take_from(worker, self._states.pop(number, None))
        progress.turn = (worker + 1) % self._plan.num_workers
        if not self._plan.is_iterable:  # the numbers of an iterable dataset have gaps, where workers are exhausted
            progress.take(number - self._first)

    def _next_answer(self) -> tuple[int, int, Frame]:
        """Number, worker and frame of the next batch, or of the exception raised instead."""
        while True:
            number = self._skip_to_next()
            if number in self._arrived:
                self._next += 1
                return number, *self._arrived.pop(number)
            worker, frame = self._receive()
            number = frame.number
            if number < self._first:  # from an epoch that was left early
                frame.discard()
                continue
            if frame.kind == Answer.STATE:
                self._states[number] = frame.load()
                continue
            del self._dealt[number]
            if frame.kind == Answer.END:
                self._progress.note_end(worker, frame.load())
                self._give_up(worker)
                continue
            if number == self._next:
                self._next += 1
            elif self._plan.in_order:
                self._arrived[number] = worker, frame
                continue
            return number, worker, frame

    def _skip_to_next(self) -> int:
        """Number of the next batch, skipping those of exhausted workers. Ends the epoch if there is none."""
        while self._next < self._sent:
            number = self._next
            if number in self._arrived:
                return number
            worker = self._dealt.get(number)
            if worker is not None and self._is_active[worker]:
                return number
            self._dealt.pop(number, None)
            self._next += 1
        error, self._sampler_error = self._sampler_error, None
        self.close()
        if self._plan.persistent_workers and not self._plan.is_iterable:
            self._progress.note_last()
        losses, self._losses = self._losses, Losses()
        num_given = self._next - self._first - losses.num_outputs
        losses.log_warning(f"get_pytorch_dataloader({type(self._plan.dataset).__name__})", num_given)
        if error is not None:
            raise error
        raise StopIteration

    def _receive(self) -> tuple[int, Frame]:
        if self._pool is None:  # ended by a failure that was already raised, or by the owner of the run
            raise StopIteration
        try:
            return self._pool.receive(self._plan.timeout or None)
        except BaseException:
            if not self._pool.pids:
                self.end()
            raise

    def _give_up(self, worker: int) -> None:
        """Handle a worker that has exhausted its dataset."""
        self._is_active[worker] = False
        if not self._plan.persistent_workers and self._pool is not None:
            self._pool.dismiss(worker)
        self._deal()

    def _deal(self) -> None:
        """Request another batch, if there is one and a worker to load it.

        An exception of the sampler, or of pickling its indices, is kept until all batches before it have been
        returned.
        """
        if self._pool is None or self._sampler_error is not None:
            return
        try:
            indices = next(self._indices)
        except StopIteration:
            return
        except Exception as exc:  # noqa: BLE001 - of the user's sampler
            self._sampler_error = exc
            return
        worker = self._choose_worker()
        if worker is None:
            return
        number = self._sent
        try:
            self._pool.ask(worker, Request.CALL, number, NOTHING if self._plan.is_iterable else indices)
        except Exception as exc:  # noqa: BLE001 - of pickling
            self._sampler_error = exc
            return
        if self._plan.drops_failures:
            self._asked[number] = indices
        self._dealt[number] = worker
        self._num_tasks[worker] += 1
        self._sent += 1

    def _choose_worker(self) -> int | None:
        num_active = sum(self._is_active)
        for worker in itertools.islice(self._turns, self._plan.num_workers):
            if self._is_active[worker] and (
                self._plan.in_order or self._num_tasks[worker] < self._max_tasks // num_active
            ):
                return worker
        return None

    def close(self) -> None:
        """End the epoch. Persistent workers are kept; their late answers are dropped when the next epoch begins."""
        if not self._plan.persistent_workers:
            self.end()

    def end(self) -> None:
        """End the workers and wait for them. Idempotent."""
        pool, self._pool = self._pool, None
        for _, frame in self._arrived.values():
            frame.discard()
        self._arrived.clear()
        if pool is not None:
            pool.close()

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # `sys` may be gone at exit
        if not _is_finalizing():
            with suppress(AttributeError):  # __init__ failed before all attributes were set
                self.end()
