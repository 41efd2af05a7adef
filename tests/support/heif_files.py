"""HEIF files made box by box (ISO/IEC 23008-12), from pictures that the ffmpeg tool encodes without loss."""

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.image_files import box

Planes = Sequence[NDArray[np.integer[Any]]]

_CHROMA = {1: 0, 420: 1, 422: 2, 444: 3}
_MATRICES = {0: "gbr", 1: "bt709", 5: "bt470bg", 6: "smpte170m", 9: "bt2020nc"}


@dataclass(frozen=True, slots=True)
class Coded:
    """A picture in HEVC, as the item of a HEIF file holds it."""

    width: int
    height: int
    chroma: int
    bits: int
    configuration: bytes
    data: bytes


def encode(
    planes: Planes, *, bits: int = 8, signalled: tuple[int, bool] | None = None, crf: int | None = None
) -> Coded:
    """Encode planes of one picture: one for gray, three for YCbCr.

    Args:
        planes: Luma, then chroma, whose size gives the subsampling.
        bits: Depth of a sample.
        signalled: Number of the matrix and whether the range is full, as the stream itself says; by default not at all.
        crf: Quality; without loss by default.
    """
    raw = b"".join(np.ascontiguousarray(plane, "<u2" if bits > 8 else "u1").tobytes() for plane in planes)
    height, width = planes[0].shape
    chroma = 1
    if len(planes) == 3:
        across, down = width // planes[1].shape[1], height // planes[1].shape[0]
        chroma = {(1, 1): 444, (2, 1): 422, (2, 2): 420}[across, down]
    data = _encoded(raw, width, height, chroma, bits, signalled, crf)
    units = [unit for unit in data.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1") if unit]
    kinds = [unit[0] >> 1 & 63 for unit in units]
    parameters = {kind: units[kinds.index(kind)] for kind in (32, 33, 34)}
    # Without the bytes that prevent start codes: profile, tier and level.
    profile = parameters[33].replace(b"\0\0\3", b"\0\0")[3:15]
    depth = 0xF8 | bits - 8
    head = bytes([1]) + profile + bytes([0xF0, 0, 0xFC, 0xFC | _CHROMA[chroma], depth, depth, 0, 0, 0x0F, 3])
    arrays = b"".join(
        bytes([0x80 | kind, 0, 1]) + struct.pack(">H", len(unit)) + unit for kind, unit in parameters.items()
    )
    slices = b"".join(struct.pack(">I", len(unit)) + unit for kind, unit in zip(kinds, units, strict=True) if kind < 32)
    return Coded(width, height, chroma, bits, head + arrays, slices)


@lru_cache(maxsize=64)
def _encoded(
    raw: bytes, width: int, height: int, chroma: int, bits: int, signalled: tuple[int, bool] | None, crf: int | None
) -> bytes:
    name = "gray" if chroma == 1 else f"yuv{chroma}p"
    name += f"{bits}le" if bits > 8 else ""
    options = ["log-level=none", "lossless=1" if crf is None else f"crf={crf}"]
    if signalled is not None:
        matrix, is_full = signalled
        options.append(f"colormatrix={_MATRICES[matrix]}:range={'full' if is_full else 'limited'}")
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", name, "-s", f"{width}x{height}", "-i", "-"]
    command += ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", ":".join(options), "-f", "hevc", "-"]
    return subprocess.run(command, input=raw, check=True, capture_output=True).stdout


@dataclass(slots=True)
class HeifFile:
    """Items of a file, and what is known of them. Numbers of items and properties count from 1."""

    items: list[tuple[bytes, bytes, list[int]]] = field(default_factory=list)  # type, data, properties
    properties: list[bytes] = field(default_factory=list)
    references: list[tuple[bytes, int, list[int]]] = field(default_factory=list)  # kind, from, to
    hidden: set[int] = field(default_factory=set)

    def add_property(self, name: bytes, contents: bytes) -> int:
        self.properties.append(box(name, contents))
        return len(self.properties)

    def add(self, coded: Coded, *more: int) -> int:
        """Add a picture with its size and configuration, and other properties in this order."""
        size = self.add_property(b"ispe", bytes(4) + struct.pack(">II", coded.width, coded.height))
        configuration = self.add_property(b"hvcC", coded.configuration)
        return self.add_item(b"hvc1", coded.data, [size, configuration, *more])

    def add_item(self, kind: bytes, data: bytes, properties: list[int]) -> int:
        self.items.append((kind, data, properties))
        return len(self.items)

    def add_grid(self, tiles: Sequence[Coded], rows: int, columns: int, width: int, height: int, *more: int) -> int:
        """Add a grid of new items, row by row; `more` are properties of it and of none of its tiles."""
        numbers = [self.add(tile) for tile in tiles]
        self.hidden.update(numbers)
        size = self.add_property(b"ispe", bytes(4) + struct.pack(">II", width, height))
        data = bytes([0, 0, rows - 1, columns - 1]) + struct.pack(">HH", width, height)
        grid = self.add_item(b"grid", data, [size, *more])
        self.references.append((b"dimg", grid, numbers))
        return grid

    def add_alpha(self, coded: Coded, of: int, *more: int, premultiplied: bool = False) -> int:
        """Add a gray picture as the alpha of another."""
        kind = self.add_property(b"auxC", bytes(4) + b"urn:mpeg:hevc:2015:auxid:1\0")
        alpha = self.add(coded, kind, *more)
        self.hidden.add(alpha)
        self.references.append((b"auxl", alpha, [of]))
        if premultiplied:
            self.references.append((b"prem", of, [alpha]))
        return alpha

    def add_colours(self, matrix: int, *, is_full: bool) -> int:
        return self.add_property(b"colr", b"nclx" + struct.pack(">HHHB", 1, 13, matrix, 128 if is_full else 0))

    def add_turns(self, quarter_turns: int) -> int:
        """Add turns against the clock."""
        return self.add_property(b"irot", bytes([quarter_turns]))

    def add_mirror(self, *, is_sideways: bool) -> int:
        return self.add_property(b"imir", bytes([is_sideways]))

    def add_crop(self, width: int, height: int, crop: tuple[int, int, int, int]) -> int:
        """Add a clean aperture in a picture of that size: top, left, height and width."""
        top, left, crop_height, crop_width = crop
        across = 2 * left + crop_width - width  # twice the distance between the centres
        down = 2 * top + crop_height - height
        numbers = (crop_width, 1, crop_height, 1, across % 2**32, 2, down % 2**32, 2)
        return self.add_property(b"clap", struct.pack(">8I", *numbers))

    def add_metadata(self, kind: bytes, data: bytes, of: int, content_type: bytes = b"") -> int:
        number = self.add_item(kind + content_type, data, [])
        self.hidden.add(number)
        self.references.append((b"cdsc", number, [of]))
        return number

    def to_bytes(self, primary: int, *, brand: bytes = b"heic", others: bytes = b"mif1heic") -> bytes:
        """Return the file."""
        before = box(b"ftyp", brand + bytes(4) + others)
        at = len(before) + len(self._meta(primary, 0)) + 8
        data = b"".join(item[1] for item in self.items)
        return before + self._meta(primary, at) + box(b"mdat", data)

    def _meta(self, primary: int, at: int) -> bytes:
        entries, places, uses = b"", b"", b""
        for number, (kind, data, properties) in enumerate(self.items, 1):
            flags = b"\2\0\0\1" if number in self.hidden else b"\2\0\0\0"
            kind, content_type = kind[:4], kind[4:]
            entries += box(b"infe", flags + struct.pack(">HH", number, 0) + kind + b"\0" + content_type)
            places += struct.pack(">HHHHII", number, 0, 0, 1, at, len(data))
            uses += struct.pack(">HB", number, len(properties)) + bytes(0x80 | each for each in properties)
            at += len(data)
        count = struct.pack(">H", len(self.items))
        references = b"".join(
            box(kind, struct.pack(f">HH{len(to)}H", of, len(to), *to)) for kind, of, to in self.references
        )
        contents = [
            box(b"hdlr", bytes(8) + b"pict" + bytes(13)),
            box(b"pitm", bytes(4) + struct.pack(">H", primary)),
            box(b"iloc", b"\1\0\0\0" + b"\x44\0" + count + places),
            box(b"iinf", bytes(4) + count + entries),
            box(b"iref", bytes(4) + references) if references else b"",
            box(b"iprp", box(b"ipco", b"".join(self.properties)) + box(b"ipma", bytes(6) + count + uses)),
        ]
        return box(b"meta", bytes(4) + b"".join(contents))


def heif_of(coded: Coded, *more: int) -> bytes:
    """Return a file with one picture."""
    file = HeifFile()
    return file.to_bytes(file.add(coded, *more))


def ycbcr_to_rgb(planes: Planes, *, bits: int, matrix: int, is_full: bool) -> NDArray[np.float64]:
    """Return levels from 0 to 255 of planes of one size (ITU-T H.273, 8.3), not rounded."""
    luma, blue, red = (np.asarray(plane, np.float64) for plane in planes)
    most = float(2**bits - 1)
    if is_full:
        luma, blue, red = luma / most, (blue - 2 ** (bits - 1)) / most, (red - 2 ** (bits - 1)) / most
    else:
        scale = 2 ** (bits - 8)
        luma = (luma / scale - 16) / 219
        blue, red = ((plane / scale - 128) / 224 for plane in (blue, red))
    weight_of_red, weight_of_blue = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}[
        matrix
    ]
    r = luma + 2 * (1 - weight_of_red) * red
    b = luma + 2 * (1 - weight_of_blue) * blue
    g = (luma - weight_of_red * r - weight_of_blue * b) / (1 - weight_of_red - weight_of_blue)
    levels: NDArray[np.float64] = np.clip(np.stack([r, g, b], -1), 0, 1) * 255
    return levels
