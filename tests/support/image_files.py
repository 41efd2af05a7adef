"""Image files that Pillow does not write, built marker by marker and field by field."""

import struct
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def _segments(jpeg: bytes) -> Iterator[tuple[int, int, int]]:
    """The code, start and end of each marker segment up to the first scan."""
    at = 2
    while True:
        code, length = jpeg[at + 1], int.from_bytes(jpeg[at + 2 : at + 4], "big")
        yield code, at, at + 2 + length
        if code == 0xDA:
            return
        at += 2 + length


def without_marker(jpeg: bytes, marker: int) -> bytes:
    """The JPEG without the segments of that marker."""
    kept = bytearray(jpeg[:2])
    end = 2
    for code, begin, end in _segments(jpeg):
        if code != marker:
            kept += jpeg[begin:end]
    return bytes(kept + jpeg[end:])


def with_adobe(jpeg: bytes, transform: int) -> bytes:
    """The JPEG with Adobe's marker, which gives the meaning of its components."""
    plain = without_marker(jpeg, 0xEE)
    end = next(end for code, _, end in _segments(plain) if code == 0xE0) if plain[3] == 0xE0 else 2
    return plain[:end] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform]) + plain[end:]


def with_component_ids(jpeg: bytes, ids: bytes) -> bytes:
    """The JPEG with other names of its components."""
    changed = bytearray(jpeg)
    for code, begin, _ in _segments(jpeg):
        if code in (0xC0, 0xC2):
            changed[begin + 10 : begin + 10 + 3 * len(ids) : 3] = ids
        elif code == 0xDA:
            changed[begin + 5 : begin + 5 + 2 * len(ids) : 2] = ids
    return bytes(changed)


def tiff(
    samples: NDArray[np.uint8] | NDArray[np.uint16],
    photometric: int,
    *,
    extra: Sequence[int] = (),
    palette: Image.Image | None = None,
    big_endian: bool = False,
    kind: int = 1,
) -> bytes:
    """An uncompressed TIFF of ``(height, width, samples)``.

    ``palette`` is the picture that has it, ``kind`` the SampleFormat.
    """
    order: Literal["<", ">"] = ">" if big_endian else "<"
    height, width, count = samples.shape
    pixels = samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    bits = samples.dtype.itemsize * 8
    fields: dict[int, list[int]] = {
        256: [width], 257: [height], 258: [bits] * count, 259: [1], 262: [photometric], 273: [0], 277: [count],
        278: [height], 279: [len(pixels)], 284: [1],
    }  # fmt: skip
    if palette is not None:
        colours = np.zeros((256, 3), np.uint16)
        listed = np.asarray(palette.getpalette(), np.uint16).reshape(-1, 3)
        colours[: len(listed)] = listed * 257
        fields[320] = [int(level) for level in colours.T.ravel()]
    if extra:
        fields[338] = list(extra)
    if kind != 1:
        fields[339] = [kind] * count
    begin = 8 + 2 + 12 * len(fields) + 4
    lists = {tag: struct.pack(f"{order}{len(values)}H", *values) for tag, values in fields.items() if len(values) > 2}
    fields[273] = [begin + sum(map(len, lists.values()))]
    directory = struct.pack(f"{order}H", len(fields))
    for tag, values in sorted(fields.items()):
        if tag in lists:
            directory += struct.pack(f"{order}HHII", tag, 3, len(values), begin)
            begin += len(lists[tag])
        elif tag in (273, 279):
            directory += struct.pack(f"{order}HHII", tag, 4, 1, values[0])
        else:
            directory += struct.pack(f"{order}HHI", tag, 3, len(values))
            directory += struct.pack(f"{order}{len(values)}H", *values).ljust(4, b"\0")
    start = (b"MM\0*" if big_endian else b"II*\0") + struct.pack(f"{order}I", 8)
    return start + directory + bytes(4) + b"".join(lists[tag] for tag in sorted(lists)) + pixels


def bmp_without_palette(width: int, height: int) -> bytes:
    """A BMP of eight bits per pixel whose pixels begin where the palette should be."""
    pixels = bytes(range(256)) * (width * height // 256 + 1)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 0, width * height, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + width * height, 0, 0, 54) + header + pixels[: width * height]


def box(name: bytes, contents: bytes) -> bytes:
    """A box of ISO/IEC 14496-12."""
    return struct.pack(">I", 8 + len(contents)) + name + contents


def heif_of_many_references(num_items: int) -> bytes:
    """No picture, but properties: the primary item names the last of 32,767 that many times 255 times."""
    associations = struct.pack(">HB", 1, 255) + b"\x7f\xff" * 255
    ipma = box(b"ipma", b"\0\0\0\1" + struct.pack(">I", num_items) + associations * num_items)
    ipco = box(b"ipco", box(b"free", b"") * 32766 + box(b"irot", b"\1"))
    meta = box(b"meta", bytes(4) + box(b"pitm", bytes(4) + b"\0\1") + box(b"iprp", ipco + ipma))
    return box(b"ftyp", b"avif\0\0\0\0avif") + meta
