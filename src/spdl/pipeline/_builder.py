"""``PipelineBuilder``: fluent calls that describe a pipeline."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack, cast, overload

from spdl._errors import PipelineStructureError
from spdl._names import renamed
from spdl.pipeline._options import BuildOptions, shows_options
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Exclude,
    ExecutorConfig,
    MainProcess,
    MaxFailures,
    OnError,
    Op,
    OutputOrder,
    PathStage,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    Retry,
    SinkConfig,
    SourceConfig,
    StageConfig,
    SupportsGetItem,
    TakesRng,
    check_regions,
)

if TYPE_CHECKING:
    from spdl.pipeline._pipeline import Pipeline

T = TypeVar("T", covariant=True)
U = TypeVar("U", covariant=True)
S = TypeVar("S")
V = TypeVar("V")


class _PipeOptions(TypedDict, total=False):
    """The arguments of :meth:`PipelineBuilder.pipe` that do not change the type of its outputs."""

    concurrency: int
    executor: Executor | None
    name: str | None
    output_order: OutputOrder
    max_failures: MaxFailures | None
    isolate: bool
    retry: int | Retry | None
    call_timeout: float | None
    on_error: OnError


class PipelineBuilder(Generic[T, U]):
    """Builds a pipeline of one source, any number of stages, and one sink.

    ``T`` is the type of the source's items, ``U`` the type of the outputs of the last stage so far. A type checker
    reports a stage that does not accept the outputs of the stage before it.

    Every method returns the builder. Each method raises errors in its own arguments; :meth:`get_config` and
    :meth:`build` raise errors in the pipeline as a whole. A builder can be built several times. The pipelines are
    independent, but share the objects the builder was given, such as a generator as source or an aggregator. A builder
    pickles if its source and ops do.

    .. code-block:: python

        pipeline = (
            PipelineBuilder()
            .add_source(paths)
            .pipe(load, concurrency=8)
            .aggregate(32)
            .add_sink()
            .build()
        )
        with pipeline.auto_stop():
            for batch in pipeline:
                ...
    """

    def __init__(self: "PipelineBuilder[Any, Any]") -> None:
        self._source: SourceConfig[Any] | None = None
        self._stages: list[StageConfig] = []
        self._sink: SinkConfig[Any] | None = None

    def add_source(
        self,
        source: Iterable[S] | AsyncIterable[S],
        *,
        continuous: bool = False,
        exclude: Exclude[Any] | None = None,
        exclude_keys: Iterable[int | str | PathLike[str]] | None = None,
        epochs: int | None = None,
    ) -> "PipelineBuilder[S, S]":
        """Set the source.

        .. code-block:: python

            PipelineBuilder().add_source(sorted(Path("photos").glob("*.jpg")))
            PipelineBuilder().add_source(DistributedKeyedSampler(1000), epochs=90)  # each ``for`` is an epoch

        Args:
            source: Iterable or async iterable of items. A sync iterable is read by a dedicated thread and may block.
            continuous: Whether to iterate the source repeatedly. Each pass is an epoch, and each iterator of the
                pipeline covers one epoch. The source does not stop between epochs: it works on the next one before it
                is asked for.
            exclude: Items to leave out: the path of a quarantine file (see :meth:`build`) or a pattern such as
                ``"bad-*.jsonl"``; a list of these; or a function that takes an item and returns whether to leave it
                out. Excluded items keep their positions: they are consumed, and counted as dropped by the source.
            exclude_keys: Keys of items to leave out: numbers, texts or paths, to which items are compared.
            epochs: Number of epochs. Makes the source continuous, and the pipeline ends after the last one, so nothing
                is loaded that nobody asked for. A resumed pipeline counts the epochs of the earlier runs too.

        Raises:
            ValueError: ``source`` is not iterable, or is to be iterated repeatedly and is an iterator; a source is
                already set; or ``epochs`` is not positive.
            TypeError: ``exclude``, ``exclude_keys`` or ``epochs`` is none of these.
        """
        if self._source is not None:
            raise ValueError(f"a source is set already: {self._source!r}; use Merge to join several")
        self._source = SourceConfig(source, continuous, exclude, exclude_keys, epochs)
        return cast("PipelineBuilder[S, S]", self)

    # A function that returns an iterator is taken for a generator function, which it nearly always is.
    @overload
    def pipe(
        self, op: Callable[[U], AsyncIterator[V]], /, *, rng: Literal[False] = ..., **options: Unpack[_PipeOptions]
    ) -> "PipelineBuilder[T, V]": ...

    @overload
    def pipe(
        self, op: Callable[[U], Awaitable[V | None]], /, *, rng: Literal[False] = ..., **options: Unpack[_PipeOptions]
    ) -> "PipelineBuilder[T, V]": ...

    @overload
    def pipe(
        self, op: Callable[[U], Iterator[V]], /, *, rng: Literal[False] = ..., **options: Unpack[_PipeOptions]
    ) -> "PipelineBuilder[T, V]": ...

    @overload
    def pipe(
        self, op: Callable[[U], V | None], /, *, rng: Literal[False] = ..., **options: Unpack[_PipeOptions]
    ) -> "PipelineBuilder[T, V]": ...

    @overload
    def pipe(
        self, op: SupportsGetItem[U, V], /, *, rng: Literal[False] = ..., **options: Unpack[_PipeOptions]
    ) -> "PipelineBuilder[T, V]": ...

    @overload
    def pipe(
        self, op: TakesRng, /, *, rng: bool | str, **options: Unpack[_PipeOptions]
    ) -> "PipelineBuilder[T, Any]": ...

    @renamed(timeout="call_timeout")
    def pipe(
        self,
        op: Op,
        /,
        *,
        concurrency: int = 1,
        executor: Executor | None = None,
        name: str | None = None,
        output_order: OutputOrder = "completion",
        max_failures: MaxFailures | None = None,
        isolate: bool = False,
        retry: int | Retry | None = None,
        call_timeout: float | None = None,
        rng: bool | str = False,
        on_error: OnError = "skip",
    ) -> "PipelineBuilder[T, Any]":
        """Add a stage that runs ``op`` on every item. Raises the same errors as :func:`~spdl.pipeline.defs.Pipe`.

        .. code-block:: python

            builder = PipelineBuilder().add_source(paths)
            builder.pipe(load, concurrency=8, output_order="input", max_failures=10)

        Args:
            op: A function or generator function, sync or async, any other callable, or a container. Each value it
                returns or yields is an output, except ``None``.
            concurrency: Maximum number of calls in flight.
            executor: Executor that runs the calls instead of the pipeline's worker threads. For sync ops.
            name: Name of the stage; by default the name of the op.
            output_order: ``"completion"``, or ``"input"`` to emit results in the order of their inputs.
            max_failures: Failure limit of this stage; overrides the pipeline's.
            isolate: Whether to run the calls in separate processes. A crash of the op then fails the item, not the
                pipeline.
            retry: Maximum number of attempts per item, or a :class:`~spdl.pipeline.defs.Retry`.
            call_timeout: Maximum time per item in seconds; see :func:`~spdl.pipeline.defs.Pipe`.
            rng: Whether ``op`` gets the keyword argument ``rng``, a :class:`~spdl.pipeline.Rng` with the random numbers
                of the item. A ``str``: the numbers depend on this name instead of the name of the stage.
            on_error: What to do when a call fails: ``"skip"`` the item, ``"raise"`` the exception in the consumer, or a
                function ``(item, error) -> substitute`` whose result replaces the output.
        """
        self._stages.append(
            Pipe(
                op,
                concurrency=concurrency,
                executor=executor,
                name=name,
                output_order=output_order,
                max_failures=max_failures,
                isolate=isolate,
                retry=retry,
                call_timeout=call_timeout,
                rng=rng,
                on_error=on_error,
            )
        )
        return self

    @overload
    def aggregate(self, input: int, /, *, drop_last: bool = ...) -> "PipelineBuilder[T, list[U]]": ...

    @overload
    def aggregate(self, input: Aggregator[U, V], /, *, drop_last: bool = ...) -> "PipelineBuilder[T, V]": ...

    def aggregate(self, input: int | Aggregator[Any, Any], /, *, drop_last: bool = False) -> "PipelineBuilder[T, Any]":
        """Add a stage that batches items.

        .. code-block:: python

            builder = PipelineBuilder().add_source(range(10)).aggregate(4)
            pipeline = builder.add_sink().build()
            with pipeline.auto_stop():
                assert list(pipeline) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

        Args:
            input: Length of the lists to make, or an :class:`~spdl.pipeline.defs.Aggregator`.
            drop_last: Whether to drop the remainder at the end of the stream or of an epoch.

        Raises:
            TypeError: ``input`` is neither an int nor an aggregator.
            ValueError: The length is less than 1.
        """
        self._stages.append(Aggregate(input, drop_last=drop_last))
        return self

    def disaggregate(self: "PipelineBuilder[T, Iterable[V]]") -> "PipelineBuilder[T, V]":
        """Add a stage that emits the elements of each input iterable one by one.

        .. code-block:: python

            builder = PipelineBuilder().add_source([[0, 1], [], [2]]).disaggregate()
            pipeline = builder.add_sink().build()
            with pipeline.auto_stop():
                assert list(pipeline) == [0, 1, 2]"""
        self._stages.append(Disaggregate())
        return cast("PipelineBuilder[T, V]", self)

    def path_variants(
        self,
        router: Callable[[Any], Any],
        paths: Sequence[Sequence[PathStage]],
        name: str | None = None,
        batched: bool = False,
    ) -> "PipelineBuilder[T, Any]":
        """Add a stage that sends each item down one of several paths.

        .. code-block:: python

            def is_odd(number):
                return number % 2


            builder = PipelineBuilder().add_source(range(6))
            builder.path_variants(is_odd, [[Pipe(str)], [Pipe(float, concurrency=2)]])  # odd numbers become floats

        Args:
            router: Sync or async function that takes an item and returns the index of its path. If ``batched``, it
                takes a list of items and returns a list of indices.
            paths: Stages of each path, made by the functions of :mod:`spdl.pipeline.defs`.
            name: Name of the stage; ``"path_variants"`` by default.
            batched: Whether items are lists whose elements are routed separately and joined again.

        Raises:
            ValueError: ``router`` is not callable, or a path is empty or contains an object that is not a stage.
        """
        self._stages.append(PathVariants(router, paths, name, batched))
        return self

    def to(self, target: ExecutorConfig | MainProcess, /, *, buffer_size: int = 1) -> "PipelineBuilder[T, U]":
        """Set where the following stages run: start or end a region (experimental).

        .. code-block:: python

            builder = PipelineBuilder().add_source(paths)
            builder.to(ProcessPoolExecutorConfig(max_workers=2)).pipe(load).to(MAIN_PROCESS)

        Args:
            target: A :class:`~spdl.pipeline.defs.ProcessPoolExecutorConfig` or another worker configuration opens a
                region, :data:`~spdl.pipeline.defs.MAIN_PROCESS` closes it.
            buffer_size: Maximum number of items in one transfer, into the region or out of it.

        Raises:
            TypeError: ``target`` is a running executor, or neither a worker configuration nor ``MAIN_PROCESS``.
            ValueError: ``buffer_size`` is less than 1.
        """
        self._stages.append(PlacementConfig(target, buffer_size=buffer_size))
        return self

    def add_sink(self, buffer_size: int = 3) -> "PipelineBuilder[T, U]":
        """Set the sink: the buffer from which outputs are read.

        .. code-block:: python

            PipelineBuilder().add_source(paths).aggregate(32).add_sink(2)  # two batches wait for the reader

        Args:
            buffer_size: Maximum number of buffered outputs.

        Raises:
            ValueError: ``buffer_size`` is not an int or is less than 1, or a sink is already set.
        """
        if self._sink is not None:
            raise ValueError(f"a sink is set already: {self._sink!r}")
        self._sink = SinkConfig(buffer_size)
        return self

    def get_config(self) -> PipelineConfig[U]:
        """Return the current description of the pipeline. Later calls of the builder do not change it.

        Raises:
            PipelineStructureError: There is no source, or no sink.
            ValueError: A region is not closed before the sink, has no stages, or contains a stage with
                ``output_order="input"``.
            UnsupportedPythonError: A region is for subinterpreters, which cannot run one.
        """
        if self._source is None:
            raise PipelineStructureError("the pipeline has no source: call add_source")
        if self._sink is None:
            raise PipelineStructureError("the pipeline has no sink: call add_sink")
        check_regions(self._stages, may_stay_open=False)
        return PipelineConfig(self._source, list(self._stages), self._sink)

    @shows_options()
    def build(self, **options: Unpack[BuildOptions]) -> "Pipeline[U]":
        """Build the pipeline; the same as :func:`~spdl.pipeline.build_pipeline` of :meth:`get_config`.

        .. code-block:: python

            builder = PipelineBuilder().add_source(paths).pipe(load, concurrency=2).add_sink()
            pipeline = builder.build(num_threads=2, max_failures=10)
            with pipeline.auto_stop():
                for image in pipeline:
                    train(image)

        Args:
            **options: See :func:`~spdl.pipeline.build_pipeline`.

        Raises:
            PipelineStructureError: There is no source, or no sink.
            OSError: The quarantine file or the provenance file cannot be opened.
            ValueError: An argument is out of range, the stages cannot be combined, or the pipeline cannot be resumed
                exactly.
            TypeError: An argument has the wrong type.
        """
        from spdl.pipeline._build import build_for  # imports the engine, which a description does not need

        return build_for("PipelineBuilder.build", self.get_config(), options)

    def __repr__(self) -> str:
        return f"PipelineBuilder(source={self._source!r}, {len(self._stages)} stages, sink={self._sink!r})"
