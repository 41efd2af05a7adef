"""``Pipeline``: the handle through which users start, read and stop an engine."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from gc import is_finalized
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._errors import PipelineStateError
from spdl._numbers import as_int, as_path, as_timeout
from spdl._reports import log

from ._engine._counts import graph_of
from ._engine._ending import abandon
from ._engine._engine import END, EPOCH, Engine
from ._observe._document import graph_text
from ._observe._snapshot import History
from ._observe._stats import PipelineStats
from ._observer import LIVE, Observer
from ._reading import PipelineAsyncIterator, PipelineIterator, Readable, iterate_with_origins, keep_origins
from ._resizing import resize

if TYPE_CHECKING:
    from ._info import StageInfo
    from ._monitoring import Monitor
    from ._observe._verdict import Verdict
    from ._provenance._origin import BatchOrigin
    from ._state import Resuming

_LOG = logging.getLogger("spdl.pipeline")

T = TypeVar("T")


class Pipeline(Readable[T]):
    """A built pipeline. Made by ``PipelineBuilder.build`` or ``build_pipeline``.

    Calling ``start`` and ``stop`` is optional: the first read starts the pipeline, and it stops when it is exhausted,
    garbage collected, or when the interpreter exits. All methods are thread-safe. If several threads read, each item
    goes to one of them; the end of the stream and failures are reported to all.

    An unreferenced pipeline is stopped, even if its ops are methods of the object that held it. Async sources, merge
    ops, stage hooks, background tasks and stages in other processes keep references to the object they belong to: stop
    such a pipeline explicitly. Without the GIL: if a thread other than the one that built the pipeline drops the last
    reference, the pipeline may keep running until the building thread runs Python code again or has ended.

    .. code-block:: python

        pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
        for item in pipeline:
            print(item)
    """

    def __init__(
        self, engine: Engine, description: str, resuming: Resuming | None = None, history: History | None = None
    ) -> None:
        super().__init__(engine)
        self._resuming = resuming
        self._description = description
        self._was_stopped = False
        self._observer = Observer(engine, History() if history is None else history)
        LIVE.add(self)

    def __del__(  # defaults, because the module's names may be gone at interpreter exit
        self, _abandon: Callable[[Engine, bool], None] = abandon, _is_finalized: Callable[[object], bool] = is_finalized
    ) -> None:
        # Neither the engine nor its threads refer to the handle, so it can be collected while they run. A
        # ``weakref.finalize`` would keep the engine and the user's ops alive, and these may refer to the handle. At
        # interpreter exit, all engines are stopped together before this is called.
        engine = getattr(self, "_engine", None)
        if engine is not None:
            _abandon(engine, _is_finalized(self))  # true at this point only if the cycle collector calls this

    def __repr__(self) -> str:
        """The graph: a line for the pipeline, and one per stage."""
        engine = self._engine
        return graph_text(engine.pipeline_id, engine.state.value, engine.num_threads, graph_of(engine))

    def _repr_html_(self) -> str:
        return self.stats()._repr_html_()

    def __str__(self) -> str:
        return f"<Pipeline {self._engine.pipeline_id}, {self._engine.state.value}>\n{self._description}"

    # -- start and stop

    def start(self, *, timeout: float | None = None, **kwargs: Any) -> None:
        """Start the pipeline and return when it is running.

        Args:
            timeout: Maximum time in seconds to wait for the stage hooks to be entered; ``None``: no limit.
            **kwargs: ``daemon`` is accepted with a warning and ignored: the engine's threads are always daemons.

        Raises:
            PipelineStateError: The pipeline was already started or stopped, or no thread could be started.
            TimeoutError: The stage hooks were not entered in time. The pipeline is stopped for good.
        """
        if kwargs.pop("daemon", None) is not None:
            warnings.warn("start(daemon=) has no effect: the engine's threads are always daemons", stacklevel=2)
        if kwargs:
            raise TypeError(f"start() got unexpected keyword arguments: {', '.join(kwargs)}")
        self._check_process()
        if self._was_started:
            what = "stopped" if self._was_stopped else "started"
            raise PipelineStateError(
                f"cannot start pipeline {self._engine.pipeline_id}: it was {what} before; build another"
            )
        timeout = as_timeout("timeout", timeout)
        self._was_started = True
        try:
            is_up = self._engine.start(timeout)
        except RuntimeError as exc:
            self._give_up()
            raise PipelineStateError(
                f"cannot start pipeline {self._engine.pipeline_id}: {exc}. Are there too many threads, or is the "
                "interpreter exiting?"
            ) from exc
        if not is_up:
            self._give_up()
            raise TimeoutError(
                f"pipeline {self._engine.pipeline_id} did not start within {timeout} s: a stage hook has not been "
                "entered. The pipeline was stopped; build another"
            )
        self._observer.on_started()
        if os.environ.get("SPDL_MONITOR", "0") not in ("", "0"):
            from ._monitoring import monitor_for_ever  # imported late: few pipelines need it

            monitor_for_ever()

    def monitor(self) -> Monitor:
        """Make this process visible to ``spdl top``, ``spdl stats`` and ``spdl dump`` until the result is closed.

        They show all pipelines of the process. Nothing runs until one of them connects. The socket is a file in
        ``$XDG_RUNTIME_DIR/spdl``, or in a folder of this user in the directory for temporary files. Only processes of
        the same user get answers, and access is read-only. The environment variable ``SPDL_MONITOR=1`` does the same
        for the whole run, also for pipelines in child processes.

        .. code-block:: python

            with pipeline.monitor(), pipeline.auto_stop():
                for batch in pipeline:
                    ...

        Raises:
            RuntimeError: The socket or its thread cannot be created; the message says why.
        """
        from ._monitoring import monitor  # imported late: few pipelines need it

        return monitor()

    def stop(self, *, timeout: float | None = None) -> None:
        """Stop the pipeline and join its threads. Does nothing if it was not started or is already stopped.

        Items in the sink can still be read. Items in flight are dropped.

        Args:
            timeout: Maximum time in seconds to wait for sync ops that are still running. ``None``: 10 s, and a warning
                in the log instead of ``TimeoutError``.

        Raises:
            TimeoutError: An op did not return within ``timeout``. The message shows the op, its item and its stack. Its
                daemon thread keeps running and its result is dropped.
            PipelineFailure: A stage failed and no read has raised that failure yet. Raised once.
        """
        timeout = as_timeout("timeout", timeout)
        self._check_process()
        if not self._was_started or self._was_stopped:
            return
        self._was_stopped = True
        self._engine.request_stop()
        self._join(timeout)
        if self._engine.stage_failures and not self._failure_raised:
            raise self._failure()

    @contextmanager
    def auto_stop(self, *, timeout: float | None = None) -> Iterator[None]:
        """Start on entry, stop on exit. If both the body and the stop raise, the body's exception propagates.

        Args:
            timeout: Timeout in seconds of both :meth:`start` and :meth:`stop`.
        """
        timeout = as_timeout("timeout", timeout)
        self.start(timeout=timeout)
        try:
            yield
        except BaseException:
            try:
                self.stop(timeout=timeout)
            except Exception as exc:  # noqa: BLE001 - the body's exception is what the caller must see
                text = "stopping pipeline %d failed as well"
                log(_LOG, logging.ERROR, text, self._engine.pipeline_id, exc_info=exc)
            raise
        self.stop(timeout=timeout)

    def resize(self, num_workers: int, *, stage: StageInfo | str | None = None) -> None:
        """Change the number of workers of a region: processes, or actors of ``spdl.ray.RayActors``.

        Returns at once. New workers get items when they are ready. A surplus worker gets no more items and ends when
        its outputs have arrived: no output is lost or repeated. The remainder of an ``aggregate`` in it is emitted or,
        with ``drop_last``, dropped, as at the end of an epoch. Workers that are still starting end first. Before the
        start, this sets the number of workers to start with.

        .. code-block:: python

            for step, batch in enumerate(pipeline):
                if step == 100:
                    pipeline.resize(8)
                train(batch)

        Can be called at any time, from any thread. It has no effect once the region has received all of its items.

        Args:
            num_workers: Number of workers from now on.
            stage: The region, if there are several: its name in ``stats()``, or its ``StageInfo``.

        Raises:
            ValueError: ``num_workers`` is less than 1, or there is no such region, or more than one.
            PipelineStateError: The pipeline was stopped, or its end has been read, or its process does not own the
                workers.
            TypeError: An argument has the wrong type.
        """
        self._check_process()
        resize(self._engine, num_workers, stage, was_stopped=self._was_stopped)

    # -- reading

    def get_item(self, *, timeout: float | None = None) -> T:
        """Return the next item. Starts the pipeline if needed.

        Args:
            timeout: Maximum time to wait in seconds. 0: do not wait; ``None``: no limit.

        Raises:
            TimeoutError: No item arrived in time. No item is lost: a later call returns it.
            EOFError: The stream has ended; every later call raises this too. With a continuous source: the epoch has
                ended; the next call starts the next epoch.
            PipelineFailure: A stage failed, and all items emitted before the failure have been read.
            StallError: Nothing moved for ``stall_timeout``, and ``stall_action`` is ``"raise"``.
        """
        if timeout is not None:
            timeout = as_timeout("timeout", timeout)
        if not self._was_started or self._engine.is_forked:
            self._begin()
        value = self._engine.read(timeout)
        if value is END or value is EPOCH:
            raise self._end_error(value)
        return value  # type: ignore[no-any-return]

    def get_iterator(self, *, timeout: float | None = None) -> Iterator[T]:
        """Iterate over the rest of the stream or epoch. A new iterator continues where the previous one stopped.

        Args:
            timeout: Maximum time to wait for each item, in seconds; ``None``: no limit.

        Raises:
            PipelineStateError: While iterating: another iterator had reached the end of the stream before this call.
        """
        return PipelineIterator(self, as_timeout("timeout", timeout))

    def __iter__(self) -> Iterator[T]:
        return self.get_iterator()

    def __aiter__(self) -> AsyncIterator[T]:
        """Iterate in a coroutine without blocking the event loop. Leaving the ``async for`` early loses no item."""
        return PipelineAsyncIterator(self)

    def stats(self) -> PipelineStats:
        """Return the statistics of the pipeline so far. Can be called at any time, from any thread.

        ``str()`` of the result is a table, ``to_dict()`` gives names and numbers, ``to_html()`` a report.

        .. code-block:: python

            for batch in pipeline:
                train(batch)
            stats = pipeline.stats()
            print(stats)  # a row for each stage
            [(stage.info.stage_name, stage.num_calls, stage.num_failures) for stage in stats.stages]
        """
        self._check_process()
        return self._observer.stats()

    def verdict(self, *, seconds: float | None = None) -> Verdict:
        """Say which stage limits the pipeline, why, and what to change.

        .. code-block:: python

            for batch in pipeline:
                train(batch)
            print(pipeline.verdict())

        Every pipeline that its reader waits for is measured from a quarter of a second after its start: a native
        thread, which does not need the GIL, samples the threads of the pipeline at most 20 times a second, for at most
        0.1 % of a CPU. A call before the first read measures from the very start.

        A verdict needs about 5 s and 200 calls; before that, the cause is ``"unsure"``. On systems other than Linux,
        which do not show the states of threads, it is estimated from CPU times, and its text says that. If other
        processes use the machine, the text says "probably". Can be called from any thread.

        Args:
            seconds: Measure for this many seconds from now, and judge only this period. Blocks, so call it from a
                thread other than the reader's. Returns early if the pipeline ends. ``None``: do not wait, and judge
                the whole run.

        Raises:
            PipelineStateError: ``seconds`` was given and the pipeline has not been started.
        """
        self._check_process()
        return self._observer.verdict(as_timeout("seconds", seconds))

    def trace(self, path: str | PathLike[str], *, every: int = 1) -> AbstractContextManager[None]:
        """Return a context manager that writes a trace of the stages to a file for https://ui.perfetto.dev.

        .. code-block:: python

            with pipeline.trace("run.perfetto.json"):
                for batch in pipeline:
                    train(batch)

        Each stage is a track, with a slice for each call, named by the source position of its item. The consumer is a
        track too. The context manager can be entered before the start, or while the pipeline runs. The file is written
        ten times a second, and can be opened even if the process is killed. A trace adds about 3 us of CPU time to each
        call; without a trace, calls cost nothing extra. Calls inside the workers of regions are not traced. Times are
        on the clock of ``torch.profiler``: :func:`spdl.metrics.merge_traces` combines both traces in one file.

        Args:
            path: File to write, in the Trace Event Format (JSON). It is overwritten.
            every: Only items whose position in the source is a multiple of this are written; batches always are.

        Raises:
            OSError: The file cannot be opened. If a later write fails, an error is logged and the trace ends.
            PipelineStateError: The pipeline is already being traced.
            ValueError: ``every`` is less than 1.
        """
        from ._trace import traced  # imported late: few pipelines are traced

        self._check_process()
        every = as_int("every", every, 1)
        return traced(self._engine, as_path("path", path), every)

    def with_origins(self, *, timeout: float | None = None) -> Iterator[tuple[T, BatchOrigin]]:
        """Iterate over the rest of the stream or epoch, and yield each output with the source items it was made of.

        .. code-block:: python

            for batch, origin in pipeline.with_origins():
                if train(batch) > 10:
                    print(origin.positions, origin.keys)

        The first call must come before the start: it makes the pipeline record where items come from.

        Args:
            timeout: Maximum time to wait for each item, in seconds; ``None``: no limit.

        Raises:
            PipelineStateError: The pipeline was started before the first call.
            ValueError: The pipeline has a custom merge op, so the origins of its outputs are not known.
        """
        timeout = as_timeout("timeout", timeout)
        self._check_process()
        with self._beginning:
            keep_origins(self)
        return iterate_with_origins(self, timeout)

    # -- resuming

    def state_dict(self) -> dict[str, str]:
        """Return the position of the pipeline in its data, for :meth:`load_state_dict` of an equal pipeline.

        .. code-block:: python

            builder = PipelineBuilder().add_source(DistributedKeyedSampler(100, seed=0)).aggregate(8).add_sink()
            pipeline = builder.build(resumable=True)
            with pipeline.auto_stop():
                first = next(iter(pipeline))
                state = pipeline.state_dict()

            resumed = builder.build(resumable=True)
            resumed.load_state_dict(state)
            with resumed.auto_stop():
                rest = list(resumed)  # 12 batches: all but the first

        An item is consumed when a read has returned it, or when it was dropped or has failed. A resumed pipeline issues
        all other items again: first those that were in flight, in the order of the source. So every item is read once,
        before or after the state was taken, and in the same order if every stage keeps the order. The outputs of a
        generator are identified by their number, so generators must give the same outputs again. If the last item of an
        epoch has been read but not the end of the epoch, the resumed pipeline begins with the end of that epoch; if the
        end has been read too, it begins with the next epoch.

        Can be called at any time, also before the start and after the end, and from any thread. With several readers,
        an item that was returned to another thread counts as consumed.

        Returns:
            A dictionary with one ``str``, for ``json``, ``pickle``, ``torch.save`` or :func:`spdl.resume.save`.

        Raises:
            PipelineStateError: The pipeline was not built with ``resumable=True``.
        """
        resuming = self._check_resumable("state_dict")
        return resuming.state(was_started=self._was_started)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another pipeline was when its :meth:`state_dict` returned ``state``.

        Call it before the first read. The pipeline must have the same sources and stages; concurrency, buffers and
        number of threads may differ. Ops and aggregators start empty. How the pipeline finds its position in a source
        depends on the source's methods:

        - ``__len__`` and ``__getitem__``: it gets the items by position, at once.
        - ``state_dict()`` and ``load_state_dict()``, of the source or its iterators: it loads the newest state that was
          saved before the first missing item, and skips the items consumed since. These states may be pickled: load
          only files that you trust.
        - Otherwise it iterates the source from the beginning and skips consumed items. A warning gives their number.

        If a source has ``set_epoch``, it is called with the epoch. A source that has neither ``set_epoch`` nor a state
        must give the same items on every pass.

        Raises:
            PipelineStateError: The pipeline was started, or was not built with ``resumable=True``.
            spdl.resume.ResumeError: The state is damaged, of another version, of another pipeline, or of another rank.
                The pipeline has not changed.
        """
        resuming = self._check_resumable("load_state_dict")
        with self._beginning:
            if self._was_started:
                raise PipelineStateError(
                    f"cannot load a state into pipeline {self._engine.pipeline_id}: it was started; build another, and "
                    "load the state before the first read"
                )
            resuming.load(state)

    # -- internals

    def _give_up(self) -> None:
        self._was_stopped = True
        self._engine.request_stop()
        self._engine.join(0)

    def _check_resumable(self, method: str) -> Resuming:
        self._check_process()
        if self._resuming is None:
            raise PipelineStateError(
                f"pipeline {self._engine.pipeline_id} has no {method}(): build it with build(resumable=True)"
            )
        return self._resuming

    def _begin(self) -> None:
        self._check_process()
        with self._beginning:
            if not self._was_started:
                self.start()
