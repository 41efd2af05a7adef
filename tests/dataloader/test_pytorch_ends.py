"""How processes end that have a loader of torch's kind: at exit, by Ctrl-C, after a fork; scripts of every shape."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from spdl import dataloader
from tests.support.child import environment, run_child
from tests.support.timeouts import TIMEOUT

pytest.importorskip("torch")

from tests.support.remote import await_end
from tests.support.remote_datasets import AtOnce, Numbers, len_and_all

WAYS = ["thread", "process"]

BEGINNING = """
    import gc, os, signal, sys, threading
    from functools import partial
    import numpy as np
    import torch
    from spdl.dataloader import get_pytorch_dataloader

    class Rows:
        def __init__(self, pid=0):
            self.pid = pid
        def __len__(self):
            return 400
        def __getitem__(self, index):
            if self.pid and index == 50:
                os.kill(self.pid, signal.SIGINT)
            return torch.full((2000,), index)

    def make(way, dataset=None, **options):
        return get_pytorch_dataloader(dataset or Rows(), 4, workers=way, num_workers=2, **options)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_process_exits_with_loaders_half_read(way: str) -> None:
    """In globals, in a cycle, persistent, after another thread has read; without a word on stderr."""
    run_child(
        f"""{BEGINNING}
    kept = []
    if __name__ == "__main__":
        for options in ({{}}, {{"persistent_workers": True}}, {{"in_order": False}}):
            loader = make({way!r}, **options)
            iterator = iter(loader)
            next(iterator)
            kept.append([loader, iterator, kept])
        reader = threading.Thread(target=next, args=(kept[0][1],))
        reader.start()
        reader.join()
        print("end")
    """,
        timeout=TIMEOUT,
    ).check("end")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_leaves_the_loop(way: str) -> None:
    """Pressed while a batch is loaded: one traceback, no hang, no complaint of workers."""
    run_child(
        f"""{BEGINNING}
    if __name__ == "__main__":
        for _ in make({way!r}, Rows(os.getpid())):
            pass
        print("not reached")
    """,
        timeout=TIMEOUT,
    ).check_interrupted()


