"""``DataLoader``: the usual pipeline of a loader, described by its parts."""

import copy
import logging
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from spdl._reports import add_note, log, shown
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, PipelineStats
from spdl.pipeline.defs import Aggregator, Op, OutputOrder, Pipe

from ._losses import Losses

__all__ = ["DataLoader"]

_LOG = logging.getLogger("spdl.dataloader")

Source = TypeVar("Source")
Output = TypeVar("Output")


class DataLoader(Generic[Source, Output]):
    """Load items concurrently, put them together, and hand them over: a pipeline in the shape of a loader.

    .. code-block:: text

        src -> preprocessor -> batches of batch_size -> aggregator -> transfer_fn -> buffer
               (num_threads)                            (num_threads)  (one at a time)

    Parts that are not given are left out. Each ``iter()`` is a pipeline of its own, and several may be under way at
    once; what ``src`` remembers from one iteration to the next, such as where a generator is, carries over. The
    pipeline ends when the iterator is exhausted, left with ``break``, closed with ``close()``, or collected.
    The loader pickles if its parts do.

    .. code-block:: python

        loader = DataLoader(paths, preprocessor=load, batch_size=32, aggregator=np.stack, output_order="input")
        for epoch in range(10):
            loader.set_epoch(epoch)
            for batch in loader:
                ...

    Args:
        src: Where items come from. Iterated by a thread of its own; it may block.
        preprocessor: Run on every item, ``num_threads`` at once; whatever :meth:`~PipelineBuilder.pipe` takes.
        batch_size: Items per list; or an :class:`~spdl.pipeline.defs.Aggregator`, such as those of
            :mod:`spdl.pipeline.batching`. Each iteration works with a copy of it, as it was when the loader was made.
        drop_last: Leave out what is incomplete at the end. Without ``batch_size`` it has no effect.
        aggregator: Run on every list (without ``batch_size``, on every item), ``num_threads`` at once: collating.
        transfer_fn: Run on what comes out of that, one at a time, such as :func:`~spdl.io.transfer_tensor_h2d`.
        buffer_size: Most outputs that wait to be taken.
        num_threads: Worker threads, shared by all of these.
        timeout: Seconds to wait for an output; ``None``: as long as it takes.
        output_order: Of ``preprocessor`` and of ``aggregator``. ``"completion"``: each emits as its calls end, so that
            nobody waits for a slow one. With ``num_threads`` above 1 the items of a batch, and the batches, then come
            in any order, another in each run, however short the calls are. ``"input"``: in the order of ``src``.

    An item on which ``preprocessor`` raises is dropped, and logged. So is a whole batch, with all its items, on which
    ``aggregator`` or ``transfer_fn`` raises. An epoch that has lost something says at its end, in one warning in the
    log, how many batches and items: it has fewer batches than ``len()`` says, and a process that trains together with
    others makes fewer steps than they do.

    Raises:
        ValueError: An argument is out of range, or ``src`` cannot be iterated.
        TypeError: An argument is of the wrong type.
        PipelineFailure: While iterating: ``src`` raised. What it gave before comes first.
        TimeoutError: While iterating: nothing came in time. The pipeline is ended.
    """

    def __init__(
        self: "DataLoader[Any, Any]",
        src: Iterable[Source] | AsyncIterable[Source],
        *,
        preprocessor: Op | None = None,
        batch_size: int | Aggregator[Any, Any] | None = None,
        drop_last: bool = False,
        aggregator: Op | None = None,
        transfer_fn: Op | None = None,
        buffer_size: int = 3,
        num_threads: int = 8,
        timeout: float | None = None,
        output_order: OutputOrder = "completion",
    ) -> None:
        self._src = src
        self._preprocessor = preprocessor
        self._batch_size = _copy_of(batch_size) if isinstance(batch_size, Aggregator) else batch_size
        self._drop_last = drop_last
        self._aggregator = aggregator
        self._transfer_fn = transfer_fn
        self._buffer_size = buffer_size
        self._num_threads = num_threads
        self._timeout = timeout
        self._output_order: OutputOrder = output_order
        if isinstance(num_threads, bool) or not isinstance(num_threads, int):
            raise TypeError(f"num_threads must be an int, got {num_threads!r}")
        if num_threads < 1:
            raise ValueError(f"num_threads must be >= 1, got {num_threads}")
        self._describe().get_config()  # what is wrong with the parts is raised here and not at the first iteration

    def __iter__(self) -> Iterator[Output]:
        return _Iteration(self._describe().build(num_threads=self._num_threads), self._timeout, self)

    def __len__(self) -> int:
        """Number of outputs, if nothing is dropped.

        Raises:
            TypeError: It cannot be known: ``src`` has no length, an ``Aggregator`` makes the batches, or one of the
                functions is a generator.
        """
        if isinstance(self._batch_size, Aggregator):
            raise TypeError(f"{self!r} has no length: how many batches {self._batch_size!r} makes depends on the items")
        for op in (self._preprocessor, self._aggregator, self._transfer_fn):
            if op is not None and _is_generator(op):
                raise TypeError(f"{self!r} has no length: {op!r} is a generator, which gives any number of outputs")
        num_items = len(self._src)  # type: ignore[arg-type] # it may have none: that is the TypeError
        if self._batch_size is None:
            return num_items
        return num_items // self._batch_size if self._drop_last else -(-num_items // self._batch_size)

    def __bool__(self) -> bool:
        return True  # not a question of length, which it may not have

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {type(self._src).__qualname__}>"

    def set_epoch(self, epoch: int) -> None:
        """Tell the source which epoch comes next: by its ``set_epoch``, else by ``shuffle(seed=epoch)``.

        A source that has neither, so also one that :func:`~spdl.source.utils.embed_shuffle` made, is left to itself.
        An iteration under way may or may not notice: that is up to the source.
        """
        tell = getattr(self._src, "set_epoch", None)
        if callable(tell):
            tell(epoch)
            return
        shuffle = getattr(self._src, "shuffle", None)
        if callable(shuffle):
            shuffle(seed=epoch)

    def _losses(self, stats: PipelineStats) -> Losses:
        """What the functions have failed with, in a whole epoch."""
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
            if op is self._transfer_fn and self._aggregator is not None and _is_generator(self._aggregator):
                origins = [origin[0] for origin in origins]  # type: ignore[index]  # an output: its batch, its number
            sizes = {origin: len(origin) for origin in origins}  # type: ignore[arg-type]  # a batch has many
            num_older = stage.num_failures - len(origins)  # all that is kept of them is their number
            losses.num_batches += stage.num_failures
            losses.num_in_batches += sum(sizes.values())
            if isinstance(batch_size, int):
                losses.num_in_batches += num_older * batch_size  # an incomplete one is the last
            elif num_older:
                losses.num_in_batches += num_older
                losses.is_exact = False
        return losses

    def _describe(self) -> "PipelineBuilder[Source, Output]":
        builder: PipelineBuilder[Source, Output] = PipelineBuilder()
        builder.add_source(self._src)
        if self._preprocessor is not None:
            builder.pipe(self._preprocessor, concurrency=self._num_threads, output_order=self._output_order)
        if self._batch_size is not None:
            size = self._batch_size
            builder.aggregate(_copy_of(size) if isinstance(size, Aggregator) else size, drop_last=self._drop_last)
        if self._aggregator is not None:
            builder.pipe(self._aggregator, concurrency=self._num_threads, output_order=self._output_order)
        if self._transfer_fn is not None:
            builder.pipe(self._transfer_fn)
        return builder.add_sink(self._buffer_size)


