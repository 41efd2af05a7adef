"""``ThreadRun``: loads batches in a pipeline, with threads of this process that share the dataset.

For a map-style dataset the consumer's thread draws index batches as in torch's loader: one for each batch it takes,
so that at most ``prefetch_factor * num_workers`` are in flight and the sampler's random numbers come in torch's order.
Index batches are split into pieces, so that all threads work on the first batch; the thread that loads the last piece
of a batch collates it. An iterable dataset is iterated by one thread, the pipeline's source; the others collate.
"""

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from spdl.dataloader._torch._arguments import Plan
from spdl.dataloader._torch._fetching import draw_base_seed
from spdl.dataloader._torch.resuming._progress import Progress
from spdl.dataloader._torch.resuming._streams import DatasetStates, Stream
from spdl.pipeline import AsyncQueue, Pipeline, PipelineBuilder, WorkerTimeoutError
from spdl.pipeline._observer import Observer
from spdl.pipeline.config import is_diagnostic_mode_enabled
from spdl.resume._values import is_stateful

from ._pieces import IntraOpLimit, Outcome, Piece, PieceLoader, SampleLoader, Splitter


class Feed:
    """An unbounded queue. Thread-safe.

    The consumer's thread puts one value in for each batch that it takes. So a source that waits here waits for the
    consumer, and the statistics of its pipeline count this time as blocked.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()

    def put(self, value: Any) -> None:
        self._queue.put(value)

    def is_empty(self) -> bool:
        return self._queue.empty()

    def get(self) -> Any:
        """Remove and return the oldest value; wait if the queue is empty. Called by the source, on its thread."""
        try:
            return self._queue.get_nowait()
        except Empty:
            waiting = getattr(threading.current_thread(), "waiting_for_consumer", nullcontext)
        with waiting():
            return self._queue.get()


class Endless(Feed):
    """A feed that always returns ``True`` at once. For diagnostic mode, in which no consumer takes batches."""

    def get(self) -> bool:
        return True


class ThreadRun:
    """See ``Run``. Between epochs it keeps only what torch's order of random draws needs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._has_begun = False

    def iterate(self, progress: Progress | None = None) -> Iterator[Any]:
        plan = self._plan
        progress = progress or Progress()
        if plan.is_iterable:
            self._begin()
            return _StreamedBatches(plan, progress)
        assert plan.indices is not None
        indices = iter(plan.indices)
        if self._begin():
            # torch also makes a second iterator once its workers run. A sampler that draws in __iter__ draws twice.
            indices = iter(plan.indices)
        return _IndexedBatches(plan, progress, indices)

    def _begin(self) -> bool:
        """Draw the base seed when torch does: with persistent workers, in the first epoch only. Returns whether."""
        if self._has_begun and self._plan.persistent_workers:
            return False
        self._has_begun = True
        draw_base_seed(self._plan.generator)
        return True

    def close(self) -> None:
        pass


