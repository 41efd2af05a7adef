"""Frames over a connection: order, many in one write, ends, and memory that comes back."""

import contextlib
import gc
import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._frame import HEADER
from spdl._processes._transport._link import Link
from spdl._processes._transport._pickling import NOTHING
from tests.processes.transport.stores import FakeStore


@contextlib.contextmanager
def pair(store: FakeStore | None = None) -> Iterator[tuple[Link, Link]]:
    here, end = link_pair(0)
    there = end.open()
    here.store, there.receiver = store, store
    with here, there:
        yield here, there


def test_frames_arrive_in_order_with_kind_and_number() -> None:
    """Both ways at once."""
    with pair() as (here, there):
        for number in range(100):
            here.send(3, number, {"n": number})
            there.send(4, 2**63 + number)
        for number in range(100):
            frame = there.recv(timeout=100)
            assert (frame.kind, frame.number, frame.load()) == (3, number, {"n": number})
            frame = here.recv()
            assert (frame.kind, frame.number, frame.load()) == (4, 2**63 + number, NOTHING)
        assert not there.has_frame()


@given(st.lists(st.integers(-9, 9000), max_size=6), st.lists(st.integers(50, 5000), min_size=1), st.booleans())
def test_frames_may_arrive_in_any_pieces(sizes: list[int], cuts: list[int], has_store: bool) -> None:
    """However the stream is cut, the same frames come out."""
    items: list[Any] = [bytes([size % 251]) * size if size >= 0 else size for size in sizes]
    store = FakeStore() if has_store else None

    class Written:
        def __init__(self) -> None:
            self.data = b""

        def sendall(self, data: bytes) -> None:
            self.data += data

        def sendmsg(self, pieces: list[Any]) -> int:
            data = b"".join(bytes(pickle.PickleBuffer(each).raw()) for each in pieces)[:10007]
            self.data += data
            return len(data)

    written: Any = Written()
    sending = Link(written, store, None)
    sending.send_encoded([(1, number, sending.encode(item)) for number, item in enumerate(items)])
    receiving = Link(written, None, store)
    position = 0
    while position < len(written.data):
        for cut in cuts:
            receiving._data += written.data[position : position + cut]
            position += cut
            receiving._accept(receiving._data)
    assert [receiving.recv().load() for _ in items] == items
    assert receiving._data == b""
    assert not store or not store.kept


def test_a_link_that_goes_in_a_cycle_with_its_owner_is_closed_in_silence() -> None:
    """Whichever of the two the collector finalizes first: here the older one, which is the link."""

    class Owner:
        def __init__(self, link: Link) -> None:
            self.link = link
            self.itself = self

        def __del__(self) -> None:
            self.link.close()

    here, end = link_pair(0)
    with end.open() as there:
        Owner(here)
        del here
        gc.collect()  # a warning would be an error, and that one fails the test
        with pytest.raises(EOFError):
            there.recv(timeout=100)


def test_many_threads_may_send() -> None:
    """No frame is torn."""
    with pair() as (here, there):

        def send(who: int) -> None:
            for number in range(60):
                here.send(who, number, b"x" * number * 100)

        senders = [threading.Thread(target=send, args=(who,)) for who in range(4)]
        for sender in senders:
            sender.start()
        got: dict[int, list[int]] = {who: [] for who in range(4)}
        for _ in range(240):
            frame = there.recv(timeout=30)
            assert frame.load() == b"x" * frame.number * 100
            got[frame.kind].append(frame.number)
        for sender in senders:
            sender.join()
        assert all(numbers == list(range(60)) for numbers in got.values())


def test_a_closed_end_is_the_end_of_the_stream() -> None:
    """What had been sent arrives first."""
    with pair() as (here, there):
        here.send(1, 0, "last")
        here.close()
        assert there.recv().load() == "last"
        with pytest.raises(EOFError):
            there.recv()
        with pytest.raises(EOFError):
            there.recv(timeout=1)
        with pytest.raises(OSError):
            there.send(1, 0, b"x" * 10**6)


