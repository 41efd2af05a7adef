"""``get_pytorch_dataloader``: datasets, samplers and collate functions written for torch, on threads or processes."""

import logging
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ._torch._arguments import Arguments, Workers, resolve
from ._torch._plan import Plan, Run
from ._torch._warnings import longer_than_told, too_many_workers

if TYPE_CHECKING:
    import torch

    from ._torch.choosing._choosing import Choice

__all__ = ["PyTorchDataLoader", "get_pytorch_dataloader"]

_LOG = logging.getLogger("spdl.dataloader")

T = TypeVar("T")

#: What torch's loader does not let be replaced once it is made.
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

    With ``workers`` given, everything is as with torch's loader: its defaults, its order, its random numbers, its
    checks; an exception of the dataset, the sampler or the collate function is raised to the consumer, with its own
    type. Without, the contract is that of SPDL 0.8: worker processes, batches as they are completed, a batch that fails
    is logged and dropped, iterable datasets and some arguments are not supported.

    Args:
        dataset: Map-style (``dataset[index]``), or torch's ``IterableDataset``.
        batch_size: How many samples make a batch; ``None``: samples are not batched.
        shuffle: Whether indices come in a random order, another in each epoch.
        sampler: What gives the indices, in place of ``shuffle``. It runs in this process, in the consumer's thread.
        batch_sampler: What gives lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler``, ``drop_last``.
        num_workers: How many threads or processes. 0: load in the consumer's thread. ``None``: as many as there are
            CPUs to use; without ``workers``, 1.
        collate_fn: Makes a batch of a list of samples. ``None``: torch's ``default_collate``, or ``default_convert``
            if samples are not batched.
        pin_memory: Whether batches are copied to page-locked memory, if there is an accelerator.
        drop_last: Whether an incomplete last batch is left out.
        timeout: Seconds to wait for a batch; ``None`` or 0: as long as it takes.
        worker_init_fn: Called in each worker process with its number. Not with ``workers="thread"``.
        multiprocessing_context: How worker processes start. Not with ``workers="thread"``.
        generator: Where the order and the workers' seeds are drawn from; ``None``: torch's global generator.
        prefetch_factor: How many batches each worker may be ahead of the consumer; ``None``: 2.
        persistent_workers: Whether worker processes outlive an epoch. Threads cost nothing to start.
        pin_memory_device: Has no effect: batches are pinned for the current accelerator.
        in_order: Whether batches come in the order of the sampler, or as they are completed. ``None``: in order;
            without ``workers``, as they are completed.
        worker_init_concurrency: How many worker processes load the dataset at once; ``None``: all.
        workers: ``"thread"``: threads that share the dataset; nothing is pickled. ``"process"``: processes, each with
            a copy of the dataset, as torch's workers. ``"auto"``: the better of the two by a measurement on the first
            batches, which says in the log and in :attr:`PyTorchDataLoader.choice` what it found.

    Raises:
        ValueError: An argument is out of range or excludes another, or this kind of worker cannot do what it asks for;
            the message says why, and what can.
        TypeError: ``multiprocessing_context`` is no context; or the dataset has no length, and no sampler was given.
    """
    given = Arguments(
        dataset=dataset,
        workers=workers,
        batch_size=batch_size,
        shuffle=shuffle,
        sampler=sampler,
        batch_sampler=batch_sampler,
        num_workers=num_workers,
        collate_fn=collate_fn,
        pin_memory=pin_memory,
        drop_last=drop_last,
        timeout=timeout,
        worker_init_fn=worker_init_fn,
        multiprocessing_context=multiprocessing_context,
        generator=generator,
        prefetch_factor=prefetch_factor,
        persistent_workers=persistent_workers,
        pin_memory_device=pin_memory_device,
        in_order=in_order,
        worker_init_concurrency=worker_init_concurrency,
    )
    loader: PyTorchDataLoader[Any] = PyTorchDataLoader(resolve(given, stacklevel=2))
    if workers == "process":
        _warn_of_workers(loader.num_workers, stacklevel=2)
    return loader


class PyTorchDataLoader(Generic[T]):
    """A loader with the attributes of torch's. Made by :func:`get_pytorch_dataloader`.

    Each ``iter()`` is an epoch of its own, and several may be under way at once. An iterator goes on with the next
    batch after it has raised an exception of the dataset. What an iterator started ends when it is exhausted, closed
    with ``close()``, or collected. The loader pickles if its parts do; workers stay behind.
    """

    dataset: Any
    batch_size: int | None
    sampler: Any
    batch_sampler: Any
    num_workers: int
    collate_fn: Callable[[Any], Any]
    pin_memory: bool
    drop_last: bool
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: BaseContext | None
    generator: Any
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory_device: str
    in_order: bool
    worker_init_concurrency: int | None
    workers: Workers | None

    def __init__(self, arguments: Arguments) -> None:
        assert arguments.num_workers is not None
        assert arguments.collate_fn is not None
        self.dataset = arguments.dataset
        self.batch_size = arguments.batch_size
        self.sampler = arguments.sampler
        self.batch_sampler = arguments.batch_sampler
        self.num_workers = arguments.num_workers
        self.collate_fn = arguments.collate_fn
        self.pin_memory = arguments.pin_memory
        self.drop_last = arguments.drop_last
        self.timeout = arguments.timeout or 0
        self.worker_init_fn = arguments.worker_init_fn
        self.multiprocessing_context = arguments.multiprocessing_context  # type: ignore[assignment]
        self.generator = arguments.generator
        self.prefetch_factor = arguments.prefetch_factor
        self.persistent_workers = arguments.persistent_workers
        self.pin_memory_device = arguments.pin_memory_device or ""
        self.in_order = bool(arguments.in_order)
        self.worker_init_concurrency = arguments.worker_init_concurrency
        self.workers = arguments.workers
        self._is_iterable = arguments.is_iterable
        self._told_length: int | None = None
        self._run: Run | None = None
        self._choice: Choice | None = None
        self._num_epochs = 0  # begun since the choice, before this one
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
        """Begin an epoch of ``workers="auto"`` if it is the first, or one that brings a change."""
        from ._torch.choosing._choosing import begin, change, length_of, reconsider

        this = weakref.ref(self)

        def tell(choice: "Choice", run: Run) -> None:
            loader = this()
            if loader is not None:
                loader._choice = choice
                loader._run = run if plan.persistent else None

        choice = self._choice
        if choice is None:
            return begin(plan, tell)
        self._num_epochs += 1
        if choice.may_change and (num_batches := length_of(plan.indices)) is not None:
            changed = reconsider(choice, self._num_epochs, num_batches)
            if changed is not choice:
                return change(plan, changed, tell)
        return None

    @property
    def choice(self) -> "Choice | None":
        """What ``workers="auto"`` chose, and why; ``None`` before the first ``iter()``, or if there is no choice."""
        return self._choice

    def __len__(self) -> int:
        """How many batches an epoch has, or samples if they are not batched.

        Raises:
            TypeError: The sampler, or the iterable dataset, has no length.
        """
        if not self._is_iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        self._told_length = num_samples = len(self.dataset)
        if self.batch_size is None:
            return num_samples
        return num_samples // self.batch_size if self.drop_last else -(-num_samples // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Tell the sampler, the batch sampler, the sampler in that, and the dataset, if they have ``set_epoch``."""
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
        """The attributes as they are now: most may be replaced between epochs."""
        return Plan(
            dataset=self.dataset,
            is_iterable=self._is_iterable,
            indices=None if self._is_iterable else self.sampler if self.batch_sampler is None else self.batch_sampler,
            is_batched=self.batch_sampler is not None,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            collate_fn=self.collate_fn,
            num_workers=self.num_workers,
            prefetch_factor=2 if self.prefetch_factor is None else self.prefetch_factor,
            in_order=self.in_order,
            timeout=self.timeout,
            worker_init_fn=self.worker_init_fn,
            mp_context=self.multiprocessing_context,
            generator=self.generator,
            persistent=self.persistent_workers,
            pin=self._pin(),
            init_concurrency=self.worker_init_concurrency,
            drop_failures=self.workers is None,
        )

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
    """One pass over the loader: what its ``iter()`` gives."""

    def __init__(self, batches: Iterator[T], loader: PyTorchDataLoader[T]) -> None:
        self._batches: Iterator[T] | None = batches
        self._dataset = loader.dataset
        self._told_length = loader._told_length
        self._num_taken = 0
        workers = loader.workers if loader.workers != "auto" or loader.choice is None else loader.choice.workers
        self._is_in_processes = workers == "process" and loader.num_workers > 0

    def __next__(self) -> T:
        if self._batches is None:
            raise StopIteration
        batch = next(self._batches)
        self._num_taken += 1
        if self._told_length is not None and self._num_taken > self._told_length:
            text = longer_than_told(
                self._dataset, self._told_length, self._num_taken, in_processes=self._is_in_processes
            )
            warnings.warn(text, stacklevel=2)
        return batch

    def close(self) -> None:
        """End the epoch, and the workers that were started for it."""
        batches, self._batches = self._batches, None
        close = getattr(batches, "close", None)
        if callable(close):
            close()

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("an iterator over a loader cannot be pickled; pickle the loader")
