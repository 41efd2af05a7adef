"""Ctrl-C while a request waits for its server."""

import pytest

from tests.support.child import run_child


@pytest.mark.slow
def test_ctrl_c_ends_a_read_whose_server_is_silent() -> None:
    """At once, not at the time limit of the request."""
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
