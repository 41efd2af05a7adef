"""Law: every logged batch is made again, whatever the stages are."""

import random
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from spdl.resume import replay
from tests.support.rng_ops import adraw, adraw_twice, draw, draw_first, draw_twice


def _dropping(item: Any, rng: Any) -> Any:
    return item if rng.seed % 4 else None


def _stage(choice: random.Random, name: str, *, in_batches: bool) -> Any:
    options: dict[str, Any] = {"rng": name, "concurrency": choice.randint(1, 4)}
    if choice.random() < 0.3:
        options["output_order"] = "input"
    kind = choice.choice(["pipe", "generator", "async", "async_generator", "drop", "paths", "split", "aggregate"])
    match kind:
        case "generator":
            return Pipe(draw_twice, **options)
        case "async":
            return Pipe(adraw, **options)
        case "async_generator":
            return Pipe(adraw_twice, **{**options, "output_order": "completion"})
        case "drop":
            return Pipe(_dropping, **options)
        case "paths":
            paths = [[Pipe(draw_first, **options)], [Pipe(adraw, **options), Pipe(draw_twice, rng=name + "-2")]]
            return PathVariants(lambda item: hash(str(item)) % 2, paths)
        case "split" if in_batches:
            return Disaggregate()
        case "aggregate":
            return Aggregate(choice.randint(1, 4), drop_last=choice.random() < 0.3)
    return Pipe(draw, **options)


@pytest.mark.parametrize("seed", range(40))
def test_random_pipelines_are_replayed(seed: int, tmp_path: Path) -> None:
    """All batches of a pipeline of random stages are equal to the last bit when they are replayed."""
    choice = random.Random(seed)
    stages: list[Any] = []
    in_batches = False
    for number in range(choice.randint(1, 5)):
        stages.append(_stage(choice, f"stage-{number}", in_batches=in_batches))
        in_batches = type(stages[-1]) is type(Aggregate(1))
    builder = PipelineBuilder().add_source(range(12), continuous=True)
    builder._stages += stages
    builder.add_sink()
    log = tmp_path / "batches.jsonl"
    pipeline = builder.build(provenance=log, seed=seed, num_threads=4)
    with pipeline.auto_stop():
        batches = [batch for _ in range(2) for batch in pipeline]
    for step in choice.sample(range(len(batches)), min(4, len(batches))):
        assert replay(builder, log, step=step, num_threads=2) == batches[step]


@pytest.mark.parametrize("seed", range(20))
def test_merged_pipelines_are_replayed(seed: int, tmp_path: Path) -> None:
    """With stages before the merges and behind them, and merges of merges."""
    choice = random.Random(seed)

    def stages(name: str, num: int, kinds: tuple[str, ...]) -> list[Any]:
        found: list[Any] = []
        while len(found) < num:
            stage = _stage(choice, f"{name}-{len(found)}", in_batches=False)
            if "aggregate" in kinds or type(stage) is not type(Aggregate(1)):
                found.append(stage)
        return found

    def sub(name: str, depth: int) -> PipelineConfig[Any]:
        src: Any = SourceConfig(range(ord(name[0]), ord(name[0]) + 8), continuous=True)
        if depth and choice.random() < 0.4:
            src = Merge([sub(name + "a", depth - 1), sub(name + "b", depth - 1)])
        return PipelineConfig(src, stages(name, choice.randint(0, 2), ()), SinkConfig(2))

    src = Merge([sub(name, 1) for name in "xyz"[: choice.randint(1, 3)]])
    config: PipelineConfig[Any] = PipelineConfig(src, stages("s", choice.randint(0, 3), ("aggregate",)), SinkConfig(2))
    log = tmp_path / "batches.jsonl"
    pipeline = build_pipeline(config, provenance=log, seed=seed, num_threads=4)
    with pipeline.auto_stop():
        batches = [batch for _ in range(2) for batch in pipeline]
    for step in choice.sample(range(len(batches)), min(4, len(batches))):
        assert replay(config, log, step=step, num_threads=2) == batches[step]
