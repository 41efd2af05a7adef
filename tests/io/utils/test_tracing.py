"""Traces: what is in the file, and that tracing never disturbs what it watches."""

import gc
import inspect
import json
import logging
import os
import pickle
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import spdl.io
from spdl.io.utils import trace_counter, trace_event, trace_gc, tracing
from tests.support.child import run_child
from tests.support.media import h264

Events = list[dict[str, Any]]


def read(path: Path) -> Events:
    """The events of a file, in their order in time."""
    events: Events = json.loads(path.read_bytes())
    return sorted(events, key=lambda event: event.get("ts", -1.0))


def spans(events: Events) -> list[tuple[str, int]]:
    """Name and depth of each event that began, by thread; fails if one ends that is not the innermost."""
    found = []
    open_: dict[int, list[str]] = defaultdict(list)
    for event in events:
        if event["ph"] == "B":
            found.append((event["name"], len(open_[event["tid"]])))
            open_[event["tid"]].append(event["name"])
        elif event["ph"] == "E":
            open_[event["tid"]].pop()
    assert not any(open_.values())
    return found


def named(events: Events, kind: str) -> list[str]:
    """Names that metadata events give to processes or threads."""
    return [event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == kind]


def test_events_nest(tmp_path: Path) -> None:
    """An event inside another is inside it in the file."""
    with tracing(str(tmp_path / "t.json")):
        with trace_event("outer"):
            with trace_event("inner"):
                pass
            with trace_event("inner"):
                pass
        with trace_event("next"):
            pass
    assert spans(read(tmp_path / "t.json")) == [("outer", 0), ("inner", 1), ("inner", 1), ("next", 0)]


def test_function_calls_are_events(tmp_path: Path) -> None:
    """As a decorator, it makes an event of each call, also of one within another."""

    @trace_event("down")
    def down(n: int) -> int:
        return n and down(n - 1)

    down(1)  # nobody traces
    with tracing(tmp_path / "t.json"):
        down(2)
    assert spans(read(tmp_path / "t.json")) == [("down", 0), ("down", 1), ("down", 2)]


def test_functions_of_the_package_are_events(tmp_path: Path) -> None:
    """What reads, decodes, converts and writes shows by its name; what one calls, inside it."""
    with tracing(tmp_path / "t.json"):
        packets = spdl.io.demux_video(h264(duration=0.4))
        buffer = spdl.io.convert_frames(spdl.io.decode_packets(packets))
        spdl.io.save_image(tmp_path / "x.png", spdl.io.to_numpy(buffer)[0])
        with spdl.io.Demuxer(h264(duration=0.4)) as demuxer:
            list(demuxer.streaming_demux(num_packets=100))
    found = spans(read(tmp_path / "t.json"))
    outermost = [name for name, depth in found if depth == 0]
    assert outermost[:5] == ["demux_video", "decode_packets", "convert_frames", "save_image", "Demuxer.__init__"]
    assert set(outermost[5:]) == {"Demuxer.streaming_demux"}
    assert ("Demuxer.demux_video", 1) in found


def test_traced_functions_are_what_they_were() -> None:
    """They keep name, documentation and signature, and can be sent to another process."""
    assert pickle.loads(pickle.dumps(spdl.io.decode_packets)) is spdl.io.decode_packets
    assert list(inspect.signature(spdl.io.convert_frames).parameters) == ["frames", "storage"]
    assert spdl.io.decode_packets.__doc__


def test_names_may_be_any_text(tmp_path: Path) -> None:
    """Quotes, line breaks and other scripts arrive as they are."""
    name = 'a "b"\n\\ é 日本 \ud800'
    with tracing(tmp_path / "t.json"), trace_event(name):
        pass
    assert spans(read(tmp_path / "t.json")) == [(name, 0)]


def test_exception_is_noted_and_passes(tmp_path: Path) -> None:
    """The event ends with the name of the error, and the file is whole although the block was left by it."""
    with pytest.raises(KeyError, match="missing"), tracing(tmp_path / "t.json"), trace_event("failing"):
        raise KeyError("missing")
    events = read(tmp_path / "t.json")
    assert spans(events) == [("failing", 0)]
    assert events[-1]["args"] == {"error": "KeyError"}


def test_process_and_threads_have_their_names(tmp_path: Path) -> None:
    """Each thread's events are its own, under its name."""
    gate = threading.Barrier(2)

    def work() -> None:
        with trace_event("work"):
            gate.wait()

    with tracing(tmp_path / "t.json", process_name="loader"):
        threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = read(tmp_path / "t.json")
    assert named(events, "process_name") == ["loader"]
    assert sorted(named(events, "thread_name")) == ["worker 0", "worker 1"]
    begun = [event for event in events if event["ph"] == "B"]
    assert len({event["tid"] for event in begun}) == 2
    assert {event["pid"] for event in events} == {os.getpid()}


def test_counters_have_their_values(tmp_path: Path) -> None:
    """Each value is in the file; those that cannot be shown are left out."""
    with tracing(tmp_path / "t.json"):
        trace_counter(0, 2.5)
        trace_counter(7, 3)
        trace_counter(0, float("nan"))
        trace_counter(0, -1)
    values = [(event["name"], event["args"]["value"]) for event in read(tmp_path / "t.json") if event["ph"] == "C"]
    assert values == [("counter 0", 2.5), ("counter 7", 3), ("counter 0", -1)]


@pytest.mark.parametrize("i", [-1, 8])
def test_there_are_eight_counters(tmp_path: Path, i: int) -> None:
    """Another number is an error, whether somebody traces or not."""
    with pytest.raises(RuntimeError, match=f"Counter {i} is not supported"):
        trace_counter(i, 1)
    with tracing(tmp_path / "t.json"), pytest.raises(RuntimeError, match=r"\[0, 7\]"):
        trace_counter(i, 1)


