"""Send items to different stages: a router chooses the path of each item, and the outputs of all paths are merged.

Each path has its own stages, with their own concurrency. Paths can be nested. Items on the same path keep their order;
items on different paths do not.
"""

import json
import zlib
from collections import Counter

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Pipe

Record = dict[str, int]


def choose(data: bytes) -> int:
    """Return the index of the path: 0 for compressed data, 1 for plain text."""
    return 0 if data[:1] == b"\x78" else 1


def decompress(data: bytes) -> bytes:
    return zlib.decompress(data)


def parse(text: bytes) -> tuple[str, Record]:
    record: Record = json.loads(text)
    return ("compressed" if record["number"] % 3 == 0 else "plain"), record


def make_input(number: int) -> bytes:
    text = json.dumps({"number": number}).encode()
    return zlib.compress(text) if number % 3 == 0 else text


def main() -> None:
    pipeline = (
        PipelineBuilder()
        .add_source(map(make_input, range(30)))
        .path_variants(
            choose,
            [
                [Pipe(decompress, concurrency=4), Pipe(parse)],
                [Pipe(parse)],
            ],
            name="by_encoding",
        )
        .add_sink()
        .build(num_threads=4)
    )
    counts: Counter[str] = Counter()
    total = 0
    with pipeline.auto_stop():
        for encoding, record in pipeline:
            counts[encoding] += 1
            total += record["number"]
    print(f"{dict(sorted(counts.items()))}, sum of the numbers {total}")


if __name__ == "__main__":
    main()
