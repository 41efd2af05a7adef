"""Loading native extensions.

While an extension initialises itself, Python code runs here and there, and so may the handlers of signals. What one of
them raises then, such as ``KeyboardInterrupt``, is lost where nanobind takes it for the failure of something optional
and clears it. Handlers run on the main thread only, so extensions are loaded on another one.
"""

import _thread  # starting a threading.Thread turns what a handler raises meanwhile into a RuntimeError
import importlib
import sys
import threading
from types import ModuleType

__all__ = ["load_extension"]


def load_extension(name: str) -> ModuleType:
    """Import the extension of that full name. What a signal's handler raises meanwhile is raised once it is loaded.

    Raises:
        ImportError: It does not load.
    """
    if name in sys.modules or threading.current_thread() is not threading.main_thread():
        return importlib.import_module(name)
    failures: list[BaseException] = []
    has_ended = False
    is_loading = _thread.allocate_lock()
    is_loading.acquire()

    def load() -> None:
        nonlocal has_ended
        try:
            importlib.import_module(name)
        except BaseException as exc:  # noqa: BLE001  # raised again by the caller
            failures.append(exc)
        finally:
            has_ended = True
            is_loading.release()

    try:
        _thread.start_new_thread(load, ())
    except RuntimeError as exc:
        if exc.__traceback__ is not None and exc.__traceback__.tb_next is not None:
            raise  # it is a handler's
        return importlib.import_module(name)  # no thread can be started: too many, or the interpreter is ending
    try:
        is_loading.acquire()
    except BaseException:
        if not has_ended:
            is_loading.acquire()  # a thread that is in native code when the interpreter ends may crash the process
        raise
    if failures:
        raise failures.pop()
    return sys.modules[name]
