"""The share of one rank in an order that all ranks agree on."""

from ._arguments import as_int


def check_size(n: object) -> int:
    """Get the number of items of a dataset.

    Raises:
        TypeError: The value is not an integer.
        ValueError: The number is not positive.
    """
    size = as_int("n", n)
    if size <= 0:
        raise ValueError(f"n, the number of items, must be > 0, got {size}")
    return size


def share_of(total: int, rank: object, world_size: object, drop_last_round: bool, what: str = "items") -> range:
    """Get the positions of ``rank``: every ``world_size``-th, from its own number on.

    Args:
        total: Number of positions of all ranks together.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last_round: Drop the remainder, so that all ranks get the same number.
        what: Name of the items, for the message.

    Returns:
        ``range(rank, stop, world_size)``. ``stop`` is ``total``, or less if the remainder is dropped.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: ``world_size`` is not positive, ``rank`` is not below it, or dropping would leave nothing.
    """
    size = as_int("world_size", world_size)
    if size <= 0:
        raise ValueError(f"world_size must be > 0, got {size}")
    own = as_int("rank", rank)
    if not 0 <= own < size:
        raise ValueError(f"rank must be in range [0, {size}), got {own}")
    if drop_last_round:
        if total < size:
            raise ValueError(
                f"world_size must be <= the number of {what}, got {size} for {total} {what}: a round of all ranks "
                "would not be full. With ddp_drop_last_distributed_round=False some ranks get nothing instead"
            )
        total -= total % size
    return range(own, total, size)
