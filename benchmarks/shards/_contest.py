"""Cases, peers and requirements. To add one, change only this file."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest.contest import Case, Contest, Peer
from benchmarks._contest.environments import Environment
from benchmarks._contest.required import AtMost, Ratio

OURS = "spdl"
_WEBDATASET = Environment("shards-peers", ("numpy", "webdataset==1.0.2"))
_ADAPTERS = "benchmarks.shards.adapters"

PEERS = (
    Peer(OURS, f"{_ADAPTERS}.spdl_index"),
    Peer("spdl-pipeline", f"{_ADAPTERS}.spdl_pipeline"),
    Peer("spdl-stream", f"{_ADAPTERS}.spdl_stream"),
    Peer("webdataset", f"{_ADAPTERS}.webdataset_samples", _WEBDATASET),
)

#: Shards of a dataset; more than are open at a time.
NUM_SHARDS = 24


def write_shards(folder: Path, num_samples: int, size: int) -> dict[str, Any]:
    """Shards of random bytes as ``jpg``, and a class for each sample."""
    noise = np.random.default_rng(size)
    folder.mkdir(exist_ok=True)
    for shard in range(NUM_SHARDS):
        with tarfile.open(folder / f"{shard:06}.tar", "w") as archive:
            for number in range(num_samples // NUM_SHARDS):
                for extension, content in (("jpg", noise.bytes(size)), ("cls", b"%d" % (number % 1000))):
                    info = tarfile.TarInfo(f"{shard:06}/{number:06}.{extension}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    return {"pattern": f"{folder}/{{000000..{NUM_SHARDS - 1:06}}}.tar"}


def write_index(path: Path, num_files: int) -> dict[str, Any]:
    """The index of shards that are not there: what is measured is to open it."""
    from spdl.source._stores import StoredFile
    from spdl.source._tar_build import TarTable, encode_tables

    tables = []
    for shard in range(100):
        table = TarTable(StoredFile(f"/nowhere/{shard:06}.tar", 10**9, "1"))
        for number in range(num_files // 2 // 100):
            table.begin(f"{shard:06}/{number:06}")
            table.add("jpg", number * 102_400, 100_000)
            table.add("cls", number * 102_400 + 101_888, 3)
        tables.append(table)
    path.write_bytes(encode_tables(tables, is_local=True))
    return {"index": str(path)}


def make_cases(folder: Path, is_quick: bool) -> list[Case]:
    """Inputs with seeded contents, remade in each run, which takes seconds."""
    num_small, num_large, num_files = (240, 48, 10_000) if is_quick else (12_000, 2_400, 1_000_000)
    small = write_shards(folder / "small", num_small, 4000)
    large = write_shards(folder / "large", num_large, 100_000)
    index = write_index(folder / "many.tarindex", num_files)
    return [
        Case("in_order", "samples of 4 kB, in order", small, per=num_small, differ=differ),
        Case("in_order_large", "samples of 100 kB, in order", large, per=num_large, differ=differ),
        Case("shuffled", "samples of 4 kB, shuffled", small, per=num_small, differ=differ),
        Case("shuffled_large", "samples of 100 kB, shuffled", large, per=num_large, differ=differ),
        Case("open", f"open an index of {num_files} files", index, peers=(OURS,)),
    ]


def differ(ours: Any, theirs: Any) -> str | None:
    """Whether the samples are the same, in any order: keys, and what was seen of all files."""
    for name, array in ours.items():
        if name not in theirs or not np.array_equal(array, theirs[name]):
            return f"sample {name!r} is missing or has other files"
    return None if len(ours) == len(theirs) else f"it has {len(theirs)} samples, SPDL {len(ours)}"


CONTEST = Contest(
    name="shards",
    question="What does it cost to read the samples of tar shards, in order and shuffled?",
    ours=OURS,
    unit="a sample",
    peers=PEERS,
    make_cases=make_cases,
    required=(
        *(
            Ratio(f"{title}: WebDataset / ours", (case, "webdataset"), (case, OURS), 2)
            for case, title in (
                ("in_order", "4 kB, in order"),
                ("in_order_large", "100 kB, in order"),
                ("shuffled", "4 kB, shuffled"),
                ("shuffled_large", "100 kB, shuffled"),
            )
        ),
        AtMost("opening an index of a million files", ("open", OURS), 500_000),
    ),
)