@pytest.mark.slow
def test_ctrl_c_for_the_whole_group_leaves_the_loop_alike() -> None:
    """As a terminal sends it: to the workers and the fork server, too; only the main process says something."""
    run_child(
        f"""{BEGINNING}
    class Interrupting(Rows):
        def __getitem__(self, index):
            if index == 50:
                os.killpg(self.pid, signal.SIGINT)
            return index

    if __name__ == "__main__":
        for _ in make("process", Interrupting(os.getpid())):
            pass
        print("not reached")
    """,
        timeout=TIMEOUT,
    ).check_interrupted()


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed() -> None:
    """Nobody told them."""
    ended = run_child(
        f"""{BEGINNING}
    class Processes(Rows):
        def __getitem__(self, index):
            return os.getpid()

    if __name__ == "__main__":
        iterator = iter(make("process", Processes(), persistent_workers=True))
        print(*{{int(next(iterator)[0]) for _ in range(4)}}, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """,
        timeout=TIMEOUT,
    )
    pids = [int(word) for word in ended.stdout.split()]
    assert (ended.returncode, len(pids)) == (-signal.SIGKILL, 2)
    for pid in pids:
        await_end(pid)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_fork_can_load_with_loaders_of_its_own(way: str) -> None:
    """What it inherited half read is refused by name; the parent's goes on; nobody hangs at the end."""
    run_child(
        f"""{BEGINNING}
    if __name__ == "__main__":
        loader = make({way!r})
        iterator = iter(loader)
        next(iterator)
        pid = os.fork()
        if pid == 0:
            try:
                next(iterator)
            except RuntimeError as exc:
                print(type(exc).__name__, flush=True)
            print(len(list(loader)), len(list(make({way!r}))), flush=True)
            sys.exit(0)
        print(os.waitpid(pid, 0)[1], len(list(iterator)))
    """,
        timeout=TIMEOUT,
    ).check("PipelineStateError 100 100 0 99")


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_what_it_lacks() -> None:
    """Workers import it, and would load again, each from its beginning to its end: an error says what to write."""
    ended = run_child(
        f"""{BEGINNING}
    for batch in make("process"):
        print("batch")
    print("end")
    """,
        timeout=TIMEOUT,
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "if __name__ == '__main__'" in ended.stderr


SHORT = """
import torch
from spdl.dataloader import get_pytorch_dataloader
class Numbers:
    def __len__(self):
        return 6
    def __getitem__(self, index):
        return index
for batch in get_pytorch_dataloader(Numbers(), 3, collate_fn=lambda samples: samples, num_workers=2, {options}):
    print(batch)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "options"),
    [("-c", "workers='process'"), ("-c", "in_order=True"), ("-", "workers='auto'"), ("-", "workers='thread'")],
)
def test_lines_without_a_file_load_with_what_they_define(by: str, options: str) -> None:
    """As in a notebook: a dataset and a lambda that no worker could import."""
    script = SHORT.format(options=options)
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", script] if by == "-c" else [sys.executable, "-W", "error", "-"],
        input=script if by == "-" else "",
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("[0, 1, 2]\n[3, 4, 5]\n", "", 0)


@pytest.mark.parametrize("way", WAYS)
def test_collecting_a_half_read_iterator_ends_what_it_started(way: str) -> None:
    """By reference count, or by the collector where it is in a cycle; the leak check looks for the rest."""
    make: Any = dataloader.get_pytorch_dataloader
    loader = make(Numbers(200), 2, workers=way, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    gone = weakref.ref(iterator)
    del iterator
    assert gone() is None
    cycle: list[Any] = [iter(loader)]
    next(cycle[0])
    gone = weakref.ref(cycle[0])
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("way", WAYS)
def test_an_iterator_keeps_its_loader_going(way: str) -> None:
    """``iter(get_pytorch_dataloader(…))`` alone: nothing is collected too early."""
    make: Any = dataloader.get_pytorch_dataloader
    iterator = iter(make(Numbers(40), 2, workers=way, num_workers=2))
    gc.collect()
    assert len(list(iterator)) == 20


def test_large_requests_and_large_answers_do_not_block_each_other() -> None:
    """Indices that fill the way there while batches fill the way back."""
    make: Any = dataloader.get_pytorch_dataloader
    requests = [list(range(k, 100_000 + k)) for k in range(10)]
    loader = make(
        AtOnce(1), batch_sampler=requests, collate_fn=len_and_all, workers="process", num_workers=2, prefetch_factor=3
    )
    assert [(length, len(text) > 500_000) for length, text in loader] == [(100_000, True)] * 10


@pytest.mark.parametrize("way", WAYS)
def test_loaders_work_in_any_thread(way: str) -> None:
    """Made here, read there, and several at once."""
    make: Any = dataloader.get_pytorch_dataloader
    loader = make(Numbers(40), 2, workers=way, num_workers=2)
    lengths: list[int] = []
    readers = [threading.Thread(target=lambda: lengths.append(len(list(loader)))) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert lengths == [20] * 3


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
def test_memory_does_not_grow_with_epochs(way: str) -> None:
    """Resident and shared: what the first epochs took is enough for all."""
    import numpy as np

    make: Any = dataloader.get_pytorch_dataloader
    rows = np.zeros((64, 100_000), dtype=np.uint8)
    loader = make(rows, 8, workers=way, num_workers=2, persistent_workers=True)

    def epoch() -> int:
        for batch in loader:
            assert batch.shape == (8, 100_000)
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = max(epoch() for _ in range(4))
    after = min(
        [epoch() for _ in range(8)][4:]
    )  # the least of them: other parts of this process keep memory for a while
    assert after - before < 2 * 8 * 8 * 100_000  # a leak of every batch would be 2.5 times as much after five epochs
