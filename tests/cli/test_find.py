"""Which files ``spdl load`` takes."""

import os
from pathlib import Path

import pytest

from spdl._cli._find import find_images
from spdl._cli._options import CommandError, ExitCode


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_folder_is_searched_with_its_subfolders_in_order(tmp_path: Path) -> None:
    """Images come sorted by name, folder by folder, whatever the case of their suffix."""
    _touch(tmp_path, "b.jpg", "a.JPEG", "z/y/d.Jpg", "k/c.jpg", "notes.txt")
    found = find_images([tmp_path])
    assert [os.path.relpath(path, tmp_path) for path in found.images] == ["a.JPEG", "b.jpg", "k/c.jpg", "z/y/d.Jpg"]
    assert found.unsupported == {}


def test_files_and_folders_keep_the_order_given(tmp_path: Path) -> None:
    """What was named first is loaded first; a file may be named twice."""
    _touch(tmp_path, "folder/a.jpg", "b.jpg")
    found = find_images([tmp_path / "b.jpg", tmp_path / "folder", tmp_path / "b.jpg"])
    assert [os.path.basename(path) for path in found.images] == ["b.jpg", "a.jpg", "b.jpg"]


def test_images_of_other_formats_are_counted(tmp_path: Path) -> None:
    """A format that is not supported yet is counted by suffix; files that are no images are not."""
    _touch(tmp_path, "a.jpg", "b.psd", "c.PSD", "d.svg", "e.txt")
    assert find_images([tmp_path]).unsupported == {".psd": 2, ".svg": 1}


def test_every_format_that_loads_is_found(tmp_path: Path) -> None:
    """Not JPEG alone."""
    names = ["a.avif", "b.bmp", "c.gif", "d.jpg", "e.PNG", "f.tif", "g.tiff", "h.webp", "i.heic"]
    _touch(tmp_path, *names)
    found = find_images([tmp_path])
    assert [os.path.basename(path) for path in found.images] == names
    assert found.unsupported == {}


def test_missing_path_is_an_error_of_its_own(tmp_path: Path) -> None:
    """The message names the path."""
    with pytest.raises(CommandError, match=r"nowhere.*no such file") as caught:
        find_images([tmp_path / "nowhere"])
    assert caught.value.code is ExitCode.PATH_UNREADABLE


def test_dangling_link_is_missing(tmp_path: Path) -> None:
    """A given link that leads nowhere is a missing path."""
    (tmp_path / "link.jpg").symlink_to(tmp_path / "gone.jpg")
    with pytest.raises(CommandError) as caught:
        find_images([tmp_path / "link.jpg"])
    assert caught.value.code is ExitCode.PATH_UNREADABLE


def test_unreadable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed is named, not skipped."""
    _touch(tmp_path, "a.jpg", "locked/b.jpg")
    scandir = os.scandir

    def refuse(path: str) -> object:  # root may list every folder, so permissions alone would not show it
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CommandError, match=r"locked'.*Permission denied.*check its permissions") as caught:
        find_images([tmp_path])
    assert caught.value.code is ExitCode.PATH_UNREADABLE


def test_folder_without_images_is_an_error(tmp_path: Path) -> None:
    """The message says what was looked for and what was ignored."""
    _touch(tmp_path, "a.psd", "b.txt")
    with pytest.raises(CommandError, match=r"looked for \.avif,.* \.jpg,.*1 \.psd$") as caught:
        find_images([tmp_path])
    assert caught.value.code is ExitCode.NO_IMAGES


def test_given_file_of_another_kind_is_noted(tmp_path: Path) -> None:
    """A file that was named is never passed over in silence."""
    _touch(tmp_path, "a.jpg", "b.txt", "c")
    found = find_images([tmp_path / "a.jpg", tmp_path / "b.txt", tmp_path / "c"])
    assert found.unsupported == {".txt": 1, "": 1}


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    """A link back up does not make the search endless."""
    _touch(tmp_path, "a.jpg")
    (tmp_path / "up").symlink_to(tmp_path, target_is_directory=True)
    assert len(find_images([tmp_path]).images) == 1
