"""A small server of objects, as S3 and web servers answer: ETags, ranges, conditions, listings. It has its own thread.

``FaultProxy`` stands before it and spoils answers.
"""

import asyncio
import hashlib
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["Fault", "FaultProxy", "ObjectServer", "Request", "serve", "serve_faults", "warm_up"]

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was received. ``headers`` have lower-case names."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path of the object, without the slash."""
        return unquote(urlsplit(self.target).path).lstrip("/")


class _Server:
    """An asyncio server with a thread and a loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__)
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._thread.start()
        self._call(self._open(tls))

    def stop(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self, tls: ssl.SSLContext | None) -> None:
        self._is_closing = False
        self._accepting = asyncio.create_task(self._accept(tls))

    async def _close(self) -> None:
        # Not cancelled: a connection that is accepted at that moment would be lost, and stay open.
        self._is_closing = True
        with socket.create_connection(("127.0.0.1", self.port)):
            await self._accepting
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _accept(self, tls: ssl.SSLContext | None) -> None:
        """Each connection is known from here on, also while TLS shakes hands; ``asyncio.start_server`` tells later."""
        while True:
            connection, _ = await self._loop.sock_accept(self._listener)
            if self._is_closing:
                connection.close()
                return
            task = self._loop.create_task(self._serve(connection, tls))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(_close, connection))  # the task may not have begun

    async def _serve(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls)
            try:
                writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
                while (request := await _read_request(reader)) is not None:
                    if not await self._answer(request, writer):
                        break
                    await writer.drain()
            finally:
                transport.abort()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Write the answer. False: the connection is over."""
        raise NotImplementedError


def _close(connection: socket.socket, _: object) -> None:
    connection.close()


