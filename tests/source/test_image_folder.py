"""``ImageFolder``: classes and images as torchvision has them; what is refused; with samplers and loaders."""

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spdl.dataloader import get_pytorch_dataloader
from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedKeyedSampler, DistributedRandomSampler, ImageFolder
from tests.support.shards import MemoryStore


def make(root: Path, classes: dict[str, int]) -> Path:
    for name, count in classes.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.jpg").write_bytes(f"{name} {number}".encode())
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "train", {"dog": 3, "cat": 2, "ant": 4})


def test_images_have_the_class_of_their_folder(root: Path) -> None:
    """Sorted, with folders below, in any case; hidden and other files are ignored."""
    (root / "cat/more").mkdir()
    (root / "cat/more/9.PNG").write_bytes(b"")
    for ignored in ("cat/notes.txt", "cat/.hidden.jpg", "top.jpg", ".cache.jpg"):
        (root / ignored).write_bytes(b"")
    (root / ".git").mkdir()
    dataset = ImageFolder(root)
    assert dataset.classes == ["ant", "cat", "dog"]
    assert dataset.class_to_idx == {"ant": 0, "cat": 1, "dog": 2}
    assert dataset.sizes == [4, 3, 3]
    assert len(dataset) == 10
    assert dataset.targets == [0] * 4 + [1] * 3 + [2] * 3
    assert dataset.samples == list(dataset) == [dataset[number] for number in range(10)] == dataset[:]
    assert [os.path.relpath(path, root) for path, number in dataset if number == 1] == [
        "cat/0.jpg", "cat/1.jpg", "cat/more/9.PNG",
    ]  # fmt: skip
    assert dataset[-1] == (str(root / "dog/2.jpg"), 2)
    assert repr(dataset) == f"ImageFolder({str(root)!r}: 10 images in 3 classes)"
    assert pickle.loads(pickle.dumps(dataset)).samples == dataset.samples
    assert dataset.root == str(root)


def test_load_makes_the_items(root: Path) -> None:
    """Of each path, where the item is read."""
    dataset = ImageFolder(root, load=lambda path: Path(path).read_bytes())
    assert dataset[0] == (b"ant 0", 0)
    assert [data for data, _ in dataset] == [Path(path).read_bytes() for path, _ in dataset.samples]
    assert dataset[7:] == [(b"dog 1", 2), (b"dog 2", 2)]


def test_weights_balance_the_classes(root: Path) -> None:
    """Each class is drawn equally often."""
    dataset = ImageFolder(root)
    weights = dataset.weights()
    totals: Counter[int] = Counter()
    for (_, number), weight in zip(dataset.samples, weights, strict=True):
        totals[number] += weight  # type: ignore[assignment]  # a sum of fractions
    assert all(abs(total - 1) < 1e-9 for total in totals.values())
    sampler = DistributedRandomSampler(len(dataset), rank=0, world_size=1, weights=weights, num_draws=3000)
    drawn = Counter(dataset.targets[index] for index in sampler)
    assert all(850 < drawn[number] < 1150 for number in range(3))


def test_extensions_are_chosen(root: Path) -> None:
    """With or without a dot."""
    (root / "ant/sound.wav").write_bytes(b"")
    for extensions in (["WAV"], ".wav", (".wav", "flac")):
        dataset = ImageFolder(root, extensions=extensions, allow_empty=True)
        assert dataset.samples == [(str(root / "ant/sound.wav"), 0)]
        assert (dataset.classes, dataset.sizes) == (["ant", "cat", "dog"], [1, 0, 0])
        assert dataset.weights() == [1.0]
    for wrong in ([], [""], ["."], [5]):
        with pytest.raises(ValueError, match="extensions must be names"):
            ImageFolder(root, extensions=wrong)  # type: ignore[arg-type]


