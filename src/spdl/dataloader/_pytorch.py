"""``get_pytorch_dataloader``: datasets, samplers and collate functions written for torch, on threads or processes."""

import logging
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ._torch._arguments import Arguments, ResolvedArguments, Workers, is_iterable, resolve
from ._torch._plan import Plan, Run
from ._torch._warnings import longer_than_reported, too_many_workers

if TYPE_CHECKING:
    import torch

    from ._torch.choosing._choosing import Choice

    _Attributes = ResolvedArguments
else:
    # The loader has their attributes without being a dataclass: trainers take those apart.
    _Attributes = object

__all__ = ["PyTorchDataLoader", "get_pytorch_dataloader"]

_LOG = logging.getLogger("spdl.dataloader")

T = TypeVar("T")

#: Attributes that cannot be replaced once the loader is made, as in torch's loader.
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
    workers: Workers | None = None,
) -> "PyTorchDataLoader[Any]":
    """Make a loader with the arguments of ``torch.utils.data.DataLoader``.

    .. code-block:: python

        loader = get_pytorch_dataloader(dataset, 32, shuffle=True, num_workers=8, workers="thread")
        for images, labels in loader:
            ...

    With ``workers`` given, everything is as with torch's loader: defaults, order, random numbers and checks; an
    exception in the dataset, the sampler or the collate function is raised in the consumer, with its own type. Without
    ``workers``, the contract is that of SPDL 0.8: worker processes, completion order, a batch that fails is logged and
    dropped, iterable datasets and some arguments are not supported.

    Args:
        dataset: Map-style dataset (``dataset[index]``), or torch's ``IterableDataset``.
        batch_size: Number of samples in a batch; ``None``: samples are not batched.
        shuffle: Whether indices come in a random order, a new one in each epoch.
        sampler: Iterable of indices, used instead of ``shuffle``. It runs in this process, in the consumer's thread.
        batch_sampler: Iterable of lists of indices, used instead of ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``.
        num_workers: Number of threads or processes; 0: load in the consumer's thread; ``None``: the number of usable
            CPUs, or 1 without ``workers``.
        collate_fn: Function that makes a batch from a list of samples; ``None``: torch's ``default_collate``, or
            ``default_convert`` if samples are not batched.
        pin_memory: Whether batches are copied to page-locked memory, if there is an accelerator.
        drop_last: Whether an incomplete last batch is dropped.
        timeout: Seconds to wait for a batch; ``None`` or 0: no limit.
        worker_init_fn: Function called in each worker process with its number. Not with ``workers="thread"``.
        multiprocessing_context: Start method of the worker processes, or its context. Not with ``workers="thread"``.
        generator: Generator from which the order and the workers' seeds are drawn; ``None``: torch's global generator.
        prefetch_factor: Number of batches that each worker may prefetch; ``None``: 2.
        persistent_workers: Whether worker processes are kept between epochs. No effect on threads.
        pin_memory_device: No effect: batches are pinned for the current accelerator.
        in_order: Whether batches come in the order of the sampler or in completion order; ``None``: in order, or in
            completion order without ``workers``.
        worker_init_concurrency: Maximum number of worker processes that load the dataset at once; ``None``: all.
        workers: Kind of workers. ``"thread"``: threads that share the dataset; nothing is pickled. ``"process"``:
            processes, each with a copy of the dataset, as torch's workers. ``"auto"``: the faster of the two, measured
            on the first batches; the result is logged and kept in :attr:`PyTorchDataLoader.choice`.

    Raises:
        ValueError: An argument is out of range, excludes another, or is not supported by this kind of worker; the
            message says why, and which kind supports it.
        TypeError: ``multiprocessing_context`` is neither a context nor the name of one; or the dataset has no length
            and no sampler was given.
    """
    given = Arguments(**locals())  # before there is any other local variable
    loader: PyTorchDataLoader[Any] = PyTorchDataLoader(resolve(given, stacklevel=2))
    if workers == "process":
        _warn_of_workers(loader.num_workers, stacklevel=2)
    return loader


