"""``DataLoader``: the usual pipeline of a loader: preprocess, batch, collate, transfer."""

import copy
import inspect
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, overload

from spdl._numbers import as_bool, as_int, as_timeout
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStats, Verdict
from spdl.pipeline._observer import Observer
from spdl.pipeline._options import BuildOptions, checked, shows_options
from spdl.pipeline._reading import rng_epoch_of, set_rng_epoch
from spdl.pipeline.defs import Aggregator, Op, OutputOrder, Retry, SupportsGetItem, as_retry, check_op

from ._arguments import as_batch_size, check_source, copy_of, epoch_of, is_generator, takes_rng
from ._iteration import Iteration, LoaderStates, ResumableIteration
from ._losses import Losses

if TYPE_CHECKING:
    from spdl.pipeline._monitoring import Monitor

    from ._signatures import (
        Call,
        Collated,
        Grouped,
        Items,
        Listed,
        ListedSources,
        Random,
        S,
        Single,
        SingleSources,
        Streams,
        Transferred,
        Untyped,
        V,
    )  # fmt: skip

Source = TypeVar("Source")
Output = TypeVar("Output")


_NUM_THREADS: Final = 8


@shows_options(num_threads=_NUM_THREADS)
class DataLoader(Generic[Source, Output]):
    """Load items concurrently, batch and transfer them: a pipeline with the interface of a loader.

    .. code-block:: text

        src -> preprocessor -> batches of batch_size -> aggregator -> transfer_fn -> buffer
               (num_threads)                            (num_threads)  (one at a time)

    Stages that are not given are omitted. Each ``iter()`` builds a new pipeline; several may run at once. State that
    ``src`` keeps between iterations, such as the position of a generator, carries over. The pipeline ends when the
    iterator is exhausted, left with ``break``, closed with ``close()``, or collected. The loader is picklable if
    ``src`` and the functions are.

    .. code-block:: python

        loader = DataLoader(paths, preprocessor=load, batch_size=32, aggregator=np.stack, output_order="input")
        for epoch in range(10):
            loader.set_epoch(epoch)
            for batch in loader:
                ...

    Args:
        src: Source of the items. A separate thread iterates over it, so it may block.
        preprocessor: Function called on every item, up to ``num_threads`` calls at once; anything that
            :meth:`~PipelineBuilder.pipe` accepts.
        batch_size: Number of items per list; or an :class:`~spdl.pipeline.defs.Aggregator`, such as those of
            :mod:`spdl.pipeline.batching`. Each iteration uses a copy of it, in the state it had when the loader was
            made.
        drop_last: Whether to drop the incomplete remainder at the end. No effect without ``batch_size``.
        aggregator: Function called on every list, or on every item without ``batch_size``, up to ``num_threads`` calls
            at once; usually it collates.
        transfer_fn: Function called on the result, one call at a time, such as :func:`~spdl.io.transfer_tensor_h2d`.
        buffer_size: Maximum number of outputs that are buffered for the consumer.
        timeout: Seconds to wait for an output; ``None``: no limit.
        output_order: Output order of ``preprocessor`` and of ``aggregator``. ``"completion"``: results are emitted as
            calls complete, so that a slow call does not delay the others. With ``num_threads`` above 1, the order of
            batches, and of items in them, differs between runs, even if calls are very short. ``"input"``: in the order
            of ``src``.
        rng: Whether functions with a parameter ``rng`` get random numbers: ``preprocessor(item, rng=rng)``, with a
            :class:`~spdl.pipeline.Rng`. The numbers depend only on ``seed``, the epoch, the positions of the items and
            the name of the argument. Each iteration is a new epoch, even without :meth:`set_epoch`.
        retry: Maximum number of attempts of ``preprocessor`` and ``aggregator`` per item, or a
            :class:`~spdl.pipeline.defs.Retry`.
        call_timeout: Maximum time of a call of ``preprocessor`` and ``aggregator`` in seconds, with all attempts. A
            call that takes longer fails; see ``call_timeout`` of :func:`~spdl.pipeline.defs.Pipe`.
        **options: Of the pipeline of each iteration; see :func:`~spdl.pipeline.build_pipeline`.

    Attributes:
        state_dict: Method that returns the position of the newest iteration, at any time: before the first one, between
            two batches, at the end. Exists only with ``resumable``, so that trainers that look for it do not find it
            otherwise. The state is that of :meth:`spdl.pipeline.Pipeline.state_dict`: batches that were returned are
            consumed; prefetched batches are not.
        load_state_dict: Method that makes the next iteration resume from a state; later iterations are whole. Sets the
            epoch of ``src``. As :meth:`spdl.pipeline.Pipeline.load_state_dict`, with its errors; if it raises, the
            loader is unchanged. For another number of ranks, combine states with :func:`spdl.resume.gather`.

    If ``preprocessor`` raises, the item is logged and dropped. If ``aggregator`` or ``transfer_fn`` raises, the whole
    batch is logged and dropped. An epoch that has lost items or batches logs one warning at its end with their numbers:
    it has fewer batches than ``len()``, and in distributed training this process makes fewer steps than the others. If
    every call of a function fails, the iteration ends with :class:`~spdl.pipeline.PipelineFailure`.

    Raises:
        ValueError: An argument is out of range, ``src`` cannot be iterated, or the loader cannot be resumed exactly.
        TypeError: An argument is of the wrong type.
        PipelineFailure: While iterating: ``src`` raised, more calls failed than ``max_failures`` allows, or every call
            of a function failed. Outputs made before the failure are returned first.
        OSError: While iterating: the quarantine file cannot be opened.
        TimeoutError: While iterating: no output was ready within ``timeout``. The pipeline ends.
    """

    state_dict: Callable[[], dict[str, str]]
    load_state_dict: Callable[[Mapping[str, Any]], None]

    if TYPE_CHECKING:
        # The type of the outputs is that of the last function, else of the batching, else of the source.
        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, transfer_fn: Streams[V], **options: Unpack[Transferred]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, transfer_fn: Call[Any, V], **options: Unpack[Transferred]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, aggregator: Streams[V], **options: Unpack[Collated]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, aggregator: Call[Any, V], **options: Unpack[Collated]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, batch_size: Aggregator[Any, V], **options: Unpack[Grouped]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, list[V]]", src: Items[S], *, preprocessor: Streams[V], **options: Unpack[Listed]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, list[V]]", src: Items[S], *, preprocessor: Call[S, V], **options: Unpack[Listed]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, preprocessor: Streams[V], **options: Unpack[Single]
        ) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, V]", src: Items[S], *, preprocessor: Call[S, V], **options: Unpack[Single]
        ) -> None: ...

        @overload
        def __init__(self: "DataLoader[S, list[S]]", src: Items[S], **options: Unpack[ListedSources]) -> None: ...

        @overload
        def __init__(self: "DataLoader[S, S]", src: Items[S], **options: Unpack[SingleSources]) -> None: ...

        @overload
        def __init__(
            self: "DataLoader[S, Any]",
            src: Items[S],
            *,
            preprocessor: SupportsGetItem[S, Any],
            **options: Unpack[Untyped],
        ) -> None: ...

        @overload
        def __init__(self: "DataLoader[S, Any]", src: Items[S], *, rng: bool, **options: Unpack[Random]) -> None: ...

    def __init__(
        self: "DataLoader[Any, Any]",
        src: Iterable[Any] | AsyncIterable[Any],
        *,
        preprocessor: Op | None = None,
        batch_size: int | Aggregator[Any, Any] | None = None,
        drop_last: bool = False,
        aggregator: Op | None = None,
        transfer_fn: Op | None = None,
        buffer_size: int = 3,
        timeout: float | None = None,
        output_order: OutputOrder = "completion",
        rng: bool = False,
        retry: int | Retry | None = None,
        call_timeout: float | None = None,
        **options: Unpack[BuildOptions],
    ) -> None:
        self._src = src
        self._preprocessor = preprocessor
        self._batch_size = as_batch_size(batch_size)
        self._drop_last = drop_last
        self._aggregator = aggregator
        self._transfer_fn = transfer_fn
        self._buffer_size = buffer_size
        self._num_threads = as_int("num_threads", options.setdefault("num_threads", _NUM_THREADS), 1)
        self._timeout = timeout
        self._options = checked("DataLoader", options, inspect.signature(DataLoader).parameters)
        self._retry = as_retry(retry)
        self._call_timeout = as_timeout("call_timeout", call_timeout, positive=True)
        self._output_order: OutputOrder = output_order
        rng = as_bool("rng", rng)
        for name, op in ("preprocessor", preprocessor), ("aggregator", aggregator), ("transfer_fn", transfer_fn):
            if op is not None:
                check_op(name, op)
        if rng and not any(map(takes_rng, (preprocessor, aggregator, transfer_fn))):
            raise ValueError(
                "rng=True needs a function with a parameter named 'rng', and none of the functions has one"
            )
        self._rng = rng
        self._next_epoch = 0  # of the random numbers
        self._source_epoch = epoch_of(src)  # at the start of the last iteration, or at the last set_epoch
        self._was_told = False  # whether set_epoch was called since then
        self._epoch: int | None = None  # the argument of ``set_epoch``
        self._states: LoaderStates | None = None
        self._observer: Observer | None = None  # of the newest iteration
        self._failures_seen: Counter[str] = Counter()  # of all iterations, for their log
        self._is_measured = False  # iterations are measured from their start
        self._make_builder().get_config()  # raises for wrong arguments now, not in the first iteration
        if self._options["resumable"]:
            self._build()
            check_source(src)
            self._add_states(None)

    def _add_states(self, loaded: dict[str, str] | None) -> None:
        self._states = states = LoaderStates(copy.copy(self))
        states.take_over(loaded)
        # Attributes of the instance, so that code that looks for these methods finds them only if they work.
        self.state_dict = states.state_dict
        self.load_state_dict = states.load_state_dict

    def __iter__(self) -> Iterator[Output]:
        pipeline = self._build() if self._states is None else self._states.begin()
        if self._rng:
            set_rng_epoch(pipeline, self._begin_epoch(rng_epoch_of(pipeline)))
        self._observer = pipeline._observer
        if self._is_measured:
            self._observer.measure()
        kind: type[Iteration[Output]] = Iteration if self._states is None else ResumableIteration
        return kind(pipeline, self._timeout, self._warn_of_losses)

    def _warn_of_losses(self, stats: PipelineStats) -> None:
        self._losses(stats).log_warning(self, stats.num_items)

    def stats(self) -> PipelineStats:
        """Return the statistics of the newest iteration, running or ended; before the first one, all counts are 0.

        Can be called at any time, from any thread. See :meth:`spdl.pipeline.Pipeline.stats`.
        """
        return (self._observer or self._build()).stats()

    def monitor(self) -> "Monitor":
        """Make this process visible to ``spdl top``, ``spdl stats`` and ``spdl dump``; see :meth:`Pipeline.monitor`."""
        from spdl.pipeline._monitoring import monitor  # imported late: few need it

        return monitor()

    def verdict(self, *, seconds: float | None = None) -> Verdict:
        """Return what limits the newest iteration, and what to change; see :meth:`spdl.pipeline.Pipeline.verdict`.

        Each iteration is measured, so call it at the end of one. A call before the first iteration measures the
        iterations from their very start. The consumer is the loop over this loader.

        Args:
            seconds: Measure for this time from now on. Call it from a thread other than the one that iterates.
        """
        self._is_measured = True
        observer = self._observer or self._build()._observer
        return observer.verdict(as_timeout("seconds", seconds), "loader")

    def __getstate__(self) -> dict[str, Any]:
        own = {key: value for key, value in vars(self).items() if key not in ("state_dict", "load_state_dict")}
        return {**own, "_states": None if self._states is None else (self._states.loaded,), "_observer": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        loaded: Any = self._states
        self._states = None
        if loaded is not None:
            self._add_states(*loaded)

    def __getattr__(self, name: str) -> Any:
        if name in ("state_dict", "load_state_dict"):
            raise AttributeError(f"this {type(self).__name__} has no {name}: make it with resumable=True")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self) -> int:
        """Number of outputs, if nothing is dropped.

        Raises:
            TypeError: The number is unknown: ``src`` has no length, an ``Aggregator`` makes the batches, or one of the
                functions is a generator.
        """
        if isinstance(self._batch_size, Aggregator):
            raise TypeError(f"{self!r} has no length: how many batches {self._batch_size!r} makes depends on the items")
        for op in (self._preprocessor, self._aggregator, self._transfer_fn):
            if op is not None and is_generator(op):
                raise TypeError(f"{self!r} has no length: {op!r} is a generator, which yields any number of outputs")
        num_items = len(self._src)  # type: ignore[arg-type] # without a length this is the TypeError
        if self._batch_size is None:
            return num_items
        return num_items // self._batch_size if self._drop_last else -(-num_items // self._batch_size)

    def __bool__(self) -> bool:
        return True  # without this, bool() would need the length, which the source may not have

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {type(self._src).__qualname__}>"

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch of the source and of the random numbers.

        Calls ``set_epoch(epoch)`` of the source or, if it has none, ``shuffle(seed=epoch)``. Nothing is called on a
        source that has neither, such as one made by :func:`~spdl.source.utils.embed_shuffle`. Whether a running
        iteration is affected depends on the source.

        Functions that take random numbers get those of this epoch in the next iteration, and those of the following
        epochs in later iterations. Without this call, the first epoch is the attribute ``epoch`` of the source, or 0 if
        it has none. An epoch that was set only on the source also counts. An iteration that resumes in the middle of an
        epoch keeps that epoch.
        """
        if self._rng:
            self._next_epoch = as_int("epoch", epoch)
            self._was_told = True
        if self._states is not None:
            self._states.set_epoch(epoch)
        self._tell_source(epoch)

    def _tell_source(self, epoch: int) -> None:
        """Same as ``set_epoch``, but without effect on a loaded epoch."""
        self._epoch = epoch
        tell = getattr(self._src, "set_epoch", None)
        if callable(tell):
            tell(epoch)
            return
        shuffle = getattr(self._src, "shuffle", None)
        if callable(shuffle):
            shuffle(seed=epoch)

    def _begin_epoch(self, loaded: int | None) -> int:
        """Return the epoch for the random numbers of the next iteration; the epoch of a state, if one was loaded."""
        source_epoch = epoch_of(self._src)
        is_first = self._next_epoch == 0
        if source_epoch is not None and not self._was_told and (is_first or source_epoch != self._source_epoch):
            self._next_epoch = source_epoch
        self._source_epoch = source_epoch
        self._was_told = False
        epoch = self._next_epoch if loaded is None else loaded
        self._next_epoch = epoch + 1
        return epoch

    def _stage_options(self, op: Op | None, name: str) -> dict[str, Any]:
        """Return the options of a function's stage, except its order and concurrency."""
        options: dict[str, Any] = {"rng": name} if self._rng and takes_rng(op) else {}
        if name != "transfer_fn":
            options |= {"retry": self._retry, "call_timeout": self._call_timeout}
        return options

    def _losses(self, stats: PipelineStats) -> Losses:
        """The failures of the functions in a finished epoch."""
        losses = Losses()
        batch_size = self._batch_size
        stages = iter(stats.stages[1:-1])
        is_batched = False
        for op in (self._preprocessor, batch_size, self._aggregator, self._transfer_fn):
            if op is None:
                continue
            stage = next(stages)
            is_batched = is_batched or op is batch_size
            if not stage.num_failures:
                continue
            losses.last = stage.failures[-1].error
            if not is_batched:
                losses.num_single += stage.num_failures
                continue
            origins = [failure.origin for failure in stage.failures]
            if op is self._transfer_fn and self._aggregator is not None and is_generator(self._aggregator):
                origins = [origin[0] for origin in origins]  # type: ignore[index]  # of an output: the batch, and the output's number
            sizes = {origin: len(origin) for origin in origins}  # type: ignore[arg-type]  # the origin of a batch: one entry per item
            num_older = stage.num_failures - len(origins)  # failures whose origin is no longer kept
            losses.num_batches += stage.num_failures
            losses.num_in_batches += sum(sizes.values())
            if isinstance(batch_size, int):
                losses.num_in_batches += num_older * batch_size  # only the last batch may be incomplete
            elif num_older:
                losses.num_in_batches += num_older
                losses.is_exact = False
        return losses

    def _build(self) -> Pipeline[Output]:
        """A pipeline for an iteration."""
        pipeline = self._make_builder().build(**self._options)
        pipeline._observer.count_failures_in(self._failures_seen)
        if pipeline._resuming is not None and self._epoch is not None:
            pipeline._resuming.number_epochs(self._epoch)
        return pipeline

    def _make_builder(self) -> "PipelineBuilder[Source, Output]":
        builder: PipelineBuilder[Source, Output] = PipelineBuilder()
        builder.add_source(self._src)
        if self._preprocessor is not None:
            options = self._stage_options(self._preprocessor, "preprocessor")
            builder.pipe(self._preprocessor, concurrency=self._num_threads, output_order=self._output_order, **options)
        if self._batch_size is not None:
            size = self._batch_size
            builder.aggregate(copy_of(size) if isinstance(size, Aggregator) else size, drop_last=self._drop_last)
        if self._aggregator is not None:
            options = self._stage_options(self._aggregator, "aggregator")
            builder.pipe(self._aggregator, concurrency=self._num_threads, output_order=self._output_order, **options)
        if self._transfer_fn is not None:
            builder.pipe(self._transfer_fn, **self._stage_options(self._transfer_fn, "transfer_fn"))
        return builder.add_sink(self._buffer_size)
