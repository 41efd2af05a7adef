"""The worker's main loop: reads one command per line from stdin and writes one answer per line to stdout, as JSON.

It does nothing between two commands, so that several workers can be measured in turn without disturbing each other. An
answer is ``{"ok": ...}``, or ``{"error": traceback}``, after which the worker continues. End of stdin ends it.
"""

import json
import os
import resource
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["cpu_seconds", "serve"]


def serve(make: Callable[[], Mapping[str, Callable[..., Any]]]) -> None:
    """Answer commands until stdin ends.

    Args:
        make: A function that returns the handlers of the commands, which are called with the command's arguments. If
            it raises ``ImportError``, that is the answer to every command: it names the missing package.
    """
    # Output of a peer must not mix with the answers: stdout becomes stderr, and answers use the old stdout.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    commands: Mapping[str, Callable[..., Any]] = {}
    missing = ""
    try:
        commands = make()
    except ImportError:
        missing = traceback.format_exc()
    for line in sys.stdin:
        arguments = json.loads(line)
        name = arguments.pop("do")
        answer: dict[str, Any]
        if missing:
            answer = {"error": missing}
        else:
            try:
                answer = {"ok": commands[name](**arguments)}
            except Exception:  # noqa: BLE001 - the boundary of the process: the other side raises it
                answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def cpu_seconds() -> float:
    """CPU time of all threads, and of the child processes that have ended."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
