"""A pipeline in a subprocess, on the subprocess's side: the objects that ``iterate_in_subprocess`` calls as ``fn``."""

from __future__ import annotations

import pickle
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from spdl._errors import PipelineError, PipelineFailure
from spdl._reports import cause_of, name_of, notes_of, text_of
from spdl.pipeline._info import PIPELINE_IDS
from spdl.pipeline._options import OPTIONS
from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig

from ._moved_pool import make_thread_pools, release_executors

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from spdl.pipeline._options import BuildOptions
    from spdl.pipeline._pipeline import Pipeline

T = TypeVar("T")


@dataclass(frozen=True)
class PipelineFactory(Generic[T]):
    """Makes the pipeline in the process that runs it. Pickles if the parts pickle.

    Called once; the result is iterated many times. With an ordinary source, each iteration has its own pipeline, which
    ends with the iteration. With a continuous source there is one pipeline, and each iteration is one epoch.
    """

    config: PipelineConfig[T]
    options: BuildOptions = field(default_factory=lambda: BuildOptions())  #: for ``build_pipeline``

    def __call__(self) -> Iterable[T]:
        config = make_thread_pools(self.config)
        if self.options.get("resumable"):
            return ResumableItems(config, self.options)
        return (_Epochs if is_continuous(config) else _Rebuilt)(config, self.options)


class SourceFactory(Generic[T]):
    """Makes an iterable in the process that iterates it, as the source of a resumable pipeline without stages."""

    def __init__(self, fn: Callable[[], Iterable[T]], resumable: Any) -> None:
        self._fn = fn
        self._resumable = OPTIONS["resumable"].check("resumable", resumable)

    def __call__(self) -> Iterable[T]:
        source: SourceConfig[T] = SourceConfig(self._fn())
        config: PipelineConfig[T] = PipelineConfig(src=source, pipes=[], sink=SinkConfig(1))
        return ResumableItems(config, {"num_threads": 1, "resumable": self._resumable})


def is_continuous(config: PipelineConfig[Any]) -> bool:
    """Return whether the sources are continuous. A build raises if only some are."""
    return any(isinstance(each.src, SourceConfig) and each.src.continuous for each in config._walk())


def _build(config: PipelineConfig[T], options: BuildOptions) -> Pipeline[T]:
    from spdl.pipeline._build import build_pipeline  # it may need workers itself, for regions

    return build_pipeline(config, **options)


class _Rebuilt(Generic[T]):
    """Builds a new pipeline for each iteration. Source and ops keep their state, because the description is reused."""

    def __init__(self, config: PipelineConfig[T], options: BuildOptions) -> None:
        self._config = config
        self._options = options
        self._last: Pipeline[T] | None = None

    def __iter__(self) -> Iterator[T]:
        pipeline = _build(self._config, self._options)
        if self._last is not None:
            _continue_epochs(pipeline, self._last)
        self._last = pipeline
        try:
            yield from pipeline
        except PipelineFailure as failure:
            raise _told(failure) from failure
        finally:
            _stop(pipeline)

    def close(self) -> None:
        """Release all resources, when nothing will be iterated again."""
        release_executors(self._config)


class _Epochs(Generic[T]):
    """One pipeline, with one iteration per epoch. If an epoch is left early, its remaining items are dropped."""

    def __init__(self, config: PipelineConfig[T], options: BuildOptions) -> None:
        self._config = config
        self._pipeline = _build(config, options)
        self._unfinished: Iterator[T] = iter(())
        self._pipeline.start()  # it prefetches from now on

    def __iter__(self) -> Iterator[T]:
        try:
            for _ in self._unfinished:
                pass
            self._unfinished = iter(self._pipeline)
            yield from self._unfinished
        except PipelineFailure as failure:
            raise _told(failure) from failure

    def close(self) -> None:
        """Release all resources, when nothing will be iterated again."""
        _stop(self._pipeline)
        release_executors(self._config)