def test_garbage_collections_are_events(tmp_path: Path) -> None:
    """They are recorded while somebody traces, and nothing stays behind."""
    before = list(gc.callbacks)
    trace_gc()  # nobody traces
    assert gc.callbacks == before
    with tracing(tmp_path / "t.json"):
        trace_gc()
        trace_gc()
        gc.collect(1)
    assert gc.callbacks == before
    assert ("garbage collection 1", 0) in spans(read(tmp_path / "t.json"))


def test_nothing_is_written_when_disabled(tmp_path: Path) -> None:
    """No file, no events."""
    with tracing(tmp_path / "t.json", enable=False), trace_event("x"):
        trace_counter(0, 1)
        trace_gc()
    assert list(tmp_path.iterdir()) == []


def test_events_outside_go_nowhere(tmp_path: Path) -> None:
    """Before and after a session, the calls do nothing."""
    with trace_event("before"):
        trace_counter(0, 1)
    with trace_event("open at the start"), tracing(tmp_path / "t.json"), trace_event("x"):
        pass
    size = (tmp_path / "t.json").stat().st_size
    with trace_event("after"):
        trace_counter(0, 1)
    assert (tmp_path / "t.json").stat().st_size == size
    assert spans(read(tmp_path / "t.json")) == [("x", 0)]


def test_event_open_at_the_end_leaves_a_valid_file(tmp_path: Path) -> None:
    """A thread that is still at it when tracing ends is not waited for."""
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        with trace_event("long"):
            begun.set()
            ended.wait()

    with ThreadPoolExecutor(1) as pool:
        with tracing(tmp_path / "t.json"):
            future = pool.submit(work)
            begun.wait()
        ended.set()
        future.result()
    assert [event["name"] for event in read(tmp_path / "t.json") if event["ph"] == "B"] == ["long"]


def test_sessions_may_overlap(tmp_path: Path) -> None:
    """Each has the events of its own time."""
    with tracing(tmp_path / "a.json"):
        with tracing(tmp_path / "b.json"), trace_event("both"):
            pass
        with trace_event("one"):
            pass
    assert spans(read(tmp_path / "a.json")) == [("both", 0), ("one", 0)]
    assert spans(read(tmp_path / "b.json")) == [("both", 0)]


def test_output_may_be_a_descriptor(tmp_path: Path) -> None:
    """It is written to and stays open."""
    with (tmp_path / "t.json").open("wb") as file:
        with tracing(file.fileno()), trace_event("x"):
            pass
        os.fstat(file.fileno())
    assert spans(read(tmp_path / "t.json")) == [("x", 0)]


def test_unwritable_path_is_an_error_at_once(tmp_path: Path) -> None:
    """Nothing is traced then."""
    with pytest.raises(FileNotFoundError), tracing(tmp_path / "missing" / "t.json"):
        raise AssertionError
    with pytest.raises(ValueError, match="buffer_size must be >= 1, got 0"), tracing(tmp_path / "t", buffer_size=0):
        raise AssertionError


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_at_the_start_is_an_error() -> None:
    """A trace that cannot even begin says so."""
    with pytest.raises(OSError, match="No space"), tracing("/dev/full"):
        raise AssertionError


def test_failure_to_write_later_does_not_stop_the_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once."""
    reader, writer = os.pipe()
    with caplog.at_level(logging.ERROR), tracing(writer, buffer_size=1):
        os.close(reader)
        for _ in range(100):
            with trace_event("x"):
                pass
    os.close(writer)
    assert len(caplog.messages) == 1
    assert "cannot write the trace" in caplog.messages[0]


def test_memory_is_bounded_by_the_buffer(tmp_path: Path) -> None:
    """A full buffer is written while tracing goes on."""
    with tracing(tmp_path / "t.json", buffer_size=1):
        for _ in range(100):
            with trace_event("x"):
                pass
        assert (tmp_path / "t.json").stat().st_size > 5000
    assert len(spans(read(tmp_path / "t.json"))) == 100


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    """No event is lost or broken, whoever writes the buffer."""
    gate = threading.Barrier(4)

    def work() -> None:
        gate.wait()
        for _ in range(200):
            with trace_event("x"):
                trace_counter(1, 1)

    with tracing(tmp_path / "t.json", buffer_size=1), ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work) for _ in range(4)]:
            future.result()
    events = read(tmp_path / "t.json")
    assert spans(events) == [("x", 0)] * 800
    assert sum(event["ph"] == "C" for event in events) == 800


def test_trace_of_a_killed_process_can_be_read(tmp_path: Path) -> None:
    """What was written before is whole, and shows what was going on: its readers need no end of the list."""
    path = tmp_path / "t.json"
    run_child(
        f"""
        import os
        from spdl.io.utils import trace_event, tracing
        with tracing({str(path)!r}, buffer_size=1), trace_event("outer"):
            for _ in range(100):
                with trace_event("x" * 100):
                    pass
            os._exit(3)
        """
    ).check(returncode=3)
    events = json.loads(path.read_bytes() + b"]")
    assert [event["name"] for event in events if event["ph"] == "B"][:2] == ["outer", "x" * 100]
    assert len(events) > 150


def test_forked_process_leaves_the_file_alone(tmp_path: Path) -> None:
    """Only the one that began tracing writes."""
    path = tmp_path / "t.json"
    run_child(
        f"""
        import os, sys
        from spdl.io.utils import trace_event, tracing
        with tracing({str(path)!r}), trace_event("parent"):
            child = os.fork()
            with trace_event("both"):
                pass
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """
    ).check()
    assert spans(read(path)) == [("parent", 0), ("both", 1)]
