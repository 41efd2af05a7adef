"""``ShardStream``: the samples of tar archives that are read in order: compressed ones, and stores without ranges."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from spdl._addresses import Address
from spdl._numbers import as_int
from spdl.resume._values import ResumeError
from spdl.source._keyed import KeyedPermutation
from spdl.source._sampler import StreamShare
from spdl.source._states import make_state, read_count, read_integers, read_state
from spdl.source._stores import ShardError

from ._compressed import UNPACKING_ERRORS, unpacked
from ._tar_build import divide_name
from ._tar_headers import BLOCK, TarHeaders

#: Maximum bytes per read of a stream. A damaged size can therefore not cause a large allocation.
_LARGEST_READ: Final = 1 << 26


class ShardStream(StreamShare):
    """The samples of tar archives that are read from start to end, because they cannot be read by ranges.

    Samples are those of :class:`TarIndex`: dictionaries with the bytes of each file by its extension, ``"__key__"`` and
    ``"__url__"``. Archives may be compressed with gzip, bzip2 or xz. Whole archives are distributed over the ranks and
    over the workers of torch's ``DataLoader``, so there must be at least one for each, and better many. Samples are in
    the order of their archive; shuffle them with :class:`ShuffleBuffer`.

    **Equal steps.** Archives differ in length, so ranks get different numbers of samples, unless you set
    ``num_samples``: then each rank yields exactly this many samples in each epoch. If its archives have fewer, it reads
    them again; if they have more, the remainder is not read in this epoch.

    .. code-block:: python

        stream = ShardStream("https://host/train-{000000..000099}.tar", seed=0)
        builder = PipelineBuilder().add_source(ShuffleBuffer(stream, 5000, seed=0))

    Args:
        shards: Names of the archives, with or without braces; with ``open_shard``, any names that it accepts.
        seed: Seed for shuffling the archives in each epoch. ``None``: they are read in the order given.
        epoch: Epoch of the first iterations: any integer.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        num_samples: Number of samples per rank and epoch, of all its workers together. ``None``: all samples.
        open_shard: Function from a name to an object with ``read(size)`` and, optionally, ``close()``. ``None``: local
            files, and URLs (``s3://``, ``gs://``, ``az://``, ``https://``), which need ``spdl-native[remote]``.
        ignore_zeros: Whether to read archives that were joined with ``cat``, as ``tar --ignore-zeros`` does. Otherwise
            a ``UserWarning`` says that all but the first are ignored.

    Raises:
        TypeError: A number is not an integer, or a shard is not a name.
        ValueError: There are fewer archives than ranks, or a number is out of range. While iterating: there are fewer
            archives than workers of all ranks.

    The complete samples of an archive that is cut off or damaged are yielded before the error. If only the zeros at its
    end are missing, a ``UserWarning`` says so.

    Use one iterator at a time: ``state_dict()`` returns the position of the newest one. Resuming from a state reads the
    current archive again from its start, and drops the samples that were already yielded.
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        seed: int | None = None,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        num_samples: int | None = None,
        open_shard: Callable[[str], _Stream] | None = None,
        ignore_zeros: bool = False,
    ) -> None:
        names = [shards] if isinstance(shards, str | os.PathLike) else shards
        self._open: Callable[[str], _Stream]
        from spdl.source._find import braced

        if open_shard is None:
            opener = _Addresses(names)
            self._shards, self._open = opener.names, opener
        else:
            self._shards, self._open = [name for each in names for name in braced(each)], open_shard
        super().__init__(len(self._shards), "shards", rank, world_size, num_samples)
        if len(self._shards) < self._world:
            raise ValueError(f"there must be a shard for each rank, got {len(self._shards)} for {self._world}")
        self._seed = None if seed is None else as_int("seed", seed)
        self._epoch = as_int("epoch", epoch)
        self._ignore_zeros = bool(ignore_zeros)
        #: Number of samples yielded, archives finished, and samples yielded from the next archive.
        self._start = self._at = (0, 0, 0)

    @property
    def shards(self) -> list[str]:
        """The names of all archives."""
        return list(self._shards)

    @property
    def seed(self) -> int | None:
        """The seed for shuffling the archives."""
        return self._seed

    def _forget(self) -> None:
        self._start = self._at = (0, 0, 0)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        start, self._start = self._start, (0, 0, 0)
        self._at = start
        worker, num_workers = _worker_of_torch()
        share, num_shares = self._rank + self._world * worker, self._world * num_workers
        if len(self._shards) < num_shares:
            raise ValueError(
                f"there must be a shard for each worker of all ranks, got {len(self._shards)} shards for {self._world} "
                f"ranks of {num_workers} workers. Use fewer workers"
            )
        order = (
            range(len(self._shards))
            if self._seed is None
            else KeyedPermutation(len(self._shards), (self._seed, self._epoch))
        )
        own = [self._shards[number] for number in order[share::num_shares]]
        limit = self._num_samples
        if limit is not None:
            limit = limit // num_workers + (worker < limit % num_workers)
        return self._samples(own, limit, *start)

    def _samples(
        self, own: list[str], limit: int | None, count: int, num_read: int, given: int
    ) -> Iterator[dict[str, Any]]:
        in_pass = given
        while count != limit and (limit is not None or num_read < len(own)):
            shard, number = own[num_read % len(own)], 0
            for number, sample in enumerate(self._read(shard), 1):
                if number <= given:
                    continue
                count += 1
                self._at = count, num_read, number
                yield sample
                if count == limit:
                    return
            if number < given:
                raise ResumeError(
                    f"cannot resume in {shard!r} after sample {given}: it has {number}. It has changed since the "
                    "state was taken"
                )
            num_read, given, in_pass = num_read + 1, 0, in_pass + number
            if num_read % len(own) == 0:
                if limit is not None and not in_pass:
                    raise ShardError(
                        f"the {len(own)} shards of this rank have no samples, and num_samples asks for {limit}",
                        shard=own[0],
                    )
                in_pass = 0

    def _read(self, shard: str) -> Iterator[dict[str, Any]]:
        """The samples of one archive."""
        stream = self._open(shard)
        try:
            source = unpacked(stream, shard)
            reader = _InOrder(source, shard)
            yield from _grouped(reader, shard, self._ignore_zeros)
        finally:
            if (close := getattr(stream, "close", None)) is not None:
                close()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the newest iteration, as numbers and text."""
        count, num_read, given = self._at
        return make_state(
            "ShardStream", **self._fingerprint(), epoch=self._epoch, count=count, shards_read=num_read, given=given
        )

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Make the next iteration resume from a state; later iterations begin at the start.

        Raises:
            ResumeError: It is not the state of a ``ShardStream`` with the same arguments and rank.
        """
        checked = read_state(state, "ShardStream", **self._fingerprint())
        (epoch,) = read_integers(checked, "epoch")
        numbers = read_count(checked, "count"), read_count(checked, "shards_read"), read_count(checked, "given")
        self._epoch = epoch
        self._start = self._at = numbers

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "num_shards": len(self._shards),
            "rank": self._rank,
            "world_size": self._world,
            "seed": self._seed,
            "num_samples": self._num_samples,
        }

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins at the start or at a loaded state, even if it is made during an iteration.
        return {**self.__dict__, "_at": self._start}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self._shards)} shards, rank={self._rank}, world_size={self._world}, "
            f"seed={self._seed}, epoch={self._epoch})"
        )


