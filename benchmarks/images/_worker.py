"""One contestant in one process: reads a command a line from stdin, answers a line on stdout, both JSON.

It does nothing between two commands, so that several can be measured in turn without disturbing each other. An answer
is ``{"ok": ...}``, or ``{"error": traceback}``. End of stdin ends it.
"""

import importlib
import json
import os
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._peers import BATCH, peer_named


def main(peer_name: str) -> None:
    # Whatever a peer prints must not get between the answers: stdout becomes stderr, answers keep the old one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer = peer_named(peer_name)
    try:
        adapter = importlib.import_module(f".adapters.{peer.adapter}", __package__)
        with ThreadPoolExecutor(peer.num_threads) as pool:
            for line in sys.stdin:
                command = json.loads(line)
                try:
                    answer: dict[str, Any] = {"ok": _answer(adapter, pool if peer.num_threads > 1 else None, command)}
                except Exception:  # noqa: BLE001 - the boundary of the process: the other side raises it
                    answer = {"error": traceback.format_exc()}
                answers.write(json.dumps(answer) + "\n")
                answers.flush()
    except ImportError:
        answers.write(json.dumps({"error": traceback.format_exc()}) + "\n")


def _answer(adapter: Any, pool: ThreadPoolExecutor | None, command: dict[str, Any]) -> Any:
    paths = command["paths"]
    if command["do"] == "describe":
        return adapter.versions()
    if command["do"] == "save":
        batch = adapter.load(paths)
        if batch is None:
            return False
        import numpy as np

        np.save(command["to"], batch)
        return True
    batches = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
    cpu, wall = time.process_time(), time.perf_counter()
    if pool is None:
        for batch in batches:
            adapter.load(batch)
    else:
        for _ in pool.map(adapter.load, batches):
            pass
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


if __name__ == "__main__":
    main(sys.argv[1])