def _is_generator(op: Op) -> bool:
    return Pipe(op)._kind in ("generator", "async_generator")


def _copy_of(aggregator: Aggregator[Any, Any]) -> Aggregator[Any, Any]:
    """The same with a state of its own: an iteration that was left has to leave nothing for the next.

    What it calls is shared: a clock shows the same time to all, and a tokenizer that measures lengths may be large.
    """
    called = [value for value in (aggregator.clock, *getattr(aggregator, "__dict__", {}).values()) if callable(value)]
    try:
        return copy.deepcopy(
            aggregator, {id(each): each for each in called if getattr(each, "__self__", None) is not aggregator}
        )
    except Exception as exc:
        add_note(exc, f"while copying {shown(aggregator)}: each iteration of a DataLoader works with a copy of its own")
        raise


class _Iteration(Iterator[Output]):
    """One pass over a loader. Collecting it collects the pipeline, which is then stopped."""

    def __init__(self, pipeline: Pipeline[Output], timeout: float | None, loader: DataLoader[Any, Output]) -> None:
        self._pipeline: Pipeline[Output] | None = pipeline
        self._loader = loader
        self._outputs = pipeline.get_iterator(timeout=timeout)

    def __next__(self) -> Output:
        if self._pipeline is None:
            raise StopIteration
        try:
            return next(self._outputs)
        except StopIteration:
            stats = self._pipeline.stats()
            self.close()
            self._loader._losses(stats).tell(self._loader, stats.num_items)
            raise
        except BaseException:  # the end, a failure, a timeout, Ctrl-C: it goes on with none of them
            self.close()
            raise

    def close(self) -> None:
        """End the pipeline, and wait for its threads."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None:
            return
        try:
            pipeline.stop()
        except PipelineFailure as exc:
            text = "a loader's source failed, and the iterator was closed before it came to that"
            log(_LOG, logging.ERROR, text, exc_info=exc)
