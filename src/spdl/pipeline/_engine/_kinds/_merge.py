"""Builds a merge of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._engine._channel import Channel
from spdl.pipeline._engine._lanes._merge_op import MergeReader, MergeWriter
from spdl.pipeline._engine._stages._merge import CustomMergeStage, MergeStage

if TYPE_CHECKING:
    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._records import ItemReader
    from spdl.pipeline.defs import MergeConfig


def add_merge(graph: GraphBuilder, config: MergeConfig, capacity: int) -> Channel:
    """Add the pipelines, and the node that merges them; the op of a custom merge is a task of the event loop."""
    info = graph.info("merge")
    wiring = graph.wire(info, "stage", capacity)
    tails = [graph.add_pipeline(sub) for sub in config.pipeline_configs]
    out = Channel(capacity)
    if config.op is None:
        graph.add(MergeStage(graph.engine, info), tails, [out], wiring)
        return out
    node = CustomMergeStage(graph.engine, info, graph.loop)
    graph.add(node, tails, [out], wiring)
    readers: list[tuple[StageInfo, ItemReader]] = [
        (channel.producer.info, MergeReader(node, channel)) for channel in node.inboxes
    ]
    inputs, output = graph.options.make_merge_queues(info, readers, MergeWriter(node))
    graph.loop.merges.append((node, config.op, inputs, output))
    return out
