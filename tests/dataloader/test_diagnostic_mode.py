"""Diagnostic mode of pipelines, where a loader makes the pipeline."""

from typing import Any

import pytest

from spdl.dataloader import DataLoader


@pytest.fixture(autouse=True)
def diagnostic_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE", "1")
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS", "40")


def profiled(loader: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The headings of the tables."""
    with pytest.raises(SystemExit) as ended:
        next(iter(loader))
    assert ended.value.code == 0
    return [line for line in capsys.readouterr().out.splitlines() if " items" in line and "items/s" not in line]


def test_functions_of_a_loader_are_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is a stage."""
    found = profiled(DataLoader(range(100), preprocessor=str, batch_size=10, aggregator=tuple), capsys)
    assert [line.partition(":")[0].partition("(")[0] for line in found] == ["str", "aggregate", "tuple"]
    assert found[0].startswith("str: 40 items")


@pytest.mark.parametrize("options", [{}, {"call_timeout": 100}, {"batch_size": None}])
def test_loader_of_torchs_kind_is_profiled(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """With more batches than may be in flight; each is loaded by one call, as often as there are runs."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    options = {"batch_size": 2, "timeout": 0, **options}
    loader = get_pytorch_dataloader(list(range(100)), num_workers=2, workers="thread", **options)
    [found] = profiled(loader, capsys)
    assert found.startswith("load: 40 items")


def test_loader_of_an_iterable_dataset_is_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    """Its threads collate."""
    pytest.importorskip("torch")
    from torch.utils.data import IterableDataset

    from spdl.dataloader import get_pytorch_dataloader

    class Streamed(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(1000))

    [found] = profiled(get_pytorch_dataloader(Streamed(), 2, num_workers=2, timeout=0, workers="thread"), capsys)
    assert found.startswith("collate: 40 items")


def test_sampler_that_raises_ends_the_profile() -> None:
    """With its own exception, and not without a word."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    class Sampler:
        def __iter__(self) -> Any:
            yield 0
            raise LookupError("of the sampler")

    loader = get_pytorch_dataloader(list(range(9)), 1, sampler=Sampler(), num_workers=1, timeout=0, workers="thread")
    with pytest.raises(LookupError, match="of the sampler"):
        next(iter(loader))


def test_short_dataset_is_profiled_with_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    """And the number in the table is that."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    loader = get_pytorch_dataloader(list(range(9)), 2, num_workers=2, timeout=0, workers="thread")
    [found] = profiled(loader, capsys)
    assert found.startswith("load: 5 items")
