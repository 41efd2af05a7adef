"""Folders and shards that are named by URL, as users of buckets do."""

import io
import os
import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdl.io import load_image
from spdl.remote import RemoteNotFoundError, RemoteStore
from spdl.source import ImageFolder, JsonLines, ParquetRows, ShardStream, TarIndex
from tests.support.object_server import ObjectServer, serve, warm_up

pytest.importorskip("obstore")

_BRACES = "s3://bucket/shards/{000000..000002}.tar"


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server that the environment names, with three shards of two samples and four images of two classes."""
    from spdl.remote._object import _store_at

    with serve() as server:
        for name, value in {
            "AWS_ENDPOINT": server.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        for number in range(3):
            server.objects[f"bucket/shards/{number:06}.tar"] = _tar(number)
        for name in ("cat/1", "cat/2", "dog/1", "dog/deep/2"):
            server.objects[f"bucket/train/{name}.ppm"] = b"P6\n2 1\n255\n" + name[:3].encode() * 2
        _store_at.cache_clear()
        yield server
        _store_at.cache_clear()


def _tar(number: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for sample in range(2):
            info = tarfile.TarInfo(f"{number}/{sample}.txt")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"%d%d" % (number, sample)))
    return file.getvalue()


def test_rows_of_parquet_are_read_by_ranges(bucket: ObjectServer) -> None:
    """By URL, with braces or wildcards; only the groups that are asked for."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        file = io.BytesIO()
        column = [b"%d" % (number * 4 + row) + os.urandom(1 << 20) for row in range(4)]
        parquet.write_table(pyarrow.table({"data": column}), file, row_group_size=1, compression="none")
        bucket.objects[f"bucket/table/{number}.parquet"] = file.getvalue()
    size = sum(len(data) for name, data in bucket.objects.items() if name.startswith("bucket/table/"))
    rows = ParquetRows("s3://bucket/table/{0..1}.parquet")
    assert rows[1]["data"][:1] == b"1"
    assert 0 < bucket.num_bytes_asked() < size / 1.5
    listed = ParquetRows("s3://bucket/table/*.parquet")
    assert listed.files == rows.files == [f"s3://bucket/table/{number}.parquet" for number in range(2)]
    assert pickle.loads(pickle.dumps(listed))[7]["data"][:1] == b"7"
    with pytest.raises(FileNotFoundError):
        ParquetRows("s3://bucket/table/none.parquet")


