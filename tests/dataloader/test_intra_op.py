"""Threads that load use one thread of torch's each; all others keep what they have."""

import subprocess
import sys
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402

SCRIPT = """
import threading, torch
from spdl.dataloader import get_pytorch_dataloader

torch.set_num_threads(3)

class Asking:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.get_num_threads()

for workers in ("thread", "auto"):
    loader = get_pytorch_dataloader(Asking(), 2, num_workers=2, workers=workers)
    loader.collate_fn = set
    print(workers, set().union(*loader))
seen = []
other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
other.start()
other.join()
print(torch.get_num_threads(), seen)
"""


def test_loading_threads_are_limited_and_no_others() -> None:
    """A process of its own, so that the main thread's number is that of a program that has just begun."""
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=True)
    lines = result.stdout.splitlines()
    assert lines[0] == "thread {1}"
    assert lines[2] == "3 [3]"


def test_consumer_keeps_its_number() -> None:
    """Nothing is set in the thread that iterates, with or without workers."""
    before = torch.get_num_threads()
    seen: set[Any] = set()

    class Asking:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            if threading.current_thread() is threading.main_thread():
                seen.add(torch.get_num_threads())
            return index

    for num_workers in (0, 2):
        list(get_pytorch_dataloader(Asking(), 2, num_workers=num_workers, workers="thread"))
    assert seen == {before}
    assert torch.get_num_threads() == before
