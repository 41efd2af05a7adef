"""``exit_on_hangup`` where there is no native one: a thread, which code that never lets go of the GIL can hold up."""

from __future__ import annotations

import os
import select
import threading

__all__ = ["exit_on_hangup"]


def exit_on_hangup(descriptor: int, grace: float) -> None:
    """End this process ``grace`` seconds after the other end of ``descriptor`` is gone. Takes the descriptor over."""
    threading.Thread(target=_watch, args=(descriptor, grace), name="spdl-watch-parent", daemon=True).start()


def _watch(descriptor: int, grace: float) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # hang-ups are always told
    poll.poll()
    threading.Event().wait(grace)
    os._exit(1)
