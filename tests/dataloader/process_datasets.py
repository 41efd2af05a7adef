"""Datasets and functions that worker processes import, and the plans that tests make of them."""

import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler, default_collate, get_worker_info

from spdl.dataloader._torch._arguments import InfiniteSampler, Plan


def plan_of(dataset: Any, batch_size: int | None = 4, **options: Any) -> Plan:
    """The plan that a loader of two workers makes of a dataset; a map-style one is read in order."""
    is_iterable = isinstance(dataset, IterableDataset)
    sampler: Any = InfiniteSampler() if is_iterable else SequentialSampler(dataset)
    batch_sampler = None if batch_size is None else BatchSampler(sampler, batch_size, drop_last=False)
    values: dict[str, Any] = {
        "dataset": dataset,
        "batch_size": batch_size,
        "shuffle": None,
        "sampler": sampler,
        "batch_sampler": batch_sampler,
        "num_workers": 2,
        "collate_fn": default_collate if batch_size is not None else as_is,
        "pin_memory": False,
        "drop_last": False,
        "timeout": 0.0,
        "worker_init_fn": None,
        "multiprocessing_context": None,
        "generator": None,
        "prefetch_factor": 2,
        "persistent_workers": False,
        "pin_memory_device": "",
        "in_order": True,
        "worker_init_concurrency": None,
        "snapshot_every_n_steps": 1,
        "stall_timeout": None,
        "stall_action": "log",
        "workers": "process",
        "max_failures": None,
        "retry": None,
        "on_error": "raise",
        "call_timeout": None,
        "is_iterable": is_iterable,
        "indices": None if is_iterable else sampler if batch_sampler is None else batch_sampler,
        "pin": None,
    }
    assert options.keys() <= values.keys()
    return Plan(**{**values, **options})


def as_is(value: Any) -> Any:
    return value


class Numbers:
    """``dataset[i]`` is ``(i + offset, pid of the worker)``."""

    def __init__(self, length: int = 16) -> None:
        self.length = length
        self.offset = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index + self.offset, os.getpid()


class Arrays(Numbers):
    """Large arrays and tensors of every kind that is told apart, and what a worker sees of them."""

    def __init__(self) -> None:
        super().__init__(4)
        self.array = np.arange(200_000, dtype=np.float32).reshape(500, 400)
        self.fixed = np.arange(9_000)
        self.fixed.flags.writeable = False
        self.tensor = torch.arange(50_000).reshape(100, 500).t()
        self.small = np.arange(3)
        self.twice = [self.array, self.array]
        self.shared: torch.Tensor = torch.zeros(5_000).share_memory_()  # type: ignore[no-untyped-call]  # of torch
        self.text = ["word"] * 3

    def __getitem__(self, index: int) -> Any:
        seen = {
            "writable": [self.array.flags.writeable, self.fixed.flags.writeable],
            "owners": [type(_owner(self.array)).__name__, type(_owner(self.fixed)).__name__],
            "same": self.twice[0] is self.twice[1] is self.array,
            "sums": [float(self.array.sum()), int(self.fixed.sum()), int(self.tensor.sum()), int(self.small.sum())],
            "stride": self.tensor.stride(),
        }
        self.array[:] = -1  # in memory that is this worker's from now on
        self.tensor[:] = -1
        self.shared[index] = index + 1  # in memory that all have
        return seen


def _owner(array: Any) -> Any:
    while isinstance(array, np.ndarray | memoryview):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array


class Randoms(Numbers):
    """Numbers of all three global generators, and what torch tells of the worker."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return (
            index,
            int(torch.randint(1 << 40, ())),
            random.getrandbits(40),
            int(np.random.randint(1 << 40)),
            (info.id, info.num_workers, info.seed, len(self), torch.get_num_threads()),
        )


class Tree(Numbers):
    """Nested samples, in several dtypes and sizes."""

    def __getitem__(self, index: int) -> Any:
        return {
            "image": torch.full((3, 40, 40), index, dtype=torch.uint8),
            "array": np.full(7_000, index + 0.5),
            "pair": (index, f"name {index}"),
            "flags": [torch.tensor([index % 2 == 0]), torch.tensor(index, dtype=torch.bfloat16)],
        }


class Counting(IterableDataset[int]):
    """Worker ``i`` counts up from ``100 * i`` as far as it is told."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = lengths

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        yield from range(100 * info.id, 100 * info.id + self.lengths[info.id])


