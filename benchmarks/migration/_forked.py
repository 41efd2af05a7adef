"""A process for each measurement, forked from a parent that has only imported modules."""

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks._contest.processes import descendants

__all__ = ["in_child"]


def in_child(call: Callable[[], Any]) -> Any:
    """Run ``call`` in a forked child and return its result, sent as JSON. Then kill the child and its descendants.

    Workers in the middle of an unused batch would take seconds to end on their own.

    Raises:
        RuntimeError: ``call`` raised (the message is its traceback), or the process ended.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(call, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answers:
        # Read one line, not until the end: children of the child have the writing end too.
        line = answers.readline()
    _, status = os.waitpid(pid, 0)
    if not line:
        raise RuntimeError(f"the process that measures ended with exit code {os.waitstatus_to_exitcode(status)}")
    answer = json.loads(line)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["ok"]


def _answer(call: Callable[[], Any], writer: int) -> None:
    """Run in the child; never returns."""
    try:
        try:
            answer = {"ok": call()}
        except BaseException:  # noqa: BLE001 - the boundary of the process: the parent raises it
            answer = {"error": traceback.format_exc()}
        with os.fdopen(writer, "w", encoding="utf-8") as answers:
            answers.write(json.dumps(answer) + "\n")
        for pid in descendants():
            os.kill(pid, signal.SIGKILL)
    finally:
        os._exit(0)
