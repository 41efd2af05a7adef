"""How many lines the failures of batches log: one each, the first of a kind with its traceback, then counts."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import spdl.io
from spdl.pipeline import config

JUNK = b"junk"
#: What the log calls the items, and the function that loads them.
KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "Image": partial(spdl.io.load_image_batch, width=16, height=16, strict=False),
    "Image, strict": partial(spdl.io.load_image_batch, width=16, height=16),
    "Image, named": lambda srcs: spdl.io.load_image_batch(
        srcs, width=16, height=16, strict=False, names=[f"{index}.jpg" for index in range(len(srcs))]
    ),
    "Image, transformed": partial(spdl.io.load_image_batch, transform=spdl.io.ImageTransform((16, 16)), strict=False),
    "Clip": partial(spdl.io.load_video_clips, num_frames=2, size=(16, 16), start="middle", strict=False),
    "Sound": partial(spdl.io.load_audio_batch, num_samples=10, sample_rate=8000, start=0.0, strict=False),
}


@pytest.fixture(autouse=True)
def _style_by_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SPDL_PIPELINE_COMPACT_LOG", raising=False)
    config.set_compact_log(None)
    yield
    config.set_compact_log(None)


def load(kind: str, num_bad: int) -> None:
    with suppress(spdl.io.BatchLoadError):  # there is nothing else in the batch
        KINDS[kind]([JUNK] * num_bad)


@pytest.mark.parametrize("kind", KINDS)
def test_failures_are_logged_in_a_line_each_and_then_counted(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Over all batches of the process; the first one has its traceback."""
    load(kind, 1)
    (first,) = caplog.records
    assert first.levelno == logging.ERROR
    assert first.exc_info is not None
    for _ in range(50):
        load(kind, 4)
    texts = [record.getMessage() for record in caplog.records]
    assert [record.exc_info is None for record in caplog.records] == [False] + [True] * (len(texts) - 1)
    assert all(text.startswith(f"{kind.split(',')[0]} ") and "\n" not in text for text in texts), texts
    numbers = [int(text.rpartition("; ")[2].split()[0]) for text in texts if text.endswith("like this so far")]
    assert numbers == [10, 20, 50, 100, 200]
    assert len(texts) == 9 + len(numbers)


def test_a_style_that_is_set_holds_for_batches_too(caplog: pytest.LogCaptureFixture) -> None:
    """As for the items of a pipeline: each in a line, or each with its traceback."""
    config.set_compact_log(True)
    load("Image", 30)
    assert [record.exc_info for record in caplog.records] == [None] * 30
    config.set_compact_log(False)
    caplog.clear()
    load("Image", 30)
    assert all(record.exc_info is not None for record in caplog.records)
    assert len(caplog.records) == 30
