"""One meaning a word: former names of arguments are accepted with a warning, and no word has two meanings."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import spdl.dataloader
import spdl.io
import spdl.pipeline
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Pipe
from tests.support.running import run

ROOT = Path(__file__).resolve().parent.parent


def identity(item: Any) -> Any:
    return item


def test_the_former_timeout_of_a_stage_is_its_call_timeout() -> None:
    """The warning is for the line of the caller."""
    with pytest.warns(DeprecationWarning, match=r"timeout of pipe\(\) is called call_timeout now") as warned:
        builder = PipelineBuilder().add_source([1]).pipe(identity, timeout=5)  # type: ignore[call-overload]
    assert warned[0].filename == __file__
    assert run(builder.add_sink()) == [1]
    with pytest.warns(DeprecationWarning, match="call_timeout"):
        config = Pipe(identity, timeout=5)  # type: ignore[call-arg]
    assert "call_timeout=5" in repr(config)
    with pytest.raises(TypeError, match="both call_timeout and timeout"):
        Pipe(identity, timeout=5, call_timeout=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["load_image_batch", "load_audio_batch", "load_video_clips"])
def test_the_former_policy_of_a_batch_is_what_is_missing(name: str) -> None:
    """What is wrong with its value is said of the word that it has now."""
    load = getattr(spdl.io, name)
    options: dict[str, Any] = {"transform": spdl.io.ImageTransform(size=(4, 4))} if name == "load_image_batch" else {}
    options |= {"num_frames": 1, "size": (4, 4)} if name == "load_video_clips" else {}
    options |= {"num_samples": 1, "sample_rate": 8000} if name == "load_audio_batch" else {}
    with (
        pytest.warns(DeprecationWarning, match=rf"on_failure of {name}\(\) is called missing now"),
        pytest.raises((ValueError, TypeError), match="missing must be one of"),
    ):
        load([b"no media"], on_failure="other", **options)


def functions() -> list[Any]:
    found = []
    for module in (spdl.pipeline, spdl.io, spdl.dataloader):
        found += [getattr(module, name) for name in module.__all__]
    found += [method for _, method in inspect.getmembers(PipelineBuilder, inspect.isfunction)]
    return [each for each in found if callable(each)]


def test_words_that_mean_one_thing_do_not_stand_beside_their_former_name() -> None:
    """``on_failure`` is a function wherever it is, and an item's limit is not called ``timeout``."""
    for each in functions():
        try:
            names = inspect.signature(each).parameters
        except (TypeError, ValueError):  # built in
            continue
        if "strict" in names:
            assert "on_failure" not in names, each
        if "on_error" in names and "timeout" in names:
            assert "call_timeout" in names, each
