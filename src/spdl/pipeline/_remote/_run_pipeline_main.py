"""A pipeline in a subprocess: what runs there, in the place of the function that ``iterate_in_subprocess`` calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl._reports import cause_of, name_of, notes_of, text_of
from spdl.pipeline._errors import PipelineError, PipelineFailure
from spdl.pipeline._pipeline_ids import PIPELINE_IDS
from spdl.pipeline.defs import MergeConfig, PipelineConfig

from ._executors import make_thread_pools, release_executors
from ._random_state import RandomState, capture, restore

if TYPE_CHECKING:
    from spdl.pipeline._pipeline import Pipeline

__all__ = ["PipelineFactory", "is_continuous", "take_along"]

T = TypeVar("T")


@dataclass(frozen=True)
class PipelineFactory(Generic[T]):
    """Makes the pipeline where it is to run. Pickles if the parts do.

    Called once; what it returns is iterated again and again. With an ordinary source each iteration has a pipeline of
    its own, which ends with it. With a continuous one there is a single pipeline, and each iteration is one epoch.
    """

    config: PipelineConfig[T]
    options: dict[str, Any] = field(default_factory=dict)  #: for ``build_pipeline``

    def __call__(self) -> Iterable[T]:
        config = make_thread_pools(self.config)
        return (_Epochs if is_continuous(config) else _Rebuilt)(config, self.options)


def is_continuous(config: PipelineConfig[Any]) -> bool:
    """Whether a source of it is iterated again and again. A build refuses a mixture."""
    if isinstance(config.src, MergeConfig):
        return any(is_continuous(sub) for sub in config.src.pipeline_configs)
    return config.src.continuous


def _build(config: PipelineConfig[T], options: dict[str, Any]) -> Pipeline[T]:
    from spdl.pipeline._build import build_pipeline  # it may need workers itself, for regions

    return build_pipeline(config, **options)


class _Rebuilt(Generic[T]):
    """A pipeline for each iteration; the state of source and ops is that of the description, which stays."""

    def __init__(self, config: PipelineConfig[T], options: dict[str, Any]) -> None:
        self._config = config
        self._options = options

    def __iter__(self) -> Iterator[T]:
        pipeline = _build(self._config, self._options)
        try:
            yield from pipeline
        except PipelineFailure as failure:
            raise _told(failure) from failure
        finally:
            _stop(pipeline)

    def close(self) -> None:
        """Nothing will be iterated any more."""
        release_executors(self._config)


class _Epochs(Generic[T]):
    """One pipeline, and an iteration for each epoch. What is left of an epoch that was given up is dropped."""

    def __init__(self, config: PipelineConfig[T], options: dict[str, Any]) -> None:
        self._config = config
        self._pipeline = _build(config, options)
        self._unfinished: Iterator[T] = iter(())
        self._pipeline.start()  # it works ahead from now on

    def __iter__(self) -> Iterator[T]:
        try:
            for _ in self._unfinished:
                pass
            self._unfinished = iter(self._pipeline)
            yield from self._unfinished
        except PipelineFailure as failure:
            raise _told(failure) from failure

    def close(self) -> None:
        """Nothing will be iterated any more."""
        _stop(self._pipeline)
        release_executors(self._config)


def _stop(pipeline: Pipeline[Any]) -> None:
    with suppress(PipelineFailure):  # one that nobody has read, and nobody is left to
        pipeline.stop()


def _told(failure: PipelineFailure) -> PipelineError:
    """The failure with its stages in the text: the text is what crosses to the other process."""
    lines = [f"{failure.message} ({len(failure.exceptions)}):"]
    for error in failure.exceptions:
        text = text_of(error)
        lines += [f"  {name_of(error)}: {text}", *(f"    {note.strip()}" for note in notes_of(error))]
        # A limit that was crossed says little without the failure that crossed it.
        if (cause := cause_of(error)) is not None and (why := text_of(cause)) not in text:
            lines += [f"    because of {name_of(cause)}: {why}"]
    return PipelineError("\n".join(lines))


def take_along() -> Callable[[], None]:
    """What a process that runs a pipeline must do first: take on this process's state, as far as pipelines use it."""
    return partial(_settle_in, PIPELINE_IDS.peek(), capture())


def _settle_in(first_pipeline_id: int, random_state: RandomState) -> None:
    PIPELINE_IDS.go_on_from(first_pipeline_id)
    restore(random_state)
