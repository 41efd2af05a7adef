"""Ctrl-C while a request waits for its server."""

import threading

import pytest

from spdl.remote import RemoteTimeoutError, RemoteUnavailableError
from spdl.remote._requests import Interruptible
from tests.support.child import run_child


def test_request_that_takes_long_is_made_by_a_thread() -> None:
    """The main thread waits a second for it at most; the second attempt has the rest of the time."""
    made: list[tuple[bool, float]] = []

    def request(limit: float) -> str:
        made.append((threading.current_thread() is threading.main_thread(), limit))
        if len(made) == 1:
            raise RemoteTimeoutError("too long")
        return "done"

    assert Interruptible().run(request, 30.0) == "done"
    assert [is_main for is_main, _ in made] == [True, False]
    assert made[0][1] == 1.0
    assert 20.0 < made[1][1] <= 30.0


def test_errors_of_requests_are_raised_as_they_are() -> None:
    """By either thread."""
    main = Interruptible()

    def request(limit: float) -> None:
        raise RemoteTimeoutError("short") if limit <= 1.0 else RemoteUnavailableError("long")

    with pytest.raises(RemoteUnavailableError, match="long"):
        main.run(request, 30.0)


@pytest.mark.slow
def test_requests_are_made_where_no_thread_can_be_started() -> None:
    """From Python 3.12 on none is, once the main thread has ended; a thread that is no daemon may still read."""
    run_child("""
        import threading
        from spdl.remote import RemoteTimeoutError
        from spdl.remote._requests import Interruptible

        def request(limit):
            if limit == 1.0:
                raise RemoteTimeoutError("too long")
            return "done"

        def read():
            threading.main_thread().join()
            print(Interruptible().run(request, 30.0))

        threading.Thread(target=read).start()
    """).check("done")


@pytest.mark.slow
def test_ctrl_c_ends_a_read_whose_server_is_silent() -> None:
    """Within a second, not at the time limit of the request."""
    run_child("""
        import os, signal, threading
        from tests.remote.conftest import S3_OPTIONS
        from tests.support.object_server import Fault, serve, serve_faults
        from spdl.remote import RemoteStore

        def plan(request, number):
            os.kill(os.getpid(), signal.SIGINT)
            return Fault("stall")

        with serve() as server:
            server.objects["bucket/x"] = bytes(100)
            with serve_faults(server, plan) as proxy:
                store = RemoteStore("s3://bucket/", options=S3_OPTIONS | {"endpoint": proxy.url})
                try:
                    store.get("x")
                except KeyboardInterrupt:
                    print("interrupted")
    """).check("interrupted")
