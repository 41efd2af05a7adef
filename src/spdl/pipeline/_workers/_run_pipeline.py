"""``run_pipeline_in_subprocess``: a whole pipeline in another process, iterated from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl.pipeline._errors import PipelineError, PipelineFailure
from spdl.pipeline._pipeline_ids import PIPELINE_IDS
from spdl.pipeline.defs import MergeConfig, PipelineConfig

from ._random_state import RandomState, capture, restore

if TYPE_CHECKING:
    from spdl.pipeline._pipeline import Pipeline

__all__ = ["PipelineFactory", "is_continuous", "take_along"]

T = TypeVar("T")


# -- in the process where the pipeline runs


@dataclass(frozen=True)
class PipelineFactory(Generic[T]):
    """Makes the pipeline where it is to run. Pickles if the parts do.

    Called once; what it returns is iterated again and again. With an ordinary source each iteration has a pipeline of
    its own, which ends with it. With a continuous one there is a single pipeline, and each iteration is one epoch.
    """

    config: PipelineConfig[T]
    options: dict[str, Any] = field(default_factory=dict)  #: for ``build_pipeline``

    def __call__(self) -> Iterable[T]:
        build = partial(_build, self.config, self.options)
        return _Epochs(build()) if is_continuous(self.config) else _Rebuilt(build)


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

    def __init__(self, build: Callable[[], Pipeline[T]]) -> None:
        self._build = build

    def __iter__(self) -> Iterator[T]:
        pipeline = self._build()
        try:
            with pipeline.auto_stop():
                yield from pipeline
        except PipelineFailure as failure:
            raise _told(failure) from failure


class _Epochs(Generic[T]):
    """One pipeline, and an iteration for each epoch. What is left of an epoch that was given up is dropped."""

    def __init__(self, pipeline: Pipeline[T]) -> None:
        self._pipeline = pipeline
        self._unfinished: Iterator[T] = iter(())
        pipeline.start()  # it works ahead from now on

    def __iter__(self) -> Iterator[T]:
        try:
            for _ in self._unfinished:
                pass
            self._unfinished = iter(self._pipeline)
            yield from self._unfinished
        except PipelineFailure as failure:
            raise _told(failure) from failure


def _told(failure: PipelineFailure) -> PipelineError:
    """The failure with its stages in the text: the text is what crosses to the other process."""
    lines = [f"{failure.message} ({len(failure.exceptions)}):"]
    for error in failure.exceptions:
        notes = getattr(error, "__notes__", ())
        lines.append("; ".join([f"  {type(error).__name__}: {error}", *(note.strip() for note in notes)]))
    return PipelineError("\n".join(lines))


def take_along() -> Callable[[], None]:
    """What a process that runs a pipeline must do first: take on this process's state, as far as pipelines use it."""
    return partial(_settle_in, PIPELINE_IDS.peek(), capture())


def _settle_in(first_pipeline_id: int, random_state: RandomState) -> None:
    PIPELINE_IDS.go_on_from(first_pipeline_id)
    restore(random_state)