class PyTorchDataLoader(Generic[T], _Attributes):
    """A loader with the attributes of torch's. Made by :func:`get_pytorch_dataloader`.

    Each ``iter()`` begins a new epoch, and several may run at once. After it has raised an exception of the dataset, an
    iterator continues with the next batch. The threads or processes of an iterator end when it is exhausted, closed
    with ``close()``, or collected. The loader can be pickled if its dataset, samplers and functions can, without the
    workers.
    """

    def __init__(self, arguments: ResolvedArguments) -> None:
        vars(self).update(vars(arguments))
        del self.shuffle  # torch's loader has no such attribute: the sampler tells
        self._is_iterable = is_iterable(arguments.dataset)
        self._reported_length: int | None = None
        self._run: Run | None = None
        self._choice: Choice | None = None
        self._num_epochs = 0  # number of epochs begun since the choice, before the current one
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_is_made"):
            raise ValueError(f"{name} cannot be replaced once the loader is made: make another loader")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[T]:
        if self._run is not None:
            return _Epoch(self._run.iterate(), self)
        workers = self.workers
        if workers == "process":
            _warn_of_workers(self.num_workers, stacklevel=2)
        plan = self._plan()
        if workers == "auto" and plan.num_workers > 0:
            chosen = self._choose(plan)
            if chosen is not None:
                epoch = _Epoch(chosen, self)
                if self._choice is not None and self._choice.workers == "process":
                    try:
                        _warn_of_workers(self.num_workers, stacklevel=2)
                    except BaseException:  # warnings are errors
                        epoch.close()
                        raise
                return epoch
            assert self._choice is not None
            workers = self._choice.workers
            if workers == "process":
                _warn_of_workers(self.num_workers, stacklevel=2)
        run = _make_run(workers, plan)
        if self.persistent_workers:
            self._run = run
        return _Epoch(run.iterate(), self)

    def _choose(self, plan: Plan) -> Iterator[T] | None:
        """Begin an epoch of ``workers="auto"`` if it is the first, or if the choice changes; else return ``None``."""
        from ._torch.choosing._choosing import begin, change, length_of, reconsider

        this = weakref.ref(self)

        def keep(choice: "Choice", run: Run) -> None:
            loader = this()
            if loader is not None:
                loader._choice = choice
                loader._run = run if plan.persistent_workers else None

        choice = self._choice
        if choice is None:
            return begin(plan, keep)
        self._num_epochs += 1
        if choice.may_change and (num_batches := length_of(plan.indices)) is not None:
            changed = reconsider(choice, self._num_epochs, num_batches)
            if changed is not choice:
                return change(plan, changed, keep)
        return None

    @property
    def choice(self) -> "Choice | None":
        """The choice of ``workers="auto"``, and why; ``None`` before the first ``iter()`` and for other workers."""
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
        """Call ``set_epoch`` on the sampler, the batch sampler, its sampler and the dataset, where they have it."""
        told: list[Any] = []
        for part in (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None), self.dataset):
            tell = getattr(part, "set_epoch", None)
            if callable(tell) and not any(part is one for one in told):
                told.append(part)
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
        return {**self.__dict__, "_run": None}

    def _plan(self) -> Plan:
        """A plan from the current attributes: most of them may be replaced between epochs."""
        values: dict[str, Any] = {each.name: getattr(self, each.name, None) for each in fields(ResolvedArguments)}
        values["prefetch_factor"] = 2 if self.prefetch_factor is None else self.prefetch_factor
        indices = None if self._is_iterable else self.sampler if self.batch_sampler is None else self.batch_sampler
        return Plan(**values, is_iterable=self._is_iterable, indices=indices, pin=self._pin())

    def _pin(self) -> Callable[[Any], Any] | None:
        if not self.pin_memory:
            return None
        from ._torch._pinning import find_pin

        return find_pin(self.pin_memory_device, complain=_LOG.warning if self.workers is None else _warn)


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=6)


def _warn_of_workers(num_workers: int, *, stacklevel: int) -> None:
    text = too_many_workers(num_workers) if num_workers > 0 else None
    if text is not None:
        warnings.warn(text, stacklevel=stacklevel + 1)


def _make_run(workers: Workers | None, plan: Plan) -> Run:
    if plan.num_workers == 0:
        from ._torch._inline import InlineRun

        return InlineRun(plan)
    if workers == "thread":
        from ._torch.threads._threads import ThreadRun

        return ThreadRun(plan)
    from ._torch.processes._processes import ProcessRun

    return ProcessRun(plan)


class _Epoch(Iterator[T]):
    """One pass over the loader: the result of ``iter(loader)``."""

    def __init__(self, batches: Iterator[T], loader: PyTorchDataLoader[T]) -> None:
        self._batches: Iterator[T] | None = batches
        self._dataset = loader.dataset
        self._reported_length = loader._reported_length
        self._num_taken = 0
        workers = loader.workers if loader.workers != "auto" or loader.choice is None else loader.choice.workers
        self._is_in_processes = workers == "process" and loader.num_workers > 0

    def __next__(self) -> T:
        if self._batches is None:
            raise StopIteration
        batch = next(self._batches)
        self._num_taken += 1
        if self._reported_length is not None and self._num_taken > self._reported_length:
            text = longer_than_reported(
                self._dataset, self._reported_length, self._num_taken, in_processes=self._is_in_processes
            )
            warnings.warn(text, stacklevel=2)
        return batch

    def close(self) -> None:
        """End the epoch and the workers that were started for it."""
        batches, self._batches = self._batches, None
        close = getattr(batches, "close", None)
        if callable(close):
            close()

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("an iterator over a loader cannot be pickled; pickle the loader")
