"""The arguments of ``get_pytorch_dataloader``: as given, resolved by the rules of torch or of SPDL 0.8, and as a plan.

``Arguments`` is the only list of them beside the function. Imports torch only to resolve them.
"""

import logging
import multiprocessing
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Literal, Protocol

from spdl._cpus import usable_cpus
from spdl._numbers import as_int, as_timeout, check_callable

from ._fetching import SamplePolicy
from .resuming._progress import Progress

if TYPE_CHECKING:
    from spdl.pipeline.defs import MaxFailures, Retry

    from .resuming._indices import Indices

_LOG = logging.getLogger("spdl.dataloader")

Workers = Literal["thread", "process", "auto"]
OnError = Literal["raise", "replace"]


class PrefetchError(ValueError, AssertionError):
    """``prefetch_factor`` is below 1, so no batch could be loaded. torch raises an ``AssertionError`` on iteration."""


@dataclass(kw_only=True)
class Arguments:
    """The arguments of ``get_pytorch_dataloader`` as given; ``None`` may stand for a default."""

    dataset: Any
    batch_size: int | None
    shuffle: bool | None
    sampler: Iterable[Any] | None
    batch_sampler: Iterable[Any] | None
    num_workers: int | None
    collate_fn: Callable[[Any], Any] | None
    pin_memory: bool
    drop_last: bool
    timeout: float | None
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: str | BaseContext | None
    generator: Any
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory_device: str | None
    in_order: bool | None
    worker_init_concurrency: int | None
    snapshot_every_n_steps: int
    stall_timeout: float | None
    stall_action: Literal["log", "raise"]
    workers: Workers | None
    max_failures: "MaxFailures | None"
    retry: "int | Retry | None"
    call_timeout: float | None
    on_error: OnError


@dataclass(kw_only=True)
class ResolvedArguments(Arguments):
    """The arguments with all defaults filled in. Only fields with a narrower type are listed."""

    sampler: Any
    batch_sampler: Any
    num_workers: int
    collate_fn: Callable[[Any], Any]
    timeout: float
    multiprocessing_context: BaseContext | None
    pin_memory_device: str
    in_order: bool
    retry: "Retry | None"


class InfiniteSampler:
    """``loader.sampler`` of a loader over an iterable dataset, as in torch."""

    def __iter__(self) -> Any:
        while True:
            yield None


def resolve(given: Arguments, *, stacklevel: int) -> ResolvedArguments:
    """Check the arguments and fill in the defaults.

    Args:
        given: The arguments as the user passed them.
        stacklevel: Number of frames from the caller of this function to the user's call.

    Raises:
        ValueError: An argument is out of range, is not supported by this kind of worker, or excludes another. If there
            are several errors, the one reported is the one that torch's loader reports.
        TypeError: ``multiprocessing_context`` is neither a context nor the name of one, or torch's samplers raise it.
    """
    every = as_int("snapshot_every_n_steps", given.snapshot_every_n_steps, 0)
    given = _check_failures(given)
    check_callable("collate_fn", given.collate_fn)
    given = replace(given, call_timeout=_call_timeout(given), snapshot_every_n_steps=every)
    if (given.stall_timeout, given.stall_action) != (None, "log"):
        from spdl.pipeline._options import checked  # late: few loaders need it

        checked("get_pytorch_dataloader", {"stall_timeout": given.stall_timeout, "stall_action": given.stall_action})
    if given.stall_timeout is not None and given.workers not in ("thread", "auto"):
        raise ValueError("stall_timeout is for threads: pass workers='thread', or use timeout with worker processes")
    if given.workers is None:
        return _with_defaults_of_torch(_by_rules_of_spdl(given, stacklevel + 1))
    if given.workers not in ("thread", "process", "auto"):
        raise ValueError(f"workers must be 'thread', 'process', 'auto' or None, got {given.workers!r}")
    return _with_defaults_of_torch(_by_rules_of_torch(given))


