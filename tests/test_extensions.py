"""Loading native extensions: it may be interrupted at any point."""

import os

import pytest

from tests.support.child import run_child

# Each number is a call or a return of Python code while the extension loads, and gets a process of its own.
_INTERRUPT_CALLS = """
import importlib, os, signal, sys
import spdl._extensions

name = {name!r}
if name.endswith("_media"):
    spdl._extensions.load_extension("spdl.io.lib._core")
import_module = importlib.import_module

class Stop(Exception):
    pass

def stop(*_):
    raise Stop

def interrupted(number):
    # How many calls there were, and whether the exception arrived.
    num_calls, has_arrived = 0, False

    def count(*_):
        nonlocal num_calls
        num_calls += 1
        if num_calls == number:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGALRM)

    def counted(name):
        sys.setprofile(count)
        try:
            return import_module(name)
        finally:
            sys.setprofile(None)

    importlib.import_module = counted
    signal.signal(signal.SIGALRM, stop)
    try:
        spdl._extensions.load_extension(name)
    except Stop:
        has_arrived = True
    return num_calls, has_arrived

def in_child(number):
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(writer, repr(interrupted(number)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader) as outcome:
        return eval(outcome.read())

total, _ = in_child(0)
assert total > 20, total
# What it imports comes first and takes most calls; its own classes come last.
for number in (*range(1, total, total // 4), *range(max(total - 60, 1), total, 5)):
    _, has_arrived = in_child(number)
    assert has_arrived, f"lost at call {{number}} of {{total}}"
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("name", ["spdl.io.lib._core", "spdl.io.lib._media", "spdl._processes.lib._memory"])
def test_what_a_handler_raises_while_an_extension_loads_is_not_lost(name: str) -> None:
    """A signal at one of sixteen places in the Python code that its initialisation runs."""
    run_child(_INTERRUPT_CALLS.format(name=name), fresh=True).check()
