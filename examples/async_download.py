"""Download with an async op: many requests wait at once, on one thread; what is CPU work runs in worker threads.

The server is started here, on the loopback interface, and fails now and then like a real one. The client is written
on plain ``asyncio`` streams; any async client takes its place.
"""

import asyncio
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.config import set_compact_log


class Handler(BaseHTTPRequestHandler):
    """Serves ``/<number>``; there is no number that ends in 7."""

    def do_GET(self) -> None:
        number = int(self.path.removeprefix("/"))
        if number % 10 == 7:
            self.send_error(404)
            return
        body = f"object {number}\n".encode() * 1000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Keep the terminal for the example."""


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # of connections that wait to be accepted


class NotFoundError(Exception):
    """The server has no such object."""


class Client:
    """An async callable is an op like an async function; it can hold connections, credentials, a limit."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    async def __call__(self, key: int) -> tuple[int, bytes]:
        """Fetch one object. An exception costs this item; the pipeline logs it and goes on."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(f"GET /{key} HTTP/1.0\r\nHost: {self.host}\r\n\r\n".encode())
            status = (await reader.readline()).split()[1]
            while (await reader.readline()).strip():
                pass  # the headers
            if status != b"200":
                raise NotFoundError(f"object {key}: the server answers {status.decode()}")
            return key, await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()


def digest(downloaded: tuple[int, bytes]) -> tuple[int, str]:
    """CPU work on what arrived, in a thread: hashing gives up the GIL."""
    key, body = downloaded
    return key, hashlib.sha256(body).hexdigest()


def main() -> None:
    set_compact_log(True)  # one line in the log for an item that failed, without its traceback
    with Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            client = Client("127.0.0.1", server.server_port)
            pipeline = (
                PipelineBuilder()
                .add_source(range(40))
                .pipe(client, name="download", concurrency=8, max_failures=10)
                .pipe(digest, concurrency=2)
                .add_sink(16)
                .build(num_threads=2)
            )
            with pipeline.auto_stop():
                digests = dict(pipeline)
            download = pipeline.stats().stages[1]
            print(f"{len(digests)} objects downloaded and hashed, {download.num_failures} not found")
            for failure in download.failures:
                print(f"  {failure.error}")
        finally:
            server.shutdown()
            serving.join()


if __name__ == "__main__":
    main()