def _check_failures(given: Arguments) -> Arguments:
    if given.max_failures is not None:
        from spdl.pipeline.defs import validate_max_failures  # late: few loaders need it

        given = replace(given, max_failures=validate_max_failures(given.max_failures))
    _check_on_error(given)
    if given.retry is None:
        return given
    from spdl.pipeline.defs import as_retry

    retry = as_retry(given.retry)
    if is_iterable(given.dataset):
        raise ValueError(
            "retry needs a map-style dataset: an IterableDataset that has raised cannot be asked for the same sample "
            "again; try again inside it"
        )
    if retry is not None and retry.timeout_per_attempt is not None:
        raise ValueError(
            "timeout_per_attempt of retry is not supported by this loader: call_timeout limits all attempts"
        )
    return replace(given, retry=retry)


def _check_on_error(given: Arguments) -> None:
    if given.on_error not in ("raise", "replace"):
        raise ValueError(f"on_error must be 'raise' or 'replace', got {given.on_error!r}")
    if given.on_error == "raise":
        return
    if is_iterable(given.dataset):
        raise ValueError(
            "on_error='replace' needs a map-style dataset: the samples of an IterableDataset cannot be chosen; replace "
            "failed samples inside it"
        )
    if not callable(getattr(given.dataset, "__len__", None)):
        raise ValueError(
            "on_error='replace' chooses another sample by its index, and the dataset has no len(): give it __len__"
        )


def _call_timeout(given: Arguments) -> float | None:
    limit = as_timeout("call_timeout", given.call_timeout, positive=True)
    if limit is None:
        return None
    if given.workers != "thread" or given.num_workers == 0:
        raise ValueError(
            "call_timeout needs threads, because a stuck thread can be abandoned: pass workers='thread' and "
            "num_workers above 0. With other workers, timeout limits the time until a batch"
        )
    if is_iterable(given.dataset):
        raise ValueError(
            "call_timeout needs a map-style dataset: the samples of an IterableDataset come from one iterator, and "
            "while its next() does not return there are no others; limit the time inside it"
        )
    return limit


def _by_rules_of_spdl(given: Arguments, stacklevel: int) -> Arguments:
    hint = "pass workers='process', which takes it"
    if is_iterable(given.dataset):
        raise ValueError(f"an IterableDataset is not supported: {hint}, or workers='thread'")
    if given.worker_init_fn is not None:
        raise ValueError(f"worker_init_fn is not supported: {hint}")
    if given.pin_memory_device is not None:
        raise ValueError(f"pin_memory_device is not supported: {hint}")
    if given.persistent_workers:
        raise ValueError(f"persistent_workers is not supported: {hint}")
    timeout = as_timeout("timeout", given.timeout) or 0
    num_workers = 1 if given.num_workers is None else as_int("num_workers", given.num_workers, 0)
    _check_init_concurrency(given)
    prefetch_factor = _as_prefetch_factor(given.prefetch_factor)
    if given.sampler is not None and given.batch_sampler is not None:
        raise ValueError("sampler and batch_sampler exclude each other: pass one of them")
    if given.batch_size is not None and given.batch_sampler is not None:
        raise ValueError(
            f"batch_size and batch_sampler exclude each other: pass batch_size=None, got {given.batch_size}; with "
            "workers='process' the default may stay"
        )
    if given.shuffle and (given.sampler is not None or given.batch_sampler is not None):
        raise ValueError("shuffle excludes sampler and batch_sampler: they decide the order")
    if given.drop_last and given.batch_sampler is not None:
        raise ValueError("drop_last excludes batch_sampler, which makes the batches")
    if given.drop_last and given.batch_size is None:
        raise ValueError("drop_last needs batches: batch_size is None")
    if num_workers == 0:
        warnings.warn(
            "num_workers=0: loading with 1 worker process; pass workers='process' as well to load in this thread",
            stacklevel=stacklevel + 1,
        )
        num_workers = 1
    return replace(
        given,
        num_workers=num_workers,
        timeout=timeout,
        prefetch_factor=prefetch_factor,
        in_order=bool(given.in_order),
        multiprocessing_context=_context(given, num_workers),
    )


