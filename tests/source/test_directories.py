"""``LocalDirectory`` and ``ImageNet``: which files, in which order, of which class."""

import os
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.source import SizedIterableWithShuffle
from spdl.source.imagenet import ImageNet, get_mappings, parse_wnid
from spdl.source.local_directory import LocalDirectory


def put(root: Path, *names: str) -> list[Path]:
    """Empty files of these names, with the folders they need."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return [root / name for name in names]


class TestLocalDirectory:
    """``LocalDirectory``."""

    def test_paths_are_sorted(self, tmp_path: Path) -> None:
        """As ``sorted(Path.glob)`` has them, whatever the file system says."""
        put(tmp_path, "b.wav", "a/z.wav", "a.wav", "B.wav", "10.wav", "9.wav", "a.txt")
        source = LocalDirectory(tmp_path, "**/*.wav")
        assert list(source) == sorted(tmp_path.glob("**/*.wav"))
        assert len(source) == 6
        assert list(LocalDirectory(str(tmp_path), "*.txt")) == [tmp_path / "a.txt"]
        assert isinstance(source, SizedIterableWithShuffle)

    @pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
    def test_odd_names_are_names(self, tmp_path: Path) -> None:
        """Spaces, line breaks, brackets, what is no UTF-8, and what looks like a pattern or an option."""
        names = ["a b.wav", "a\nb.wav", "[x].wav", "*.wav", "-rf.wav", ".hidden.wav", "Ünïcode.wav", "\udcff.wav"]
        paths = put(tmp_path, *names)
        source = LocalDirectory(tmp_path, "*.wav")
        assert set(source) == set(paths)
        assert len(pickle.loads(pickle.dumps(source))) == len(names)
        source.shuffle(seed=1)
        assert all(path.exists() for path in source)

    def test_brackets_in_the_root_are_no_pattern(self, tmp_path: Path) -> None:
        """Only the pattern is one."""
        (path,) = put(tmp_path / "data [v1] *", "a.wav")
        assert list(LocalDirectory(tmp_path / "data [v1] *", "*")) == [path]

    def test_files_are_looked_up_once(self, tmp_path: Path) -> None:
        """What comes later is not seen; what has gone is still named."""
        old, gone = put(tmp_path, "a", "b")
        source = LocalDirectory(tmp_path, "*")
        put(tmp_path, "c")
        gone.unlink()
        assert list(source) == [old, gone]

    def test_nothing_found_is_empty(self, tmp_path: Path) -> None:
        """A root that is not there, one that is a file, and a pattern that nothing matches."""
        (file,) = put(tmp_path, "a")
        for root, pattern in ((tmp_path / "none", "*"), (file, "*"), (tmp_path, "*.wav")):
            source = LocalDirectory(root, pattern)
            source.shuffle(seed=0)
            assert len(source) == 0
            assert list(source) == []

    def test_shuffle_is_that_of_random(self, tmp_path: Path) -> None:
        """``random.Random(seed).shuffle`` of the order there is; repeatable from a new source."""
        expected = put(tmp_path, *"abcdefgh")
        source, again = LocalDirectory(tmp_path, "*"), LocalDirectory(tmp_path, "*")
        state = random.getstate()
        for seed in (3, 4):
            random.Random(seed).shuffle(expected)
            source.shuffle(seed=seed)
            again.shuffle(seed=seed)
            assert list(source) == list(again) == expected
        assert random.getstate() == state
        assert list(pickle.loads(pickle.dumps(source))) == expected

    def test_shuffle_leaves_an_iteration_alone(self, tmp_path: Path) -> None:
        """An iteration that has begun goes on in its order."""
        paths = put(tmp_path, *"abcdefgh")
        source = LocalDirectory(tmp_path, "*")
        iterator = iter(source)
        begun = next(iterator)
        source.shuffle(seed=1)
        assert [begun, *iterator] == paths
        assert list(source) != paths

    def test_seeds_are_whole_numbers(self, tmp_path: Path) -> None:
        """NumPy's too, which ``random`` alone would refuse."""
        put(tmp_path, *"abcdefgh")
        source, again = LocalDirectory(tmp_path, "*"), LocalDirectory(tmp_path, "*")
        seed: Any = np.int64(3)
        source.shuffle(seed)
        again.shuffle(3)
        assert list(source) == list(again)
        wrong: Any
        for wrong in (True, 1.5, None):
            with pytest.raises(TypeError, match="seed must be an int"):
                source.shuffle(seed=wrong)

    def test_attributes_are_what_was_given(self, tmp_path: Path) -> None:
        """The root as a ``Path``."""
        source = LocalDirectory(os.fspath(tmp_path), "*.wav")
        assert (source.root, source.pattern) == (tmp_path, "*.wav")
        assert repr(source) == f"LocalDirectory({str(tmp_path)!r}, '*.wav')"

    def test_wrong_patterns_are_refused(self, tmp_path: Path) -> None:
        """By ``Path.glob``, when it is made."""
        with pytest.raises(ValueError, match="pattern"):
            LocalDirectory(tmp_path, "")
        with pytest.raises(NotImplementedError):
            LocalDirectory(tmp_path, "/absolute/*")


