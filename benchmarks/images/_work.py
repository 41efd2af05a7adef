"""The work of a contestant. Adapters run in their peers' interpreters, so this module imports nothing of others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

SIZE = 224
SHORTER_SIDE = 256
#: Mean and standard deviation of ImageNet, for levels from 0 to 1, red first.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Bounds of a random crop's share of the area, and of its width over its height.
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
FLIP = 0.5
#: The side of the square of ``lower``.
LOWER = 512


@dataclass(frozen=True, slots=True)
class Work:
    """What is done with the photographs.

    Attributes:
        transform: ``fit``: fitted into 224x224, centred, with black borders; bicubic. ``eval``: the shorter side to
            256, then the centre 224x224. ``train``: a random crop stretched to 224x224, half of them mirrored. The last
            last two are bilinear and antialiased, and so are the others. ``whole``: all of it, stretched. ``centre``:
            the centre 224x224, not resized. ``lower``: 512x512 at the middle of the lower edge, to 224x224.
        dtype: ``uint8``: ``(batch, height, width, 3)``. ``float32``: ``(batch, 3, height, width)``, less ``MEAN``, over
            ``STD``.
        num_threads: The number of threads.
        batch: The number of photographs in an array; the last array has the remainder.
        exact: Whether SPDL gives Pillow's bytes. Other peers use their own default.
        restart_rows: How many rows of units lie between two restart markers, in ``lower``, whose photographs are
            encoded again; 0: there are none.
        reuse: Whether SPDL writes every batch into the same memory. Other peers use their own default.
    """

    transform: str
    dtype: str
    num_threads: int
    batch: int
    reuse: bool = False
    exact: bool = False
    restart_rows: int = 0


def work_of(work: Work, settings: Mapping[str, Any]) -> Work | None:
    """The work of a peer in a case; ``None`` if its settings are those of the case, so that it is left out.

    Args:
        settings: The fields of the work in which the peer differs from the case.
    """
    changed = replace(work, **settings)
    return None if settings and changed == work else changed


@dataclass(frozen=True, slots=True)
class Photo:
    """A file.

    Attributes:
        index: The index in the set.
        crop: The ``top, left, height, width`` that SPDL drew, for random crops.
        flip: Whether SPDL mirrored it.
        size: The height and width, for random crops.
    """

    index: int
    path: str
    crop: tuple[int, int, int, int] = (0, 0, 0, 0)
    flip: bool = False
    size: tuple[int, int] = (0, 0)
