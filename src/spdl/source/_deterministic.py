"""``DistributedDeterministicSampler``: the indices of a dataset in ascending order, distributed over the ranks."""

import warnings
from collections.abc import Iterator

from ._sampler import Sampler
from ._share import check_size


class DistributedDeterministicSampler(Sampler[int]):
    """The indices ``0 .. n - 1`` in ascending order; each rank gets every ``world_size``-th index.

    .. code-block:: python

        assert list(DistributedDeterministicSampler(8, rank=1, world_size=4)) == [1, 5]

    Every iteration yields ``range(rank, total, world_size)``. No two ranks get the same index; together they get all.
    It can be indexed (``sampler[position]``), and has a state.

    Args:
        n: Number of items in the dataset.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        ddp_drop_last_distributed_round: Drop the remainder, so that all ranks make the same number of steps; a
            ``UserWarning`` says how many items are dropped, because these are never loaded in any epoch. ``False``:
            nothing is dropped, and some ranks get one index more than others.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: ``n`` or ``world_size`` is not positive, ``rank`` is outside of ``[0, world_size)``, or there are
            fewer items than ranks and the last round is dropped.
    """

    def __init__(
        self,
        n: int,
        /,
        *,
        rank: int,
        world_size: int,
        ddp_drop_last_distributed_round: bool = True,
    ) -> None:
        size = check_size(n)
        super().__init__(size, rank, world_size, ddp_drop_last_distributed_round)
        if self._share.stop < size:
            warnings.warn(
                f"{size} items do not divide among {self._share.step} ranks: the last {size - self._share.stop} are "
                "never loaded. With ddp_drop_last_distributed_round=False they are, and some ranks get one item more",
                stacklevel=2,
            )

    def _items_at(self, positions: range) -> Iterator[int]:
        return iter(positions)

    def _item_at(self, position: int) -> int:
        return position

    def __repr__(self) -> str:
        share = self._share
        return f"{type(self).__name__}(rank={share.start}, world_size={share.step}, total={share.stop})"