class PicklesNot(ValueError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_(exc: BaseException) -> None:
    raise exc


def hang() -> None:
    """Never return: the process is ended, or the consumer gives up."""
    threading.Event().wait()


def crash() -> None:
    faulthandler.disable()
    faulthandler._sigsegv()  # type: ignore[attr-defined]  # the tests of Python use it


FAILURES: dict[str, Callable[[], object]] = {
    "value": lambda: raise_(ValueError("a value\nin two lines")),
    "key": lambda: raise_(KeyError("a missing\nkey")),
    "unpicklable": lambda: raise_(PicklesNot(1, 2)),
    "stop": lambda: raise_(StopIteration("early")),
    "unsendable": lambda: threading.Lock(),
    "system-exit": lambda: raise_(SystemExit(3)),
    "interrupt": lambda: raise_(KeyboardInterrupt()),
    "exit": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": crash,
    "hang": hang,
}


class Failing(Numbers):
    """Something happens at index 5; all others are plain numbers."""

    def __init__(self, what: str, length: int = 16) -> None:
        super().__init__(length)
        self.what = what

    def __getitem__(self, index: int) -> Any:
        if self.what == "hang-or-die":  # of two workers, one hangs and the other dies
            if index == 4:
                hang()
            if index == 5:
                os._exit(9)
            return index
        return FAILURES[self.what]() if index == 5 else index


class FailsToIterate(Counting):
    def __iter__(self) -> Iterator[int]:
        raise ValueError("cannot begin")


class FailsToUnpickle(Numbers):
    def __setstate__(self, state: Any) -> None:
        raise ValueError("not here")


class Leaving:
    """A sample whose unpickling asks for the end of the process."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class ExitsOnArrival(Numbers):
    """Of its samples, number 1 does."""

    def __getitem__(self, index: int) -> Any:
        return Leaving() if index == 1 else index


class ExitsOnDeparture(Numbers):
    """Pickling it asks for the end of the process."""

    def __getstate__(self) -> Any:
        sys.exit(3)


class LeavingError(Exception):
    """Unpickling it does."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class RaisesWhatExits(Numbers):
    def __getitem__(self, index: int) -> Any:
        raise LeavingError("no sample")


class SlowToUnpickle(Numbers):
    def __setstate__(self, state: Any) -> None:
        time.sleep(1.2)  # what is tested is time: longer than the timeout
        self.__dict__.update(state)


def fail_to_init(worker_id: int) -> None:
    if worker_id == 1:
        raise ValueError("init 1 failed")


def stop_at_once(_: object) -> None:
    raise StopIteration


class Blocking(Numbers):
    """From one index on, samples never come."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def __getitem__(self, index: int) -> Any:
        if index >= self.first:
            hang()
        return index


def await_wait(pid: int) -> None:
    """Wait until the main thread of a process sleeps, where /proc tells."""
    state = Path(f"/proc/{pid}/stat")
    asleep, nothing = 0, threading.Event()
    while asleep < 5 and state.exists():  # a wait in the kernel has no gate; one look may meet another, shorter sleep
        asleep = asleep + 1 if state.read_text().rpartition(")")[2].split()[0] == "S" else 0
        nothing.wait(0.005)


class Interrupting(Numbers):
    """Once, before one index is loaded, whoever made the dataset gets a Ctrl-C, when it is prepared for that.

    It says so when it has noticed.
    """

    def __init__(self, length: int, at: int, prepared: Any, noticed: Any) -> None:
        super().__init__(length)
        self.at = at
        self.prepared = prepared
        self.noticed = noticed
        self.pid = os.getpid()

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == self.at:
            self.at = -1
            assert self.prepared.wait(30)  # another worker may be slow, and the first batch is still waited for
            await_wait(self.pid)  # whoever it is waits for this, or for a batch before it
            os.kill(self.pid, signal.SIGINT)
            assert self.noticed.wait(30)
        return super().__getitem__(index)


class Large(Numbers):
    """As many bytes as it is asked for indices, times four."""

    def __getitems__(self, indices: list[int]) -> Any:
        return np.array(indices, dtype=np.int32)


class Sharing(Numbers):
    """Tells of each sample by what ``multiprocessing`` shares."""

    def __init__(self, context: Any) -> None:
        super().__init__()
        self.lock = context.Lock()
        self.queue = context.Queue()

    def __getitem__(self, index: int) -> Any:
        with self.lock:
            self.queue.put(index)
        return index
