"""Cases, peers and requirements. To add one, change only this file."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._contest.contest import Case, Contest, Peer
from benchmarks._contest.environments import Environment
from benchmarks._contest.required import Ratio

from . import _server

OURS = "spdl"
_ADAPTERS = "benchmarks.remote.adapters"
_TORCH_CONNECTOR = Environment("remote-peers", ("numpy", "torch==2.13.0", "s3torchconnector==1.5.0"), is_optional=True)
# A torch without CUDA is enough.
_LITDATA = Environment("remote-litdata", ("numpy", "torch==2.13.0", "litdata==0.2.76", "boto3>=1.40"), is_optional=True)

PEERS = (
    Peer(OURS, f"{_ADAPTERS}.spdl_remote"),
    Peer("obstore", f"{_ADAPTERS}.obstore_loop"),
    Peer("files", f"{_ADAPTERS}.local_files"),
    Peer("pyarrow", f"{_ADAPTERS}.pyarrow_dataset"),
    Peer("s3torchconnector", f"{_ADAPTERS}.s3_torch_connector", _TORCH_CONNECTOR),
    Peer("litdata", f"{_ADAPTERS}.litdata_raw", _LITDATA),
)
_CLIENTS = (OURS, "obstore", "s3torchconnector")
_SIZE = 100_000
_PART = 10_000
_TABLE = "table.parquet"


def make_cases(folder: Path, is_quick: bool) -> list[Case]:
    """Inputs with seeded contents. The server starts when a case is measured."""
    num_objects, num_parts = (4, 4) if is_quick else (32, 64)
    files = folder / "files" / "bucket"
    files.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0)
    paths = [f"{index:04}.bin" for index in range(num_objects)]
    for path in paths:
        (files / path).write_bytes(noise.bytes(_SIZE))
    (files / "shard.tar").write_bytes(noise.bytes(_PART * num_parts * 50))
    num_groups = 4 if is_quick else 200
    _write_table(files / _TABLE, noise, num_groups)
    # Too far apart to be read by one request.
    parts = [(_PART * 50 * index + 5, _PART) for index in noise.permutation(num_parts).tolist()]

    def data(kind: str) -> dict[str, Any]:
        url = _server.start(folder / "files")
        return {
            "kind": kind,
            "url": url + "bucket/",
            "endpoint": url,
            "folder": str(files),
            "cache": str(folder / "cache"),
            "paths": paths,
            "parts": parts,
            "table": _TABLE,
        }

    def case(name: str, title: str, kind: str, num_threads: int) -> Case:
        per = {"parts": num_parts, "parquet": num_groups}.get(kind, num_objects)
        others = {"cached": (OURS, "files"), "parts": (OURS, "obstore"), "parquet": (OURS, "pyarrow")}
        peers = others.get(kind, _CLIENTS)
        if name == "objects_8":  # it fetches a whole batch at the same time, which no comparison with one thread can be
            peers = (*peers, "litdata")
        return Case(name, title, partial(data, kind), num_threads=num_threads, per=per, peers=peers)

    return [
        case("objects", "objects of 100 kB", "objects", 1),
        case("objects_8", "the same in 8 threads", "objects", 8),
        case("parts", "parts of 10 kB of a large object", "parts", 1),
        case("parts_8", "the same in 8 threads", "parts", 8),
        case("cached", "objects of 100 kB, second epoch with a cache", "cached", 1),
        case("cached_8", "the same in 8 threads", "cached", 8),
        case("parquet", "row groups of Parquet of 230 kB", "parquet", 1),
    ]


def _write_table(path: Path, noise: np.random.Generator, num_groups: int) -> None:
    """A table whose row groups have 400 rows: two columns of numbers, one of texts, one of bytes."""
    rows = range(400 * num_groups)
    table = pa.table(
        {
            "n": np.arange(len(rows)),
            "x": noise.random(len(rows)),
            "text": [noise.bytes(150).hex() for _ in rows],
            "image": [noise.bytes(200) for _ in rows],
        }
    )
    pq.write_table(table, path, row_group_size=400)


CONTEST = Contest(
    name="remote",
    question="What does it cost to read objects of a store, and to read them again from the cache?",
    ours=OURS,
    unit="an object, part or row group",
    peers=PEERS,
    make_cases=make_cases,
    required=(
        Ratio("100 kB: bare obstore / ours", ("objects", "obstore"), ("objects", OURS), 0.9),
        Ratio("100 kB, 8 threads: bare obstore / ours", ("objects_8", "obstore"), ("objects_8", OURS), 0.9),
        Ratio("parts, 8 threads: bare obstore / ours", ("parts_8", "obstore"), ("parts_8", OURS), 0.9),
        Ratio(
            "100 kB, 8 threads: s3torchconnector / ours", ("objects_8", "s3torchconnector"), ("objects_8", OURS), 1.5
        ),
        Ratio("100 kB, 8 threads: LitData / ours", ("objects_8", "litdata"), ("objects_8", OURS), 1.5),
        Ratio("second epoch: local files / ours", ("cached", "files"), ("cached", OURS), 0.9),
        Ratio("second epoch, 8 threads: local files / ours", ("cached_8", "files"), ("cached_8", OURS), 0.9),
        Ratio("row groups of Parquet: pyarrow's scanner / ours", ("parquet", "pyarrow"), ("parquet", OURS), 0.9),
    ),
)
