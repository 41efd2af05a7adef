"""``prefetch_to_device``: move the batches of a loader to a CUDA device ahead of the consumer.

An epoch has two threads: the prefetching thread (`_work`) and the consumer's (`PrefetchingIterator`). They share
`_Handover`, under its lock. The thread has no reference to the iterator, so the iterator can be collected while the
thread runs.

In the consumer's thread, a batch is handed over in two steps:

1. The consumer's current stream waits for the event recorded after the copies. The device does the waiting; the host
   continues at once.
2. Every tensor is recorded on that stream. Its memory belongs to the mover's stream and would be reused as soon as the
   tensor is dropped; once recorded, the allocator first waits for the work queued on the consumer's stream by then.
"""

import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from spdl._numbers import as_int
from spdl._reports import add_note, log
from spdl.io import DeviceError
from spdl.io._devices._cuda import check_device_index, get_torch, local_device
from spdl.io._devices._staging import Moved, Mover, Staging, record_use

from ._holding import Holding, hold

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

_ACTION = "prefetch batches"
_STATE_METHODS = ("state_dict", "load_state_dict")


def prefetch_to_device(
    loader: Iterable[T], *, device: "torch.device | str | None" = None, num_prefetch: int = 2
) -> "DeviceLoader[T]":
    """Wrap a loader so that its batches are moved to a CUDA device in a thread, ahead of the consumer.

    .. code-block:: python

        for images, labels in prefetch_to_device(loader):  # CUDA tensors; without a GPU, unchanged
            loss = train(images, labels)

    Tensors may be nested in lists, tuples, named tuples, mappings and dataclasses. They are ready for use on the stream
    that is current when the consumer calls ``next``, and may be dropped at any time; the copies wait neither for the
    consumer nor for earlier work on its stream. To use the tensors on another stream, make it wait for the current
    stream and call ``Tensor.record_stream``, as for any tensor.

    Args:
        loader: Iterable of batches. ``iter()`` is called in the consumer's thread. ``next()`` is called in the
            prefetching thread, so the code of a generator runs there. The loader may overwrite a batch when ``next()``
            is called for the next one.
        device: Target device; ``None``: ``cuda:$LOCAL_RANK`` if that variable is set, otherwise the current CUDA
            device, or the CPU if there is no CUDA. For the CPU, batches are returned unchanged, and loaded in the
            consumer's thread.
        num_prefetch: Number of batches to prefetch; they are on the device in addition to those that the consumer
            holds. The returned loader also keeps page-locked memory for two batches.

    Raises:
        ValueError: ``num_prefetch`` is less than 1, or ``device`` is neither a CUDA device nor the CPU.
        DeviceError: While iterating: the device does not exist; a ``RuntimeError``.
    """
    return DeviceLoader(loader, device=device, num_prefetch=num_prefetch)


