"""A web server to try downloads with: two of its files are gone, three are busy at first, and one is cut off at first.

Needs nothing but Python: readers of the page get this file.

Usage: python server.py [PORT], default 8000; writes urls.txt, and serves until Ctrl-C
"""

import sys
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["BUSY", "CUT_OFF", "FILES", "DownloadServer"]

_NAMES = [f"{number:03}.bin" for number in range(40)]
_GONE = {"007.bin", "021.bin"}
#: The files by name, without those that are gone.
FILES = {name: (b"%04d" % number) * 500 for number, name in enumerate(_NAMES) if name not in _GONE}
#: Files that fail at first.
BUSY, CUT_OFF = {"003.bin", "013.bin", "023.bin"}, {"030.bin"}


class _Handler(BaseHTTPRequestHandler):
    server: "DownloadServer"

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        is_first = self.server.note(name)
        if name not in FILES:
            self.send_error(404)
        elif name in BUSY and is_first:
            self.send_error(503)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(FILES[name])))
            self.end_headers()
            self.wfile.write(FILES[name][: 100 if name in CUT_OFF and is_first else None])

    def log_message(self, *args: object) -> None:
        pass


class DownloadServer(ThreadingHTTPServer):
    """The server. ``asked`` is how often each name was asked for."""

    request_queue_size = 64  # connections that wait: more than the downloads that run at a time

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, name: str) -> bool:
        """Count a request; return whether it is the first for that name."""
        with self._lock:
            self.asked[name] += 1
            return self.asked[name] == 1

    def write_urls(self, path: Path) -> None:
        """Write the URLs, one a line."""
        path.write_text("".join(f"http://127.0.0.1:{self.server_port}/{name}\n" for name in _NAMES), encoding="utf-8")


def main(port: str = "8000") -> None:
    with DownloadServer(int(port)) as server, suppress(KeyboardInterrupt):
        server.write_urls(Path("urls.txt"))
        print(f"urls.txt has {len(_NAMES)} URLs; serving them until Ctrl-C", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