class _Stream(Protocol):
    """A stream that an archive is read from."""

    def read(self, size: int, /) -> bytes: ...


class _Addresses:
    """Opens archives by names that have no signatures.

    Args:
        given: What the user gave: paths, URLs, folders and patterns.
    """

    def __init__(self, given: Iterable[str | os.PathLike[str]]) -> None:
        from spdl.source._find import expand_shard

        self.names: list[str] = []
        self._addresses: dict[str, Address] = {}
        for each in given:
            for shown, address in expand_shard(each):
                name, number = shown, 1
                while self._addresses.setdefault(name, address) != address:  # URLs that differ in their queries
                    number += 1
                    name = f"{shown}#{number}"
                self.names.append(name)

    def __call__(self, name: str) -> _Stream:
        from spdl.source._find import open_stream

        opened: _Stream = open_stream(self._addresses[name])
        return opened


def _worker_of_torch() -> tuple[int, int]:
    """The number of this ``DataLoader`` worker, and the number of workers; ``(0, 1)`` outside of a worker."""
    module = sys.modules.get("torch.utils.data")
    info = None if module is None else module.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class _InOrder:
    """Read bytes of a stream at ascending positions."""

    __slots__ = ("_path", "_position", "_stream")

    def __init__(self, stream: _Stream, path: str) -> None:
        self._stream = stream
        self._path = path
        self._position = 0

    def __call__(self, position: int, length: int) -> bytes:
        while self._position < position:
            if not self._take(min(position - self._position, _LARGEST_READ)):
                raise ShardError(
                    f"cannot read the tar archive {self._path!r}: it ends early, at byte {self._position}, in a file "
                    f"that is skipped and ends at byte {position}",
                    shard=self._path,
                    offset=self._position,
                )
        data = self._take(min(length, _LARGEST_READ))
        if len(data) == length or not data:
            return data
        parts, left = [data], length - len(data)
        while left and (data := self._take(min(left, _LARGEST_READ))):
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def _take(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except UNPACKING_ERRORS as error:
            raise ShardError(
                f"cannot read the tar archive {self._path!r}: its compressed data is damaged or ends early, after "
                f"{self._position} bytes of the archive: {error}",
                shard=self._path,
                offset=self._position,
            ) from error
        self._position += len(data)
        return bytes(data)


def _is_complete(sample: dict[str, Any], headers: TarHeaders, usual: set[frozenset[str]]) -> bool:
    """Whether a sample has all its files, although the archive is cut off or damaged after one of them.

    If nothing is known of the next file, it is complete if all samples before it had the same extensions.
    """
    key = sample["__key__"]
    if headers.due is not None:
        due = divide_name(headers.due)
        return due is None or due[0] != key
    return headers.starts_another(key) or usual == {frozenset(sample)}


def _grouped(read: _InOrder, path: str, ignore_zeros: bool) -> Iterator[dict[str, Any]]:
    """Group the files of an archive into samples. The samples before an error come first, if they are complete."""
    headers = TarHeaders(read, None, path, BLOCK, ignore_zeros=ignore_zeros)
    sample: dict[str, Any] = {}
    part, usual = 0, set[frozenset[str]]()  # of which archive the sample is, and the extensions of those before it
    is_over = False  # whether another file came behind the sample
    failure: Exception | None = None
    try:
        for member in headers:
            divided = divide_name(member.name)
            if divided is None:
                is_over = True
                continue
            is_over = False
            key, extension = divided
            if sample and (sample["__key__"], part) != (key, member.part):
                usual.add(frozenset(sample))
                yield sample
                sample = {}
            if not sample:
                sample = {"__key__": key, "__url__": path}
                part = member.part
            if extension in sample:
                raise ShardError(
                    f"cannot read {path!r}: sample {key!r} has two files with the extension {extension!r}, the second "
                    f"at byte {member.offset}",
                    shard=path,
                    offset=member.offset,
                )
            headers.due = member.name
            data = read(member.offset, member.size) if member.size else b""
            if len(data) != member.size:
                raise ShardError(
                    f"cannot read the tar archive {path!r}: it ends early, at byte {member.offset + len(data)}, in "
                    f"{member.name!r}, which has {member.size} bytes",
                    shard=path,
                    offset=member.offset + len(data),
                )
            sample[extension] = data
    except Exception as error:  # noqa: BLE001  # it is raised again
        failure = error
        if sample and part == headers.part and not is_over and not _is_complete(sample, headers, usual):
            sample = {}
    if sample:
        yield sample
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # its traceback has this frame