def _by_rules_of_torch(given: Arguments) -> Arguments:
    if given.workers == "thread":
        _refuse_what_threads_cannot(given)
    num_workers = usable_cpus() if given.num_workers is None else as_int("num_workers", given.num_workers, 0)
    timeout = as_timeout("timeout", given.timeout) or 0
    prefetch_factor = given.prefetch_factor
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(f"prefetch_factor needs num_workers > 0: nothing is loaded ahead, got {prefetch_factor}")
    if num_workers > 0:
        prefetch_factor = _as_prefetch_factor(prefetch_factor)
    if given.persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers needs num_workers > 0")
    _check_init_concurrency(given)
    if is_iterable(given.dataset):
        _check_iterable(given)
    if given.sampler is not None and given.shuffle:
        raise ValueError("sampler and shuffle exclude each other: the sampler decides the order")
    batch_size = given.batch_size
    if given.batch_sampler is not None:
        if batch_size != 1 or given.shuffle or given.sampler is not None or given.drop_last:
            raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last: it makes the batches")
        batch_size = None
    elif batch_size is None and given.drop_last:
        raise ValueError("drop_last needs batches: batch_size is None")
    return replace(
        given,
        batch_size=batch_size,
        num_workers=num_workers,
        timeout=timeout,
        prefetch_factor=prefetch_factor,
        in_order=given.in_order is None or bool(given.in_order),
        multiprocessing_context=_context(given, num_workers),
    )


def _as_prefetch_factor(value: Any) -> int:
    number = 2 if value is None else as_int("prefetch_factor", value)
    if number < 1:
        raise PrefetchError(f"prefetch_factor must be >= 1, got {number}")
    return number


def _refuse_what_threads_cannot(given: Arguments) -> None:
    hint = "pass workers='process' or 'auto'"
    if given.worker_init_fn is not None:
        raise ValueError(
            "worker_init_fn needs worker processes: threads share one dataset and one set of random generators, so "
            f"there is no state per worker to set up; {hint}"
        )
    if given.multiprocessing_context is not None:
        raise ValueError(f"multiprocessing_context needs worker processes, and threads start none; {hint}")


def _check_init_concurrency(given: Arguments) -> None:
    if given.worker_init_concurrency is not None:
        as_int("worker_init_concurrency", given.worker_init_concurrency, 1)


def _check_iterable(given: Arguments) -> None:
    from torch.utils.data import IterDataPipe

    if isinstance(given.dataset, IterDataPipe):
        raise ValueError("an IterDataPipe takes its seeds and its shard from torch's own DataLoader; iterate with that")
    for name in ("shuffle", "sampler", "batch_sampler"):
        value = getattr(given, name)
        if value is not None and value is not False:
            raise ValueError(f"an IterableDataset determines its own order: {name} must not be given, got {value!r}")


def _context(given: Arguments, num_workers: int) -> BaseContext | None:
    """The context for the start method, as in the attribute of torch's loader."""
    context = given.multiprocessing_context
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError("multiprocessing_context needs num_workers > 0")
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(f"multiprocessing_context must be one of {methods} or a context, got {context!r}")
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(f"multiprocessing_context must be a context or the name of one, got {context!r}")
    return context


def is_iterable(dataset: Any) -> bool:
    """Whether the dataset is an ``IterableDataset`` of torch rather than map-style."""
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset)


def _with_defaults_of_torch(given: Arguments) -> ResolvedArguments:
    """The arguments with torch's samplers and collate functions as defaults."""
    from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, default_collate, default_convert

    sampler: Any = given.sampler
    if sampler is None and (given.workers is not None or given.batch_sampler is None):
        if is_iterable(given.dataset):
            sampler = InfiniteSampler()
        elif given.shuffle:
            sampler = RandomSampler(given.dataset, generator=given.generator)
        else:
            sampler = SequentialSampler(given.dataset)
    batch_sampler = given.batch_sampler
    if batch_sampler is None and given.batch_size is not None:
        batch_sampler = BatchSampler(sampler, given.batch_size, given.drop_last)
        # Hugging Face's Trainer resumes with its own loader over this object, and sets the epoch on nothing else.
        if callable(set_epoch := getattr(sampler, "set_epoch", None)):
            vars(batch_sampler)["set_epoch"] = set_epoch
    collate_fn = given.collate_fn
    if collate_fn is None:
        collate_fn = default_convert if batch_sampler is None else default_collate
    values = {
        **vars(given),
        "sampler": sampler,
        "batch_sampler": batch_sampler,
        "collate_fn": collate_fn,
        "pin_memory_device": given.pin_memory_device or "",
    }
    return ResolvedArguments(**values)