class TestImageNet:
    """``ImageNet``."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        put(
            tmp_path,
            "val/n01440764/ILSVRC2012_val_00000293.JPEG",
            "val/n15075141/ILSVRC2012_val_00000001.JPEG",
            "val/n15075141/readme.txt",
            "train/n03709823/n03709823_10.JPEG",
        )
        return tmp_path

    def test_pairs_of_path_and_class(self, root: Path) -> None:
        """Of the split, sorted, without what is no photograph."""
        validation = ImageNet(root)
        assert [(path.name, index) for path, index in validation] == [
            ("ILSVRC2012_val_00000293.JPEG", 0),
            ("ILSVRC2012_val_00000001.JPEG", 999),
        ]
        assert list(ImageNet(str(root), split="train")) == [(root / "train/n03709823/n03709823_10.JPEG", 636)]
        assert len(validation) == 2
        assert isinstance(validation, SizedIterableWithShuffle)
        assert repr(validation) == f"ImageNet({str(root)!r}, split='val')"

    def test_shuffle_keeps_pairs_together(self, root: Path) -> None:
        """Only the order changes, as ``random`` does it."""
        source = ImageNet(root)
        expected = list(source)
        random.Random(2).shuffle(expected)
        source.shuffle(seed=2)
        assert list(pickle.loads(pickle.dumps(source))) == list(source) == expected

    def test_name_of_the_root_does_not_count(self, root: Path) -> None:
        """A folder above that looks like a class is none."""
        moved = root / "n01443537"
        put(moved, "val/n01440764/a.JPEG")
        assert [index for _, index in ImageNet(moved)] == [0]

    @pytest.mark.parametrize(
        ("name", "message"),
        [("val/cats/a.JPEG", "has no WordNet id"), ("val/n99999999/a.JPEG", "n99999999 is none of the 1000")],
    )
    def test_other_folders_are_refused(self, tmp_path: Path, name: str, message: str) -> None:
        """When they are reached."""
        put(tmp_path, name)
        with pytest.raises(ValueError, match=message):
            list(ImageNet(tmp_path))

    @pytest.mark.parametrize("split", ["test", "", "Val", None])
    def test_other_splits_are_refused(self, tmp_path: Path, split: Any) -> None:
        """There are two."""
        with pytest.raises(ValueError, match="split must be 'train' or 'val'"):
            ImageNet(tmp_path, split=split)


def test_first_wordnet_id_counts() -> None:
    """Wherever it is in the text."""
    assert parse_wnid("a/n01440764/n15075141_1.JPEG") == "n01440764"
    assert parse_wnid("xn014407641") == "n01440764"
    for text in ("", "n0144076", "N01440764", "n0144076٤"):
        with pytest.raises(ValueError, match="has no WordNet id"):
            parse_wnid(text)


def test_classes_are_the_sorted_ids() -> None:
    """1000 of them, from the fish to the tissue; each caller has a table of his own."""
    classes = get_mappings()
    assert list(classes) == sorted(classes)
    assert list(classes.values()) == list(range(1000))
    assert classes["n01440764"] == 0  # tench
    assert classes["n02123045"] == 281  # tabby
    assert classes["n15075141"] == 999  # toilet tissue
    classes.clear()
    assert len(get_mappings()) == 1000
