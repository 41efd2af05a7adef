"""What type checkers know of batches of loaders: mypy reads this file in ``make check``, pyright in the last test."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from spdl.dataloader import CacheDataLoader, DataLoader, prefetch_to_device
from spdl.pipeline.batching import LengthBuckets
from tests.support.checkers import assert_pyright_agrees

PATHS = ["a", "bc"]


def read(path: str) -> bytes:
    return path.encode()


def length(data: bytes) -> int:
    return len(data)


def even(path: str) -> int | None:
    return None if len(path) % 2 else len(path)


def each_byte(path: str) -> Iterator[int]:
    yield from path.encode()


async def fetch(path: str) -> bytes:
    return path.encode()


async def each_line(path: str) -> AsyncIterator[bytes]:
    for line in path.splitlines():
        yield line.encode()


def joined(items: list[bytes]) -> bytes:
    return b"".join(items)


def drawn(item: str, *, rng: Any) -> float:
    return float(rng.python().random())


def test_a_loader_gives_what_its_last_function_returns() -> None:
    """Or yields; not the ``None`` by which it drops an item."""
    assert_type(DataLoader(PATHS, preprocessor=read), DataLoader[str, bytes])
    assert_type(DataLoader(PATHS, preprocessor=even, num_threads=2), DataLoader[str, int])
    assert_type(DataLoader(PATHS, preprocessor=each_byte), DataLoader[str, int])
    assert_type(DataLoader(PATHS, preprocessor=fetch), DataLoader[str, bytes])
    assert_type(DataLoader(PATHS, preprocessor=each_line), DataLoader[str, bytes])
    assert_type(DataLoader(PATHS, preprocessor=read, batch_size=2, aggregator=joined), DataLoader[str, bytes])
    moved = DataLoader(PATHS, preprocessor=read, batch_size=2, aggregator=joined, transfer_fn=length)
    assert_type(moved, DataLoader[str, int])


def test_without_a_last_function_a_loader_gives_lists_or_items() -> None:
    """Of what the preprocessor returns, or of the source's own; or what an aggregator of ours makes."""
    assert_type(DataLoader(PATHS, preprocessor=read, batch_size=2), DataLoader[str, list[bytes]])
    assert_type(DataLoader(PATHS, preprocessor=fetch, batch_size=2), DataLoader[str, list[bytes]])
    assert_type(DataLoader(PATHS, batch_size=2, drop_last=True), DataLoader[str, list[str]])
    assert_type(DataLoader(PATHS), DataLoader[str, str])
    buckets: LengthBuckets[bytes] = LengthBuckets([4, 8], batch_size=2)
    assert_type(DataLoader(PATHS, preprocessor=read, batch_size=buckets), DataLoader[str, list[bytes]])


def test_a_loop_over_a_loader_has_typed_batches() -> None:
    """Also through the loaders that take another one."""
    loader = DataLoader(PATHS, preprocessor=read, batch_size=2, output_order="input")
    for batch in loader:
        assert_type(batch, list[bytes])
    for batch in CacheDataLoader(loader, 1, 2, stop_after=3):
        assert_type(batch, list[bytes])
    for batch in prefetch_to_device(loader, device="cpu"):
        assert_type(batch, list[bytes])


def test_what_has_no_types_is_anything() -> None:
    """Containers, and functions with random numbers."""
    assert_type(DataLoader(PATHS, preprocessor={"a": 1, "bc": 2}), DataLoader[str, Any])
    assert_type(DataLoader(PATHS, preprocessor=drawn, rng=True), DataLoader[str, Any])


def test_wrong_arguments_are_errors_of_the_checker() -> None:
    """mypy complains of each ``ignore`` that it does not need, so each of these is an error."""
    DataLoader(PATHS, preprocessor=length)  # type: ignore[arg-type]
    DataLoader(PATHS, preprocessor=length, batch_size=2)  # type: ignore[arg-type]


def test_pyright_agrees() -> None:
    """It finds the same errors and no others, where it is installed."""
    assert_pyright_agrees(__file__)
