"""Download with an async op: one thread waits for many requests at a time; worker threads do the CPU work.

The example starts its own server on the loopback interface. Like a real server, it answers some requests with an
error. The client uses plain ``asyncio`` streams; you can replace it with any async client.
"""

import asyncio
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.config import set_compact_log


class Handler(BaseHTTPRequestHandler):
    """Serves ``/<number>``, except numbers that end in 7."""

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
        """Log nothing, to keep the output of the example readable."""


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # connections that may wait to be accepted


class NotFoundError(Exception):
    """The server has no such object."""


class Client:
    """An object with an async ``__call__`` is also an op. It can hold connections, credentials or a limit."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    async def __call__(self, key: int) -> tuple[int, bytes]:
        """Fetch one object. If this raises, only this item fails; the pipeline logs the failure and continues."""
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
    """Hash the data in a thread: hashing releases the GIL."""
    key, body = downloaded
    return key, hashlib.sha256(body).hexdigest()


def main() -> None:
    set_compact_log(True)  # log a failed item on one line, without its traceback
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
