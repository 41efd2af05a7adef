"""Shows what the pipelines of this process are doing right now: as text, or on a signal.

.. code-block:: python

    import signal
    import spdl.debug

    spdl.debug.on_signal(signal.SIGUSR1)  # kill -USR1 PID writes the report to stderr

No signal handler is installed unless you call :func:`on_signal`: signals belong to the program and its launcher.
"""

import faulthandler
import signal
import sys
import threading
from types import FrameType

__all__ = ["dump", "on_signal"]


def dump() -> str:
    """Return the text that ``spdl dump`` shows for this process.

    For each pipeline: its statistics with the fill of the buffers, and the calls in flight with item and age. Then the
    stacks of all threads that are not idle, of child processes and of Ray actors.
    """
    from spdl.pipeline._monitoring import dump_text  # imported late: it needs the engine

    return dump_text()


def on_signal(signum: int) -> None:
    """Write :func:`dump` to stderr whenever this process receives a signal.

    The stacks of all threads come first. They are written even if native code holds the GIL; the rest follows when the
    main thread runs Python code again, as with every signal handler. The previous handler is replaced.

    Args:
        signum: Signal that nothing else uses, such as ``signal.SIGUSR1``. SLURM and trainers may use ``SIGUSR1``
            and ``SIGUSR2`` for requeueing.

    Raises:
        ValueError: It is not a signal or cannot be handled, or this is not the main thread.
    """
    signal.signal(signum, _write)
    if hasattr(faulthandler, "register") and sys.stderr is not None:
        try:
            faulthandler.register(signum, file=sys.stderr, all_threads=True, chain=True)
        except (AttributeError, ValueError, OSError, RuntimeError):  # stderr is no file: the report has the stacks too
            return


def _write(signum: int, frame: FrameType | None) -> None:
    # In another thread: the signal may have interrupted this one while it held a lock that the report needs.
    threading.Thread(target=_report, name="spdl-dump", daemon=True).start()


def _report() -> None:
    print(dump(), file=sys.stderr, flush=True)
