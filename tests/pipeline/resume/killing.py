"""Kills runs of a pipeline again and again: a forked child reads, and its parent records what the child has taken.

To be called in a process without threads, as ``run_child`` starts it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["kill_often", "tell_all"]

#: Reads as many epochs as it is given, from a state, and tells with its last argument what it has taken: a list of
#: items, ``"end"``, or a state.
Read = Callable[[Any, int, Callable[[Any], None]], None]


def kill_often(
    read: Read, expected: Callable[[int], list[Any]], *, seed: int, num_kills: int, num_epochs: int, keeps_order: bool
) -> None:
    """Kill that many runs at random moments, each of which goes on from the newest state that was told.

    When all epochs have been read, it compares them with ``expected`` and begins anew, until there were enough kills.
    """
    rng = random.Random(seed)
    while True:
        found: list[Any] = []
        state = None
        while (num_done := found.count("end")) < num_epochs:
            taken, state = _run(read, state, num_epochs - num_done, rng, is_killed=num_kills > 0)
            num_kills -= 1
            found += taken
        _check(found, expected, num_epochs, keeps_order=keeps_order)
        if num_kills <= 0:
            return


def tell_all(take: Callable[[], Any], ask: Callable[[], Any], every: int, tell: Callable[[Any], None]) -> None:
    """Tell what ``take`` returns until it raises ``EOFError``, and the state after every few and after the end."""
    number = 0
    told: Any = None
    while told != "end":
        try:
            told = take()
        except EOFError:
            told = "end"
        number += 1
        tell(told)
        if told == "end" or number % every == 0:
            tell(ask())


def _run(read: Read, state: Any, left: int, rng: random.Random, *, is_killed: bool) -> tuple[list[Any], Any]:
    """Returns what was told before the newest state, and that state."""
    # Killed after a number of lines and a while. Then all that was told is read.
    num_lines, delay = rng.randrange(-3, 25), rng.random() * rng.choice([0, 0.001, 0.01])
    pid, reader = _start(read, state, left)
    chunks = _chunks(reader)
    text = b""
    while not is_killed or text.count(b"\n") < num_lines:
        chunk = next(chunks, b"")
        text += chunk
        if not chunk:
            break
    if is_killed:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    text += b"".join(chunks)
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in ((0, -signal.SIGKILL) if is_killed else (0,)), status
    taken: list[Any] = []
    since: list[Any] = []
    for line in text.split(b"\n")[:-1]:  # what is behind the last end of a line was not told
        told = json.loads(line)
        if isinstance(told, dict):
            state, taken, since = told, taken + since, []
        else:
            since.append(told)
    return taken, state


def _start(read: Read, state: Any, left: int) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            read(state, left, lambda told: _write(writer, json.dumps(told).encode() + b"\n"))
            os._exit(0)
        finally:
            import traceback

            traceback.print_exc()
            os._exit(3)
    os.close(writer)
    return pid, reader


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _chunks(file: int) -> Iterator[bytes]:
    while chunk := os.read(file, 65536):
        yield chunk


def _check(found: list[Any], expected: Callable[[int], list[Any]], num_epochs: int, *, keeps_order: bool) -> None:
    epochs: list[list[Any]] = [[]]
    for told in found:
        if told == "end":
            epochs.append([])
        else:
            epochs[-1] += map(tuple, told)
    assert len(epochs) == num_epochs + 1, len(epochs)
    for epoch in range(num_epochs):
        wanted = expected(epoch)
        assert Counter(epochs[epoch]) == Counter(wanted), (epoch, epochs[epoch], wanted)
        assert not keeps_order or epochs[epoch] == wanted, (epoch, epochs[epoch], wanted)