def test_a_row_group_costs_one_request(bucket: ObjectServer) -> None:
    """And a file one for its footer and one for its size; also with the files of a store with options."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        file = io.BytesIO()
        columns = {name: os.urandom(40_000 * 5).hex() for name in "abc"}
        table = pyarrow.table({name: [text[i::5] for i in range(5)] for name, text in columns.items()})
        parquet.write_table(table, file, row_group_size=1, compression="none")
        bucket.objects[f"bucket/table/{number}.parquet"] = file.getvalue()
    size = sum(len(data) for name, data in bucket.objects.items() if name.startswith("bucket/table/"))
    store = RemoteStore("s3://bucket/table/")
    for rows in (
        ParquetRows("s3://bucket/table/*.parquet", open_groups=2),
        ParquetRows(["0.parquet", "1.parquet"], open_groups=2, open_file=store.open),
    ):
        bucket.requests.clear()
        assert len(list(rows)) == 10
        assert len(bucket.requests) == 10
        assert bucket.num_bytes_asked() < size
        bucket.requests.clear()
        again = pickle.loads(pickle.dumps(rows))
        assert len(list(again)) == 10
        counts = len(bucket.asked("HEAD")), len(bucket.asked("GET"))
        assert counts <= (2, 2 + 10)
        assert bucket.num_bytes_asked() < size + 2 * 65_600


def test_lines_of_json_are_taken_by_url(bucket: ObjectServer) -> None:
    """With braces; files are named as in the store."""
    for number in range(2):
        bucket.objects[f"bucket/texts/{number}.jsonl"] = b"".join(b'{"i": %d}\n' % (number * 2 + i) for i in range(2))
    rows = JsonLines("s3://bucket/texts/{0..1}.jsonl", save_index=False)
    assert [row["i"] for row in rows] == [0, 1, 2, 3]
    assert rows.files == ["texts/0.jsonl", "texts/1.jsonl"]


_SAMPLES = [b"00", b"01", b"10", b"11", b"20", b"21"]


@pytest.mark.parametrize("root", ["s3://bucket/train", "s3://bucket/train/"])
def test_folder_of_a_bucket_has_urls(root: str, bucket: ObjectServer) -> None:
    """Which are sources of images."""
    folder = ImageFolder(root)
    assert folder.classes == ["cat", "dog"]
    paths = [path for path, _ in folder]
    assert paths == [f"s3://bucket/train/{name}.ppm" for name in ("cat/1", "cat/2", "dog/1", "dog/deep/2")]
    assert folder.targets == [0, 0, 1, 1]
    assert load_image(paths[0]).shape == (1, 2, 3)


def test_shards_of_a_bucket_are_named_with_braces(bucket: ObjectServer, tmp_path: Path) -> None:
    """By an index, which is saved beside them, and as a stream."""
    index = TarIndex.of(_BRACES)
    assert [index[position]["txt"] for position in range(len(index))] == _SAMPLES
    assert any(path.endswith(".tarindex") for path in bucket.objects)
    for names in ("s3://bucket/shards/", "s3://bucket/shards/*.tar", [_BRACES, "s3://bucket/shards/000000.tar"]):
        assert len(TarIndex.of(names, saved_as=tmp_path / "index")) == 6
    assert [sample["txt"] for sample in ShardStream(_BRACES)] == _SAMPLES


def test_shards_on_a_web_server_are_named_with_braces(bucket: ObjectServer, tmp_path: Path) -> None:
    """It has no list of its files."""
    names = f"{bucket.url}bucket/shards/{{000000..000002}}.tar"
    index = TarIndex.of(names, saved_as=tmp_path / "index")
    assert [index[position]["txt"] for position in range(len(index))] == _SAMPLES
    assert [sample["txt"] for sample in ShardStream(names)] == _SAMPLES


def test_what_is_missing_is_named(bucket: ObjectServer) -> None:
    """A shard, a folder."""
    with pytest.raises(FileNotFoundError, match=r"'shards/000003.tar' in RemoteStore\('s3://bucket/'\)"):
        TarIndex.of("s3://bucket/shards/{000000..000003}.tar")
    with pytest.raises(RemoteNotFoundError, match=r"s3://bucket/shards/000003.tar: 404 Not Found"):
        list(ShardStream("s3://bucket/shards/{000000..000003}.tar"))
    with pytest.raises(FileNotFoundError, match=r"'s3://bucket/none' has no folders"):
        ImageFolder("s3://bucket/none")


def test_names_in_different_places_are_refused(bucket: ObjectServer) -> None:
    """An index is of one store."""
    for names in (["s3://bucket/a.tar", "s3://other/a.tar"], ["s3://bucket/a.tar", "a.tar"]):
        with pytest.raises(ValueError, match="must be in one bucket"):
            TarIndex.of(names)
    with pytest.raises(ValueError, match="pattern must be None"):
        TarIndex.of("s3://bucket/a.tar", "*.tar")


def test_commands_are_refused() -> None:
    """WebDataset runs them."""
    for make in (TarIndex.of, ShardStream):
        with pytest.raises(ValueError, match="commands are not run"):
            make("pipe:curl https://host/{0..3}.tar")


def test_store_given_as_a_folder_is_refused(tmp_path: Path) -> None:
    """With how it is given."""
    with pytest.raises(TypeError, match="store="):
        ImageFolder(RemoteStore(tmp_path))  # type: ignore[call-overload]  # on purpose
