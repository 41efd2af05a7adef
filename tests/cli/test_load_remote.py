"""``spdl load`` with URLs: images of a bucket are found, loaded and counted; what cannot be read is an error."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from spdl._cli import main
from tests.support.object_server import ObjectServer, serve, warm_up

pytest.importorskip("obstore")


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A bucket with three images, one of them damaged, that the environment leads to."""
    from spdl.remote._object import _store_at

    file = io.BytesIO()
    Image.new("RGB", (40, 30)).save(file, "jpeg")
    with serve() as server:
        server.objects = {"bucket/a/1.jpg": file.getvalue(), "bucket/a/b/2.JPG": file.getvalue(), "bucket/a/x.txt": b""}
        server.objects |= {"bucket/a/bad.jpg": b"no image", "bucket/c/y.txt": b""}
        for name, value in {"ENDPOINT": server.url, "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        _store_at.cache_clear()
        yield server
        _store_at.cache_clear()


def _load(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    main(["load", "--json", "--quiet", "--size", "8", "--threads", "1", *words])
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


def test_images_below_a_url_are_loaded(bucket: ObjectServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged ones are listed with their URL."""
    result = _load(capsys, "s3://bucket/a")
    assert (result["num_files"], result["num_images"], result["num_failures"]) == (3, 2, 1)
    assert result["paths"] == ["s3://bucket/a"]
    assert [failed["path"] for failed in result["failures"]] == ["s3://bucket/a/bad.jpg"]


def test_pattern_and_object_are_urls_too(bucket: ObjectServer, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order given."""
    assert _load(capsys, "s3://bucket/a/*.jpg", "s3://bucket/a/1.jpg")["num_files"] == 3


def test_search_is_announced(bucket: ObjectServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A large bucket takes a while."""
    assert main(["load", "--size", "8", "s3://bucket/a"]) == 0
    captured = capsys.readouterr()
    assert "looking for images in s3://bucket/a" in captured.err
    assert captured.out.startswith("2 images ")


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("s3://bucket/a/gone.jpg", 3, "check the path"),
        ("s3://bucket/c", 4, "no image found in 's3://bucket/c'"),
        ("s3://bucket/none/", 4, "no image found"),
        ("foo://bucket/a", 3, "cannot load 'foo://bucket/a'"),
    ],
)
def test_url_without_images_is_an_error(
    url: str, code: int, message: str, bucket: ObjectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the exit code that a path has."""
    assert main(["load", url]) == code
    assert message in capsys.readouterr().err


def test_bucket_that_may_not_be_read_is_an_error(bucket: ObjectServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what was refused."""
    bucket.refuse["bucket"] = 403
    assert main(["load", "s3://bucket/a"]) == 3
    assert "403" in capsys.readouterr().err
