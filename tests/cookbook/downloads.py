"""A web server of files, some of which are gone, busy at first, or cut off at first."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.cookbook import data

__all__ = ["serve_downloads"]


@contextmanager
def serve_downloads(folder: Path) -> Iterator[Counter[str]]:
    """A running server, and ``urls.txt`` in ``folder``; gives how often each name was asked for."""
    asked: Counter[str] = Counter()
    files, lock = data.downloads(missing=False), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            with lock:
                asked[name] += 1
                is_first = asked[name] == 1
            if name not in files:
                self.send_error(404)
            elif name in data.BUSY and is_first:
                self.send_error(503)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(files[name])))
                self.end_headers()
                self.wfile.write(files[name][: 100 if name in data.CUT_OFF and is_first else None])

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64  # connections that wait: more than the downloads that run at a time

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        names = data.downloads(missing=True)
        url = f"http://127.0.0.1:{server.server_port}"
        (folder / "urls.txt").write_text("".join(f"{url}/{name}\n" for name in names), encoding="utf-8")
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
