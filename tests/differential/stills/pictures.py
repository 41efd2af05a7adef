"""Pictures with soft colours, drawn from random numbers, and how SPDL loads them in each of its ways."""

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw

__all__ = ["Pixels", "draw_pixels", "draw_size", "loaded"]

Pixels = NDArray[np.float64]


def draw_size(draw: Draw) -> tuple[int, int]:
    """Return a small height and width."""
    return draw.random.randint(1, 40), draw.random.randint(1, 40)


def draw_pixels(draw: Draw, height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB without edges, where every row and column differs from the others."""
    rng = np.random.default_rng(draw.random.getrandbits(32))
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(3):
        down, across, phase = rng.uniform(0.5, 2), rng.uniform(0.5, 2), rng.uniform(0, 6)
        planes.append(127 + 60 * np.sin(down * y / height + phase) + 60 * np.cos(across * x / width + phase))
    levels: NDArray[np.uint8] = np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)
    return levels


def loaded(data: bytes, height: int, width: int, *, orient: bool = False) -> dict[str, Pixels]:
    """Return what each way of loading gives at the picture's own size, by the name of the way."""
    transform = spdl.io.ImageTransform((height, width), interpolation="nearest", orient=orient)
    fitted = spdl.io.load_image_batch([data], width=width, height=height, orient=orient)
    transformed = spdl.io.load_image_batch([data], transform=transform)
    alone = spdl.io.load_image(data, orient=orient)
    ways = {"load_image": spdl.io.to_numpy(alone)}
    ways |= {"fitted": spdl.io.to_numpy(fitted)[0], "transformed": spdl.io.to_numpy(transformed)[0]}
    return {name: pixels.astype(np.float64) for name, pixels in ways.items()}
