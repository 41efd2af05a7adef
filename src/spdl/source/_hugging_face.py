"""``HuggingFaceStream``: a streaming dataset of Hugging Face as a source, distributed over the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from spdl.source._sampler import StreamShare
from spdl.source._states import make_state, read_count, read_integers, read_state

if TYPE_CHECKING:
    from datasets import IterableDataset


class HuggingFaceStream(StreamShare):
    """The examples of a ``datasets.IterableDataset`` for one rank, with a state.

    Needs datasets (``spdl-native[huggingface]``). A ``datasets.Dataset`` does not need this class: it can be indexed,
    so use it directly with samplers and ``add_source``.

    The dataset is distributed as by ``datasets.distributed.split_dataset_by_node``: ranks get whole shards if the
    number of shards is a multiple of the number of ranks; otherwise each rank reads everything and keeps every
    ``world_size``-th example.

    **Equal steps.** Shards differ in length, so ranks get different numbers of examples, unless you set
    ``num_samples``: then each rank yields exactly this many examples in each epoch. If it has fewer, it begins again;
    if it has more, the remainder is not read in this epoch.

    The state includes the state of the dataset, which resumes at the same example. But examples in the buffer of its
    ``shuffle(buffer_size=...)`` are lost: use :class:`ShuffleBuffer` instead, which loses none.

    Args:
        dataset: The dataset, not split yet.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        num_samples: Number of examples per rank and epoch. ``None``: all examples.

    Raises:
        ImportError: datasets is not installed.
        TypeError: The dataset is not an ``IterableDataset``, or a number is not an integer.
        ValueError: ``num_samples`` or ``world_size`` is not positive, or ``rank`` is not in ``[0, world_size)``.
    """

    def __init__(
        self, dataset: IterableDataset, *, rank: int = 0, world_size: int = 1, num_samples: int | None = None
    ) -> None:
        try:
            from datasets import IterableDataset
            from datasets.distributed import split_dataset_by_node
        except ImportError as error:
            raise ImportError("HuggingFaceStream needs datasets: pip install 'spdl-native[huggingface]'") from error
        if not isinstance(dataset, IterableDataset):
            raise TypeError(
                f"dataset must be a datasets.IterableDataset, got an object of type {type(dataset).__qualname__}. A "
                "datasets.Dataset is a source as it is, by position: DistributedKeyedSampler(len(dataset))"
            )
        super().__init__(world_size, "ranks", rank, world_size, num_samples)
        self._dataset = dataset
        self._split = split_dataset_by_node(dataset, self._rank, self._world) if self._world > 1 else dataset
        self._epoch = 0
        self._count = 0
        #: Where the next iteration resumes: the number of examples yielded, and the state of the dataset.
        self._resumed: tuple[int, Any] = (0, None)
        #: The loaded state of an iteration that had nothing left.
        self._over: tuple[int, Any] | None = None
        self._is_under_way = False

    @property
    def dataset(self) -> IterableDataset:
        """The dataset, as given."""
        return self._dataset

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the iterations that begin from now on, also in the dataset.

        If a state was loaded, the next iteration resumes from it only if this is the epoch in the state.

        Raises:
            TypeError: ``epoch`` is not an integer.
        """
        super().set_epoch(epoch)
        self._split.set_epoch(self._epoch)

    def _forget(self) -> None:
        self._resumed, self._over, self._is_under_way = (0, None), None, False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._is_under_way, self._over = False, None
        return self._examples()

    def _examples(self) -> Iterator[dict[str, Any]]:
        (self._count, state), self._resumed = self._resumed, (0, None)
        self._over = None if state is None else (self._count, state)
        limit = self._num_samples
        while self._count != limit:
            # Otherwise, every iteration of this epoch would begin at the loaded state.
            self._split.load_state_dict(state)
            before, was_resumed, state = self._count, state is not None, None
            for example in self._split:
                self._is_under_way = True
                self._count += 1
                yield example
                if self._count == limit:
                    return
            if limit is None:
                return
            if self._count == before and not was_resumed:
                raise RuntimeError(
                    f"the dataset has no examples for rank {self._rank} of {self._world}, and num_samples asks for "
                    f"{limit}"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the newest iteration: numbers, and the state of the dataset."""
        if self._is_under_way:
            count, inner = self._count, self._split.state_dict()
        else:
            count, inner = self._over or self._resumed
        return make_state("HuggingFaceStream", **self._fingerprint(), epoch=self._epoch, count=count, dataset=inner)

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Make the next iteration resume from a state; later iterations begin at the start.

        Raises:
            ResumeError: It is not the state of a ``HuggingFaceStream`` with the same arguments and rank.
        """
        checked = read_state(state, "HuggingFaceStream", **self._fingerprint())
        (epoch,) = read_integers(checked, "epoch")
        count = read_count(checked, "count")
        self._epoch = epoch
        self._split.set_epoch(epoch)
        self._resumed, self._over, self._is_under_way = (count, checked.get("dataset")), None, False

    def _fingerprint(self) -> dict[str, Any]:
        return {"rank": self._rank, "world_size": self._world, "num_samples": self._num_samples}

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins at the start or at a loaded state, even if it is made during an iteration.
        return {**self.__dict__, "_count": 0, "_over": None, "_is_under_way": False}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._dataset!r}, rank={self._rank}, world_size={self._world})"
