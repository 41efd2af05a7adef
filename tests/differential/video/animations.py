"""The law of pictures on screen for animations: those that Pillow composes, at the sums of their durations."""

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageSequence

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, NotMadeError, law

Pixels = NDArray[np.uint8]
_RGBA = "format=pix_fmts=rgba"


@dataclass(frozen=True, slots=True)
class Animation:
    """A file, and what is on screen: the starts in milliseconds, with the end of the last, and RGBA."""

    data: bytes
    starts: list[int]
    pictures: list[Pixels]

    @classmethod
    def read(cls, data: bytes, durations: list[int]) -> "Animation":
        """As Pillow reads it."""
        with Image.open(io.BytesIO(data)) as image:
            pictures = [np.asarray(picture.convert("RGBA")) for picture in ImageSequence.Iterator(image)]
        if len(pictures) != len(durations):
            raise NotMadeError("the writer joined pictures")
        return cls(data, [0, *accumulate(durations)], pictures)

    def at(self, milliseconds: int) -> Pixels:
        """By the definition."""
        return self.pictures[[index for index, start in enumerate(self.starts[:-1]) if start <= milliseconds][-1]]


def _picture(draw: Draw, height: int, width: int, alpha: bool, *, is_soft: bool = True) -> Image.Image:
    """Soft colours with a few levels of alpha, and all hidden and all shown among them."""
    rng = np.random.default_rng(draw.random.getrandbits(32))
    y, x = np.mgrid[:height, :width]
    colour = [
        127 + 60 * np.sin(x * a + y * b + c) + 40 * np.cos(y * a - c) for a, b, c in rng.uniform(0.05, 0.6, (3, 3))
    ]
    veil = np.clip(rng.normal(128, 300) + 200 * np.sin(x * rng.uniform(0.1, 0.5) + y * 0.2), 0, 255)
    if alpha and not is_soft:
        veil = np.where(veil > 127, 255, 0)
    planes = [*colour, veil] if alpha else colour
    return Image.fromarray(np.stack(planes, -1).astype(np.uint8), "RGBA" if alpha else "RGB")


def _chunk(name: bytes, payload: bytes) -> bytes:
    return name + struct.pack("<I", len(payload)) + payload + b"\0" * (len(payload) % 2)