class _Batches(Iterator[Any]):
    """Iterator of one epoch: the pipeline, and the queue that feeds its source.

    ``None`` in the queue ends the source.
    """

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._progress = progress
        self._timeout = plan.timeout or None
        self._budget = plan.prefetch_factor * plan.num_workers
        self._feed = Feed()
        self._pipeline: Pipeline[Outcome] | None = None
        self._limit = IntraOpLimit()
        self._stall_timeout = plan.stall_timeout
        self._stall_action = plan.stall_action
        self._failures_seen = plan.failures_seen
        self._opening = threading.Event()  # see ``Progress.opening``

    def _start(self, builder: PipelineBuilder[Any, Any], num_threads: int) -> None:
        self._pipeline = builder.add_sink(self._budget).build(
            num_threads=num_threads,
            # No hooks: one line per stage and epoch would flood the log of a training run.
            task_hook_factory=lambda _: [],
            queue_class=AsyncQueue,
            stall_timeout=self._stall_timeout,
            stall_action=self._stall_action,
        )
        self._pipeline._observer.count_failures_in(self._failures_seen)
        # The pipeline may be collected before this object; its stop would then wait for a source that waits for input.
        self._pipeline._engine.on_stopping.append(partial(self._feed.put, None))
        self._limit.keep_current()
        self._pipeline.start()
        # A waiting source would block the interpreter's exit. This runs before the engine's own exit hook, which was
        # registered when the pipeline started.
        atexit.register(self._feed.put, None)

    def observer(self) -> Observer:
        """The observer that the loader reads statistics from, during the epoch and after it."""
        assert self._pipeline is not None
        return self._pipeline._observer

    def _take(self) -> Outcome:
        """The next outcome, in the requested order.

        Raises:
            StopIteration: The source has ended or the iterator was closed.
            WorkerTimeoutError: No outcome was ready within the timeout; a later call may still get it.
        """
        if self._pipeline is None:
            raise StopIteration
        try:
            return self._pipeline.get_item(timeout=self._timeout)
        except TimeoutError as exc:
            raise WorkerTimeoutError(
                f"DataLoader timed out after {self._timeout:g} seconds: no thread has finished a batch; the dataset "
                "is blocked, or needs more time"
            ) from exc
        except EOFError:
            self.close()
            raise StopIteration from None

    def close(self) -> None:
        """Stop the threads, after the samples that they are loading."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            self._end_source()
            pipeline.stop()

    def __del__(self) -> None:
        self._end_source()  # the pipeline is collected too, and stops itself

    def _end_source(self, _unregister: Callable[[Any], None] = atexit.unregister) -> None:  # may be gone at exit
        self._feed.put(None)
        self._opening.set()
        _unregister(self._feed.put)


class _IndexedBatches(_Batches):
    """Batches of a map-style dataset."""

    def __init__(self, plan: Plan, progress: Progress, indices: Iterator[Any]) -> None:
        super().__init__(plan, progress)
        self._indices: Iterator[Any] | None = indices
        self._sampler_error: BaseException | None = None
        self._num_drawn = 0
        self._num_under_way = 0
        loader = PieceLoader(plan, self._limit)
        is_diagnosed = is_diagnostic_mode_enabled()
        # The state of a dataset after a batch is that of one thread that loads one batch after the other.
        is_serial = is_stateful(plan.dataset)
        self._splitter = Splitter(loader, is_whole=is_diagnosed or is_serial)
        for _ in range(self._budget):
            self._draw()
        if (catch_up := getattr(plan.indices, "catch_up", None)) is not None:
            catch_up()  # the dataset may set the generator that the sampler draws from
        self._states = DatasetStates(plan.dataset, progress.start_of(0), place="thread")
        if self._states:
            progress.open_streams(1)
            progress.follow(self._states)
            loader.states = self._states
        builder = (
            PipelineBuilder()
            .add_source(self._all_pieces() if is_diagnosed else iter(self._feed.get, None))
            .pipe(
                loader,
                # Calls that wait for an earlier one count too. The number of index batches drawn bounds them.
                concurrency=1 if is_serial else self._budget * self._splitter.most_pieces,
                output_order="input" if plan.in_order else "completion",
                name="load",
                call_timeout=plan.call_timeout,
                on_error="skip" if plan.call_timeout is None else loader.abandon,
            )
        )
        self._start(builder, plan.num_workers)

    def _all_pieces(self) -> Iterator[Piece]:
        """The source in diagnostic mode, where no consumer takes batches and so triggers further draws.

        Batches are whole, because a piece can be loaded only once, but a profile loads it several times.
        """
        while True:
            if self._feed.is_empty():
                self._draw()
            if self._feed.is_empty():
                if self._sampler_error is not None:
                    raise self._sampler_error
                return
            yield self._feed.get()

    def _draw(self) -> None:
        """Draw the next index batch and feed it to the pipeline."""
        if self._indices is None:
            return
        try:
            indices = next(self._indices)
        except StopIteration:
            self._indices = None
        except BaseException as exc:  # noqa: BLE001 - of the sampler; raised after the batches before it
            self._indices = None
            self._sampler_error = exc
        else:
            for piece in self._splitter.split(indices, self._num_drawn):
                self._feed.put(piece)
            self._num_drawn += 1
            self._num_under_way += 1

    def __next__(self) -> Any:
        if self._num_under_way == 0:
            self.close()
            if self._states:
                self._progress.note_end(0, self._states.end())
            error, self._sampler_error = self._sampler_error, None
            raise StopIteration if error is None else error
        outcome = self._take()
        self._num_under_way -= 1
        self._progress.take(outcome.number)
        if self._states:
            self._progress.take_from(0, outcome.recorded)
        self._draw()
        return outcome.unwrap()


class _StreamedBatches(_Batches):
    """Batches of an iterable dataset. The queue holds permits, one for each batch to take from the dataset."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        super().__init__(plan, progress)
        progress.open_streams(1)
        if is_diagnostic_mode_enabled():
            self._feed = Endless()
        else:
            self._opening = progress.opening = threading.Event()
        for _ in range(self._budget):
            self._feed.put(True)
        builder = (
            PipelineBuilder()
            .add_source(_stream(plan, progress, self._feed, self._limit))
            .pipe(
                SampleLoader(plan, self._limit),
                concurrency=self._budget,
                output_order="input" if plan.in_order else "completion",
                name="collate",
            )
        )
        self._start(builder, plan.num_workers)
        if progress.starts:
            # The dataset draws again what it drew before the state was saved, and then the loader sets the generator.
            self._opening.wait(self._timeout)

    def __next__(self) -> Any:
        outcome = self._take()
        self._progress.take(outcome.number)
        self._progress.take_from(0, outcome.recorded, taken=self._progress.taken)
        self._feed.put(True)
        return outcome.unwrap()


def _stream(plan: Plan, progress: Progress, permits: Feed, limit: IntraOpLimit) -> Iterator[Any]:
    """Yield samples to collate, or an outcome if the dataset failed. Runs in the source's thread."""
    limit.apply()
    skipped = {number - progress.first for number in progress.skipped}  # taken before the epoch was resumed
    passed: set[int] = set()  # of these
    start, every = progress.start_of(0), progress.snapshot_every
    failed: Outcome | None = None
    try:
        stream = Stream(plan.dataset, plan.batch_size, plan.drop_last, start, every, place="thread")
        progress.follow(stream)
    except BaseException as exc:  # noqa: BLE001 - of the dataset; raised in the consumer
        failed = Outcome.failed(exc, "while iter(dataset) was called in a thread")
    finally:
        if progress.opening is not None:
            progress.opening.set()
    if failed is not None:
        yield failed
        return
    number = 0
    try:
        while permits.get() is not None:
            while number + len(passed) in skipped:
                passed.add(number + len(passed))
                with suppress(Exception):
                    stream.take()
            taken: Piece | Outcome
            try:
                samples, recorded = stream.take()
                taken = Piece(samples, number, recorded=recorded)
            except StopIteration:
                progress.note_end(0, stream.end)
                return
            except BaseException as exc:  # noqa: BLE001 - of the dataset; raised in the consumer
                taken = Outcome.failed(exc, f"while the dataset was iterated for batch {number} in a thread")
                taken.number = number
            yield taken
            number += 1
    finally:
        stream.close()