class ResumableItems(Generic[T]):
    """A pipeline for each iteration, or an iteration for each epoch, whose items are consumed when ``commit`` says so.

    ``next`` raises ``TimeoutError`` if there is no item yet, so that the caller can handle commands during the wait.
    """

    #: Marks an object that has ``commit`` and states. A user's iterable may have another ``commit``.
    counts_reads = True
    #: Seconds that ``next`` waits.
    _PATIENCE = 0.02

    def __init__(self, config: PipelineConfig[T], options: BuildOptions) -> None:
        self._config = config
        self._options = options
        self._is_continuous = is_continuous(config)
        self._pipeline = _build(config, options)
        self._has_begun = False
        self._is_at_end = False  # the end of this iteration has been taken
        self._uncommitted: deque[Any] = deque()
        self._num_committed = 0

    def __iter__(self) -> Iterator[T]:
        if self._has_begun and not self._is_continuous:
            _stop(self._pipeline)
            last, self._pipeline = self._pipeline, _build(self._config, self._options)
            _continue_epochs(self._pipeline, last)
            self._uncommitted.clear()
        elif self._has_begun:
            while not self._is_at_end:
                with suppress(TimeoutError, StopIteration):
                    next(self)  # drop the remaining items of an epoch that was left early
            self.commit(self._num_committed + len(self._uncommitted))
        self._has_begun = True
        self._is_at_end = False
        self._num_committed = 0
        return self

    def __next__(self) -> T:
        try:
            value, taken = self._pipeline._take(self._PATIENCE)
        except PipelineFailure as failure:
            raise _told(failure) from failure
        self._uncommitted.append(taken)
        if isinstance(value, EOFError):
            self._is_at_end = True
            raise StopIteration
        return value  # type: ignore[no-any-return]

    def commit(self, num: int) -> None:
        """Count the first ``num`` items of the iteration as read by the user; the end counts as one item."""
        while self._num_committed < num and self._uncommitted:
            self._pipeline._commit(self._uncommitted.popleft())
            self._num_committed += 1

    def state_dict(self) -> dict[str, str]:
        return self._pipeline.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Load a state. Call before the first iteration."""
        self._pipeline.load_state_dict(state)

    def close(self) -> None:
        """Release all resources, when nothing will be iterated again."""
        _stop(self._pipeline)
        release_executors(self._config)


def _continue_epochs(pipeline: Pipeline[Any], before: Pipeline[Any]) -> None:
    from spdl.pipeline._reading import continue_epochs  # it needs the engine

    continue_epochs(pipeline, before)


def _stop(pipeline: Pipeline[Any]) -> None:
    with suppress(PipelineFailure):  # a failure that was not read, and will not be
        pipeline.stop()


def _told(failure: PipelineFailure) -> PipelineError:
    """Return the failure with its stages in the text, because only the text is sent to the other process."""
    lines = [f"{failure.message} ({len(failure.exceptions)}):"]
    for error in failure.exceptions:
        text = text_of(error)
        lines += [f"  {name_of(error)}: {text}", *(f"    {note.strip()}" for note in notes_of(error))]
        # An exceeded limit explains little without the failure that exceeded it.
        if (cause := cause_of(error)) is not None and (why := text_of(cause)) not in text:
            lines += [f"    because of {name_of(cause)}: {why}"]
    return PipelineError("\n".join(lines))


def take_along() -> Callable[[], None]:
    """Return a function for a new process to call first: it sets the state of this process that pipelines depend on."""
    return partial(_settle_in, PIPELINE_IDS.peek(), capture())


def _settle_in(first_pipeline_id: int, random_state: RandomState) -> None:
    PIPELINE_IDS.go_on_from(first_pipeline_id)
    restore(random_state)


#: Result of ``capture``: opaque values that pickle, by the name of their module.
RandomState = dict[str, Any]


def capture() -> RandomState:
    """Return the current state of this process, without changing it."""
    state: RandomState = {"random": random.getstate()}
    for name, (get, _) in _OTHERS.items():
        module = sys.modules.get(name)
        # A module that another thread is still importing has no state that was set by the user.
        if module is not None and not _is_being_imported(module):
            state[name] = get(module)
    return state


def restore(state: RandomState) -> None:
    """Set the state in this process; for modules that are not yet imported, when they are imported."""
    random.setstate(state["random"])
    later: dict[str, Any] = {}
    for name, (_, put) in _OTHERS.items():
        if name not in state:
            continue
        module = sys.modules.get(name)
        if module is None:
            later[name] = state[name]
        else:
            put(module, state[name])
    if later:
        sys.meta_path.insert(0, _OnImport(later))


# As plain bytes: unpickling arrays and tensors would import their modules in the other process.


def _get_numpy(numpy_random: Any) -> bytes:
    return pickle.dumps(numpy_random.get_state(legacy=False), 5)


def _put_numpy(numpy_random: Any, state: bytes) -> None:
    values = pickle.loads(state)
    kind = values["bit_generator"]
    if kind != numpy_random.get_state(legacy=False)["bit_generator"]:
        numpy_random.set_bit_generator(getattr(numpy_random, kind)())
    numpy_random.set_state(values)


def _get_torch(torch: Any) -> bytes:
    return bytes(torch.get_rng_state().tolist())


def _put_torch(torch: Any, state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


_OTHERS: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[Any, bytes], None]]]] = {
    "numpy.random": (_get_numpy, _put_numpy),
    "torch": (_get_torch, _put_torch),
}


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


# The base classes of finders and loaders are in importlib.abc, whose import takes as long as that of the engine.


class _OnImport:
    """An import hook that finds no modules itself. It sets the state of a module at the end of its import."""

    def __init__(self, state: RandomState) -> None:
        self._state = state

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._state:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    restoring: Any = _Restoring(spec.loader, fullname, self._state)
                    spec.loader = restoring
                return spec
        return None


class _Restoring:
    """A loader that calls another loader, and then sets the state of the module."""

    def __init__(self, loader: Any, name: str, state: RandomState) -> None:
        self._loader = loader
        self._name = name
        self._state = state

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # code that looks for the module's data files needs the real loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        state = self._state.pop(self._name, None)
        if state is not None:
            _OTHERS[self._name][1](module, state)
