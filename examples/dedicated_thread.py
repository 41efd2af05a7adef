"""Run a stage in its own thread, with state: an executor with one worker, and thread-local storage.

Use this for transfers to a GPU: one at a time, always from the same thread, on a stream that is created once. The
other stages run in the threads of the pipeline.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

from spdl.pipeline import PipelineBuilder

LOCAL = threading.local()


class Stream:
    """A stand-in for a CUDA stream, a connection or a decoder: created once, used by one thread."""

    num_made = 0

    def __init__(self) -> None:
        Stream.num_made += 1
        self.num_transfers = 0

    def transfer(self, batch: list[bytes]) -> bytearray:
        self.num_transfers += 1
        return bytearray().join(batch)


def get_stream() -> Stream:
    """Return the stream of this thread; the first call creates it."""
    if not hasattr(LOCAL, "stream"):
        LOCAL.stream = Stream()
    stream: Stream = LOCAL.stream
    return stream


def transfer(batch: list[bytes]) -> tuple[bytearray, str, int]:
    """Copy a batch to its destination. Return the copy, the name of the thread and its number of transfers."""
    stream = get_stream()
    return stream.transfer(batch), threading.current_thread().name, stream.num_transfers


def load(index: int) -> bytes:
    return index.to_bytes(4, "little") * 256


def main() -> None:
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="transfer") as executor:
        pipeline = (
            PipelineBuilder()
            .add_source(range(100))
            .pipe(load, concurrency=4)
            .aggregate(8)
            .pipe(transfer, executor=executor)
            .add_sink(2)
            .build(num_threads=4)
        )
        threads = set()
        num_bytes = num_transfers = 0
        with pipeline.auto_stop():
            for data, thread, count in pipeline:
                num_bytes += len(data)
                num_transfers = count
                threads.add(thread)
    print(f"{num_bytes} bytes in {num_transfers} transfers by {sorted(threads)}, {Stream.num_made} stream made")


if __name__ == "__main__":
    main()
