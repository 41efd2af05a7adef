"""``get_pytorch_dataloader``: run torch's datasets, samplers and collate functions on threads or processes."""

import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar
from zlib import crc32

from spdl._numbers import as_timeout
from spdl.pipeline import PipelineStats, Verdict
from spdl.pipeline._observer import Observer, judged
from spdl.resume._document import KEY
from spdl.resume._values import is_stateful

from ._torch._arguments import (
    Arguments,
    OnError,
    Plan,
    ResolvedArguments,
    Run,
    Workers,
    indices_of,
    is_iterable,
    resolve,
)  # fmt: skip
from ._torch._epoch import Epoch, EpochCounts, empty_stats
from ._torch._fetching import DrawnSeed
from ._torch._inline import make_run
from ._torch._warnings import longer_than_reported, warn_of_bound, warn_of_discarding, warn_of_workers
from ._torch.resuming._progress import Progress

if TYPE_CHECKING:
    import torch

    from spdl.pipeline._monitoring import Monitor
    from spdl.pipeline.defs import MaxFailures, Retry

    from ._torch.choosing._choosing import Choice
    from ._torch.resuming._documents import Begun, Loaded
    from ._torch.resuming._indices import Indices
    from ._torch.resuming._random import Arrival, GlobalState

    _Attributes = ResolvedArguments
else:
    # For type checkers, the loader has these attributes. It is not a dataclass, because trainers take those apart.
    _Attributes = object

T = TypeVar("T")

#: Attributes that cannot be replaced after the loader is made, as in torch's loader.
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


