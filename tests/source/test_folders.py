"""``LocalDirectory``, ``ImageNet`` and what belongs to it; what importing sources imports."""

import random
import warnings
from pathlib import Path

import pytest

from spdl.source.imagenet import ImageNet, get_mappings, parse_wnid
from spdl.source.local_directory import LocalDirectory
from tests.support.child import run_child


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "val"):
        for wnid in ("n15075141", "n01440764", "n03709823"):
            (tmp_path / split / wnid).mkdir(parents=True)
            for k in (2, 0, 1):
                (tmp_path / split / wnid / f"{wnid}_{k}.JPEG").touch()
            (tmp_path / split / wnid / "note.txt").touch()
    return tmp_path


def test_a_folder_is_listed_in_order(folder: Path) -> None:
    """Sorted, of a known length, the same each time, whether the root is text or a path."""
    for root in (folder, str(folder)):
        source = LocalDirectory(root, "val/*/*.JPEG")
        assert list(source) == list(source) == sorted(folder.glob("val/*/*.JPEG"))
        assert len(source) == 9
    assert list(LocalDirectory(folder, "nothing/*")) == []
    assert len(list(LocalDirectory(folder, "**/*.txt"))) == 6


def test_the_listing_is_taken_once(folder: Path) -> None:
    """What comes later is not in it."""
    source = LocalDirectory(folder, "val/*/*.JPEG")
    (folder / "val" / "n01440764" / "late.JPEG").touch()
    assert len(list(source)) == len(source) == 9


def test_a_folder_is_shuffled_in_place(folder: Path) -> None:
    """By ``random.Random(seed)``, on top of what went before."""
    source = LocalDirectory(folder, "val/*/*.JPEG")
    expected = sorted(folder.glob("val/*/*.JPEG"))
    state = random.getstate()
    for seed in (3, 4, 3):
        source.shuffle(seed=seed)
        random.Random(seed).shuffle(expected)
        assert list(source) == expected
    assert random.getstate() == state


@pytest.mark.parametrize("split", ["val", "train"])
def test_imagenet_gives_paths_and_classes(folder: Path, split: str) -> None:
    """Sorted by path; the class is that of the folder's name."""
    source = ImageNet(folder, split)
    expected = [(path, get_mappings()[path.parent.name]) for path in sorted(folder.glob(f"{split}/*/*.JPEG"))]
    assert list(source) == expected
    assert len(source) == 9
    random.Random(1).shuffle(expected)
    source.shuffle(seed=1)
    assert list(source) == expected
    assert {index for _, index in source} == {0, 636, 999}


def test_imagenet_reads_val_unless_told(folder: Path) -> None:
    """And knows two splits only."""
    assert list(ImageNet(str(folder))) == list(ImageNet(folder, "val"))
    with pytest.raises(ValueError):
        ImageNet(folder, "test")


def test_wnids_are_found_in_text() -> None:
    """The first of them."""
    assert parse_wnid("/data/val/n03709823/n01440764_1.JPEG") == "n03709823"
    assert parse_wnid("xn034567890") == "n03456789"
    for text in ("", "n1234567", "/data/val/cats/1.JPEG"):
        with pytest.raises(ValueError):
            parse_wnid(text)


def test_mappings_are_those_of_ilsvrc2012() -> None:
    """A thousand, sorted; a caller who changes what he got changes nobody else's."""
    mappings = get_mappings()
    assert list(mappings.values()) == list(range(1000))
    assert list(mappings) == sorted(mappings)
    assert all(parse_wnid(wnid) == wnid for wnid in mappings)
    assert mappings["n01440764"] == 0
    assert mappings["n03709823"] == 636
    assert mappings["n15075141"] == 999
    mappings.clear()
    assert len(get_mappings()) == 1000


def test_importing_sources_imports_nothing_else() -> None:
    """Neither NumPy nor torch nor the rest of the package; every public module can be imported with a star."""
    ended = run_child("""
        import sys
        import spdl.source, spdl.source.utils, spdl.source.imagenet, spdl.source.local_directory
        print(*sorted({name.partition(".")[0] for name in sys.modules} & {"numpy", "torch"}))
        print(*sorted(name for name in sys.modules if name.startswith(("spdl.io", "spdl.pipeline"))))
        from spdl.source import *
        from spdl.source.utils import *
        from spdl.source.imagenet import *
        from spdl.source.local_directory import *
        LocalDirectory, ImageNet, parse_wnid, get_mappings, embed_shuffle, repeat_source, MergeIterator
        IterableWithShuffle, SizedIterable, SizedIterableWithShuffle
        DistributedDeterministicSampler, DistributedRandomSampler, KeyedPermutation, DistributedKeyedSampler
    """)
    ended.check()


def test_missing_folders_are_told_or_empty(tmp_path: Path) -> None:
    """Never a warning that nobody asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(LocalDirectory(tmp_path / "missing", "*")) == []
