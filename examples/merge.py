"""Merge several sources into one stream with a custom merge op: two items of the first source, then one of the second.

Each sub-pipeline has its own source and stages. Without an op, their items are merged in order of arrival. The op reads
the queues of the sub-pipelines and puts items into the output. It must return when all inputs have ended.
"""

from collections.abc import Sequence

from spdl.pipeline import AsyncQueue, StageInfo, build_pipeline, is_eof
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

WEIGHTS = (2, 1)


async def mix(info: StageInfo, inputs: Sequence[AsyncQueue], output: AsyncQueue) -> None:
    """Take ``WEIGHTS[i]`` items from each input i, one input after the other. Skip inputs that have ended."""
    live = dict(zip(inputs, WEIGHTS, strict=True))
    while live:
        for queue, weight in list(live.items()):
            for _ in range(weight):
                item = await queue.get()
                if is_eof(item):
                    del live[queue]
                    break
                await output.put(item)


def labelled(prefix: str, num_items: int) -> PipelineConfig[str]:
    """Make a sub-pipeline. A merge does not use its sink."""
    return PipelineConfig(SourceConfig(range(num_items)), [Pipe(f"{prefix}{{}}".format)], SinkConfig(1))


def main() -> None:
    sources = [labelled("a", 8), labelled("b", 6)]
    config = PipelineConfig(Merge(sources, mix), [Pipe(str.upper)], SinkConfig(3))
    pipeline = build_pipeline(config, num_threads=2)
    with pipeline.auto_stop():
        print(*pipeline)


if __name__ == "__main__":
    main()