class DeviceLoader(Generic[T]):
    """A loader whose batches are on a device. Made by :func:`prefetch_to_device`, which takes the same arguments.

    Each ``iter()`` begins an epoch with its own thread, and several may run at once. The thread ends when the
    iterator is exhausted, left with ``break``, closed with ``close()``, or collected. An exception of the loader is
    raised in place of its batch; the iterator continues after it if the loader's iterator does.
    All other attributes, including the length, are those of the loader. It is picklable if the loader is.

    ``state_dict()`` and ``load_state_dict()`` are also those of the loader. With the loaders of SPDL, a ``Pipeline``,
    and ``run_pipeline_in_subprocess(..., resumable=True)``, batches that were prefetched but not returned do not count
    as taken.

    Attributes:
        loader: The loader. ``device`` and ``num_prefetch`` are attributes too.
    """

    def __init__(
        self, loader: Iterable[T], *, device: "torch.device | str | None" = None, num_prefetch: int = 2
    ) -> None:
        num_prefetch = as_int("num_prefetch", num_prefetch, 1)
        kind = None if device is None else str(device).partition(":")[0]
        if kind not in (None, "cpu", "cuda"):
            raise ValueError(f"device must be a CUDA device, or the CPU, got {device!r}")
        self.loader = loader
        self.device = device
        self.num_prefetch = num_prefetch
        self._movers = Movers()
        self._pass_on_states()

    def _pass_on_states(self) -> None:
        # Attributes of the instance, because some checks, such as ``isinstance`` with a protocol, do not call
        # ``__getattr__``.
        for name in _STATE_METHODS:
            method = getattr(self.loader, name, None)
            if callable(method):
                setattr(self, name, method)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pass_on_states()

    def __iter__(self) -> Iterator[T]:
        where = _find_device(self.device)
        if where is None:
            return iter(self.loader)
        return PrefetchingIterator(self.loader, self._movers, where, self.num_prefetch)

    def __len__(self) -> int:
        """Length of the loader.

        Raises:
            TypeError: The loader has no length.
        """
        return len(self.loader)  # type: ignore[arg-type] # it may have none: that is the TypeError

    def __bool__(self) -> bool:
        return True  # without this, bool() would need the length, which the loader may not have

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.loader!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Call ``set_epoch`` of the loader, if it has one."""
        tell = getattr(self.loader, "set_epoch", None)
        if callable(tell):
            tell(epoch)

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are missing here; during unpickling and copying that is all of them.
        if name == "loader" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        own = {key: value for key, value in vars(self).items() if key not in _STATE_METHODS}
        return {**own, "_movers": Movers()}  # CUDA streams cannot be pickled


def _find_device(device: "torch.device | str | None") -> Any | None:
    """The ``torch.device`` with its index; ``None`` for the CPU."""
    if device is not None and str(device) != "cuda":
        kind, _, text = str(device).partition(":")
        if kind == "cpu":
            return None
        if not text.isdecimal():
            raise ValueError(f"device must be a CUDA device such as 'cuda:0', or the CPU, got {device!r}")
        return check_device_index(int(text), _ACTION).device("cuda", int(text))
    torch = get_torch()
    if torch is None or not torch.cuda.is_available():
        if device is None:
            return None
        check_device_index(0, _ACTION)  # the error names the missing part
        raise DeviceError(f"cannot {_ACTION} to {device}: torch finds no GPU", action=_ACTION)
    if "LOCAL_RANK" in os.environ and device is None:
        return local_device(_ACTION)
    return torch.device("cuda", torch.cuda.current_device())


_LOG = logging.getLogger("spdl.dataloader")

#: Seconds to wait for the thread at the end, which may be in the loader's next().
_JOIN_TIMEOUT = 10.0
#: Number of tensors to keep alive among those that cannot be recorded on a stream, such as quantized ones.
_NUM_KEPT = 16


class Movers:
    """Pool of unused movers. They are kept between epochs because memory that torch caches belongs to their streams.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._free: deque[Mover] = deque()  # deques need no lock

    def take(self, device: Any) -> Mover:
        """Take a mover for this device, a new one if none is free."""
        for _ in range(len(self._free)):
            try:
                mover = self._free.popleft()
            except IndexError:  # another thread took the last one
                break
            if mover.device == device:
                return mover
            self._free.append(mover)
        torch = get_torch()
        return Mover(torch, device, deque([Staging(torch), Staging(torch)]))

    def give_back(self, mover: Mover) -> None:
        """Return a mover for another epoch."""
        self._free.append(mover)


class _Handover:
    """Queue of batches for the consumer. The lock of ``changed`` guards all fields. It is reentrant, because garbage
    collection may end an epoch at any moment, in any thread, even in one that holds the lock."""

    def __init__(self, num_prefetch: int) -> None:
        self.changed = threading.Condition()
        self.num_prefetch = num_prefetch
        #: Batches to return, exceptions to raise, ``None`` at the end; each with the token of the loader's iterator.
        self.ready: deque[tuple[Moved[Any] | BaseException | None, Any]] = deque()
        self.num_wanted = 0  # number of calls of take()
        self.num_put = 0
        self.is_stopped = False

    def await_room(self, *, after_failure: bool) -> bool:
        """Wait until another batch may be loaded, after a failure until one is asked for. False: it was stopped."""
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self.is_stopped
                    or (self.num_wanted > self.num_put if after_failure else len(self.ready) < self.num_prefetch)
                )
            )
            return not self.is_stopped

    def put(self, what: "Moved[Any] | BaseException | None", token: Any) -> None:
        with self.changed:
            self.num_put += 1
            self.ready.append((what, token))
            self.changed.notify_all()

    def take(self) -> "tuple[Moved[Any] | BaseException | None, Any]":
        with self.changed:
            self.num_wanted += 1
            self.changed.notify_all()
            try:
                self.changed.wait_for(lambda: self.ready or self.is_stopped)
            except BaseException:  # Ctrl-C: this call does not take a batch
                self.num_wanted -= 1
                raise
            if self.is_stopped:
                return None, None
            taken = self.ready.popleft()
            self.changed.notify_all()
            return taken

    def stop(self) -> None:
        with self.changed:
            self.is_stopped = True
            self.ready.clear()
            self.changed.notify_all()