@dataclass(kw_only=True)
class Plan(ResolvedArguments):
    """Everything that an epoch of a loader needs: the resolved arguments, and what was made of them.

    Treated as immutable, ``dataclasses.replace`` makes a changed copy. It is not frozen, because the attributes of
    loaders, which have the same types, may be replaced.

    Attributes:
        prefetch_factor: Number of batches that each worker may prefetch.
        is_iterable: Whether the dataset is iterable (``iter(dataset)``) or map-style (``dataset[index]``).
        indices: The batch sampler, or the sampler if samples are not batched; ``None`` for iterable datasets.
        pin: Function that puts a batch in page-locked memory; called in this process. ``None``: not requested, or not
            possible.
        failures_seen: How often batches and samples have failed, by kind, for the log: shared by all epochs of the
            loader.
    """

    prefetch_factor: int
    is_iterable: bool
    indices: Iterable[Any] | None
    pin: Callable[[Any], Any] | None
    failures_seen: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, loader: ResolvedArguments, indices: Iterable[Any] | None, failures_seen: Counter[str]) -> "Plan":
        """Make a plan from the attributes of a loader; most of them may be replaced between epochs."""
        values: dict[str, Any] = {each.name: getattr(loader, each.name, None) for each in fields(ResolvedArguments)}
        values["prefetch_factor"] = 2 if loader.prefetch_factor is None else loader.prefetch_factor
        return cls(
            **values, is_iterable=indices is None, indices=indices, pin=_pin_of(loader), failures_seen=failures_seen
        )

    @property
    def is_batched(self) -> bool:
        """Whether ``collate_fn`` gets lists of samples, or one sample at a time."""
        return self.batch_sampler is not None

    @property
    def sample_policy(self) -> SamplePolicy | None:
        """Policy for samples that fail; ``None``: none."""
        replaces = self.on_error == "replace"
        return SamplePolicy(self.retry, replaces, self.failures_seen) if replaces or self.retry is not None else None

    @property
    def drops_failures(self) -> bool:
        """Whether a batch that fails is logged and dropped, as in SPDL 0.8; otherwise its exception is raised.

        With ``max_failures`` it is also raised, and the loader decides.
        """
        return self.workers is None and self.max_failures is None


def indices_of(loader: ResolvedArguments, is_iterable: bool) -> "Indices | None":
    """Return the batch sampler of a loader, or its sampler if samples are not batched; ``None``: it is iterable."""
    from .resuming._indices import Indices, is_plain

    if is_iterable:
        return None
    sampler = loader.batch_sampler
    if sampler is None:
        return Indices(loader.sampler, None)
    return Indices(sampler, (sampler.batch_size, sampler.drop_last) if is_plain(sampler) else None)


def _pin_of(loader: ResolvedArguments) -> Callable[[Any], Any] | None:
    if not loader.pin_memory:
        return None
    from ._pinning import find_pin
    from ._warnings import warn_of_pinning

    return find_pin(loader.pin_memory_device, complain=_LOG.warning if loader.workers is None else warn_of_pinning)


class Run(Protocol):
    """Executes one plan. The loader keeps it as long as its workers are needed."""

    def iterate(self, progress: Progress | None = None) -> Iterator[Any]:
        """Begin an epoch, in the consumer's thread.

        Args:
            progress: Where the epoch begins; updated during the epoch. ``None``: at the beginning.

        Random numbers are drawn here in torch's order: first the base seed, then those that the sampler needs for the
        first index batches. The iterator continues after an exception of the dataset, as torch's does. It ends when it
        raises ``StopIteration``, when its ``close()`` is called, if it has one, or when it is collected.
        """

    def close(self) -> None:
        """Stop all workers and wait for them. Idempotent."""