def test_close_wakes_a_waiting_receiver_of_the_same_end() -> None:
    """From another thread."""
    with pair() as (here, _there):
        errors: list[BaseException] = []

        def receive() -> None:
            try:
                here.recv()
            except EOFError as exc:
                errors.append(exc)

        thread = threading.Thread(target=receive)
        thread.start()
        here.close()
        thread.join(100)
        assert len(errors) == 1
        with pytest.raises(EOFError):
            here.recv(timeout=0)


def test_nothing_in_time_is_a_timeout_and_nothing_is_lost() -> None:
    """Also in the middle of a frame."""
    with pair() as (here, there):
        with pytest.raises(TimeoutError):
            there.recv(timeout=0)
        encoded = here.encode("whole")
        header = HEADER.pack(7, encoded.form, 0, 0, 1, 0, len(encoded.head))
        here._socket.sendall(header + encoded.head[:3])
        with pytest.raises(TimeoutError):
            there.recv(timeout=0)
        here._socket.sendall(encoded.head[3:])
        assert there.recv(timeout=100).load() == "whole"


def test_what_cannot_be_pickled_leaves_the_link_usable() -> None:
    """Nothing was written."""
    with pair() as (here, there):
        with pytest.raises((pickle.PicklingError, AttributeError)):
            here.send(1, 0, lambda: None)
        here.send(1, 1, "next")
        assert there.recv().load() == "next"


def test_memory_comes_back() -> None:
    """When a frame is loaded, discarded, never sent, or still there when the link is closed."""
    store = FakeStore()
    with pair(store) as (here, there):
        here.send(1, 0, bytes(10000))
        assert there.recv().load() == bytes(10000)
        here.send(1, 0, [bytes(100000)])
        frame = there.recv()
        assert store.kept
        frame.discard()
        frame.discard()
        assert not store.kept
        here.discard(here.encode(bytes(10000)))
        assert not store.kept
        for _ in range(3):
            here.send(1, 0, bytearray(10000))
        there.recv().load()
        there.close()
        assert not store.kept


def test_a_full_store_sends_through_the_socket() -> None:
    """Nothing waits, nothing fails."""
    store = FakeStore(limit=10000)
    with pair(store) as (here, there):
        result: list[Any] = []
        receiver = threading.Thread(target=lambda: result.append(there.recv().load()))
        receiver.start()
        here.send(1, 0, {"large": bytes(1_000_000), "small": bytes(5000)})
        receiver.join(30)
        assert result == [{"large": bytes(1_000_000), "small": bytes(5000)}]
        assert not store.kept


