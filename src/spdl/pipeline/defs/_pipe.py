"""A stage that runs the user's op on every item."""

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from spdl._errors import InvalidOpError
from spdl._names import renamed
from spdl._numbers import as_bool, as_int, as_timeout

from ._failures import MaxFailures, OnError, Retry, as_retry, check_max_failures, check_on_error
from ._repr import describe_callable, describe_object, layers_of
from ._stage import ChangeExecutor, PathStage

T = TypeVar("T")
U = TypeVar("U")
K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)

Kind: TypeAlias = Literal["sync", "async", "generator", "async_generator"]
OutputOrder: TypeAlias = Literal["completion", "input"]


class SupportsGetItem(Protocol[K_contra, V_co]):
    """A container used as an op: the item is the key or index."""

    def __getitem__(self, key: K_contra, /) -> V_co: ...


class TakesRng(Protocol):
    """An op that takes random numbers: ``pipe(op, rng=True)``."""

    def __call__(self, item: Any, /, *, rng: Any) -> Any: ...


#: What a pipe can run: a callable (sync or async, function or generator function), or a container.
Op: TypeAlias = Callable[[Any], Any] | TakesRng | SupportsGetItem[Any, Any]


@dataclass(frozen=True, repr=False)
class PipeConfig(PathStage, Generic[T, U]):
    """A stage that runs an op; made by :func:`Pipe`. Only ``name`` is public."""

    name: str
    _op: Callable[[Any], Any]
    _kind: Kind
    _concurrency: int = 1
    _executor: Executor | None = None
    _output_order: OutputOrder = "completion"
    _max_failures: MaxFailures | None = None  # None: the limit of the pipeline
    _isolate: bool = False
    _retry: Retry | None = None
    _timeout: float | None = None  # seconds
    _rng: str | None = None  # the op takes random numbers: the name that they depend on
    _on_error: OnError = "skip"

    @property
    def _location(self) -> str:
        """Where the op is defined: ``module.func at file:line``."""
        return describe_callable(self._op)

    @property
    def _is_limited_by_pipeline(self) -> bool:
        return self._max_failures is None

    @property
    def _is_seeded(self) -> bool:
        return self._rng is not None

    def _check_in_region(self, region: object) -> None:
        if self._output_order == "input":
            raise ValueError(
                f"stage {self.name!r} with output_order='input' is in the region {region!r}, whose workers run "
                "independently of each other and keep no order: move it out, or use 'completion'"
            )

    def _pickled_parts(self) -> Iterator[tuple[str, Any]]:
        yield f"the op of stage {self!r}", self._op
        yield f"on_error of stage {self!r}", self._on_error
        # A pool that was moved has connections, which can be pickled only while a process is started.
        if not getattr(self._executor, "is_process_pool", False):
            yield f"the executor of stage {self!r}", self._executor

    def _map_executors(self, change: ChangeExecutor) -> "PipeConfig[T, U]":
        if self._executor is None:
            return self
        changed = change(self, self._executor)
        return self if changed is self._executor else replace(self, _executor=changed)

    def __repr__(self) -> str:
        options = [f"concurrency={self._concurrency}"]
        if self._executor is not None:
            options.append(f"executor={describe_object(self._executor)}")
        if self._output_order != "completion":
            options.append(f"output_order={self._output_order!r}")
        if self._max_failures is not None:
            options.append(f"max_failures={self._max_failures}")
        if self._isolate:
            options.append("isolate=True")
        if self._retry is not None:
            is_plain = self._retry == Retry(self._retry.attempts)
            options.append(f"retry={self._retry.attempts if is_plain else self._retry}")
        if self._timeout is not None:
            options.append(f"call_timeout={self._timeout:g}")
        if self._rng is not None:
            options.append("rng=True" if self._rng == self.name else f"rng={self._rng!r}")
        if self._on_error != "skip":
            how = repr(self._on_error) if isinstance(self._on_error, str) else describe_callable(self._on_error)
            options.append(f"on_error={how}")
        options.append(f"op={self._location}")
        return f"{self.name}({', '.join(options)})"


