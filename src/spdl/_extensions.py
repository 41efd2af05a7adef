"""Loading native extensions.

While an extension is initialised, Python code runs at several points, and so may signal handlers. If a handler raises
then, for example ``KeyboardInterrupt``, nanobind may take the exception for the failure of an optional feature and
clear it. Handlers run only on the main thread, so extensions are loaded on another thread.
"""

import _thread  # starting a threading.Thread turns an exception of a handler into a RuntimeError
import importlib
import sys
import threading
from types import ModuleType


def load_extension(name: str) -> ModuleType:
    """Import an extension by its full name. If a signal handler raises during that, re-raise it after loading.

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
            raise  # a handler's exception
        return importlib.import_module(name)  # no thread can be started: too many, or the interpreter is exiting
    try:
        is_loading.acquire()
    except BaseException:
        if not has_ended:
            is_loading.acquire()  # a thread in native code at interpreter exit may crash the process
        raise
    if failures:
        raise failures.pop()
    return sys.modules[name]
