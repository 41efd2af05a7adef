"""The main function of a worker process: load batches one by one, as they are requested.

Its random generators are seeded bit for bit as ``torch.utils.data.DataLoader`` does. A loader draws one base seed when
its workers start; worker ``i`` seeds torch and ``random`` with ``base_seed + i``. NumPy's global generator is a
Mersenne Twister, as is that of ``random``; equal seeds would give both the same state. So NumPy's ``SeedSequence``
derives its seed from the two numbers.

Source: PyTorch's documentation, "Randomness in multi-process data loading"; M. E. O'Neill, "Developing a seed_seq
Alternative", 2015, which ``numpy.random.SeedSequence`` implements. ``tests/dataloader/test_seeding.py`` compares.
"""

from __future__ import annotations

import os
import pickle
import random
import reprlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spdl._processes._calls import Answer, Request, serve_requests
from spdl._processes._remote_failure import RemoteFailure
from spdl._processes._transport._arena import arena_slot
from spdl._processes._transport._pickling import LARGE
from spdl._reports import add_note
from spdl.dataloader._torch._fetching import SamplePolicy, fetch
from spdl.dataloader._torch.resuming._progress import Recorded, StreamStart
from spdl.dataloader._torch.resuming._streams import DatasetStates, Stream

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl._processes._transport._connection import Message
    from spdl._processes._transport._link import Link


class Payload(Protocol):
    """Collate function, worker_init_fn and dataset, as they were sent."""

    def open(self) -> tuple[Any, ...]:
        """The three objects."""


