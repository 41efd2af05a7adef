"""A dataset whose module has slow imports other than torch, as is common."""

import time

time.sleep(0.3)


class Squares:
    """Numbers that cost nothing to make."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        return index * index
