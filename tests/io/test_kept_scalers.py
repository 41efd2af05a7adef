"""What scales pictures is kept from one file to the next, and nothing of a file comes along with it."""

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import spdl.io
from spdl.io import FilterGraph, decode_config, to_numpy
from tests.support.media import clip, pictures

RGB = "scale=w=32:h=24:flags=bicubic,format=pix_fmts=rgb24"
#: Pixel format, size, description, options of the decoder: neighbours differ in one of them.
KINDS = (
    ("yuv420p", "66x50", RGB, ()),
    ("yuv420p", "66x50", RGB, (("colorspace", "bt709"),)),
    ("yuv420p", "66x50", RGB, (("color_range", "pc"),)),
    ("yuv420p", "33x17", "format=pix_fmts=rgb24", ()),
    ("yuv422p", "66x50", RGB, ()),
    ("pal8", "66x50", "format=pix_fmts=rgb24", ()),
    ("yuv420p", "66x50", RGB.replace("bicubic", "area"), ()),
    ("yuv420p", "66x50", RGB.replace("32", "30"), ()),
    ("yuv420p", "66x50", RGB.replace("rgb24", "gray"), ()),
)

DIFFUSED = "scale=w=32:h=24:flags=bicubic+error_diffusion+full_chroma_int,format=pix_fmts=rgb8"


@functools.cache
def raw(pix_fmt: str, size: str, light: int) -> Path:
    """Six noisy pictures; the darkest and the lightest lie beyond what the filters of libswscale can hold."""
    source = pictures(size=size, duration=0.24)
    look = f"noise=alls=20,lutyuv=y=clip(val*{light}-{(light - 1) * 128}\\,0\\,255),format={pix_fmt}"
    return clip("raw.nut", *source, "-vf", look, "-c:v", "rawvideo")


def load(kind: int, light: int, more: str = "") -> NDArray[Any]:
    pix_fmt, size, description, options = KINDS[kind]
    config = decode_config(decoder_options=dict(options))
    return to_numpy(spdl.io.load_video(raw(pix_fmt, size, light), filter_desc=description + more, decode_config=config))


@functools.cache
def by_graph(kind: int, light: int) -> bytes:
    """Through a filter graph, of which nothing is kept."""
    return load(kind, light, ",null").tobytes()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, len(KINDS) - 1), st.sampled_from([1, 4])), min_size=2, max_size=8))
def test_the_order_of_the_files_does_not_matter(order: list[tuple[int, int]]) -> None:
    """Each file gives the bits that it gives by itself, whatever was scaled before it."""
    for kind, light in order:
        assert load(kind, light).tobytes() == by_graph(kind, light), (kind, light)


#: Pixel format, size, options of the decoder, transparency: pictures of clips that go through libswscale at full size.
DEEP: tuple[tuple[str, str, dict[str, str], Literal["rgb", "rgba"]], ...] = (
    ("yuv420p10le", "66x50", {}, "rgb"),
    ("yuv420p10le", "66x50", {"colorspace": "bt2020nc"}, "rgb"),
    ("yuv420p10le", "66x50", {"color_range": "pc"}, "rgb"),
    ("yuv420p10le", "64x50", {}, "rgb"),
    ("yuv422p10le", "66x50", {}, "rgb"),
    ("yuva420p", "66x50", {}, "rgba"),
    ("yuva420p", "66x50", {}, "rgb"),
    ("yuv420p", "66x50", {"colorspace": "bt2020nc"}, "rgb"),
)


def load_clip(kind: int) -> bytes:
    pix_fmt, size, options, color = DEEP[kind]
    transform = spdl.io.ImageTransform((20, 30), color=color)
    path = raw(pix_fmt, size, 1)
    config = decode_config(decoder_options=options)
    loaded = spdl.io.load_video_clips([path], num_frames=3, start="middle", transform=transform, decode_config=config)
    return to_numpy(loaded).tobytes()


@functools.cache
def clip_alone(kind: int) -> bytes:
    """With a context of its own: the one before it was of another kind."""
    load_clip((kind + 1) % len(DEEP))
    return load_clip(kind)


@pytest.mark.slow
def test_the_order_of_the_clips_does_not_matter() -> None:
    """Also of those whose pictures are converted before they are resized."""
    kinds = range(len(DEEP))
    for first, second in itertools.combinations(kinds, 2):
        expected = clip_alone(first), clip_alone(second)
        assert (load_clip(first), load_clip(second), load_clip(second)) == (*expected, expected[1]), (first, second)


def test_more_kinds_than_are_kept() -> None:
    """Those that were given up are made again."""
    path = raw("yuv420p", "66x50", 1)
    sizes = [(2 * i + 8, i + 9) for i in range(24)]
    found = []
    for _ in range(2):
        found.append(
            [
                to_numpy(spdl.io.load_video(path, filter_desc=f"scale=w={w}:h={h},format=pix_fmts=rgb24")).tobytes()
                for w, h in sizes
            ]
        )
    assert found[0] == found[1]
    assert len(found[0][-1]) == 6 * 3 * sizes[-1][0] * sizes[-1][1]


def test_errors_are_not_carried_into_the_next_file() -> None:
    """Error diffusion gives a file the same pixels each time; libswscale would go on from the last row before."""
    path = raw("yuv420p", "66x50", 1)

    def first() -> bytes:
        frames = spdl.io.decode_packets(spdl.io.demux_video(path), DIFFUSED)
        # What has 8 bits for three colours has no layout as an array.
        graph = FilterGraph(
            "buffer=video_size=32x24:pix_fmt=rgb8:time_base=1/25:pixel_aspect=1/1,format=pix_fmts=rgb24,buffersink"
        )
        graph.add_frames(frames[:1])
        graph.flush()
        plain = graph.get_frames()
        assert plain is not None
        return to_numpy(spdl.io.convert_frames(plain)).tobytes()

    expected = first()
    assert [first() == expected for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("kind", [0, 3])
def test_several_threads_share_what_is_kept(kind: int) -> None:
    """No two use the same at once."""
    paths = [raw(KINDS[kind][0], KINDS[kind][1], light) for light in (1, 4)] * 4
    expected = [by_graph(kind, light) for light in (1, 4)] * 4

    def check(index: int) -> bool:
        loaded = spdl.io.load_video(paths[index], filter_desc=KINDS[kind][2])
        return to_numpy(loaded).tobytes() == expected[index]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(check, range(len(paths))))