def get_pytorch_dataloader(
    dataset: Any,
    batch_size: int | None = 1,
    shuffle: bool | None = False,
    sampler: Iterable[Any] | None = None,
    batch_sampler: Iterable[Any] | None = None,
    num_workers: int | None = None,
    collate_fn: Callable[[Any], Any] | None = None,
    pin_memory: bool = False,
    drop_last: bool = False,
    timeout: float | None = None,
    worker_init_fn: Callable[[int], None] | None = None,
    multiprocessing_context: str | BaseContext | None = None,
    generator: "torch.Generator | None" = None,
    *,
    prefetch_factor: int | None = None,
    persistent_workers: bool = False,
    pin_memory_device: str | None = None,
    in_order: bool | None = None,
    worker_init_concurrency: int | None = None,
    snapshot_every_n_steps: int = 1,
    stall_timeout: float | None = None,
    stall_action: Literal["log", "raise"] = "log",
    workers: Workers | None = None,
    max_failures: "MaxFailures | None" = None,
    retry: "int | Retry | None" = None,
    call_timeout: float | None = None,
    on_error: OnError = "raise",
) -> "PyTorchDataLoader[Any]":
    """Make a loader with the arguments of ``torch.utils.data.DataLoader``.

    .. code-block:: python

        loader = get_pytorch_dataloader(dataset, 32, shuffle=True, num_workers=8, workers="thread")
        for images, labels in loader:
            ...

    With ``workers``, everything works as in torch's loader: defaults, order, random numbers and checks. An exception in
    the dataset, the sampler or the collate function is raised in the consumer, with its own type. Without ``workers``,
    the loader behaves as in SPDL 0.8: it uses worker processes and completion order, logs and drops batches that fail,
    and does not support iterable datasets and some arguments.

    Args:
        dataset: Map-style dataset (``dataset[index]``), or torch's ``IterableDataset``.
        batch_size: Number of samples in a batch; ``None``: samples are not batched.
        shuffle: Whether to use a random order of indices, a new one in each epoch.
        sampler: Iterable of indices, used instead of ``shuffle``. It runs in this process, in the consumer's thread.
        batch_sampler: Iterable of lists of indices, used instead of ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``.
        num_workers: Number of threads or processes; 0: load in the consumer's thread; ``None``: the number of usable
            CPUs, or 1 without ``workers``.
        collate_fn: Function that makes a batch from a list of samples; ``None``: torch's ``default_collate``, or
            ``default_convert`` if samples are not batched.
        pin_memory: Whether to copy batches to page-locked memory, if there is an accelerator.
        drop_last: Whether to drop an incomplete last batch.
        timeout: Seconds to wait for a batch; ``None`` or 0: no limit. As in torch: after this time, the consumer gets
            an exception, and the workers continue. To limit the loading of a sample, use ``call_timeout``.
        worker_init_fn: Function called in each worker process with its number. Not with ``workers="thread"``.
        multiprocessing_context: Start method of the worker processes, or its context. Not with ``workers="thread"``.
        generator: Generator from which the order and the workers' seeds are drawn; ``None``: torch's global generator.
        prefetch_factor: Number of batches that each worker may prefetch; ``None``: 2.
        persistent_workers: Whether to keep worker processes between epochs. No effect on threads.
        pin_memory_device: No effect: batches are pinned for the current accelerator.
        in_order: Whether to return batches in the order of the sampler or in completion order; ``None``: in order, or
            in completion order without ``workers``.
        worker_init_concurrency: Maximum number of worker processes that load the dataset at once; ``None``: all.
        snapshot_every_n_steps: Number of batches between records of the state of a dataset or sampler that has
            ``state_dict``, for :meth:`PyTorchDataLoader.state_dict`. If it is above 1, resuming loads up to this many
            batches again and discards them. 0: only before the first batch, so that resuming loads all again. No effect
            if neither has ``state_dict``. The state of a map-style dataset is recorded after each batch.
        stall_timeout: Maximum seconds without progress in the threads while the consumer waits; then a report is
            logged, or raised. As in :func:`~spdl.pipeline.build_pipeline`. Not with worker processes.
        stall_action: ``"log"``, or ``"raise"`` for :class:`~spdl.pipeline.StallError`.
        workers: Kind of workers. ``"thread"``: threads that share the dataset; nothing is pickled. One of them loads a
            dataset with ``state_dict`` and ``load_state_dict``, in order, so that its states are exact. ``"process"``:
            processes, each with a copy of the dataset, as torch's workers. ``"auto"``: the faster of the two, measured
            on the first batches; the result is logged and kept in :attr:`PyTorchDataLoader.choice`.
        max_failures: Maximum number of failed batches in an epoch (negative: no limit), maximum share of all batches
            (:class:`~fractions.Fraction`), or maximum share of the newest batches (:class:`~spdl.pipeline.Rate`). Up to
            this limit, a batch is logged and dropped if the dataset or the collate function raises. When the limit is
            exceeded, :class:`~spdl.pipeline.FailureLimitError` is raised; if all batches of an epoch fail,
            :class:`~spdl.pipeline.PipelineFailure` is raised at its end. ``None``: the exception of each failed batch
            is raised; without ``workers``, all failed batches are dropped.
        retry: Maximum number of attempts for each sample of a map-style dataset, or a
            :class:`~spdl.pipeline.defs.Retry`.
        call_timeout: Maximum time of a call of the dataset in seconds, with all attempts: of ``dataset[index]``, or of
            ``__getitems__``, which loads a batch. The time for collating is added to the sample that arrives last. A
            batch whose call takes longer fails with :class:`~spdl.pipeline.StageTimeoutError`, which ``max_failures``
            covers. The call cannot be interrupted: its thread is abandoned and replaced. Only with
            ``workers="thread"`` and a map-style dataset. Samples are then loaded one by one, which costs up to 0.05 ms
            each. (``timeout`` has torch's meaning: the time until a batch arrives.)
        on_error: Policy for a sample that fails, after all attempts of ``retry``. ``"raise"``: its batch fails.
            ``"replace"``: another sample of the dataset replaces it, so that batches are full and all ranks make equal
            steps; a warning names both. The replacement is chosen by a hash of the index, so it is the same in every
            run, and may occur twice in an epoch. If ten replacements also fail, the batch fails. The dataset must be
            map-style, with ``len()`` and ``int`` indices. Does not cover calls that take longer than ``call_timeout``
            and errors of the collate function.

    Raises:
        ValueError: An argument is out of range, excludes another, or is not supported by this kind of worker; the
            message gives the reason, and the kind that supports it.
        TypeError: ``multiprocessing_context`` is neither a context nor the name of one; or the dataset has no length
            and no sampler was given.
    """
    given = Arguments(**locals())  # must come before any other local variable
    loader: PyTorchDataLoader[Any] = PyTorchDataLoader(resolve(given, stacklevel=2))
    if workers == "process":
        warn_of_workers(loader.num_workers, stacklevel=2)
    return loader