class StartLimit:
    """Limits how many workers load the dataset at the same time: a pipe that holds a byte for each permit.

    A worker that dies here keeps its permit. The others wait, and the loader ends them when it detects the death.
    """

    def __init__(self, reader: Connection[bytes, bytes], writer: Connection[bytes, bytes]) -> None:
        self._reader = reader
        self._writer = writer

    def admit(self, count: int) -> None:
        """Add ``count`` permits."""
        os.write(self._writer.fileno(), b"1" * count)

    def __enter__(self) -> None:
        os.read(self._reader.fileno(), 1)

    def __exit__(self, *_: object) -> None:
        self.admit(1)
        self.close()

    def close(self) -> None:
        """Close both ends in this process. Idempotent."""
        self._reader.close()
        self._writer.close()


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The parameters of one worker besides the payload."""

    worker_id: int
    num_workers: int
    base_seed: int
    is_iterable: bool
    is_batched: bool
    batch_size: int | None  # of iterable datasets
    drop_last: bool  # of iterable datasets
    start: StreamStart  # where the first epoch begins
    sample_policy: SamplePolicy | None  # of a map-style dataset
    is_kept: bool  # whether the worker loads all epochs
    snapshot_every: int  # number of batches after which the dataset's state is sent, if it has one


def serve(link: Link, payload: Payload, spec: WorkerSpec, start_limit: StartLimit | None) -> None:
    """Load the requested batches until the loader closes the connection or dies."""
    import torch

    # Requests are read even while answers wait to be written: the loader does not read answers while it is sending a
    # request. Its `prefetch_factor` limits the number of waiting answers.
    link.write_in_background(max_bytes_pending=None)
    if start_limit is None:
        objects = _open(payload)
    else:
        with start_limit:
            objects = _open(payload)
    link.send(Answer.READY)
    collate_fn, worker_init_fn, dataset = objects
    collate_in_place()
    torch.set_num_threads(1)
    seed = seed_worker(spec.base_seed, spec.worker_id)
    _set_worker_info(id=spec.worker_id, num_workers=spec.num_workers, seed=seed, dataset=dataset)
    worker = _Worker(link, spec, dataset, collate_fn)
    worker.prepare(worker_init_fn)
    del payload, objects, dataset
    serve_requests(link, {Request.CALL: worker.fetch, Request.START: worker.resume})


def _open(payload: Payload) -> tuple[Any, ...]:
    try:
        return payload.open()
    except Exception as exc:
        raise RuntimeError(f"the dataset cannot be unpickled there: {exc} ({type(exc).__name__})") from exc


def _set_worker_info(**fields: Any) -> None:
    """Set the result of ``torch.utils.data.get_worker_info``. There is no public way to do it."""
    from torch.utils.data._utils import worker

    worker._worker_info = worker.WorkerInfo(**fields)


class _Exhausted(Exception):
    """The iterator of an iterable dataset has ended."""


class _Worker:
    def __init__(self, link: Link, spec: WorkerSpec, dataset: Any, collate_fn: Callable[[Any], Any]) -> None:
        self._link = link
        self._spec = spec
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._stream: Stream | None = None  # of an iterable dataset
        self._states: DatasetStates | None = None  # of a map-style dataset
        self._start = spec.start  # of the next epoch
        self._is_exhausted = False  # the iterable dataset is exhausted
        self._setup_error: Exception | None = None  # error of worker_init_fn or iter(dataset), raised for each batch

    def prepare(self, worker_init_fn: Callable[[int], object] | None) -> None:
        """Call ``worker_init_fn`` and begin the epoch. An error here is sent in place of every batch."""
        try:
            if worker_init_fn is not None:
                worker_init_fn(self._spec.worker_id)
        except Exception as exc:  # noqa: BLE001 - the user's
            self._setup_error = exc
        else:
            self._resume()

    def _resume(self) -> None:
        if self._setup_error is not None:
            return
        spec = self._spec
        start, self._start = self._start, StreamStart()
        self._is_exhausted = False
        if self._stream is not None:
            with suppress(Exception):
                self._stream.close()
        self._stream = None  # release the old iterator before the new one is made
        try:
            if spec.is_iterable:
                self._stream = Stream(
                    self._dataset, spec.batch_size, spec.drop_last, start, spec.snapshot_every, place="process"
                )
            else:
                self._states = DatasetStates(self._dataset, start, place="process")
        except Exception as exc:  # noqa: BLE001 - the user's
            self._setup_error = exc

    def resume(self, frame: Message) -> None:
        """Begin another epoch."""
        self._resume()

    def fetch(self, frame: Message) -> None:
        """Load a batch and send it, or the error. Raises ``OSError`` if the loader is gone."""
        if self._is_exhausted:
            frame.discard()
            return
        link, number = self._link, frame.number
        indices: Any = None
        recorded: Recorded | None = None
        try:
            if self._setup_error is not None:
                raise self._setup_error
            if self._stream is not None:
                samples, recorded = self._take(self._stream)
                batch = self._collate_fn(samples)
            else:
                indices = frame.load()
                try:
                    batch = fetch(
                        self._dataset, indices, self._spec.is_batched, self._collate_fn, self._spec.sample_policy
                    )
                finally:
                    if self._states:
                        recorded = self._states.after_batch()
            kind, encoded = Answer.RESULT, link.encode(batch)
        except _Exhausted:
            self._is_exhausted = True
            kind, encoded = Answer.END, link.encode(self._end())
        except Exception as exc:  # noqa: BLE001 - of user code
            kind, encoded = Answer.RAISED, link.encode(RemoteException.of(exc, self._where(indices)))
        if recorded is not None:
            self._send_state(number, recorded)
        link.send_soon(kind, number, encoded, urgent=True)

    def _send_state(self, number: int, recorded: Recorded) -> None:
        self._link.send_soon(Answer.STATE, number, self._link.encode(recorded), urgent=True)

    def _take(self, stream: Stream) -> tuple[Any, Recorded | None]:
        try:
            return stream.take()
        except StopIteration:  # not one raised by collate_fn
            raise _Exhausted from None

    def _end(self) -> Recorded | None:
        """The state of the dataset after its pass, if there will be another."""
        return self._stream.end if self._stream is not None and self._spec.is_kept else None

    def _where(self, indices: Any) -> str:
        what = "an iterable dataset" if self._spec.is_iterable else f"indices {reprlib.repr(indices)}"
        return f"DataLoader worker {self._spec.worker_id} (process {os.getpid()}), loading {what}"


def numpy_seed(base_seed: int, worker_id: int) -> Any:
    """Four numbers for ``numpy.random.seed``."""
    from numpy.random import SeedSequence

    return SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)


def seed_worker(base_seed: int, worker_id: int) -> int:
    """Seed the global generators of torch, ``random`` and NumPy in this process; returns torch's seed."""
    import numpy as np
    import torch

    seed = base_seed + worker_id
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(numpy_seed(base_seed, worker_id))
    return seed


