"""Stores in other processes: forked after use, and from threads that read meanwhile."""

import multiprocessing

import pytest

from tests.support.child import run_child

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")

_SCRIPT = """
    import os, sys, threading, warnings
    from tests.remote.conftest import S3_OPTIONS
    from tests.support.object_server import serve
    from spdl.remote import RemoteStore

    warnings.simplefilter("ignore", DeprecationWarning)

    def fork(work):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                work()
                sys.stdout.flush()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    with serve() as server:
        server.objects = {f"bucket/{i}": str(i).encode() for i in range(100)}
        store = RemoteStore("s3://bucket/", options=S3_OPTIONS | {"endpoint": server.url})
        BODY
"""


def _run(body: str) -> None:
    lines = body.strip().splitlines()
    text = _SCRIPT.replace("BODY", ("\n" + " " * 8).join(lines))
    run_child(text).check("parent child grandchild parent" if "grandchild" in body else "child " * 4)


@pytest.mark.slow
def test_forked_child_reads_with_the_store_of_its_parent() -> None:
    """Also its own child, and the parent after them."""
    _run("""
def child():
    print("child" if store.get("2") == b"2" else "wrong")
    fork(lambda: print("grandchild" if store.get("3") == b"3" else "wrong"))
print("parent" if store.get("1") == b"1" else "wrong")
fork(child)
print("parent" if store.get("4") == b"4" else "wrong")
""")


@pytest.mark.slow
def test_fork_while_threads_read_leaves_a_store_that_works() -> None:
    """Whatever they hold at that moment."""
    _run("""
stopped = threading.Event()
def read():
    while not stopped.is_set():
        store.get("5")
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(4):
    fork(lambda: print("child" if store.get("2") == b"2" else "wrong"))
stopped.set()
for thread in threads: thread.join()
""")