def _chunks_of(picture: Image.Image, draw: Draw, lossless: bool) -> bytes:
    """The chunks of a still WebP that a frame of an animation takes."""
    stream = io.BytesIO()
    quality = draw.random.randint(40, 95)
    picture.save(stream, "WEBP", lossless=lossless, exact=draw.random.random() < 0.5, quality=quality, method=0)
    data, kept, at = stream.getvalue(), b"", 12
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 4)[0]
        if data[at : at + 4] in (b"ALPH", b"VP8 ", b"VP8L"):
            kept += _chunk(data[at : at + 4], data[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    return kept


def _webp(kind: str, draw: Draw, height: int, width: int, durations: list[int]) -> bytes:
    """Frames anywhere on the canvas, with any way of blending and of disposal (RFC 9649, 2.7.1)."""
    random = draw.random
    frames = []
    for duration in durations:
        left, top = (0, 0) if random.random() < 0.4 else (random.randrange(0, width, 2), random.randrange(0, height, 2))
        size = (width - left, height - top)
        if random.random() < 0.5:
            size = (random.randint(1, size[0]), random.randint(1, size[1]))
        flags = random.randrange(4)
        draw.note(f"{size} at {left}, {top} for {duration} ms, flags {flags}")
        lossless = kind == "lossless" or (kind == "mixed" and random.random() < 0.5)
        chunks = _chunks_of(_picture(draw, size[1], size[0], random.random() < 0.7), draw, lossless)
        numbers = (left // 2, top // 2, size[0] - 1, size[1] - 1, duration)
        header = b"".join(struct.pack("<I", number)[:3] for number in numbers) + bytes([flags])
        frames.append(_chunk(b"ANMF", header + chunks))
    alpha = 0x10 if random.random() < 0.7 else 0
    canvas = bytes([2 | alpha, 0, 0, 0]) + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    loop = _chunk(b"ANIM", random.randbytes(4) + struct.pack("<H", random.randrange(3)))
    odd = [_chunk(b"oDD ", random.randbytes(random.randrange(9)))] if random.random() < 0.5 else []
    body = b"".join([b"WEBP", _chunk(b"VP8X", canvas), loop, *frames[:1], *odd, *frames[1:]])
    return _chunk(b"RIFF", body)


def _written(format: str, draw: Draw, height: int, width: int, durations: list[int]) -> bytes:
    """By Pillow."""
    alpha = format != "AVIF" and draw.random.random() < 0.5
    options: dict[str, object] = {}
    match format:
        case "WEBP":
            options = {"lossless": draw.random.random() < 0.5, "minimize_size": draw.random.random() < 0.5, "method": 0}
        case "GIF":
            options = {"disposal": draw.random.randrange(3)}
        case "PNG":
            options = {"disposal": draw.random.randrange(2), "blend": draw.random.randrange(2)}
        case "AVIF":
            options = {"quality": 90, "subsampling": "4:4:4", "speed": 10}
    draw.note(f"{format}, alpha {alpha}, {options}")
    # Pillow 13 weighs alpha by itself where APNG says "over": half of it on nothing becomes a quarter.
    pictures = [_picture(draw, height, width, alpha, is_soft=not options.get("blend")) for _ in durations]
    stream = io.BytesIO()
    duration = durations if len(durations) > 1 else durations[0]
    try:
        pictures[0].save(stream, format, save_all=True, append_images=pictures[1:], duration=duration, **options)
    except (OSError, KeyError) as error:
        raise NotMadeError(f"Pillow does not write {format}: {error}") from None
    return stream.getvalue()


_WRITERS: Final[dict[str, Callable[[Draw, int, int, list[int]], bytes]]] = {
    "webp/lossless": partial(_webp, "lossless"),
    "webp/lossy": partial(_webp, "lossy"),
    "webp/mixed": partial(_webp, "mixed"),
    "webp/Pillow": partial(_written, "WEBP"),
    "gif/Pillow": partial(_written, "GIF"),
    "apng/Pillow": partial(_written, "PNG"),
    "avif/Pillow": partial(_written, "AVIF"),
}
#: Levels: libaom's and dav1d's picture is the same, but its conversion to RGB is not.
_CLOSE = {"avif/Pillow": 3}


def _expect_same(found: Pixels, expected: Pixels, form: str, what: str) -> None:
    """Of what is hidden, the colour is nobody's business."""
    assert found.shape == expected.shape, what
    assert np.array_equal(found[..., 3], expected[..., 3]), f"{what}: alpha"
    difference = np.abs(found.astype(int) - expected)[expected[..., 3] > 0]
    assert difference.size == 0 or difference.max() <= _CLOSE.get(form, 0), f"{what}: {difference.max()}"


@law("video", "animation", _WRITERS)
def animation(draw: Draw, form: str) -> None:
    """Whole, at random times, in a window and as a clip."""
    random = draw.random
    height, width = random.randint(4, 48), random.randint(4, 48)
    fewest = 2 if form.endswith("Pillow") else 1  # it writes a still if there is one
    shortest = 1 if random.random() < 0.1 else 2
    durations = [10 * random.randint(shortest, 12) for _ in range(random.choice([fewest, 2, 3, 5, 8]))]
    if form.startswith(("webp", "avif")):
        durations = [duration + random.randrange(10) for duration in durations]
    draw.note(f"{width}x{height}, {durations}")
    film = Animation.read(_WRITERS[form](draw, height, width, durations), durations)
    packets = spdl.io.demux_video(film.data)
    frames = spdl.io.decode_packets(packets.clone(), _RGBA)
    tick = Fraction(*frames.time_base)
    is_fast = form.startswith("gif") and min(durations) < 20
    starts = [0, *accumulate(100 if is_fast and each < 20 else each for each in durations)]
    assert [1000 * pts * tick for pts in frames.get_pts()] == starts[:-1]
    for found, expected in zip(spdl.io.to_numpy(spdl.io.convert_frames(frames)), film.pictures, strict=True):
        if form.startswith("gif"):
            _expect_background(film.data, found, expected)
        _expect_same(found, expected, form, "whole")
    if is_fast:
        raise KnownExceptionError(20)
    _check_times(draw, film, form, packets)
    step = 10 if form.startswith("gif") else 1
    start, end = sorted(random.sample(range(0, film.starts[-1] + step, step), 2))
    window = (Fraction(start, 1000), Fraction(end, 1000))
    draw.note(f"window {start} {end}")
    inside = [index for index, each in enumerate(film.starts[:-1]) if start <= each < end]
    frames = spdl.io.decode_packets(spdl.io.demux_video(film.data, timestamp=window), _RGBA)
    assert len(frames) == len(inside)
    if inside:
        for found, index in zip(spdl.io.to_numpy(spdl.io.convert_frames(frames)), inside, strict=True):
            _expect_same(found, film.pictures[index], form, f"window {start} {end}")
    _check_clip(draw, film, form)


def _expect_background(gif: bytes, found: Pixels, expected: Pixels) -> None:
    """Where pictures differ, SPDL has the background's colour, of the palette of the whole file (GIF89a, 18)."""
    index = gif[11]
    differs = (found != expected).any(axis=-1) & (found[..., 3] > 0)
    if differs.any():
        assert (found[differs] == [*gif[13 + 3 * index : 16 + 3 * index], 255]).all()
        raise KnownExceptionError(21)


def _check_times(draw: Draw, film: Animation, form: str, packets: "spdl.io.VideoPackets") -> None:
    step = 10 if form.startswith("gif") else 1
    last = film.starts[-1] - step
    asked = [draw.random.randrange(0, last + step, step) for _ in range(3)] + [last]
    draw.note(f"times {asked}")
    images = spdl.io.sample_decode_video(
        packets.clone(), times=[Fraction(each, 1000) for each in asked], filter_desc=_RGBA
    )
    for time, image in zip(asked, images, strict=True):
        found = spdl.io.to_numpy(spdl.io.convert_frames(image))
        _expect_same(found, film.at(time), form, f"at {time} ms")


def _check_clip(draw: Draw, film: Animation, form: str) -> None:
    time, height, width = draw.random.choice(film.starts[:-1]), *film.pictures[0].shape[:2]
    draw.note(f"clip at {time} ms")
    clips = spdl.io.load_video_clips(
        [film.data], start=time / 1000, num_frames=2, layout="NTHWC", transform=spdl.io.ImageTransform((height, width))
    )
    position = film.starts.index(time)
    expected = film.pictures[position : position + 2]
    expected += expected[-1:] * (2 - len(expected))
    for found, picture in zip(spdl.io.to_numpy(clips)[0], expected, strict=True):
        opaque = np.concatenate([found, picture[..., 3:]], -1)
        _expect_same(opaque, picture, form, f"clip at {time} ms")
