"""Pictures that are stored as a grid of tiles, as telephones do it: whole, or an error, never one tile."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import spdl.io
import spdl.io.utils
from tests.io.pictures import difference

PATH = Path(__file__).parents[1] / "golden" / "grid.avif"
# From libavformat 61 (FFmpeg 7) on, tiles are streams, and a group of streams says where they belong.
HAS_GRIDS = spdl.io.utils.get_ffmpeg_versions()["libavformat"] >= (61,)


@pytest.mark.skipif(not HAS_GRIDS, reason="this FFmpeg does not read grids")
def test_tiles_are_put_together() -> None:
    """As Pillow shows the picture, alone and in a batch."""
    with Image.open(PATH) as picture:
        expected = np.asarray(picture.convert("RGB"))
    alone = spdl.io.to_numpy(spdl.io.load_image(PATH))
    batch = spdl.io.to_numpy(spdl.io.load_image_batch([PATH.read_bytes()], width=512, height=256))
    for pixels in (alone, batch[0]):
        assert difference(pixels, expected).mean() <= 0.5
    with pytest.raises(spdl.io.ImageTooLargeError, match="512x256"):
        spdl.io.load_image(PATH, max_pixels=512 * 256 - 1)


@pytest.mark.skipif(HAS_GRIDS, reason="this FFmpeg reads grids")
def test_grids_are_refused_where_they_are_not_known() -> None:
    """An error, and no tile."""
    with pytest.raises(spdl.io.MediaError):
        spdl.io.load_image(PATH)
    with pytest.raises(spdl.io.BatchLoadError):
        spdl.io.load_image_batch([PATH], width=64, height=32)


def test_a_tile_alone_is_no_picture() -> None:
    """Packets of one stream are a tile, so there are none."""
    with pytest.raises(spdl.io.MediaError):
        spdl.io.decode_packets(spdl.io.demux_image(PATH))
    with pytest.raises(spdl.io.MediaError):
        spdl.io.load_video(PATH)


def test_a_grid_that_is_cut_off_is_an_error() -> None:
    """In the middle of its tiles."""
    data = PATH.read_bytes()
    for cut in (1, 100, len(data) // 2):
        with pytest.raises(spdl.io.MediaError):
            spdl.io.load_image(data[:-cut])