def test_a_class_without_images_is_an_error(root: Path) -> None:
    """It is named; ``allow_empty`` keeps it, and its index."""
    (root / "bee").mkdir()
    (root / "bee/readme.txt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"1 of 4 classes in .* have no images.*'bee'.*allow_empty=True"):
        ImageFolder(root)
    dataset = ImageFolder(root, allow_empty=True)
    assert dataset.class_to_idx == {"ant": 0, "bee": 1, "cat": 2, "dog": 3}
    assert dataset.sizes == [4, 0, 2, 3]


def test_an_empty_root_is_an_error(tmp_path: Path) -> None:
    """As are one that is missing, one without folders, and one without images."""
    with pytest.raises(FileNotFoundError, match="missing"):
        ImageFolder(tmp_path / "missing")
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="has no folders: there must be a folder for each class"):
        ImageFolder(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(FileNotFoundError, match="no images in its 1 folders"):
        ImageFolder(tmp_path, allow_empty=True)


def test_links_that_lead_nowhere_are_an_error(root: Path) -> None:
    """They are named: their images would be missing silently."""
    for number in range(6):
        (root / f"cat/{number + 10}.jpg").symlink_to(root / "gone")
    (root / "eel").symlink_to(root / "gone")
    with pytest.raises(ValueError, match=r"7 links below .* are broken: .*and 2 more"):
        ImageFolder(root)


def test_links_are_followed(root: Path, tmp_path: Path) -> None:
    """To files, to folders, and around in circles."""
    make(tmp_path / "elsewhere", {"fox": 2})
    (root / "fox").symlink_to(tmp_path / "elsewhere/fox")
    (root / "fox/again").symlink_to(root / "fox")
    (root / "cat/linked.jpg").symlink_to(root / "dog/0.jpg")
    assert ImageFolder(root).sizes == [4, 3, 3, 2]


def test_a_folder_of_a_store(root: Path) -> None:
    """The paths are those of the store."""
    store = MemoryStore({
        f"data/train/{path.relative_to(root)}": path.read_bytes() for path in sorted(root.rglob("*.jpg"))
    })  # fmt: skip
    for path in ("data/train", "data/train/"):
        dataset = ImageFolder(path, store=store)
        assert (dataset.classes, dataset.sizes) == (["ant", "cat", "dog"], [4, 2, 3])
        assert dataset[0] == ("data/train/ant/0.jpg", 0)
        loaded = ImageFolder(path, store=store, load=store.objects.__getitem__)
        assert loaded[0] == (b"ant 0", 0)
    with pytest.raises(FileNotFoundError, match="'missing' has no folders"):
        ImageFolder("missing", store=store)


def test_a_pipeline_reads_it_by_position(root: Path) -> None:
    """As a source itself, and by a sampler; it can be resumed."""
    dataset = ImageFolder(root)
    pipeline = PipelineBuilder().add_source(dataset).add_sink(2).build(num_threads=1, resumable=True)
    with pipeline.auto_stop():
        assert list(pipeline) == dataset.samples
    sampler = DistributedKeyedSampler(len(dataset), seed=1)
    shuffled = PipelineBuilder().add_source(sampler).pipe(dataset.__getitem__).add_sink(2).build(num_threads=1)
    with shuffled.auto_stop():
        assert sorted(shuffled) == dataset.samples


def as_list(batch: list[Any]) -> list[Any]:
    return batch


@pytest.mark.slow
def test_a_torch_loader_reads_it(root: Path) -> None:
    """As its dataset, shuffled by it or by a sampler."""
    pytest.importorskip("torch")
    dataset = ImageFolder(root, load=os.path.basename)
    loader = get_pytorch_dataloader(dataset, batch_size=4, shuffle=True, workers="thread", collate_fn=as_list)
    assert sorted(pair for batch in loader for pair in batch) == sorted(dataset)
    loader = get_pytorch_dataloader(dataset, batch_size=2, workers="thread")
    names, numbers = next(iter(loader))
    assert (list(names), numbers.tolist()) == (["0.jpg", "1.jpg"], [0, 0])
