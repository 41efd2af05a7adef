"""``spdl load``: load images as batches through a pipeline and measure it.

source (paths, epoch by epoch) -> aggregate (lists of paths) -> pipe (one native call per batch) -> sink.
"""

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import spdl.io
from spdl._addresses import redacted
from spdl._cli._find import Found, find_images
from spdl._cli._options import CommandError, ExitCode, LoadOptions
from spdl._cli._report import Counts, FailedFile, Outcome, Progress, as_json, as_text, one_line
from spdl._cpus import usable_cpus
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import Aggregator


@dataclass(frozen=True, slots=True)
class Batch:
    """The counts of a loaded batch; the pixels themselves are discarded."""

    num_images: int
    num_bytes: int
    failures: tuple[tuple[str, str], ...] = ()  #: path and message of each image that could not be loaded


@dataclass(frozen=True, slots=True)
class LoadBatch:
    """The op: load a list of paths as one batch. An image that fails does not fail the batch."""

    width: int
    height: int
    pix_fmt: str

    def __call__(self, paths: Sequence[str]) -> Batch:
        try:
            buffer = spdl.io.load_image_batch(
                paths, width=self.width, height=self.height, pix_fmt=self.pix_fmt, strict=False
            )
        except spdl.io.BatchLoadError as error:
            if len(error.failures) != len(paths):  # the images are not the cause
                raise
            return Batch(0, 0, _described(error.failures, paths))
        failures = _described(buffer.failures, paths)
        num_images = len(paths) - len(failures)
        channels = 1 if self.pix_fmt == "gray" else 3
        return Batch(num_images, num_images * self.width * self.height * channels, failures)


def _described(failures: Iterable[spdl.io.LoadFailure], paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((redacted(paths[failed.index]), one_line(failed.error)) for failed in failures)


class EpochBatches(Aggregator[tuple[int, str], list[str]]):
    """Make lists of paths. No list spans two epochs; the last list of an epoch may be shorter."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._epoch = 0
        self._paths: list[str] = []

    def accumulate(self, item: tuple[int, str]) -> list[str] | None:
        epoch, path = item
        batch = self.flush() if len(self._paths) == self._size or epoch != self._epoch else None
        self._epoch = epoch
        self._paths.append(path)
        return batch

    def flush(self) -> list[str] | None:
        paths, self._paths = self._paths, []
        return paths or None

    def __repr__(self) -> str:
        return f"batches({self._size})"


def load(options: LoadOptions) -> ExitCode:
    """Run the command, with its progress on stderr and its result on stdout.

    Raises:
        CommandError: The command cannot run; the error carries the exit code. A run that ended or was interrupted
            returns its exit code after writing the result.
    """
    if not options.quiet:
        for url in (path for path in options.paths if isinstance(path, str)):  # a large bucket takes a while
            print(f"spdl load: looking for images in {redacted(url)}", file=sys.stderr, flush=True)
    found = find_images(options.paths)
    progress = Progress(None if options.quiet else sys.stderr, len(found.images) * options.epochs)
    with _warnings_shown(progress):
        outcome = _run(options, found, progress)
    print(as_json(outcome) if options.json else as_text(outcome), flush=True)
    return outcome.code


def _run(options: LoadOptions, found: Found, progress: Progress) -> Outcome:
    pipeline = _build(options, found.images)
    counts = Counts()
    failed: dict[str, FailedFile] = {}
    code = ExitCode.OK
    elapsed, stats = 0.0, pipeline.stats()
    start = time.perf_counter()
    try:
        with pipeline.auto_stop():
            try:
                code = _read(pipeline, options, counts, failed, progress)
            finally:  # before stop(), which is not part of the measured time
                elapsed, stats = time.perf_counter() - start, pipeline.stats()
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except PipelineFailure as failure:
        raise CommandError(_describe(failure), ExitCode.FAILED) from failure
    finally:
        progress.clear()
    if code is ExitCode.OK and counts.images == 0:
        code = ExitCode.NOTHING_LOADED
    # Batches finish in any order; the report is sorted.
    files = tuple(sorted(failed.values(), key=lambda file: file.path))
    return Outcome(options, found, code, counts, files, elapsed, stats)


def _read(
    pipeline: Pipeline[Batch], options: LoadOptions, counts: Counts, failed: dict[str, FailedFile], progress: Progress
) -> ExitCode:
    """Read all batches and count them.

    A function of its own, because CPython 3.12 to 3.14 compile the end of a loop whose body ends with ``if`` to code
    outside of a ``try`` around the loop: there, Ctrl-C would not be caught.
    """
    for batch in pipeline:
        _add(batch, counts, failed)
        progress.update(counts)
        if options.strict and failed:
            return ExitCode.CORRUPT_FILE
    return ExitCode.OK


def _build(options: LoadOptions, images: Sequence[str]) -> Pipeline[Batch]:
    # Loading is CPU-bound, so additional threads beyond the number of CPUs would only wait.
    threads = options.threads or usable_cpus()
    load_batch = LoadBatch(options.width, options.height, options.pix_fmt)
    return (
        PipelineBuilder()
        .add_source((epoch, path) for epoch in range(options.epochs) for path in images)
        .aggregate(EpochBatches(options.batch_size))
        # A bad image does not fail the call; any other error would recur for every batch.
        .pipe(load_batch, name="load_batch", concurrency=threads, max_failures=0)
        .add_sink(buffer_size=max(3, threads))
        .build(num_threads=threads)
    )


def _add(batch: Batch, counts: Counts, failed: dict[str, FailedFile]) -> None:
    counts.images += batch.num_images
    counts.batches += batch.num_images > 0
    counts.failures += len(batch.failures)
    counts.num_bytes += batch.num_bytes
    for path, message in batch.failures:
        failed.setdefault(path, FailedFile(path, message)).times += 1


def _describe(failure: PipelineFailure) -> str:
    """Describe why the stages failed, by the cause that exceeded a limit rather than by the limit."""
    causes = [error.__cause__ or error for error in failure.exceptions]
    return "the pipeline failed: " + "; ".join(f"{type(cause).__name__}: {one_line(cause)}" for cause in causes)


@contextmanager
def _warnings_shown(progress: Progress) -> Iterator[None]:
    """Print the library's warnings between updates of the progress line while the command runs.

    Warnings of ``spdl.io`` about single files are omitted, because the result lists these files.
    """

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.name.startswith("spdl.io"):
                progress.clear()
                print(f"spdl load: {record.getMessage()}", file=sys.stderr)

    logger, handler = logging.getLogger("spdl"), Handler(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
