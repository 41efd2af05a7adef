"""``add_source(exclude=..., exclude_keys=...)``: what is a file, what is a key, and what excludes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._failed_items import read_quarantine
from spdl.pipeline.defs import SourceConfig
from spdl.source import DistributedKeyedSampler
from tests.support.running import run, running


def bad_file(path: Path, *keys: str | int, source: Any = None) -> Path:
    """A quarantine file with these keys."""

    def refuse(item: Any) -> Any:
        if item in keys:
            raise ValueError(item)
        return item

    run(PipelineBuilder().add_source(keys if source is None else source).pipe(refuse).add_sink(), quarantine=path)
    return path


@pytest.mark.parametrize("how", ["list", "pattern", "paths", "pattern in a list", "mixed", "recursive"])
def test_several_files_are_read(how: str, tmp_path: Path) -> None:
    """One for each rank, as texts or paths, by name or by a pattern."""
    first = bad_file(tmp_path / "bad-0.jsonl", "a", "ok", source=["a", "x"])
    second = bad_file(tmp_path / "bad-1.jsonl", "c", "ok", source=["c", "x"])
    pattern = str(tmp_path / "bad-*.jsonl")
    exclude: Any = {
        "list": [str(first), str(second)],
        "pattern": pattern,
        "paths": [first, second],
        "pattern in a list": [pattern],
        "mixed": [first, tmp_path / "bad-[1-9].jsonl"],
        "recursive": str(tmp_path / "**" / "*.jsonl"),
    }[how]
    assert run(PipelineBuilder().add_source("abcd", exclude=exclude).add_sink()) == ["b", "d"]
    assert run(PipelineBuilder().add_source("abcd", exclude=exclude, exclude_keys=["d"]).add_sink()) == ["b"]


def test_keys_have_their_own_argument() -> None:
    """Items that look like files or patterns, alone or with a function."""
    items = ["a.jsonl", "b[1].jpg", "c*", "d"]
    assert run(PipelineBuilder().add_source(items, exclude_keys=items[:3]).add_sink()) == ["d"]
    builder = (
        PipelineBuilder().add_source(items, exclude=lambda item: item == "d", exclude_keys=[Path("c*")]).add_sink()
    )
    assert run(builder) == items[:2]
    assert run(PipelineBuilder().add_source(items, exclude_keys=[]).add_sink()) == items
    assert "exclude_keys=<list" in repr(SourceConfig(items, exclude_keys=["d"]))
    with pytest.raises(TypeError, match="exclude_keys must hold numbers"):
        PipelineBuilder().add_source(items, exclude_keys=cast("Any", [1.5])).add_sink().build()
    for given in ("abc", b"abc", Path("a"), 3, len):
        with pytest.raises(TypeError, match="exclude_keys must be an iterable of keys"):
            PipelineBuilder().add_source(items, exclude_keys=cast("Any", given))


@pytest.mark.parametrize("wrap", [str, Path, lambda path: [str(path)], lambda path: [path]])
@pytest.mark.parametrize("name", ["no.jsonl", "bad-*.jsonl", "no[0-9].txt", "no.txt"])
def test_a_file_that_is_not_there_is_an_error(name: str, wrap: Any, tmp_path: Path) -> None:
    """It would exclude nothing. In a list, other texts are keys."""
    bad_file(tmp_path / "bad_0.jsonl", "a", "ok", source=["a", "x"])
    error: Any = FileNotFoundError, OSError
    if name == "no.txt" and wrap not in (str, Path):
        error = ValueError
    with pytest.raises(error, match=r"exclude.*(excludes nothing.*exclude_keys|match nothing)"):
        PipelineBuilder().add_source("abcd", exclude=wrap(tmp_path / name)).add_sink().build()


@pytest.mark.parametrize("exclude", [[], (), set(), iter([])])
def test_an_empty_list_is_an_error(exclude: Any) -> None:
    """Such as the result of a search for files in another folder."""
    with pytest.raises(ValueError, match="empty list, which excludes nothing"):
        PipelineBuilder().add_source("abcd", exclude=exclude).add_sink().build()


@pytest.mark.parametrize("source", ["abcd", ["a", "b"], range(6), {"a": 1}], ids=str)
@pytest.mark.parametrize("name", ["exclude", "exclude_keys"])
def test_keys_that_match_nothing_are_an_error(source: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the items are known: a number is not the text of it. But a rank's share may have none of them."""
    for variable in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    arguments: Any = {name: ["1", "./a"]}
    with pytest.raises(ValueError, match="none of the 2 keys"):
        PipelineBuilder().add_source(source, **arguments).add_sink().build()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run(PipelineBuilder().add_source(source, **arguments).add_sink()) == list(source)


@pytest.mark.parametrize("is_async", [False, True])
def test_keys_that_matched_nothing_are_warned_of(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    """After the first pass over a source whose items were not known, once."""

    class Source:
        def __iter__(self) -> Iterator[str]:
            return iter(["/data/a", "/data/b"])

    class AsyncSource:
        async def __aiter__(self) -> Any:
            for item in Source():
                yield item

    source: Any = AsyncSource() if is_async else Source()
    for keys, number in ((["a"], 1), (["/data/a"], 0)):
        caplog.clear()
        builder = PipelineBuilder().add_source(source, exclude_keys=keys, epochs=3).add_sink()
        with running(builder) as pipeline:
            for _ in range(3):
                list(pipeline)
        warned = [record.getMessage() for record in caplog.records if "excludes nothing" in record.getMessage()]
        assert len(warned) == number
        assert all("its 1 keys, such as 'a'; others, like '/data/b'" in text for text in warned)


@pytest.mark.parametrize("kind", ["range", "sampler", "torch"])
def test_indices_of_another_number_of_items_are_refused(kind: str, tmp_path: Path) -> None:
    """If the folder has changed, an index means another item."""

    def make(number: int) -> Any:
        if kind == "torch":
            return pytest.importorskip("torch.utils.data").SequentialSampler(range(number))
        return range(number) if kind == "range" else DistributedKeyedSampler(number)

    path = bad_file(tmp_path / "bad.jsonl", 1, 3, source=make(6))
    assert {line.size for line in read_quarantine(path)} == {6}
    assert sorted(run(PipelineBuilder().add_source(make(6), exclude=path).add_sink())) == [0, 2, 4, 5]
    with pytest.raises(ValueError, match=r"indices of 6 items, and .* has 7 now"):
        PipelineBuilder().add_source(make(7), exclude=path).add_sink().build()
    assert run(PipelineBuilder().add_source([f"{n}" for n in range(7)], exclude_keys=["3"]).add_sink())[3] == "4"
