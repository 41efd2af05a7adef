"""Writes the corpus of each fuzz target: small files, made by the standard library, NumPy, Pillow and this package.

    python native/fuzz/make_corpus.py

The files are kept in the repository, so that a run does not depend on the versions of what made them. What a fuzzer
finds is added by hand, with a name that says what it was.
"""

import io
import pickle
import struct
import sys
import tarfile
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import spdl.io

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.flac import flac_file

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


def ogg(num_pages: int, *, per_page: int, size: int) -> bytes:
    """Packets that last as long as their first byte says; those of more than 255 bytes go on in the next page."""
    pages, time, lengths, body, is_continued = [page(0, 0, b"head", [4])], 0, [], b"", False
    for number in range(num_pages * per_page):
        data = bytes([number % 5 + 1]) * size
        time += number % 5 + 1
        segments = [255] * (size // 255) + [size % 255]
        if number % per_page < per_page - 1:
            lengths, body = lengths + segments, body + data
            continue
        # The last segment of the last packet is in the next page, if the packet has several.
        kept, split = (segments[:-1], size - segments[-1]) if len(segments) > 1 else (segments, size)
        ends = time if len(segments) == 1 else time - (number % 5 + 1)
        pages.append(page(ends, len(pages), body + data[:split], lengths + kept, is_continued=is_continued))
        lengths, body, is_continued = segments[len(kept) :], data[split:], len(segments) > 1
    pages.append(page(time, len(pages), body, lengths, is_continued=is_continued, is_last=True))
    return b"\0\x30\0\xff" + b"".join(pages)


def page(
    granule: int, number: int, body: bytes, lengths: list[int], *, is_continued: bool = False, is_last: bool = False
) -> bytes:
    flags = is_continued | (number == 0) << 1 | is_last << 2
    return b"OggS\0" + struct.pack("<BqIIIB", flags, granule, 7, number, 0, len(lengths)) + bytes(lengths) + body


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


def rifx(width: int) -> bytes:
    form = struct.pack(">HHIIHH", 1, 1, 8000, 8000 * width, width, 8 * width)
    data = bytes(range(8)) * width
    body = b"WAVEfmt " + struct.pack(">I", 16) + form + b"data" + struct.pack(">I", len(data)) + data
    return b"RIFX" + struct.pack(">I", len(body)) + body


def extensible() -> bytes:
    form = struct.pack("<HHIIHHHHI", 0xFFFE, 2, 8000, 64000, 8, 32, 22, 24, 3)
    form += bytes.fromhex("0100000000001000800000aa00389b71")
    return b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<I", 40) + form + b"data\0\0\0\0" + bytes(range(64))


def image(name: str, mode: str = "RGB", *, turned: bool = False, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture = Image.linear_gradient("L").resize((9, 7)).convert(mode)
    if turned:
        exif = Image.Exif()
        exif[274] = 6
        options["exif"] = exif.tobytes()
    picture.save(stream, name, **options)
    return stream.getvalue()


def animation(name: str, **options: Any) -> bytes:
    more = [Image.new("RGB", (9, 7), colour) for colour in ("red", "blue")]
    return image(name, save_all=True, append_images=more, duration=100, **options)


def in_band(reduced: tuple[Any, ...]) -> bytes:
    """The first buffer of packets or frames on their way to another process."""
    _, arguments, *_ = reduced
    return next(bytes(argument.raw()) for argument in arguments if isinstance(argument, pickle.PickleBuffer))


def packets() -> bytes:
    return in_band(spdl.io.demux_image(image("PNG")).__reduce_ex__(5))


def packets_out_of_band() -> bytes:
    """The same with the data out of band, followed by the offset where it begins."""
    state = packets()
    end = 24 + struct.unpack_from("<Q", state, 8)[0]
    front = state[:7] + b"\2" + state[8:end] + b"\1"
    return front + state[end:] + struct.pack("<I", len(front))


def frames(pix_fmt: str) -> bytes:
    decoded = spdl.io.decode_packets(spdl.io.demux_image(image("PNG")), f"format=pix_fmts={pix_fmt}")
    return in_band(decoded.__reduce_transport__())


def sound_frames() -> bytes:
    return in_band(spdl.io.decode_packets(spdl.io.demux_audio(wav(2, 2)), None).__reduce_transport__())


def box(name: bytes, contents: bytes) -> bytes:
    return struct.pack(">I", 8 + len(contents)) + name + contents


def avif(version: int) -> bytes:
    """No picture, but one that is turned and flipped."""
    ipco = box(b"ipco", box(b"ispe", bytes(12)) + box(b"irot", b"\1") + box(b"imir", b"\1"))
    number, flags = (">H", b"\0\0\0") if version == 0 else (">I", b"\0\0\1")
    indices = b"\1\2\3" if version == 0 else b"\0\1\0\2\0\3"
    item = struct.pack(number, 7) + b"\3" + indices
    ipma = box(b"ipma", bytes([version]) + flags + struct.pack(">I", 1) + item)
    pitm = box(b"pitm", bytes([version]) + bytes(3) + struct.pack(number, 7))
    return box(b"ftyp", b"avif\0\0\0\0mif1") + box(b"meta", bytes(4) + pitm + box(b"iprp", ipco + ipma))


def flv_tags(dts: int) -> bytes:
    """A key frame, sound, and a picture; the first two bytes say how often to repeat them, and the wanted time."""

    def tag(kind: int, data: bytes, dts: int) -> bytes:
        header = struct.pack(">B", kind) + len(data).to_bytes(3, "big") + dts.to_bytes(3, "big") + bytes(4)
        return header + data + struct.pack(">I", 11 + len(data))

    tags = tag(9, b"\x17\1" + bytes(300), dts) + tag(8, b"\xaf\1" + bytes(100), dts) + tag(9, b"\x27\1abc", dts + 40)
    return b"\x3f\5" + tag(18, b"\2\0\1m", 0) + tags


def mp3_frames() -> bytes:
    """MPEG-2 layer III at 24 kHz, at all bit rates (in kbit/s), with and without padding."""
    rates = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
    return b"".join(
        bytes([0xFF, 0xF3, (index + 1) << 4 | 4 | padding << 1, 0xC4]).ljust(3 * rate + padding, b"a")
        for index, rate in enumerate(rates)
        for padding in range(2)
    )


def flac(*, is_variable: bool) -> bytes:
    """Noise; the first four bytes say from which sample on how many are wanted."""
    samples = np.random.default_rng(1).integers(-100, 100, (2, 200), dtype=np.int32)
    return struct.pack(">HH", 70, 40) + flac_file(samples, (16, 48) if is_variable else 32)[0]


def subframe(bits: str) -> bytes:
    """Of 16 samples of 8 bits, behind the four bytes that say so."""
    bits = bits.replace(" ", "")
    body = bytes(int(bits[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))
    return b"\0\0\xf0\4" + body


FILES = {
    "file/empty": b"",
    "file/page": bytes(4095),
    "file/start": b"\xff\xd8\xff" + bytes(61),
    "flac/fixed": flac(is_variable=False),
    "flac/variable": flac(is_variable=True),
    "flv/key_frames": flv_tags(100),
    "flv/late": flv_tags(1 << 23),
    "frames/gray": frames("gray"),
    "frames/samples": sound_frames(),
    "frames/yuv420p": frames("yuv420p"),
    "gif/animated": animation("GIF"),
    "gif/hidden": image("GIF", "P", transparency=3),
    "gif/plain": image("GIF", "P", comment=b"comment"),
    "headers/bmp": image("BMP", "P"),
    "headers/jpeg": image("JPEG"),
    "headers/jpeg2000": image("JPEG2000"),
    "headers/pam": b"P7\nWIDTH 2\nHEIGHT 3\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" + bytes(24),
    "headers/pfm": b"PF\n2 1\n-1.0\n" + bytes(24),
    "headers/pgm": b"P5\n# a comment\n2 3\n1023\n" + bytes(12),
    "headers/qoi": image("QOI"),
    "headers/tiff": image("TIFF", "CMYK"),
    "headers/webp": image("WEBP", lossless=True),
    "jpeg/cmyk": image("JPEG", "CMYK"),
    "jpeg/progressive": image("JPEG", progressive=True),
    "jpeg/restarts": image("JPEG", restart_marker_blocks=1),
    "jpeg/rgb": image("JPEG", keep_rgb=True),
    "orientation/avif": avif(0),
    "orientation/avif_large_numbers": avif(1),
    "orientation/jpeg": image("JPEG", turned=True),
    "orientation/png": image("PNG", turned=True),
    "orientation/tiff": image("TIFF", turned=True),
    "orientation/webp": image("WEBP", turned=True),
    "packets/out_of_band": packets_out_of_band(),
    "packets/in_band": packets(),
    "packets/video": spdl.io.demux_video(image("GIF")).__getstate__(),
    "png/gray_alpha": image("PNG", "LA"),
    "png/palette": image("PNG", "P"),
    "png/rgb": image("PNG", compress_level=0),
    "tiff/deflate": image("TIFF", compression="tiff_adobe_deflate"),
    "tiff/gray": image("TIFF", "L"),
    "tiff/lzw": image("TIFF", compression="tiff_lzw"),
    "tiff/palette": image("TIFF", "P"),
    "webp/animated": animation("WEBP"),
    "webp/animated_lossless": animation("WEBP", lossless=True),
    "webp/plain": image("WEBP"),
    "subframes/constant": subframe("0 000000 0 00000111"),
    "subframes/escape": subframe("0 001001 0 00000001 00 0001 1111 00011" + "101" * 7 + "0011" + "1101" * 8),
    "subframes/linear": subframe(
        "0 100001 0 00000001 00000010 0011 00010 0111 1101 01 0000 00011" + "1001" * 14
    ),
    "subframes/wasted": subframe("0 000001 1 001" + "10101" * 16),
    "tar/gnu_long": tar(tarfile.GNU_FORMAT, "n" * 120, is_link=True),
    "tar/pax": tar(tarfile.PAX_FORMAT, "ü" * 60),
    "tar/ustar_prefix": tar(tarfile.USTAR_FORMAT, "folder/" * 20 + "name"),
    "mp3/all_rates": mp3_frames(),
    "mp3/tagged": mp3_frames()[:1000] + b"TAG".ljust(128, b"\0"),
    "ogg/long_packets": ogg(9, per_page=3, size=300),
    "ogg/short_packets": ogg(12, per_page=4, size=20),
    "npy/fortran": npy(np.asfortranarray(np.zeros((2, 3), ">f4"))),
    "npy/scalar": npy(np.float64(1)),
    "npy/time": npy(np.zeros(2, "M8[25s]")),
    "npy/unicode": npy(np.array(["a", "bc"])),
    "npy/version_3": b"\x93NUMPY\3\0\x33\0\0\0" + b'{"shape":(0,),"descr":"|u1","fortran_order":False}\n',
    "zip/commented": npz(comment=b"PK\5\6 is a comment"),
    "zip/deflated_zip64": npz(is_deflated=True),
    "zip/stored": npz(),
    "wav/extensible": extensible(),
    "wav/float": wav(4, 1).replace(struct.pack("<HH", 1, 1), struct.pack("<HH", 3, 1), 1),
    "wav/list": (lambda data: data[:12] + b"LIST\3\0\0\0abc\0" + data[12:])(wav(1, 3)),
    "wav/pcm": wav(2, 2),
    "wav/rf64": rf64(),
    "wav/rifx": rifx(3),
    "wav/unseekable": b"\1" + rifx(2),
}  # fmt: skip

if __name__ == "__main__":
    for name, data in FILES.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{len(data):6} {name}")