@renamed(timeout="call_timeout")
def Pipe(
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
) -> PipeConfig[Any, Any]:
    """Describe a stage that runs ``op`` on every item.

    Args:
        op: A callable or a container. Async functions and async generators run on the event loop, everything else on
            worker threads. Every value that a generator yields is an output; ``None`` is dropped. An object with
            ``__getitem__`` is used as a container even if it is callable; pass its ``__call__`` to call it instead.
        concurrency: Maximum number of calls in flight.
        executor: Executor that runs the calls instead of the pipeline's worker threads. For sync ops.
        name: Name of the stage. By default the name of the op or of its class; ``"__getitem__"`` for a container.
        output_order: ``"completion"``: results are emitted as calls finish. ``"input"``: in the order of their inputs.
        max_failures: Maximum number of failed calls (``int``; negative: no limit), maximum share of failed calls
            (:class:`~fractions.Fraction`), or maximum share of the newest calls that failed
            (:class:`~spdl.pipeline.Rate`). The stage stops when it is exceeded. ``None``: the pipeline's limit.
            If every call fails, the stage fails at the end, unless the limit allows that (negative, or a share of 1).
        isolate: Whether to run the calls in ``concurrency`` separate processes. A crash of the op then fails the item,
            not the pipeline. For sync ops. The op, items and results are pickled; a generator runs to its end in the
            process before its outputs are returned.
        retry: Maximum number of attempts per item, including the first, or a :class:`Retry`.
        call_timeout: Maximum time per item in seconds, including all attempts and the delays between them. In an
            isolated stage it limits each attempt instead, and for a generator on threads or the event loop each
            output. A call that takes longer fails with :class:`~spdl.pipeline.StageTimeoutError`: an async call is
            cancelled, an isolated process is killed. A thread cannot be interrupted; it is abandoned and replaced in
            the pool. With a process pool as ``executor``, the time that a call waits for a worker counts too.
        rng: Whether ``op`` gets the keyword argument ``rng``, a :class:`~spdl.pipeline.Rng`: random numbers that depend
            on the seed of the pipeline, the epoch, the position of the item, and the name of the stage, and on nothing
            else. A ``str`` is the name to use instead of that of the stage, so that the stage can be renamed and the op
            be replaced without changing the numbers.
        on_error: What to do when a call fails, after the last attempt. ``"skip"``: drop the item. ``"raise"``: fail the
            pipeline with this exception. A function ``(item, error) -> substitute``: its result replaces the output, or
            the rest of a generator's outputs; ``None`` drops the item. It runs in this process, on the thread that
            handles the failure, or in the event loop, so it must be fast. If it raises, the item fails with that
            exception. In all cases the call counts as failed.

    Raises:
        InvalidOpError: ``op`` is neither callable nor a container, or ``rng`` is given and ``op`` has no parameter of
            that name.
        ValueError: ``concurrency`` or ``retry`` is less than 1; ``call_timeout`` is not above 0; ``output_order`` is
            not one of the two; ``on_error`` is another ``str`` or an async function; ``isolate`` and ``executor`` are
            given together; an async op has an ``executor`` or ``isolate=True``; an async generator has
            ``output_order="input"``.
        TypeError: An argument has the wrong type.
    """
    call, kind, default_name = _resolve(op)
    concurrency = as_int("concurrency", concurrency, 1)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str, got {name!r} of type {type(name).__qualname__}")
    if executor is not None and (isinstance(executor, type) or not callable(getattr(executor, "submit", None))):
        given = f"the class {executor.__name__} itself" if isinstance(executor, type) else describe_object(executor)
        raise TypeError(f"executor must be a concurrent.futures.Executor, got {given}")
    if executor is not None and kind in ("async", "async_generator"):
        raise ValueError(
            f"executor cannot be given with an async op, got {describe_callable(call)}: it runs on the event loop"
        )
    if output_order not in ("completion", "input"):
        raise ValueError(f"output_order must be 'completion' or 'input', got {output_order!r}")
    if output_order == "input" and kind == "async_generator":
        raise ValueError(f"output_order='input' does not work with an async generator, got {describe_callable(call)}")
    isolate = as_bool("isolate", isolate)
    if isolate and executor is not None:
        raise ValueError("isolate=True cannot be given with an executor: the stage has its own processes")
    if isolate and kind in ("async", "async_generator"):
        raise ValueError(
            f"isolate=True cannot be given with an async op, got {describe_callable(call)}: it runs on the event loop"
        )
    call_timeout = as_timeout("call_timeout", call_timeout, positive=True)
    name = default_name if name is None else name
    rng_name = _rng_name(rng, name, call)
    return PipeConfig(
        name,
        call,
        kind,
        concurrency,
        executor,
        output_order,
        None if max_failures is None else check_max_failures(max_failures),
        isolate,
        as_retry(retry),
        call_timeout,
        rng_name,
        check_on_error(on_error, _kind_of),
    )