class PyTorchDataLoader(Generic[T], _Attributes):
    """A loader with the attributes of torch's. Made by :func:`get_pytorch_dataloader`.

    Each ``iter()`` begins a new epoch, and several may run at once. After raising an exception of the dataset, an
    iterator continues with the next batch. The threads or processes of an iterator end when it is exhausted, closed
    with ``close()``, or collected. The loader is picklable (without its workers) if its dataset, samplers and functions
    are.
    """

    #: Number of epochs that loaders of this process have begun. See ``GlobalState``.
    _num_begun: ClassVar[int] = 0

    def __init__(self, arguments: ResolvedArguments) -> None:
        vars(self).update(vars(arguments))
        del self.shuffle  # torch's loader has no such attribute: the sampler determines the order
        self._is_iterable = is_iterable(arguments.dataset)
        self._reported_length: int | None = None
        self._run: Run | None = None
        self._choice: Choice | None = None
        self._indices: Indices | None = None  # of the newest epoch
        self._begun: Begun | None = None  # the newest epoch
        self._epoch: weakref.ref[Epoch[T]] | None = None  # its iterator
        self._loaded: Loaded | None = None  # the state that the next epoch resumes from
        self._shared: GlobalState | None = None  # of this state
        self._read_stats: Callable[[], PipelineStats] = empty_stats  # of the newest epoch
        self._observer: Observer | None = None  # of the newest epoch, if it is a pipeline
        self._failures_seen: Counter[str] = Counter()  # of all epochs, for their log
        self._is_measured = False  # epochs are measured from their start
        self._num_epochs = 0  # number of epochs begun since the choice, before the current one
        self._has_warned = False  # of objects that threads cannot share
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_is_made"):
            raise ValueError(f"{name} cannot be replaced once the loader is made: make another loader")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[T]:
        from ._torch.resuming._documents import Begun, epoch_of
        from ._torch.resuming._random import Arrival, CapturedStates, Generators, set_global

        loaded, generators = self._loaded, Generators.of(self)
        before = None
        if self._begun is not None:
            self._begun.progress.leave()
            before = self._begun.progress.after()
        shared = None if self._shared is None else self._shared.now(PyTorchDataLoader._num_begun)
        if loaded is None or loaded.progress is None:
            if loaded is not None:
                generators.load_own(loaded.random)
                if shared is not None:
                    set_global(shared)
            starts = () if loaded is None else loaded.starts
            progress = Progress(snapshot_every=self._snapshot_every, starts=starts, before=before)
            is_seeded = self._run is None and (loaded is None or loaded.is_seeded)
            begun = Begun(progress, generators.capture(), epoch_of(self), is_seeded)
            epoch = self._iterate(progress, loaded)
        else:
            if loaded.num_discarded:
                warn_of_discarding(self.dataset, loaded.num_discarded, stacklevel=2)
            progress = loaded.progress.copy()
            begun = Begun(
                progress, CapturedStates.from_json(loaded.random), loaded.epoch, loaded.is_seeded, loaded.order
            )
            arrival = Arrival(loaded.num_drawn, shared)
            with generators.loaded(loaded.random):
                epoch = self._iterate(progress, loaded, arrival)
                if self._indices is not None:
                    self._indices.catch_up()
                if not progress.has_set_generator:
                    arrival.reach(loaded.num_drawn)
        self._loaded, self._shared, self._begun, self._epoch = None, None, begun, weakref.ref(epoch)
        PyTorchDataLoader._num_begun += 1
        return epoch

    def _iterate(self, progress: Progress, loaded: "Loaded | None", arrival: "Arrival | None" = None) -> "Epoch[T]":
        if self.workers == "thread" and self.num_workers > 0 and not self._has_warned:
            self._has_warned = warn_of_bound(self.dataset, self.collate_fn, self.num_workers, stacklevel=3)
        if self._run is not None:
            self._begin_indices(progress, loaded, arrival)
            return self._begin(self._run.iterate(progress), progress)
        workers = self.workers
        if workers == "process":
            warn_of_workers(self.num_workers, stacklevel=3)
        plan = self._plan()
        if loaded is not None and not loaded.is_seeded:
            # Draw a seed only if the saved epoch drew one; the seed itself has no meaning in the middle of an epoch.
            plan = replace(plan, generator=DrawnSeed(crc32(loaded.state[KEY].encode())))
        self._begin_indices(progress, loaded, arrival)
        if workers == "auto" and plan.num_workers > 0:
            chosen = self._choose(plan, progress)
            if chosen is not None:
                epoch: Epoch[T] = self._begin(chosen, progress)
                if self._choice is not None and self._choice.workers == "process":
                    try:
                        warn_of_workers(self.num_workers, stacklevel=3)
                    except BaseException:  # the warning was raised as an error
                        epoch.close()
                        raise
                return epoch
            assert self._choice is not None
            workers = self._choice.workers
            if workers == "process":
                warn_of_workers(self.num_workers, stacklevel=3)
            plan = self._choice.plan_of(plan)
        run = make_run(workers, plan)
        if self.persistent_workers:
            self._run = run
        return self._begin(run.iterate(progress), progress)

    def _begin(self, batches: Iterator[T], progress: Progress) -> "Epoch[T]":
        """Return the iterator of a new epoch, and show its statistics from now on."""
        workers = self.workers if self.workers != "auto" or self._choice is None else self._choice.workers
        counts, tolerance, self._observer = None, None, None
        if (observer_of := getattr(batches, "observer", None)) is not None:
            self._observer = observer = observer_of()
            self._read_stats = observer.stats
            if self._is_measured:
                observer.measure()
        else:
            in_flight = getattr(batches, "num_in_flight", None)
            capacity = 0 if in_flight is None else (self.prefetch_factor or 2) * self.num_workers
            counts = EpochCounts(self.num_workers, in_flight, capacity)
            self._read_stats = counts.stats
        if self.max_failures is not None:
            from ._torch._tolerance import Tolerance  # imports the engine, which few loaders need

            name = f"get_pytorch_dataloader({type(self.dataset).__name__})"
            tolerance = Tolerance(self.max_failures, name, self._failures_seen)
        reported, in_processes = self._reported_length, workers == "process" and self.num_workers > 0
        too_long = partial(longer_than_reported, self.dataset, in_processes=in_processes)
        return Epoch(batches, progress, counts, tolerance, reported, too_long)

    def _begin_indices(self, progress: Progress, loaded: "Loaded | None", arrival: "Arrival | None") -> None:
        if self._indices is not None:
            if loaded is None:
                self._indices.begin(progress)
            else:
                self._indices.begin(progress, loaded.sampler, loaded.check, loaded.order, arrival)

    def state_dict(self) -> dict[str, str]:
        """Return the position in the newest epoch: the batches that its iterator has returned, without prefetched ones.

        Can be called at any time: before the first epoch, between batches, after the last one, after the end. After the
        iterator has raised ``StopIteration``, it is the state before the next epoch.

        .. code-block:: python

            import torch

            for step, batch in enumerate(loader):
                train(batch)
                if step % 1000 == 0:
                    torch.save({"step": step, "data": loader.state_dict()}, "checkpoint.pt")

        Returns:
            A dictionary with one text, ``{"spdl": "<json>"}``, for ``spdl.resume``. It contains the states of torch's
            generators that determine the order, and of a sampler or dataset with ``state_dict``, but no samples.

        Raises:
            ResumeError: A ``state_dict()`` of the sampler or the dataset failed, or has a value that cannot be pickled.
        """
        from ._torch.resuming._documents import save

        if self._loaded is not None:
            return dict(self._loaded.state)
        begun = self._begun
        if begun is None:
            return save(self, self._is_iterable, None, None)
        return save(self, self._is_iterable, begun, begun.progress.committed or begun.progress.mark())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Make the next ``iter()`` resume where :meth:`state_dict` was called, in this process or another.

        It returns the batches that were not yet taken, in the same order and with the same samples; later epochs are
        whole. For a map-style dataset, number and kind of workers may differ from before. An iterable dataset needs the
        same number of worker processes, because each has its own iterator. Batches that were taken from an iterable
        dataset without ``state_dict`` are loaded again and discarded, with a warning.

        torch's global generator continues too, when the epoch begins: it gets the state that it had when
        :meth:`state_dict` was called, unless it has got another seed since the loading, or another loader has begun an
        epoch. So the order of later epochs is that of the uninterrupted run. Random numbers that datasets draw from
        global generators are not resumed.

        Args:
            state_dict: Result of :meth:`state_dict`. It may contain pickled values of a sampler or dataset: load only
                states that you trust, as with ``torch.load``.

        Raises:
            ResumeError: The state is damaged, or belongs to another loader, rank or world. The loader is unchanged.
        """
        from ._torch.resuming._documents import load
        from ._torch.resuming._random import GlobalState

        loaded = load(self, self._is_iterable, state_dict, self._snapshot_every)
        self._shared = GlobalState(loaded.shared, PyTorchDataLoader._num_begun, is_own=loaded.is_own)
        run, self._run = self._run, None
        if run is not None:
            run.close()
        if self._begun is not None:
            self._end_threads()
            self._begun.progress.leave()
            self._begun = None
        self._loaded = loaded
        if loaded.epoch is not None:
            self.set_epoch(loaded.epoch)

    def _end_threads(self) -> None:
        """End the threads of the newest epoch, if they share a state with the next one: they prefetch."""
        epoch = None if self._epoch is None else self._epoch()
        if epoch is not None and self.workers == "thread" and (self._is_iterable or is_stateful(self.dataset)):
            epoch.close()

    @property
    def _snapshot_every(self) -> int:
        return self.snapshot_every_n_steps or sys.maxsize

    def _choose(self, plan: Plan, progress: Progress) -> Iterator[T] | None:
        """Begin an epoch of ``workers="auto"`` if it is the first, or if the choice changes; else return ``None``."""
        from ._torch.choosing._choosing import begin_or_change

        this = weakref.ref(self)

        def keep(choice: "Choice", run: Run) -> None:
            loader = this()
            if loader is not None:
                loader._choice = choice
                loader._run = run if plan.persistent_workers else None

        self._num_epochs += self._choice is not None
        return begin_or_change(self._choice, self._num_epochs, plan, keep, progress)

    def stats(self) -> PipelineStats:
        """Return the statistics of the newest epoch, running or ended; before the first one, they are empty.

        With threads, these are the statistics of the pipeline. With worker processes, or if batches are loaded in the
        consumer's thread, they have the number of batches, the time the consumer waited for them, and the number in
        flight. Can be called at any time, from any thread. See :meth:`spdl.pipeline.Pipeline.stats`.
        """
        return self._read_stats()

    def monitor(self) -> "Monitor":
        """Make this process visible to ``spdl top``, ``spdl stats`` and ``spdl dump``; see :meth:`Pipeline.monitor`.

        Shows pipelines only; batches that worker processes load are not shown.
        """
        from spdl.pipeline._monitoring import monitor  # imported late: few need it

        return monitor()

    def verdict(self, *, seconds: float | None = None) -> Verdict:
        """Return what limits the newest epoch, and what to change; see :meth:`spdl.pipeline.Pipeline.verdict`.

        Each epoch is measured, so call it at the end of one. Complete with threads only: worker processes are not
        measured, so with them the verdict only says whether the consumer is the limit.

        Args:
            seconds: Measure for this time from now on. Call it from a thread other than the one that iterates.
        """
        seconds = as_timeout("seconds", seconds)
        self._is_measured = True
        if self._observer is not None:
            return self._observer.verdict(seconds, "torch")
        stats = self._read_stats()
        if seconds is not None and stats.state == "running":
            threading.Event().wait(seconds)
            stats = self._read_stats() - stats
        return judged(stats, "torch")

    @property
    def choice(self) -> "Choice | None":
        """The choice of ``workers="auto"`` and its reason; ``None`` before the first ``iter()`` and for other kinds."""
        return self._choice

    def __len__(self) -> int:
        """Number of batches in an epoch, or of samples if they are not batched.

        Raises:
            TypeError: The sampler, or the iterable dataset, has no length.
        """
        if not self._is_iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        self._reported_length = num_samples = len(self.dataset)
        if self.batch_size is None:
            return num_samples
        return num_samples // self.batch_size if self.drop_last else -(-num_samples // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Call ``set_epoch`` on the sampler, the batch sampler, its sampler and the dataset, if they have it."""
        told: list[Any] = []
        for part in (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None), self.dataset):
            tell = getattr(part, "set_epoch", None)
            if callable(tell) and tell not in told:  # methods of the same object are equal
                told.append(tell)
                tell(epoch)

    def __repr__(self) -> str:
        size = (
            f"batch_size={self.batch_size}"
            if self.batch_sampler is None or self.batch_size is not None
            else (f"batch_sampler={type(self.batch_sampler).__name__}")
        )
        return (
            f"{type(self).__name__}({type(self.dataset).__name__}, {size}, num_workers={self.num_workers}, "
            f"workers={self.workers!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_run": None,
            "_indices": None,
            "_begun": None,
            "_epoch": None,
            "_read_stats": empty_stats,
            "_observer": None,
        }

    def _plan(self) -> Plan:
        self._indices = indices_of(self, self._is_iterable)
        return Plan.of(self, self._indices, self._failures_seen)
