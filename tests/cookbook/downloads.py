"""The web server of the page on downloads, while a test needs it."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cookbook.server import DownloadServer

__all__ = ["serve_downloads"]


@contextmanager
def serve_downloads(folder: Path) -> Iterator[Counter[str]]:
    """A running server, and ``urls.txt`` in ``folder``; gives how often each name was asked for."""
    server = DownloadServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        server.write_urls(folder / "urls.txt")
        yield server.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