def collate_in_place() -> None:
    """Make ``default_collate`` stack tensors in this worker's arena, as long as it has room.

    torch's own stacks the tensors of a batch in a file in ``/dev/shm``, for torch's own transport. SPDL's transport
    would then need one more copy, and ``/dev/shm`` often has only 64 MiB in containers.

    A collate function that the user has registered for tensors is kept.
    """
    import torch
    from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

    if default_collate_fn_map.get(torch.Tensor) is collate_tensor_fn:
        default_collate_fn_map[torch.Tensor] = _stack


def _stack(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stack tensors along a new first dimension. Results and errors are those of torch."""
    import torch
    from torch.utils.data._utils.collate import collate_tensor_fn

    first = batch[0]
    if not all(_is_plain(each, first, torch) for each in batch):
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    num_bytes = len(batch) * first.nbytes
    if num_bytes < LARGE:
        return torch.stack(batch, 0)
    out = torch.frombuffer(arena_slot(num_bytes), dtype=first.dtype).view(len(batch), *first.shape)
    return torch.stack(batch, 0, out=out)


def _is_plain(tensor: Any, first: Any, torch: Any) -> bool:
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_nested or tensor.is_quantized)
        and tensor.dtype is first.dtype
        and tensor.shape == first.shape  # last, because it raises for nested tensors
    )


class RemoteException(NamedTuple):
    """An exception as it is sent to the consumer, with its own type if it can be pickled."""

    pickled: bytes | None  #: pickled exception; ``None`` if it cannot be pickled, or unpickles as another type
    failure: RemoteFailure  #: the exception as text
    where: str  #: worker and indices, as text

    @classmethod
    def of(cls, exc: BaseException, where: str) -> RemoteException:
        """Convert an exception. Never raises."""
        return cls(_dump(exc), RemoteFailure.of(exc), where)

    def revive(self) -> BaseException:
        """The exception to raise here: of its own type, or a ``WorkerError`` that names type and text.

        A ``StopIteration`` would end the consumer's loop as if the epoch were complete. It becomes the cause of a
        ``RuntimeError``, as in generators (PEP 479).
        """
        exc = _load(self.pickled)
        if exc is None:
            error: BaseException = self.failure.as_error(self.where)
        elif isinstance(exc, StopIteration):
            error = RuntimeError(f"{self.where} raised StopIteration")
            error.__cause__ = exc
            _add_notes(error, self)
        else:
            error = exc
            _add_notes(error, self)
        return error


def _add_notes(exc: BaseException, remote: RemoteException) -> None:
    add_note(exc, f"{remote.where}. Traceback there:\n{remote.failure.traceback.rstrip()}")


def _dump(exc: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(exc)
        # Many exceptions cannot be unpickled, because the arguments of their __init__ differ from ``args``.
        return data if type(pickle.loads(data)) is type(exc) else None
    except BaseException:  # noqa: BLE001 - the exception's methods are user code, and may raise SystemExit
        return None


def _load(data: bytes | None) -> BaseException | None:
    if data is None:
        return None
    try:
        exc = pickle.loads(data)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - its module may not exist here, or its methods raise SystemExit
        return None
    return exc if isinstance(exc, BaseException) else None
