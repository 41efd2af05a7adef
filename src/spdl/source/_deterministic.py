"""The indices of a data set in their own order, dealt to the ranks."""

import warnings
from collections.abc import Iterator

from ._share import check_size, share_of

__all__ = ["DistributedDeterministicSampler"]


class DistributedDeterministicSampler:
    """The indices ``0 .. n - 1`` in order, of which each rank has every ``world_size``-th.

    Every iteration gives the same: ``range(rank, total, world_size)``. Ranks share nothing, and together they have all.

    Args:
        n: Number of items in the data set.
        rank: Of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        ddp_drop_last_distributed_round: Leave out the indices at the end that do not go round, so that all ranks make
            the same number of steps; a ``UserWarning`` says how many, since they are never seen. ``False``: nothing is
            left out, and some ranks have one more than others.

    Raises:
        TypeError: A number is no whole number.
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
        self._share = share_of(size, rank, world_size, ddp_drop_last_distributed_round)
        if self._share.stop < size:
            warnings.warn(
                f"{size} items do not divide among {self._share.step} ranks: the last {size - self._share.stop} are "
                "never seen. With ddp_drop_last_distributed_round=False they are, and some ranks make one step more",
                stacklevel=2,
            )

    def __len__(self) -> int:
        return len(self._share)

    def __iter__(self) -> Iterator[int]:
        return iter(self._share)

    def __repr__(self) -> str:
        share = self._share
        return f"{type(self).__name__}(rank={share.start}, world_size={share.step}, total={share.stop})"
