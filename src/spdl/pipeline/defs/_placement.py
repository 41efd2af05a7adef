"""Placement marks and regions: where stages run."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, final

from spdl._numbers import as_bool, as_int

from ._repr import describe_callable
from ._stage import PathStage, StageConfig

_START_METHODS = ("fork", "spawn", "forkserver")


@final
class MainProcess:
    """Type of :data:`MAIN_PROCESS`, its only instance."""

    __slots__ = ()

    def __new__(cls) -> "MainProcess":
        try:
            return MAIN_PROCESS
        except NameError:  # MAIN_PROCESS, defined below, does not exist yet
            return super().__new__(cls)

    def __reduce__(self) -> str:
        return "MAIN_PROCESS"

    def __repr__(self) -> str:
        return "MAIN_PROCESS"


#: Target of a mark that closes a region: the stages after it run where the pipeline was built.
MAIN_PROCESS: Final = MainProcess()


@dataclass(frozen=True, repr=False)
class ExecutorConfig:
    """Picklable configuration of a worker pool. Base class; use one of the subclasses.

    A user-defined subclass that overrides ``_build`` can be the target of a region too.

    Args:
        max_workers: Number of workers; ``None``: the number of CPUs.
        initializer: Function called once in each worker before anything else runs there.
        initargs: Arguments of ``initializer``.

    Raises:
        ValueError: ``max_workers`` is less than 1.
        TypeError: An argument has the wrong type.
    """

    max_workers: int | None = None
    initializer: Callable[..., object] | None = None
    initargs: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.max_workers is not None:
            if (num := as_int("max_workers", self.max_workers)) < 1:
                raise ValueError(f"max_workers must be >= 1, or None for the number of CPUs, got {num}")
            object.__setattr__(self, "max_workers", num)
        if self.initializer is not None and not callable(self.initializer):
            raise TypeError(
                f"initializer must be callable, got an object of type {type(self.initializer).__qualname__}"
            )
        object.__setattr__(self, "initargs", tuple(self.initargs))

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pool that runs a region's stages. For subclasses."""
        raise NotImplementedError(f"{type(self).__qualname__} does not say how to make its workers: override _build")

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or value is False or value == ():
                continue
            if field.name == "initializer":
                value = describe_callable(value)
            elif field.name == "initargs":  # may be large or secret
                value = f"<{len(value)} {'value' if len(value) == 1 else 'values'}>"
            else:
                value = repr(value)
            shown.append(f"{field.name}={value}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class ProcessPoolExecutorConfig(ExecutorConfig):
    """Worker processes.

    Args:
        max_workers: Number of workers; ``None``: the number of CPUs.
        initializer: Function called once in each worker before anything else runs there.
        initargs: Arguments of ``initializer``.
        mp_context: Start method: ``"fork"``, ``"spawn"`` or ``"forkserver"``. ``None``: a safe one.
        restart: Whether to replace a worker that dies. The items it held are sent once more, to any worker. An item
            fails if that worker dies too, or if some of its outputs had already arrived. If ``False``, the death of a
            worker fails the pipeline.

    Raises:
        ValueError: ``max_workers`` is less than 1, or ``mp_context`` is not a start method.
        TypeError: An argument has the wrong type.
    """

    mp_context: str | None = None
    restart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "restart", as_bool("restart", self.restart))
        if self.mp_context is not None and self.mp_context not in _START_METHODS:
            raise ValueError(f"mp_context must be one of {', '.join(_START_METHODS)}, or None, got {self.mp_context!r}")


@dataclass(frozen=True, repr=False)
class InterpreterPoolExecutorConfig(ExecutorConfig):
    """Worker subinterpreters. Can be created on any version of Python, but no version can run a region with it yet.

    Before Python 3.14 there are no subinterpreters. On 3.14 they have no daemon threads, which the workers of a region
    need.
    """


