"""What runs in a worker process: batches are loaded one after the other, as they are asked for."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ._collating import collate_in_place
from ._fetching import IterableFetcher, fetch
from ._messages import FromWorker, ToWorker
from ._remote import RemoteException
from ._seeding import seed_worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl._processes._transport import Frame, Link

__all__ = ["Duty", "Luggage", "Turnstile", "serve"]


class Luggage(Protocol):
    """Collate function, worker_init_fn and dataset, as they came."""

    def open(self) -> tuple[Any, ...]:
        """All three."""


class Turnstile:
    """Lets so many workers load the dataset at a time: a pipe that holds a byte for each who may.

    What dies inside takes its byte along; the others wait, and are ended by the loader, who sees the death.
    """

    def __init__(self, reader: Connection[bytes, bytes], writer: Connection[bytes, bytes]) -> None:
        self._reader = reader
        self._writer = writer

    def admit(self, count: int) -> None:
        """Let so many more in."""
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
class Duty:
    """What one worker is and does."""

    worker_id: int
    num_workers: int
    base_seed: int
    is_iterable: bool
    is_batched: bool
    batch_size: int | None  # of iterable datasets
    drop_last: bool  # likewise


def serve(link: Link, luggage: Luggage, duty: Duty, turnstile: Turnstile | None) -> None:
    """Body of a worker: load what is asked for, until the loader is gone or lets go.

    Args:
        link: To the loader.
        luggage: What the user brought.
        duty: The rest.
        turnstile: To pass before the luggage is opened, if any.
    """
    import torch

    # Whatever waits to be written, the next request is read, as the loader may be in the middle of sending it and not
    # read meanwhile. What waits is limited by the requests, of which it makes `prefetch_factor` ahead.
    link.write_in_background(max_bytes_pending=None)
    if turnstile is None:
        objects = _open(luggage)
    else:
        with turnstile:
            objects = _open(luggage)
    link.send(FromWorker.READY)
    collate_fn, worker_init_fn, dataset = objects
    collate_in_place()
    torch.set_num_threads(1)
    seed = seed_worker(duty.base_seed, duty.worker_id)
    _set_worker_info(id=duty.worker_id, num_workers=duty.num_workers, seed=seed, dataset=dataset)
    worker = _Worker(link, duty, dataset, collate_fn)
    worker.prepare(worker_init_fn)
    del luggage, objects, dataset
    try:
        worker.serve()
    except (EOFError, OSError):  # of the connection: what the user's code raises does not come here
        return


def _open(luggage: Luggage) -> tuple[Any, ...]:
    try:
        return luggage.open()
    except Exception as exc:
        raise RuntimeError(f"the dataset cannot be unpickled there: {exc} ({type(exc).__name__})") from exc


def _set_worker_info(**fields: Any) -> None:
    """Have ``torch.utils.data.get_worker_info`` answer. There is no public way to tell it."""
    from torch.utils.data._utils import worker

    worker._worker_info = worker.WorkerInfo(**fields)


class _Exhausted(Exception):
    """The iterator of an iterable dataset has ended."""


class _Worker:
    def __init__(self, link: Link, duty: Duty, dataset: Any, collate_fn: Callable[[Any], Any]) -> None:
        self._link = link
        self._duty = duty
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._fetcher: IterableFetcher | None = None  # of an iterable dataset
        self._is_over = False  # it has ended
        self._unfit: Exception | None = None  # why nothing can be loaded

    def prepare(self, worker_init_fn: Callable[[int], object] | None) -> None:
        """What goes wrong here is told instead of the first batch, and of every other."""
        try:
            if worker_init_fn is not None:
                worker_init_fn(self._duty.worker_id)
        except Exception as exc:  # noqa: BLE001 - the user's
            self._unfit = exc
        else:
            self._resume()

    def _resume(self) -> None:
        if not self._duty.is_iterable or self._unfit is not None:
            return
        duty = self._duty
        self._is_over = False
        self._fetcher = None  # so that two passes never live side by side
        try:
            self._fetcher = IterableFetcher(self._dataset, duty.batch_size, duty.drop_last, self._collate_fn)
        except Exception as exc:  # noqa: BLE001 - the user's
            self._unfit = exc

    def serve(self) -> None:
        """Raises ``EOFError`` or ``OSError`` when the loader is gone."""
        link = self._link
        while True:
            frame = link.recv()
            if frame.kind == ToWorker.RESUME:
                self._resume()
            elif not self._is_over:
                self._answer(frame)

    def _answer(self, frame: Frame) -> None:
        link, number = self._link, frame.number
        indices: Any = None
        try:
            if self._unfit is not None:
                raise self._unfit
            if self._duty.is_iterable:
                assert self._fetcher is not None
                batch = self._collate_fn(self._take(self._fetcher))
            else:
                indices = frame.load()
                batch = fetch(self._dataset, indices, self._duty.is_batched, self._collate_fn)
            kind, encoded = FromWorker.BATCH, link.encode(batch)
        except _Exhausted:
            self._is_over = True
            kind, encoded = FromWorker.EXHAUSTED, link.encode(None)
        except Exception as exc:  # noqa: BLE001 - the boundary to user code
            kind, encoded = FromWorker.RAISED, link.encode(RemoteException.of(exc, self._where(indices)))
        link.send_soon(kind, number, encoded, urgent=True)

    def _take(self, fetcher: IterableFetcher) -> Any:
        try:
            return fetcher.take()
        except StopIteration:  # one of collate_fn's is another matter
            raise _Exhausted from None

    def _where(self, indices: Any) -> str:
        what = "an iterable dataset" if self._duty.is_iterable else f"indices {reprlib.repr(indices)}"
        return f"DataLoader worker {self._duty.worker_id} (process {os.getpid()}), loading {what}"
