"""The queues that a custom merge op is called with. They read and write channels of the engine."""

from __future__ import annotations

from typing import Any

from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._probe import ItemReader, ItemWriter
from spdl.pipeline._observe._queues import AsyncQueue


class _MergeInput(AsyncQueue):
    """Input queue of a custom merge op: the outputs of one sub-pipeline."""

    def __init__(self, info: StageInfo, reader: ItemReader) -> None:
        super().__init__(info, buffer_size=reader.capacity)
        self._reader = reader

    def qsize(self) -> int:
        return self._reader.qsize()

    def empty(self) -> bool:
        return self.qsize() == 0

    async def get(self) -> Any:
        return await self._reader.get()

    def get_nowait(self) -> Any:
        return self._reader.get_nowait()

    async def put(self, item: Any) -> None:
        raise TypeError("a merge op reads its inputs; it puts into output_queue")

    def put_nowait(self, item: Any) -> None:
        raise TypeError("a merge op reads its inputs; it puts into output_queue")


class _MergeOutput(AsyncQueue):
    """Output queue of a custom merge op."""

    def __init__(self, info: StageInfo, writer: ItemWriter) -> None:
        super().__init__(info, buffer_size=writer.capacity)
        self._writer = writer

    def qsize(self) -> int:
        return self._writer.qsize()

    def empty(self) -> bool:
        return self.qsize() == 0

    def full(self) -> bool:
        return self._writer.full()

    async def put(self, item: Any) -> None:
        await self._writer.put(item)

    def put_nowait(self, item: Any) -> None:
        self._writer.put_nowait(item)

    async def get(self) -> Any:
        raise TypeError("a merge op puts into its output; it reads from input_queues")

    def get_nowait(self) -> Any:
        raise TypeError("a merge op puts into its output; it reads from input_queues")


def make_merge_queues(
    info: StageInfo, inputs: list[tuple[StageInfo, ItemReader]], output: ItemWriter
) -> tuple[list[AsyncQueue], AsyncQueue]:
    """Return the queues that a custom merge op is called with."""
    return [_MergeInput(of, reader) for of, reader in inputs], _MergeOutput(info, output)