class PrefetchingIterator(Iterator[T]):
    """Iterator of one epoch that prefetches batches.

    Args:
        loader: Loader to iterate. ``iter()`` is called in the constructor.
        movers: Pool from which a mover is taken, and to which it is returned.
        device: ``torch.device`` of type ``"cuda"`` with an index.
        num_prefetch: Number of batches to prefetch.
    """

    def __init__(self, loader: Iterable[T], movers: Movers, device: Any, num_prefetch: int) -> None:
        self._handover = _Handover(num_prefetch)
        self._torch: Any = get_torch()
        self._device = device
        self._kept: deque[Any] = deque(maxlen=_NUM_KEPT)
        self._pid = os.getpid()
        batches = iter(loader)
        self._holding = hold(batches)
        self._thread = threading.Thread(
            target=_work,
            args=(batches, self._holding, self._handover, movers, device),
            name="spdl-prefetch",
            daemon=True,
        )
        # Also at interpreter exit: a thread that is inside torch then could crash the process.
        self._end = weakref.finalize(self, _end, self._handover, self._thread, self._pid)
        self._thread.start()

    def __next__(self) -> T:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this process was forked after the iterator was made, and its prefetching thread is in the parent; "
                "call iter() again"
            )
        if not self._end.alive:
            raise StopIteration
        what, token = self._handover.take()
        if token is not None and self._holding is not None:
            self._holding.commit(token)
        if what is None:
            self.close()
            raise StopIteration
        if isinstance(what, BaseException):
            try:
                raise what
            finally:
                del what  # otherwise the traceback and this frame would refer to each other
        return self._receive(what)

    def close(self) -> None:
        """End the epoch and wait for its thread."""
        self._end()

    def _receive(self, moved: Moved[T]) -> T:
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(moved.event)
        self._kept.extend(record_use(moved.tensors, stream))
        return moved.batch

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("an iterator over a loader cannot be pickled; pickle the loader")


def _work(batches: Iterator[Any], holding: Holding | None, handover: _Handover, movers: Movers, device: Any) -> None:
    """Run in the prefetching thread until the epoch ends."""
    mover: Mover | None = None
    has_failed = is_exhausted = False

    def token() -> Any:
        return None if holding is None else holding.token()

    try:
        while handover.await_room(after_failure=has_failed):
            has_failed = False
            try:
                batch = next(batches)
            except StopIteration:
                is_exhausted = True
                return
            except BaseException as exc:  # noqa: BLE001 - raised in the consumer
                has_failed = True
                handover.put(exc, token())
                continue
            try:
                if mover is None:
                    mover = movers.take(device)
                moved = mover.move(batch)
                if moved.is_borrowing:
                    moved.event.synchronize()
                handover.put(moved, token())
                del moved
            except BaseException as exc:  # noqa: BLE001 - raised in the consumer
                add_note(exc, f"while moving a batch to {device}")
                has_failed = True
                handover.put(_not_the_end(exc), token())
            del batch  # while this thread waits, only the consumer keeps the batch alive
    finally:
        if mover is not None:
            movers.give_back(mover)
        if not is_exhausted:
            _close(batches)
        handover.put(None, token() if is_exhausted else None)


def _not_the_end(exc: BaseException) -> BaseException:
    """Replace a ``StopIteration`` that was raised while copying a container; it would end the epoch silently."""
    if not isinstance(exc, StopIteration):
        return exc
    error = RuntimeError("a batch could not be moved: copying a container of it raised StopIteration")
    error.__cause__ = exc
    return error


def _close(batches: Iterator[Any]) -> None:
    close = getattr(batches, "close", None)
    if not callable(close):
        return
    try:
        close()
    except Exception as exc:  # noqa: BLE001 - there is no consumer left to raise it in
        log(_LOG, logging.ERROR, "closing the iterator of a loader failed", exc_info=exc)


def _end(handover: _Handover, thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:  # after a fork, the thread, and perhaps the lock's owner, exists only in the parent
        return
    handover.stop()
    if thread is threading.current_thread() or not thread.is_alive():
        return
    thread.join(_JOIN_TIMEOUT)
    if thread.is_alive() and not sys.is_finalizing():
        log(
            _LOG,
            logging.WARNING,
            "a loader has not returned from next() within %g s after its epoch was ended; its thread is abandoned",
            _JOIN_TIMEOUT,
        )
