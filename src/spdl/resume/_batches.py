"""Batches of a run that was saved: skip them without making them, or reproduce one from a provenance log."""

from __future__ import annotations

import copy
import itertools
import operator
import sys
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from ._document import decode, encode
from ._elastic import Document, issue_order, unconsumed
from ._ranges import Ranges
from ._values import ResumeError

if TYPE_CHECKING:
    from spdl.pipeline import PipelineBuilder
    from spdl.pipeline.defs import PipelineConfig


def skip(state: Mapping[str, Any], /, *, batches: range) -> dict[str, str]:
    """Change a state so that some of the next batches are skipped.

    For training that fails on certain batches: load an earlier state, skip these batches, and continue.

    .. code-block:: python

        resume.save("data.json", pipeline.state_dict())  # at step 1000

        state = resume.load("data.json")
        state = resume.skip(state, batches=range(1, 2))  # step 1001

    Batches are numbered from this state on: 0 is the first one after loading it. Skipping works on positions of the
    source: batch ``k`` is the ``k``-th group of ``batch_size`` positions among those not consumed. These are exactly
    the items of that batch if every source item becomes one item of a batch, in order: no op drops an item, fails, or
    yields several, and every stage keeps the order. Otherwise, other items may be skipped than those in the batch.

    A batch does not extend over the end of an epoch. In a state from :func:`gather`, each rank skips the same batch
    numbers, so these are global batches. Skip before loading the state in a world of another size.

    Args:
        state: State of a pipeline with one indexed source and one ``aggregate`` of a fixed number of items; or of a
            loader from :func:`spdl.dataloader.get_pytorch_dataloader`, in the middle of an epoch of a map-style
            dataset.
        batches: Batch numbers, ascending.

    Returns:
        A new state. The given one is unchanged.

    Raises:
        TypeError: ``batches`` is not a range.
        ValueError: It starts below 0 or descends.
        ResumeError: The state cannot be read; the pipeline has another structure, so its batches cannot be derived from
            positions; or the state's epochs have fewer batches.
    """
    if not isinstance(batches, range):
        raise TypeError(f"batches must be a range, got {batches!r} of type {type(batches).__qualname__}")
    if batches and (batches.start < 0 or batches.step < 1):
        raise ValueError(f"batches must be a range that ascends from >= 0, got {batches}")
    document = decode(state, "the pipeline")
    if document["kind"] == "gathered":
        document["states"] = [_skipped(each, batches) for each in document["states"]]
    else:
        document = _skipped(document, batches)
    return encode(document)


def _skipped(document: Document, batches: range) -> Document:
    if document["kind"] == "loader":
        try:
            return _skipped_of_loader(document, batches)
        except (KeyError, TypeError, AttributeError) as exc:
            raise _refusal(f"it is damaged ({type(exc).__name__}: {exc})") from exc
    size, drop_last = _batch_shape(document)
    found = copy.deepcopy(document)
    (source,) = found["sources"]
    if source["length"] is None:
        raise _refusal("the length of its source is not known")
    if not source["epochs"]:
        source["epochs"] = [{"epoch": 0, "high": 0, "holes": [], "parts": {}, "iterator": None}]
    first = 0
    for epoch in source["epochs"]:
        length = len(issue_order(source, epoch))
        left = unconsumed(epoch, length)
        count, remainder = divmod(left.count(), size)
        if remainder and not drop_last:
            count += 1
        here = range(first, first + count)
        first += count
        own = [number - here.start for number in batches if number in here] if batches.step > 1 else []
        spans = [(number, number + 1) for number in own]
        if batches.step == 1:
            spans = [(max(batches.start, here.start) - here.start, min(batches.stop, here.stop) - here.start)]
        _consume(epoch, left, [(start * size, stop * size) for start, stop in spans if start < stop])
    if batches and batches[-1] >= first:
        raise _refusal(f"its epochs have {first} batches left, and number {batches[-1]} is not among them")
    return found


def _skipped_of_loader(document: Document, batches: range) -> Document:
    """Skip batches of a loader, which counts its batches: skipped ones count as taken."""
    found = copy.deepcopy(document)
    epoch = found["epoch"]
    if epoch is None:
        raise _refusal("it is that of a loader between epochs, which has no batches yet. Take it after the first batch")
    if epoch["streams"]:
        raise _refusal("the dataset of the loader is iterable or has a state, so its batches cannot be left out")
    size, length = _loader_shape(found)
    taken, above = epoch["taken"], set(epoch["above"])
    num_left = sys.maxsize if length is None else length - taken - len(above)
    if batches and batches[-1] >= num_left:
        raise _refusal(f"its epoch has {num_left} batches left, and number {batches[-1]} is not among them")
    left = (number for number in itertools.count(taken) if number not in epoch["above"])
    above.update(itertools.islice(left, batches.start, batches.stop, batches.step) if batches else ())
    while taken in above:
        above.remove(taken)
        taken += 1
    if taken != epoch["taken"]:
        epoch["check"] = None  # it belongs to the previous batch
    epoch["taken"], epoch["above"] = taken, sorted(above)
    for source in found.get("sources", []):
        last = source["epochs"][-1]
        consumed = Ranges([(0, taken * size), *((each * size, (each + 1) * size) for each in epoch["above"])])
        consumed &= Ranges([(0, len(issue_order(source, last)))])
        last["high"] = consumed.stop
        last["holes"] = (Ranges([(0, consumed.stop)]) - consumed).to_json()
    return found


