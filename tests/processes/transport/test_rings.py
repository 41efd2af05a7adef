"""Small frames through rings in shared memory: order, no loss, full rings, ends, forks, and no rings at all."""

import contextlib
import errno
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._processes._memory import FrameRing
from spdl._processes._transport import _frame
from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._link import Link

PAGE = mmap.PAGESIZE
REFUSED, DONE, WAKING = 0, 1, 2


@contextlib.contextmanager
def ring_ends(capacity: int = PAGE) -> Iterator[tuple[FrameRing, FrameRing]]:
    """A ring's writer and reader, each with a mapping of its own."""
    writer = FrameRing(capacity)
    reader = FrameRing.attach(os.dup(writer.fd))
    reader.open_reader()
    try:
        yield writer, reader
    finally:
        writer.close_file()
        reader.close_file()


@contextlib.contextmanager
def pair(capacity: int = PAGE, *, in_background: bool = False) -> Iterator[tuple[Link, Link]]:
    """Both ends of a connection whose rings have so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_frame, "_CAPACITY", capacity)
        here, end = link_pair(1 << 20, has_rings=True)
    there = end.open()
    if in_background:
        here.write_in_background()
    with here, there:
        yield here, there


# -- the ring


@given(st.lists(st.one_of(st.integers(1, PAGE // 8), st.just(0), st.integers(-600, -1)), max_size=60))
def test_what_is_taken_is_what_was_put(steps: list[int]) -> None:
    """Once, whole and in order, whatever is taken when: a positive step puts so many bytes, another takes."""
    waiting: list[bytes] = []
    with ring_ends() as (writer, reader):
        for number, step in enumerate(steps):
            if step > 0:
                message = bytes([number % 256]) * step
                if writer.put((message[:1], message[1:])) != REFUSED:
                    waiting.append(message)
                else:
                    assert sum(map(len, waiting)) > PAGE // 2 - 16 * len(waiting)
            else:
                taken = reader.take(-step or PAGE)
                while taken:
                    message = waiting.pop(0)
                    assert taken.startswith(message)
                    taken = taken[len(message) :]
        assert reader.take(2 * PAGE) == b"".join(waiting)
        assert reader.take(PAGE) == b""


def test_a_message_waits_for_those_that_went_another_way_before_it() -> None:
    """And what is put before them does not."""
    with ring_ends() as (writer, reader):
        writer.put((b"first",))
        writer.count_other(2)
        writer.put((b"fourth",))
        assert reader.take(PAGE) == b"first"
        reader.count_other(1)
        assert not reader.has_message_or_announce()
        assert reader.take(PAGE) == b""
        reader.count_other(1)
        assert reader.has_message_or_announce()
        assert reader.take(PAGE) == b"fourth"


def test_the_writer_is_told_once_that_the_reader_waits() -> None:
    """And not when the reader has found the message by itself."""
    with ring_ends() as (writer, reader):
        assert writer.put((b"a",)) == DONE
        reader.take(PAGE)
        assert not reader.has_message_or_announce()
        assert writer.put((b"b",)) == WAKING
        assert writer.put((b"c",)) == DONE
        reader.take(PAGE)
        assert writer.put((b"d",)) == DONE


def test_nothing_is_put_for_nobody() -> None:
    """Neither before there is a reader, nor after it, nor when the writer has ended."""
    writer = FrameRing(PAGE)
    assert writer.put((b"a",)) == REFUSED
    reader = FrameRing.attach(os.dup(writer.fd))
    reader.open_reader()
    assert writer.put((b"a",)) == DONE
    reader.close_reader()
    reader.open_reader()
    assert writer.put((b"b",)) == REFUSED
    with ring_ends() as (other, _):
        other.close_file()
        assert other.put((b"a",)) == REFUSED


def test_what_a_killed_writer_has_begun_is_not_seen() -> None:
    """A message counts when the head has moved behind it, which is the last step."""
    with ring_ends() as (writer, reader):
        writer.put((b"whole",))
        with mmap.mmap(writer.fd, 0) as memory:
            start = len(memory) - PAGE + 16  # behind the first record
            memory[start : start + 24] = (9).to_bytes(4, "little") + bytes(4) + b"began to be it.."
        assert reader.take(PAGE) == b"whole"
        assert not reader.has_message_or_announce()
        assert reader.take(PAGE) == b""


def test_a_damaged_ring_is_an_error() -> None:
    """No byte beyond what was put is read."""
    with ring_ends() as (writer, reader):
        writer.put((b"message",))
        with mmap.mmap(writer.fd, 0) as memory:
            start = len(memory) - PAGE
            memory[start : start + 4] = (400).to_bytes(4, "little")
        with pytest.raises(OSError, match="ring"):
            reader.take(PAGE)


def test_a_descriptor_that_is_no_ring_is_refused() -> None:
    """A file of zeros, and one that is too small."""
    for size in (3 * PAGE, 100):
        fd = os.memfd_create("zeros") if hasattr(os, "memfd_create") else -1
        if fd < 0:
            pytest.skip("there are no anonymous files")
        os.truncate(fd, size)
        with pytest.raises(OSError, match="ring"):
            FrameRing.attach(fd)
    for capacity in (0, 100, PAGE + 1):
        with pytest.raises(OSError, match="ring"):
            FrameRing(capacity)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_neither_puts_nor_takes() -> None:
    """The ring is its parent's."""
    with ring_ends() as (writer, reader):
        writer.put((b"parent's",))
        pid = os.fork()
        if pid == 0:
            is_fine = writer.put((b"a",)) == REFUSED and reader.take(PAGE) == b"" and not reader.spin()
            os._exit(0 if is_fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert reader.take(PAGE) == b"parent's"


# -- links


@given(
    st.lists(st.one_of(st.integers(0, 600), st.integers(500, 9000), st.integers(-3, -1)), max_size=40),
    st.booleans(),
)
def test_frames_keep_their_order_whichever_way_they_go(steps: list[int], in_background: bool) -> None:
    """Small ones through the ring while it has room, others through the socket; a negative step receives so many."""
    sent: list[bytes] = []
    received: list[bytes] = []
    with pair(in_background=in_background) as (here, there):
        for number, step in enumerate(steps):
            if step >= 0:
                item = bytes([number]) * step
                here.send(1, number, item)
                sent.append(item)
                continue
            for _ in range(min(-step, len(sent) - len(received))):
                received.append(there.recv(timeout=100).load())
        while len(received) < len(sent):
            received.append(there.recv(timeout=100).load())
        assert received == sent
        with pytest.raises(TimeoutError):
            there.recv(0)
        assert there.try_recv() is None


@pytest.mark.parametrize("in_background", [False, True])
def test_whoever_waits_is_woken(in_background: bool) -> None:
    """Both ways at once, step by step: a lost wake-up would be the end of it."""
    with pair(in_background=in_background) as (here, there):

        def answer() -> None:
            for _ in range(200):
                frame = there.recv()
                there.send(2, frame.number, frame.load())

        thread = threading.Thread(target=answer)
        thread.start()
        for number in range(200):
            here.send(1, number, b"x" * (number * 17 % 900))
            frame = here.recv(timeout=100)
            assert (frame.kind, frame.number) == (2, number)
        thread.join()


def test_many_threads_may_put() -> None:
    """Each one's frames arrive in its order, though the small ring sends many to the socket."""
    with pair(in_background=True) as (here, there):

        def send(who: int) -> None:
            for number in range(60):
                here.send(who, number, b"x" * (number * who * 5))

        senders = [threading.Thread(target=send, args=(who,)) for who in range(4)]
        for sender in senders:
            sender.start()
        got: dict[int, list[int]] = {who: [] for who in range(4)}
        for _ in range(240):
            frame = there.recv(timeout=100)
            assert frame.load() == b"x" * (frame.number * frame.kind * 5)
            got[frame.kind].append(frame.number)
        for sender in senders:
            sender.join()
        assert all(numbers == list(range(60)) for numbers in got.values())


@pytest.mark.parametrize("in_background", [False, True])
def test_what_was_sent_before_the_end_arrives(in_background: bool) -> None:
    """From the ring and from the socket, and then the end of the stream."""
    with pair(in_background=in_background) as (here, there):
        for number in range(10):
            here.send(1, number, b"x" * (1000 * (number % 3)))
        here.drain(100)
        here.close()
        assert [there.recv(timeout=100).number for _ in range(10)] == list(range(10))
        with pytest.raises(EOFError):
            there.recv(timeout=100)
        with pytest.raises(OSError, match=r"pipe|reset|closed"):  # the ring refuses, and the socket is closed
            there.send(1)


def test_what_went_missing_lets_nothing_after_it_through() -> None:
    """A sender that is killed before its thread has written loses the end of the stream, not the middle."""
    with pair() as (here, there):
        here.send(1, 1)
        here._rings.outbound.count_other(1)  # type: ignore[union-attr] # a frame that never reaches the socket
        here.send(1, 3)
        here.close()
        assert there.recv(timeout=100).number == 1
        with pytest.raises(EOFError):
            there.recv(timeout=100)


def test_wakings_that_nobody_reads_do_not_block_the_sender() -> None:
    """More of them than a socket holds: then there is enough to wake anybody."""
    with pair() as (here, there):
        for number in range(3000):
            assert not there.has_frame()  # announces that it waits
            here.signal(1, number, 1)
            frame = there.next_frame()
            assert frame is not None
            assert frame.number == number


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_without_memory_for_rings_all_goes_through_the_socket(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are made, and where only the other side cannot map them."""

    class Lacking:
        def __init__(self, *_: Any) -> None:
            raise OSError(code, "none left")

        @staticmethod
        def attach(fd: int) -> Any:
            os.close(fd)
            return Lacking()

    def check(here: Link, there: Link) -> None:
        with here, there:
            here.send(1, 7, b"there")
            there.send(2, 8, b"and back")
            assert there.recv(timeout=100).load() == b"there"
            assert here.recv(timeout=100).load() == b"and back"

    here, end = link_pair(1 << 20, has_rings=True)
    monkeypatch.setattr(_frame, "FrameRing", Lacking)
    there = end.open()
    assert there._rings is None
    check(here, there)
    here, end = link_pair(1 << 20, has_rings=True)
    assert here._rings is None
    check(here, end.open())


@pytest.mark.skipif(sys.platform != "linux", reason="memory is reserved before it is used")
def test_when_memory_runs_out_later_frames_go_through_the_socket() -> None:
    """In order, behind those in the ring, and none is lost."""
    with pair(1 << 18) as (here, there):
        here.send(1, 0, b"x" * 1000)  # reserves the first part of the ring
        assert here._rings is not None
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, here._rings.outbound.fd)  # a file that refuses to reserve memory
        os.close(nowhere)
        for number in range(1, 120):
            here.send(1, number, bytes([number]) * 1000)
            if number >= 20:  # the ring is ahead, and later the socket; neither is full
                frame = there.recv(timeout=100)
                assert frame.number == number - 20
                assert frame.number == 0 or frame.load() == bytes([frame.number]) * 1000
        assert [there.recv(timeout=100).number for _ in range(20)] == list(range(100, 120))
        assert here._rings.outbound.put((bytes(1000),)) == REFUSED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits a process, for good")
def test_where_files_may_not_be_large_all_goes_through_the_socket() -> None:
    """``ulimit -f`` counts memory that has a descriptor."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            import resource  # not on Windows

            resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE, resource.RLIM_INFINITY))
            here, end = link_pair(1 << 20, has_rings=True)
            there = end.open()
            here.send(1, 7, b"x" * 10_000)
            is_fine = here._rings is None and there.recv(timeout=100).load() == b"x" * 10_000
            code = 0 if is_fine else 1
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_end_that_is_not_opened_gives_its_descriptors_back() -> None:
    """And so do both ends when they are closed."""

    def num_open() -> int:
        return len(os.listdir("/dev/fd"))

    before = num_open()
    here, end = link_pair(1 << 20, has_rings=True)
    end.close()
    end.close()
    here.close()
    assert here.store is not None
    here.store = here.receiver = None
    with pair():
        pass
    assert num_open() == before