@dataclass(slots=True)
class _Answer:
    status: int
    reason: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def head(self) -> bytes:
        headers = {"content-length": str(len(self.body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} {self.reason}", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


class ObjectServer(_Server):
    """Objects by path. For S3, the first name of a path is the bucket.

    Attributes:
        objects: What it has; tests may change it at any time.
        requests: What was asked, in order.
        refuse: Status for requests of a path, instead of the answer.
        quotes_listed_etags: Whether lists have ETags as answers do; those of Azure do not.
        has_ranges: Whether it sends parts of objects; else always all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.refuse: dict[str, int] = {}
        self.has_ranges = True
        self.quotes_listed_etags = True

    def num_bytes_asked(self) -> int:
        """The number of bytes in the answers to all requests for objects that exist."""
        total = 0
        for request in self.requests:
            if request.method == "GET" and (data := self.objects.get(request.path)) is not None:
                total += len(_object_answer(request, data, self.has_ranges).body)
        return total

    def asked(self, method: str = "GET") -> list[str]:
        """The paths of the requests with that method."""
        return [request.path for request in self.requests if request.method == method]

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        self.requests.append(request)
        answer = self._answer_to(request)
        writer.write(answer.head() + (b"" if request.method == "HEAD" else answer.body))
        return True

    def _answer_to(self, request: Request) -> _Answer:
        if (status := self.refuse.get(request.path)) is not None:
            return _Answer(status, "Refused", body=b"<Error><Code>Refused</Code></Error>")
        query = parse_qs(urlsplit(request.target).query, keep_blank_values=True)
        if "list-type" in query:
            return self._listing(request.path.strip("/"), query.get("prefix", [""])[0])
        if query.get("comp") == ["list"]:
            return self._azure_listing(request.path.strip("/"), query.get("prefix", [""])[0], query.get("marker"))
        if request.method == "PUT":
            self.objects[request.path] = request.body
            return _Answer(200, "OK", {"etag": etag_of(request.body)})
        if request.method not in ("GET", "HEAD"):
            return _Answer(501, "Not Implemented")
        data = self.objects.get(request.path)
        if data is None:
            return _Answer(404, "Not Found", body=b"<Error><Code>NoSuchKey</Code></Error>")
        return _object_answer(request, data, self.has_ranges)

    def _listed(self, etag: str) -> str:
        return etag if self.quotes_listed_etags else etag.strip('"')

    def _listing(self, bucket: str, prefix: str) -> _Answer:
        entries = "".join(
            f"<Contents><Key>{escape(path.removeprefix(f'{bucket}/'))}</Key><Size>{len(data)}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{escape(self._listed(etag_of(data)))}</ETag></Contents>"
            for path, data in sorted(self.objects.items())
            if path.startswith(f"{bucket}/{prefix}")
        )
        body = f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        return _Answer(200, "OK", {"content-type": "application/xml"}, body.encode())

    def _azure_listing(self, container: str, prefix: str, marker: list[str] | None) -> _Answer:
        """In pages of three: "List Blobs", learn.microsoft.com/rest/api/storageservices."""
        names = sorted(path for path in self.objects if path.startswith(f"{container}/{prefix}"))
        first = int(marker[0]) if marker else 0
        entries = "".join(
            f"<Blob><Name>{escape(name.removeprefix(f'{container}/'))}</Name><Properties>"
            f"<Last-Modified>{formatdate(0, usegmt=True)}</Last-Modified><Etag>{etag_of(self.objects[name])[1:-1]}"
            "</Etag><Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
            f"<Content-Length>{len(self.objects[name])}</Content-Length></Properties></Blob>"
            for name in names[first : first + 3]
        )
        following = str(first + 3) if first + 3 < len(names) else ""
        body = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{container}">'
            f"<Blobs>{entries}</Blobs><NextMarker>{following}</NextMarker></EnumerationResults>"
        )
        return _Answer(200, "OK", {"content-type": "application/xml"}, body.encode())


def etag_of(data: bytes) -> str:
    """The version of an object with that content."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _object_answer(request: Request, data: bytes, has_ranges: bool) -> _Answer:
    headers = {"etag": etag_of(data), "last-modified": formatdate(0, usegmt=True), "accept-ranges": "bytes"}
    wanted, known = request.headers.get("if-match"), request.headers.get("if-none-match")
    if wanted is not None and wanted != headers["etag"]:
        return _Answer(412, "Precondition Failed", headers)
    if known == headers["etag"]:
        return _Answer(304, "Not Modified", headers)
    if "range" not in request.headers or not has_ranges:
        length = {"content-length": str(len(data))}  # also in the answer to HEAD
        return _Answer(200, "OK", headers | length, data)
    first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
    start, stop = int(first), min(int(last or len(data)) + 1, len(data))
    if start >= len(data):
        return _Answer(416, "Range Not Satisfiable", {"content-range": f"bytes */{len(data)}"})
    headers["content-range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return _Answer(206, "Partial Content", headers, data[start:stop])


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one answer.

    Attributes:
        kind: ``"reset"``: the connection is reset before the answer, ``"truncate"``: closed after half of the body,
            ``"refuse"``: answered with ``status``, ``"stall"``: half of the body comes and then nothing,
            ``"trickle"``: the body comes in small pieces, ``"late"``: the head comes alone, and the body later,
            ``"change"``: the ETag is another one.
    """

    kind: str
    status: int = 503


class FaultProxy(_Server):
    """Stands before a server and spoils answers.

    Args:
        port: Port of the server.
        plan: The fault for a request, given it and the number of requests for the same path before it.
    """

    def __init__(self, port: int, plan: Callable[[Request, int], Fault | None]) -> None:
        super().__init__()
        self._upstream, self._plan = port, plan
        self._counts: dict[str, int] = {}
        self.faults: list[str] = []

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        number = self._counts.get(request.path, 0)
        self._counts[request.path] = number + 1
        fault = self._plan(request, number)
        if fault is None:
            head, body = await self._ask(request)
            writer.write(head + body)
            return True
        self.faults.append(fault.kind)
        if fault.kind == "reset":
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if fault.kind == "refuse":
            writer.write(
                _Answer(fault.status, "Refused", body=b"<Code>SlowDown</Code>").head() + b"<Code>SlowDown</Code>"
            )
            return True
        head, body = await self._ask(request)
        if fault.kind == "change":
            head = head.replace(b'etag: "', b'etag: "changed-')
        if fault.kind in ("truncate", "stall"):
            writer.write(head + body[: len(body) // 2])
            await writer.drain()
            if fault.kind == "stall":
                await asyncio.Event().wait()  # until the client or the test ends
            return False
        if fault.kind == "trickle":
            writer.write(head)
            step = max(1, len(body) // 16)
            for start in range(0, len(body), step):
                writer.write(body[start : start + step])
                await writer.drain()
                await asyncio.sleep(0)
            return True
        writer.write(head)
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(body)
        return True

    async def _ask(self, request: Request) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            lines = [f"{request.method} {request.target} HTTP/1.1"]
            lines += [f"{name}: {value}" for name, value in request.headers.items()]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + request.body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _headers_of(head).get("content-length", "0")
            return head, b"" if request.method == "HEAD" else await reader.readexactly(int(length))
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head.partition(b"\r\n")[0].decode().split(" ")
    headers = _headers_of(head)
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def _headers_of(head: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.decode().split("\r\n")[1:] if line)
    return {name.lower(): value.strip() for name, _, value in pairs}


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[ObjectServer]:
    """A running server."""
    server = ObjectServer()
    server.start(tls)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def serve_faults(server: ObjectServer, plan: Callable[[Request, int], Fault | None]) -> Iterator[FaultProxy]:
    """A running proxy before a server."""
    proxy = FaultProxy(server.port, plan)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


def warm_up() -> None:
    """Start the threads of obstore, which stay, so that no test is blamed for them."""
    from spdl.remote import RemoteError, RemoteStore

    with suppress(RemoteError):
        RemoteStore("http://127.0.0.1:9/", attempts=1).get("nothing")
