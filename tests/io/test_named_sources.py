"""Names of sources in memory, and what a pipeline counts of images that a batch lacks."""

import pickle
from contextlib import asynccontextmanager
from typing import Any

import pytest

import spdl.io
from spdl.pipeline import PipelineBuilder, TaskHook
from tests.io.pictures import make_jpeg

FITTED: dict[str, Any] = {"width": 32, "height": 24}
FORMS = [FITTED, {"transform": spdl.io.ImageTransform((24, 32))}, {**FITTED, "filter_desc": "scale=w=32:h=24"}]


@pytest.mark.parametrize("form", FORMS)
def test_failures_say_which_source_it_was(form: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """In the batch, in the log and in the message, in place of an address."""
    data = [make_jpeg(64, 48), b"junk", make_jpeg(64, 48), b"\xff\xd8\xff junk"]
    buffer = spdl.io.load_image_batch(data, names=["a", "train/b.jpg", None, "c"], strict=False, **form)
    assert [(failure.index, failure.name) for failure in buffer.failures] == [(1, "train/b.jpg"), (3, "c")]
    first: Any = buffer.failures[0].error
    assert first.source == "train/b.jpg"
    assert "train/b.jpg" in str(first)
    assert "Bytes: 0x" not in str(first)
    assert "Image 1 (train/b.jpg) of a batch of 4" in caplog.text
    assert pickle.loads(pickle.dumps(buffer.failures[0])).name == "train/b.jpg"
    with pytest.raises(spdl.io.BatchLoadError, match=r"\[1\] train/b\.jpg: ") as caught:
        spdl.io.load_image_batch(data, names=["a", "train/b.jpg", None, "c"], **form)
    assert [failure.name for failure in caught.value.failures] == ["train/b.jpg", "c"]


@pytest.mark.parametrize("form", FORMS)
def test_without_a_name_it_is_an_address(form: dict[str, Any]) -> None:
    """As before; a name for one of them changes nothing for the others."""
    data = [make_jpeg(64, 48), b"junk"]
    for names in (None, ["a", None]):
        (failure,) = spdl.io.load_image_batch(data, names=names, strict=False, **form).failures
        assert failure.name is None
        assert "Bytes: 0x" in str(failure.error)


@pytest.mark.parametrize(
    ("names", "kind"), [("ab", TypeError), (["a", 3], TypeError), (["a"], ValueError), (3, TypeError)]
)
@pytest.mark.parametrize("form", FORMS)
def test_wrong_names_are_refused(form: dict[str, Any], names: Any, kind: type[Exception]) -> None:
    """Before anything is loaded."""
    with pytest.raises(kind):
        spdl.io.load_image_batch([b"junk", b"junk"], names=names, **form)


def test_spares_have_no_names() -> None:
    """They are no sources of the batch."""
    transform = spdl.io.ImageTransform((24, 32))
    buffer = spdl.io.load_image_batch(
        [b"junk"], names=["a"], transform=transform, spares=[b"junk2", make_jpeg(64, 48)], strict=False
    )
    assert [(failure.index, failure.name) for failure in buffer.failures] == [(0, "a"), (1, None)]


# -- statistics


class Hook(TaskHook):
    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> Any:
        yield


def load(sources: list[bytes]) -> Any:
    return spdl.io.load_image_batch(sources, strict=False, **FITTED)


@pytest.mark.parametrize("hooks", [None, lambda info: [Hook()]])
def test_images_that_a_batch_lacks_are_counted(hooks: Any) -> None:
    """Of the stage whose call it was; no call has failed."""
    good = make_jpeg(64, 48)
    batches = [[good, good], [good, b"junk"], [b"junk", good, b"junk"]]
    pipeline = PipelineBuilder().add_source(batches).pipe(load).add_sink().build(task_hook_factory=hooks)
    with pipeline.auto_stop():
        assert [spdl.io.to_numpy(batch).shape[0] for batch in pipeline] == [2, 1, 1]
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_failures, stage.num_lost) == (3, 0, 3)


def test_images_that_spares_replace_are_not_lost() -> None:
    """The batch is whole."""
    good = make_jpeg(64, 48)
    transform = spdl.io.ImageTransform((24, 32))

    def op(sources: list[bytes]) -> Any:
        return spdl.io.load_image_batch(sources, transform=transform, spares=[good], strict=False)

    pipeline = PipelineBuilder().add_source([[good, b"junk"]]).pipe(op).add_sink().build()
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 1
    assert pipeline.stats().stages[1].num_lost == 0