def test_in_the_background_frames_leave_in_order() -> None:
    """Small ones gathered, large ones in one go, from several threads, while nobody reads yet."""
    with pair() as (here, there):
        here.write_in_background()

        def send(who: int) -> None:
            for number in range(200):
                size = 100_000 if number % 50 == 0 else number
                here.send_soon(who, number, here.encode(b"x" * size), urgent=number % 7 == 0)

        senders = [threading.Thread(target=send, args=(who,)) for who in range(3)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        got: dict[int, list[int]] = {who: [] for who in range(3)}
        for _ in range(600):
            frame = there.recv(timeout=30)
            assert len(frame.load()) == (100_000 if frame.number % 50 == 0 else frame.number)
            got[frame.kind].append(frame.number)
        assert all(numbers == list(range(200)) for numbers in got.values())
        assert here.drain(30)
        here.signal(9, 7, 2**32 - 1)
        frame = there.recv(timeout=30)
        assert (frame.kind, frame.number, frame.count, frame.load()) == (9, 7, 2**32 - 1, NOTHING)


def test_in_the_background_a_slow_reader_slows_the_sender() -> None:
    """What waits to be written never exceeds the limit by more than one frame, and all of it arrives."""
    limit, size, count = 1 << 20, 100_000, 300
    with pair() as (here, there):
        here.write_in_background(max_bytes_pending=limit)
        pending: list[int] = []

        def send() -> None:
            for number in range(count):
                here.send_soon(1, number, here.encode(b"x" * size), urgent=False)
                assert here._writer is not None
                pending.append(here._writer.num_bytes_pending)

        sender = threading.Thread(target=send)
        sender.start()
        assert [there.recv(timeout=30).number for _ in range(count)] == list(range(count))
        sender.join()
        assert limit < max(pending) < limit + 2 * size


@pytest.mark.parametrize("small", [True, False])
def test_in_the_background_closing_ends_a_wait_for_the_reader(small: bool) -> None:
    """Which never comes; other threads have the GIL meanwhile."""
    limit = 1 << 20
    with pair() as (here, _):
        here.write_in_background(max_bytes_pending=limit)
        writer: Any = here._writer
        raised: list[OSError] = []

        def send() -> None:
            try:
                while True:
                    here.send_soon(1, 0, here.encode(b"x" * (1000 if small else 100_000)), urgent=True)
            except OSError as exc:
                raised.append(exc)

        sender = threading.Thread(target=send)
        sender.start()
        while writer.num_bytes_pending <= limit:
            os.sched_yield()
        here.close()
        sender.join(30)
        assert [type(each) for each in raised] == [BrokenPipeError]


def test_in_the_background_a_gone_reader_is_noticed() -> None:
    """By a later send, and nothing is left to drain."""
    with pair() as (here, there):
        here.write_in_background()
        there.close()

        def send() -> None:
            while True:
                here.send(1, 0, b"x" * 1000)

        with pytest.raises(BrokenPipeError):
            send()
        assert not here.drain(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_no_end_of_the_connection() -> None:
    """While it lives, the end of the connection is seen; and it can exit although the writing thread is not there."""
    with pair() as (here, there):
        here.write_in_background()
        here.send(1, 0, "before")
        go, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(done)
            os.read(go, 1)
            here.close()
            os._exit(0)
        os.close(go)
        try:
            assert there.recv(timeout=30).load() == "before"
            here.close()
            with pytest.raises(EOFError):
                there.recv(timeout=30)
        finally:
            os.close(done)
            assert os.waitpid(pid, 0)[1] == 0


class Leaving:
    """Pickling or unpickling it raises what is no ``Exception``."""

    def __init__(self, kind: type[BaseException], *, at_departure: bool = False) -> None:
        self.kind = kind
        self.at_departure = at_departure

    def __reduce__(self) -> Any:
        if self.at_departure:
            raise self.kind
        return _raise, (self.kind,)


def _raise(kind: type[BaseException]) -> None:
    raise kind


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, BaseException])
def test_pickling_code_cannot_end_whoever_runs_it(kind: type[BaseException]) -> None:
    """A SystemExit of a payload is a failure of that payload, on either side; the next one arrives."""
    with pair() as (here, there):
        with pytest.raises(RuntimeError, match=f"^pickling ended with {kind.__name__}") as info:
            here.send(1, 0, Leaving(kind, at_departure=True))
        assert type(info.value.__cause__) is kind
        here.send(1, 0, Leaving(kind))
        here.send(1, 0, 5)
        with pytest.raises(RuntimeError, match=f"^unpickling ended with {kind.__name__}") as info:
            there.recv(10).load()
        assert type(info.value.__cause__) is kind
        assert there.recv(10).load() == 5


def test_a_ctrl_c_while_unpickling_stays_one() -> None:
    """In the main thread; other threads get none, so there it is the payload's."""
    with pair() as (here, there):
        here.send(1, 0, Leaving(KeyboardInterrupt))
        here.send(1, 0, Leaving(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            there.recv(10).load()
        caught: list[BaseException] = []

        def load() -> None:
            try:
                there.recv(10).load()
            except BaseException as exc:
                caught.append(exc)

        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
        assert [type(each) for each in caught] == [RuntimeError]
