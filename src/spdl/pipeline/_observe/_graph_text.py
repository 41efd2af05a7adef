"""The graph of a pipeline as text: one line per stage."""

from collections.abc import Sequence

from spdl.pipeline._info import StageInfo


def graph_text(
    pipeline_id: int, state: str, num_threads: int, stages: Sequence[tuple[StageInfo, tuple[str, ...]]]
) -> str:
    """Return a line about the pipeline and one per stage: its id, name, and how many calls it may run at once.

    ``<-`` names the stages that a stage reads from, unless it reads from the stage above.
    """
    lines = [f"<Pipeline {pipeline_id}, {state}, {num_threads} threads>"]
    width = max((len(info.stage_id) for info, _ in stages), default=0)
    before: tuple[str, ...] = ()
    for info, inputs in stages:
        calls = "" if info.concurrency is None else f"[{info.concurrency}]"
        reads = f"  <- {', '.join(inputs)}" if inputs and inputs != before else ""
        lines.append(f"  {info.stage_id:>{width}}  {info.stage_name}{calls}{reads}")
        before = (info.stage_id,)
    return "\n".join(lines)