def _loader_shape(document: Document) -> tuple[int, int | None]:
    """The size of a batch, and the number of batches of an epoch, if it is known."""
    match document["fingerprint"]:
        case [["dataset", _, int(num_samples)], ["sampler", str(sampler)], ["batches", _, size, bool(drop_last)]]:
            pass
        case _:
            return 1, None
    if document.get("sources"):
        source = document["sources"][0]
        num_samples = len(issue_order(source, source["epochs"][-1]))
    elif sampler not in ("SequentialSampler", "RandomSampler"):
        return size or 1, None
    size = size or 1
    return size, num_samples // size if drop_last else -(-num_samples // size)


def _consume(epoch: dict[str, Any], left: Ranges, spans: Iterable[tuple[int, int]]) -> None:
    """Mark the remaining positions at these indices as consumed."""
    skipped = Ranges()
    for start, stop in spans:
        behind = left.take(start)[1]
        skipped |= behind.take(stop - start)[0]
    if not skipped:
        return
    high = max(epoch.get("high", 0), skipped.stop)
    epoch["high"] = high
    epoch["holes"] = ((left - skipped) & Ranges([(0, high)])).to_json()
    parts = epoch.get("parts", {})
    epoch["parts"] = {path: done for path, done in parts.items() if int(path.partition(".")[0]) not in skipped}


def _batch_shape(document: Document) -> tuple[int, bool]:
    """The size of a batch, and whether a last smaller one is dropped."""
    if document["kind"] != "pipeline":
        raise _refusal(f"it is the state of a {document['kind']}")
    if len(document["sources"]) != 1:
        raise _refusal(f"it has {len(document['sources'])} sources")
    (source,) = document["sources"]
    if source["kind"] != "indexed":
        raise _refusal(f"its source is {source['kind']}, so its positions cannot be left out")
    sizes = []
    for stage in document["fingerprint"]:
        match stage:
            case ["source" | "pipe" | "sink", *_]:
                pass
            case ["aggregate", int(size), bool(drop_last), *_] if size > 0:
                sizes.append((size, drop_last))
            case [str(kind), *_]:
                raise _refusal(f"it has a stage {kind!r}, which is not a batch of a fixed number of items")
            case _:
                raise _refusal("its stages cannot be read")
    if len(sizes) != 1:
        raise _refusal(f"it has {len(sizes)} stages that make batches")
    return sizes[0]


def _refusal(reason: str) -> ResumeError:
    return ResumeError(
        f"cannot skip batches of this state: {reason}. skip() needs a pipeline with one indexed source, one aggregate "
        "of a fixed number of items, and enough batches in the epochs that the state has"
    )


T = TypeVar("T")


def replay(
    builder: PipelineBuilder[Any, T] | PipelineConfig[T],
    log: str | PathLike[str],
    /,
    *,
    step: SupportsIndex,
    num_threads: int | None = None,
) -> T:
    """Reproduce exactly the batch that a pipeline returned at a step.

    The items at the logged positions run through the stages with their original random numbers, and aggregators get
    them in the logged order. So the batch is bit-identical if the ops depend only on their item and their ``rng``,
    regardless of order, threads, number of ranks and machine. The source must return the same items: its ``set_epoch``
    is called if it has one, and its epoch is restored afterwards.

    .. code-block:: python

        pipeline = builder.build(seed=5, provenance="batches.jsonl")
        for batch in pipeline:
            train(batch)  # the loss explodes at step 1
        batch = resume.replay(builder, "batches.jsonl", step=1)

    Args:
        builder: The pipeline that wrote the log, or its builder. Concurrency and buffer sizes may differ. The log
            contains the seed. The pipeline's executors are used, and not shut down.
        log: The file passed as ``build(provenance=)``.
        step: Number of the output, from 0. A resumed run continues the numbers. If several have this number, the newest
            one of this pipeline counts.
        num_threads: Number of worker threads, as in ``build``.

    Raises:
        OSError: The log cannot be read.
        ResumeError: The log does not have the step, is damaged, or is from another pipeline; the batch cannot be
            reproduced, because aggregates are merged, aggregators split items, regions make aggregates or several
            outputs, or the source cannot find its items again; or the stages fail or make other outputs.
        PipelineFailure: A stage failed as a whole.
    """
    from spdl.pipeline import PipelineBuilder  # imported late: not needed to save and load states
    from spdl.pipeline._provenance._log import read_batch
    from spdl.pipeline._provenance._replay import replay_batch

    candidates = read_batch(log, operator.index(step))
    config = builder.get_config() if isinstance(builder, PipelineBuilder) else builder
    return replay_batch(config, candidates, num_threads)  # type: ignore[no-any-return]