def _rng_name(rng: object, stage: str, call: Callable[..., Any]) -> str | None:
    """Return the name that the random numbers of a stage depend on. ``None``: its op takes none."""
    if not isinstance(rng, bool | str):
        raise TypeError(f"rng must be a bool or a str, got {rng!r} of type {type(rng).__qualname__}")
    if rng is False:
        return None
    if rng == "":
        raise ValueError("rng must not be an empty name")
    if not _takes_rng(call):
        raise InvalidOpError(
            f"op {describe_callable(call)} has no parameter 'rng', and pipe(rng={rng!r}) calls op(item, rng=...). Add "
            "the parameter, or wrap the op in a function that has it"
        )
    return stage if rng is True else str(rng)


def _takes_rng(call: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return True  # not known before the call
    return any(
        each.kind is each.VAR_KEYWORD or (each.name == "rng" and each.kind is not each.POSITIONAL_ONLY)
        for each in parameters
    )


def _resolve(op: Any) -> tuple[Callable[[Any], Any], Kind, str]:
    """Return the callable to run for each item, its kind, and the default name of the stage."""
    check_op("op", op)
    if _is_container(op):
        call = op.__getitem__
        return call, _kind_of(call), "__getitem__"
    return op, _kind_of(op), _name_of(op)


def check_op(name: str, op: object) -> None:
    """Raise ``InvalidOpError`` if ``op``, which was given as argument ``name``, is nothing that a stage can run."""
    if not (callable(op) or _is_container(op)):
        raise InvalidOpError(
            f"{name} must be a function, an object that can be called, or a container with __getitem__, got "
            f"{describe_object(op)}: give the function itself, not the result of a call"
        )


def _is_container(op: object) -> bool:
    return not isinstance(op, type) and getattr(type(op), "__getitem__", None) is not None


def _kind_of(op: Callable[[Any], Any]) -> Kind:
    for layer in layers_of(op):
        if hasattr(type(layer), "__code__"):  # a function, of Python or compiled
            if inspect.isasyncgenfunction(layer):
                return "async_generator"
            if inspect.iscoroutinefunction(layer):
                return "async"
            if inspect.isgeneratorfunction(layer):
                return "generator"
        elif _is_marked_async(layer):
            return "async"
    return "sync"


def _is_marked_async(obj: object) -> bool:
    """Return whether an object is marked by ``inspect.markcoroutinefunction`` as returning coroutines."""
    try:
        return inspect.iscoroutinefunction(obj)
    except Exception:  # noqa: BLE001 - reads attributes, and a custom __getattr__ may raise anything
        return False


def _name_of(op: Callable[[Any], Any]) -> str:
    while not isinstance(name := getattr(op, "__name__", None), str) and isinstance(op, partial):
        op = op.func
    return name if isinstance(name, str) else type(op).__name__
