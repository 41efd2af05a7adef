"""Which process and which thread this is, without a system call.

``os.getpid()`` is one, and takes the interpreter along: in 8 threads that read parts of 10 kB it costs each of them a
tenth of its time. A forked child runs the hook below before anything else of it can run.
"""

import os
import threading

__all__ = ["CURRENT"]


class _Process:
    """The process that this is.

    Attributes:
        number: Another one in each process that is forked from the one before.
        main_thread: Ident of the main thread.
    """

    __slots__ = ("main_thread", "number")

    def __init__(self) -> None:
        self.number = 1
        self.main_thread = threading.main_thread().ident

    def forked(self) -> None:
        self.number += 1
        self.main_thread = threading.get_ident()


CURRENT = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CURRENT.forked)