@dataclass(frozen=True, repr=False)
class PlacementConfig(StageConfig):
    """The mark of a region's start or end.

    Args:
        target: Workers that run the stages after the mark, or ``MAIN_PROCESS``.
        name: Name of the mark.
        buffer_size: Maximum number of items in one transfer: into the region for a mark that opens it, out of it for a
            mark that closes it.

    Raises:
        TypeError: ``target`` is a running executor, or neither a worker configuration nor ``MAIN_PROCESS``.
        ValueError: ``buffer_size`` is less than 1.
    """

    target: ExecutorConfig | MainProcess
    name: str = "placement"
    buffer_size: int = 1

    def __post_init__(self) -> None:
        target: object = self.target
        if isinstance(target, Executor):
            raise TypeError(
                "target must be a description of workers (ProcessPoolExecutorConfig, InterpreterPoolExecutorConfig) or "
                f"MAIN_PROCESS, not a live Executor such as this {type(target).__qualname__}. To run one stage on it, "
                "pass it to pipe(executor=...)"
            )
        is_ours = isinstance(target, MainProcess | ProcessPoolExecutorConfig | InterpreterPoolExecutorConfig)
        # The base class cannot make workers; a subclass that overrides _build can.
        if not is_ours and not (
            isinstance(target, ExecutorConfig) and type(target)._build is not ExecutorConfig._build
        ):
            raise TypeError(
                "target must be a ProcessPoolExecutorConfig, an InterpreterPoolExecutorConfig or MAIN_PROCESS, "
                f"got {target.__qualname__ if isinstance(target, type) else type(target).__qualname__}"
            )
        try:
            size = as_int("buffer_size", self.buffer_size, 1)
        except TypeError as exc:
            raise ValueError(str(exc)) from None
        object.__setattr__(self, "buffer_size", size)

    def __repr__(self) -> str:
        size = "" if self.buffer_size == 1 else f", buffer_size={self.buffer_size}"
        return f"placement({self.target!r}{size})"


@dataclass(frozen=True)
class Region:
    """The stages between two marks."""

    mark: PlacementConfig  # opens the region
    stages: tuple[PathStage, ...]  # as described by the user
    output_size: int  # maximum number of items in one transfer out of the region

    @property
    def target(self) -> ExecutorConfig:
        assert isinstance(self.mark.target, ExecutorConfig)
        return self.mark.target

    @property
    def input_size(self) -> int:
        """Maximum number of items in one transfer into the region."""
        return self.mark.buffer_size

    @property
    def name(self) -> str:
        """Name of the region as one stage of the pipeline."""
        return f"subprocess_pipeline({'+'.join(stage.name for stage in self.stages)})"

    @property
    def is_seeded(self) -> bool:
        """Whether an op inside takes random numbers."""
        return any(stage._is_seeded for stage in self.stages)

    @property
    def is_limited_by_pipeline(self) -> bool:
        """Whether the pipeline's ``max_failures`` applies to any stage inside, that is, one without its own limit."""
        return any(stage._is_limited_by_pipeline for stage in self.stages)


Part: TypeAlias = "StageConfig | Region"


def split_regions(pipes: Sequence[StageConfig]) -> list[Part]:
    """Return the stages of the main process and the regions, in order. Expects stages that passed ``check_regions``."""
    parts: list[Part] = []
    mark: PlacementConfig | None = None
    inside: list[PathStage] = []
    for stage in pipes:
        if isinstance(stage, PlacementConfig):
            if mark is not None:
                parts.append(Region(mark, tuple(inside), stage.buffer_size))
            mark, inside = (None if isinstance(stage.target, MainProcess) else stage), []
        elif mark is not None:
            assert isinstance(stage, PathStage)
            inside.append(stage)
        else:
            parts.append(stage)
    if mark is not None:
        parts.append(Region(mark, tuple(inside), 1))
    return parts


def without_executors(stages: Iterable[PathStage]) -> tuple[PathStage, ...]:
    """Return the stages as a worker runs them: without executors, which are ignored in regions and do not pickle."""
    return tuple(stage._map_executors(lambda _stage, _executor: None) for stage in stages)
