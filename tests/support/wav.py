"""Writes WAV files by hand, of every kind that the format has; see native/wav/wav.h for its sources."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["chunk", "packed", "wav"]

#: The last 14 bytes of the sub-formats of WAVE_FORMAT_EXTENSIBLE (mmreg.h).
GUID = bytes.fromhex("000000001000800000aa00389b71")


def chunk(name: bytes, data: bytes, order: str = "<") -> bytes:
    return name + struct.pack(order + "I", len(data)) + data + bytes(len(data) % 2)


def wav(
    data: bytes, *, channels: int = 1, bits: int = 16, code: int = 1, rate: int = 8000, order: str = "<",
    valid: int | None = None, block: int | None = None, mask: int = 0, riff: bytes = b"RIFF", before: bytes = b"",
    behind: bytes = b"", data_size: int | None = None, riff_size: int | None = None,
) -> bytes:  # fmt: skip
    """A file with these bytes of samples; WAVE_FORMAT_EXTENSIBLE where ``valid`` bits are given."""
    block = channels * ((bits + 7) // 8) if block is None else block
    first = 0xFFFE if valid is not None else code
    form = struct.pack(order + "HHIIHH", first, channels, rate, rate * block, block, bits)
    if valid is not None:
        guid = struct.pack(order + "IHH", code, 0, 0x10) + GUID[6:]
        form += struct.pack(order + "HHI", 22, valid, mask) + guid
    size = len(data) if data_size is None else data_size
    body = b"WAVE" + before + chunk(b"fmt ", form, order) + b"data" + struct.pack(order + "I", size) + data
    body += bytes(len(data) % 2) + behind
    return riff + struct.pack(order + "I", len(body) if riff_size is None else riff_size) + body


def packed(samples: NDArray[Any], width: int, order: str) -> bytes:
    """Integers of that many bytes."""
    wide = samples.astype(order + "i8").view(np.uint8).reshape(-1, 8)
    return (wide[:, :width] if order == "<" else wide[:, 8 - width :]).tobytes()
