"""The main function of every child: makes the child end with its parent, then runs the child's own function.

Imported by the fork server and by every child, so it imports little.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._memory import exit_on_hangup
from spdl._reports import short_repr

from ._calls import Answer, Phase
from ._environment import change_environment
from ._main_module import can_import_main, check_importable, find_unpicklable
from ._remote_failure import RemoteFailure
from ._signals import ignore_signals
from ._stacks import offer_stacks
from ._transport._arena import set_current

if TYPE_CHECKING:
    from ._transport._connecting import LinkEnd

#: Seconds until the child ends after the parent has ended or has closed the connection.
GRACE: Final = 1.0


class UnpicklableError(TypeError):
    """The arguments of a new process cannot be pickled."""


class Call:
    """A function and its arguments, sent to a new process. They are unpickled there only by ``load``.

    Pickled only while the process is being started, because some arguments (pipes, locks) can be sent only then.

    Args:
        what: Names the process in errors.
        body: Called there as ``body(link, *args)``.
        args: Picklable, unless the process is forked.
        environment: Changes of the environment variables that the process begins with.
    """

    def __init__(
        self,
        what: str,
        body: Callable[..., None],
        args: tuple[Any, ...],
        environment: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self._what = what
        self._parts = (body, args)
        self._environment = environment

    def load(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """The function and its arguments."""
        return self._parts

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            return _ArrivedCall, (_dump(self._parts), dict(self._environment))
        except (OSError, KeyboardInterrupt):  # not caused by an object: no descriptors left
            raise
        except BaseException as exc:
            raise UnpicklableError(self._explain(exc)) from exc

    def _explain(self, error: BaseException) -> str:
        body, args = self._parts
        found = find_unpicklable(((short_repr(part), part) for part in (body, *args)), _dump)
        if found is not None:
            return f"cannot send {found[0]} to {self._what}: {found[1]}"
        return f"cannot send arguments to {self._what}: they cannot be pickled: {error} ({type(error).__name__})"


class _ArrivedCall:
    """The same in the new process."""

    def __init__(self, data: bytes, environment: Mapping[str, str | None]) -> None:
        self._data = data
        self._environment = environment

    def load(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Raises any error of unpickling: missing modules, functions of an interactive main module."""
        change_environment(self._environment)  # before modules are imported, which may read it
        parts: tuple[Callable[..., None], tuple[Any, ...]] = pickle.loads(self._data)
        self._data = b""
        return parts


class _Pickler(ForkingPickler):
    """Refuses objects that exist only in the main module, if a new process cannot import that."""

    def reducer_override(self, obj: Any) -> Any:
        check_importable(obj)
        return NotImplemented


def _dump(obj: Any) -> bytes:
    stream = io.BytesIO()
    pickler = ForkingPickler if can_import_main() else _Pickler
    pickler(stream, pickle.HIGHEST_PROTOCOL).dump(obj)
    return stream.getvalue()


def run(there: LinkEnd, call: Call | _ArrivedCall) -> None:
    """The main function of every child: run ``call`` with the child's end of the connection to the parent."""
    pid = os.getpid()
    ignore_signals()
    link = there.open()
    # Works even if user code never releases the GIL.
    exit_on_hangup(link.fileno(), GRACE)
    offer_stacks()
    if link.sender is not None:
        set_current(link.sender)
    phase = Phase.ARRIVING
    try:
        body, args = call.load()
        del call
        phase = Phase.RUNNING
        body(link, *args)
    except BaseException as exc:  # noqa: BLE001 - a user's sys.exit() is reported like any other failure
        with suppress(Exception):  # the parent has ended, or has closed the connection
            link.send(Answer.FAILED, phase, RemoteFailure.of(exc))
        sys.exit(1)
    finally:
        if os.getpid() != pid:  # user code has forked this process, and has returned there; its links are closed there
            os._exit(0)
        _end_process_pools()


def _end_process_pools() -> None:
    """End pools of ``concurrent.futures``, including the user's.

    In its own processes, ``multiprocessing`` waits for all children before ``concurrent.futures`` ends its pools, so it
    would wait forever. Their exit function has no public name.
    """
    end = getattr(sys.modules.get("concurrent.futures.process"), "_python_exit", None)
    if callable(end):
        end()
