"""Writes the corpus of each fuzz target: small files, made by the standard library and NumPy.

    python native/fuzz/make_corpus.py

The files are kept in the repository, so that a run does not depend on the versions of what made them. What a fuzzer
finds is added by hand, with a name that says what it was.
"""

import io
import struct
import tarfile
import wave
import zipfile
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).resolve().parent / "corpus"


def tar(format: int, name: str, *, is_link: bool = False) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format) as archive:
        for each, data in ((name, b"hello"), ("b", b"")):
            info = tarfile.TarInfo(each)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        if is_link:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = tarfile.SYMTYPE, "target" * 20
            archive.addfile(info)
    return stream.getvalue().rstrip(b"\0").ljust(3072, b"\0") + bytes(512)


def npy(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def npz(*, is_deflated: bool = False, comment: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if is_deflated else zipfile.ZIP_STORED) as archive:
        for name in ("a.npy", "b.npy"):
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=is_deflated) as entry:
                entry.write(npy(np.arange(3)))
        archive.comment = comment
    return stream.getvalue()


def wav(width: int, num_channels: int) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(num_channels)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(bytes(range(8)) * width * num_channels)
    return stream.getvalue()


def rf64() -> bytes:
    plain = wav(2, 1)
    ds64 = b"ds64" + struct.pack("<IQQQI", 28, 0, 16, 8, 0)
    return b"RF64" + plain[4:12] + ds64 + plain[12:40] + b"\xff" * 4 + plain[44:]


FILES = {
    "tar/gnu_long": tar(tarfile.GNU_FORMAT, "n" * 120, is_link=True),
    "tar/pax": tar(tarfile.PAX_FORMAT, "ü" * 60),
    "tar/ustar_prefix": tar(tarfile.USTAR_FORMAT, "folder/" * 20 + "name"),
    "npy/fortran": npy(np.asfortranarray(np.zeros((2, 3), ">f4"))),
    "npy/scalar": npy(np.float64(1)),
    "npy/time": npy(np.zeros(2, "M8[25s]")),
    "npy/unicode": npy(np.array(["a", "bc"])),
    "npy/version_3": b"\x93NUMPY\3\0\x33\0\0\0" + b'{"shape":(0,),"descr":"|u1","fortran_order":False}\n',
    "zip/commented": npz(comment=b"PK\5\6 is a comment"),
    "zip/deflated_zip64": npz(is_deflated=True),
    "zip/stored": npz(),
    "wav/float": wav(4, 1).replace(struct.pack("<HH", 1, 1), struct.pack("<HH", 3, 1), 1),
    "wav/list": (lambda data: data[:12] + b"LIST\3\0\0\0abc\0" + data[12:])(wav(1, 3)),
    "wav/pcm": wav(2, 2),
    "wav/rf64": rf64(),
}  # fmt: skip

if __name__ == "__main__":
    for name, data in FILES.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{len(data):6} {name}")
