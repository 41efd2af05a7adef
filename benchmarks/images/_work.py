"""What a contestant is asked to do. Adapters run in their peers' interpreters: nothing is imported here."""

from dataclasses import dataclass

SIZE = 224
SHORTER_SIDE = 256
#: Of ImageNet, of levels from 0 to 1, red first.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Bounds of a random crop's share of the area, and of its width over its height.
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
FLIP = 0.5


@dataclass(frozen=True, slots=True)
class Work:
    """What becomes of the photographs.

    Attributes:
        transform: ``fit``: inside of 224x224, centred, with black borders; bicubic. ``eval``: the shorter side to 256,
            the middle 224x224 of that. ``train``: a random part stretched to 224x224, half of them mirrored. The latter
            two bilinear, antialiased.
        dtype: ``uint8``: ``(batch, height, width, 3)``. ``float32``: ``(batch, 3, height, width)``, less ``MEAN``, over
            ``STD``.
        num_threads: How many do it.
        batch: Photographs in an array; the last has what is left.
        reuse: Whether every batch goes into the same memory, for ours. Others make a new array each time, or do as they
            do.
    """

    transform: str
    dtype: str
    num_threads: int
    batch: int
    reuse: bool = False


@dataclass(frozen=True, slots=True)
class Photo:
    """A file.

    Attributes:
        index: Its place in the set.
        crop: ``top, left, height, width`` of the part that ours drew, where parts are drawn.
        flip: Whether ours mirrored it.
        size: Its height and width, where parts are drawn.
    """

    index: int
    path: str
    crop: tuple[int, int, int, int] = (0, 0, 0, 0)
    flip: bool = False
    size: tuple[int, int] = (0, 0)
