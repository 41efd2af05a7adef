"""``save_image``, ``encode_image`` and ``image_to_bytes``: encode arrays as images, in files or in memory."""

import os
import secrets
import stat
from typing import TYPE_CHECKING, Any

from spdl.io import _native
from spdl.io._errors import EncodeError, MuxError
from spdl.io._media._config import VideoEncodeConfig, as_native_config, video_encode_config
from spdl.io._trace import traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Pixel format -> axes of the array and bytes per element.
_LAYOUTS = {
    "rgb24": ("(height, width, 3)", 1),
    "bgr24": ("(height, width, 3)", 1),
    "rgba": ("(height, width, 4)", 1),
    "gray": ("(height, width)", 1),
    "ya8": ("(height, width, 2)", 1),
    **{
        name + order: (axes, 2)
        for name, axes in (
            ("gray16", "(height, width)"),
            ("ya16", "(height, width, 2)"),
            ("rgb48", "(height, width, 3)"),
            ("rgba64", "(height, width, 4)"),
        )
        for order in ("", "be", "le")
    },
    "yuv444p": ("(3, height, width)", 1),
}

#: Of JPEG, as for pictures in colour.
_BEST_QSCALE = 2


@traced
def save_image(
    path: str | os.PathLike[str],
    data: Any,
    pix_fmt: str = "rgb24",
    *,
    bit_rate: int = -1,
    compression_level: int = -1,
    qscale: int = -1,
    gop_size: int = -1,
    max_b_frames: int = -1,
    colorspace: str | None = None,
    color_primaries: str | None = None,
    color_trc: str | None = None,
) -> None:
    """Save an array as an image file, in the format of the file extension.

    .. code-block:: python

        save_image("gray.png", np.zeros((48, 64, 3), np.uint8))

    PNG, TIFF, BMP and PPM are lossless for 8-bit data; PNG, TIFF, PAM, PPM and PGM also for 16-bit data. What a format
    cannot hold, such as 16 bits in BMP, alpha in JPEG or colours in PGM, is refused. JPEG is full-range YUV without
    chroma subsampling, or a single component for gray, at the best quality (``qscale=2``) by default; GIF has 256 fixed
    colours.

    The image is encoded before anything is written, and an existing file is replaced atomically. If saving fails, the
    existing file is unchanged.

    Args:
        path: Path of the file.
        data: NumPy array, CPU tensor or anything else with an array interface. ``rgb24``, ``bgr24``:
            ``(height, width, 3)``; ``rgba``: ``(height, width, 4)``; ``gray``: ``(height, width)``; ``ya8``, gray with
            alpha: ``(height, width, 2)``; ``yuv444p``: ``(3, height, width)``, all 8-bit. With 16 bits: ``gray16``,
            ``ya16``, ``rgb48`` and ``rgba64``; names that end with ``le`` or ``be`` have bytes in that order.
        pix_fmt: Pixel format of ``data``.
        bit_rate: Target bit rate, in bit/s. See ``video_encode_config`` for this and the other encoder options;
            ``-1`` is the encoder's default.
        compression_level: Effort of PNG (0 to 9).
        qscale: Quality of JPEG; 2 is the best and 31 the worst.
        gop_size: Largest distance between key frames, for image formats that are based on video codecs.
        max_b_frames: Largest number of consecutive B-frames, for the same formats.
        colorspace: Matrix coefficients of YUV, such as ``"bt709"``.
        color_primaries: Primaries to record.
        color_trc: Transfer characteristic to record.

    Raises:
        ValueError: Shape, dtype or byte order does not match ``pix_fmt``, or ``pix_fmt`` is not one of those above.
        MuxError: No image format has this extension, or the file cannot be written.
        EncodeError: The encoder does not support the options, or the file format cannot hold the image.

    Releases the GIL while it encodes; safe to call from several threads.
    """
    array, height, width = _picture(data, pix_fmt)
    config = video_encode_config(
        height=height,
        width=width,
        frame_rate=(1, 1),
        pix_fmt=pix_fmt,
        bit_rate=bit_rate,
        compression_level=compression_level,
        qscale=qscale,
        gop_size=gop_size,
        max_b_frames=max_b_frames,
        colorspace=colorspace,
        color_primaries=color_primaries,
        color_trc=color_trc,
    )
    _save(path, array, config)


@traced
def encode_image(
    path: str | os.PathLike[str], data: Any, pix_fmt: str = "rgb24", *, encode_config: VideoEncodeConfig | None = None
) -> None:
    """Save an array as an image file: ``save_image`` with its options as one object.

    Args:
        path: Path of the file.
        data: Image, as for ``save_image``.
        pix_fmt: Pixel format of ``data``.
        encode_config: Options, with the size and pixel format of ``data``. ``None``: the encoder's defaults.

    Raises:
        ValueError: As for ``save_image``; or the config has another size or pixel format.
        MuxError: As for ``save_image``.
        EncodeError: As for ``save_image``.

    Releases the GIL while it encodes; safe to call from several threads.
    """
    array, height, width = _picture(data, pix_fmt)
    if encode_config is None:
        encode_config = VideoEncodeConfig(height=height, width=width, pix_fmt=pix_fmt)
    for name, given in (("height", height), ("width", width), ("pix_fmt", pix_fmt)):
        wanted = getattr(encode_config, name)
        if wanted != given:
            raise ValueError(f"{name} of encode_config must be that of the data, {given!r}, got {wanted!r}")
    _save(path, array, encode_config)


@traced
def image_to_bytes(
    data: Any, format: str = "png", pix_fmt: str = "rgb24", *, compression_level: int = -1, qscale: int = -1
) -> bytes:
    """Encode an array as an image in memory: the bytes that ``save_image`` would write to a file.

    Args:
        data: Image, as for ``save_image``.
        format: Format of the image, as a file extension: ``"png"``, ``"jpg"``, ``"webp"``, ``"tiff"``, ...
        pix_fmt: Pixel format of ``data``, as for ``save_image``.
        compression_level: Effort of PNG (0 to 9); ``-1`` is the encoder's default.
        qscale: Quality of JPEG; 2 is the best, 31 the worst, and ``-1`` the default, 2.

    Raises:
        ValueError: As for ``save_image``; or ``format`` is not an extension.
        TypeError: ``format`` is not text.
        MuxError: No image format has this extension.
        EncodeError: The encoder does not support the options.

    Releases the GIL while it encodes; safe to call from several threads.
    """
    if not isinstance(format, str):
        raise TypeError(f"format must be str, got {type(format).__name__}")
    extension = format.removeprefix(".")
    if not extension.isalnum() or not extension.isascii():
        raise ValueError(f"format must be the extension of an image file, such as 'png', got {format!r}")
    array, height, width = _picture(data, pix_fmt)
    config = video_encode_config(
        height=height,
        width=width,
        frame_rate=(1, 1),
        pix_fmt=pix_fmt,
        compression_level=compression_level,
        qscale=qscale,
    )
    return _encode(array, config, f"image.{extension}")


def _encode(array: "NDArray[Any]", config: VideoEncodeConfig, name: str) -> bytes:
    if config.pix_fmt == "gray" and name.lower().endswith((".jpg", ".jpeg")):
        if config.bit_rate is not None:
            raise EncodeError(f"cannot encode {name}: a gray JPEG takes qscale, and no bit_rate", source=name)
        qscale = _BEST_QSCALE if config.qscale is None else config.qscale
        return _native.core.encode_gray_jpeg(array, height=config.height, width=config.width, qscale=qscale, name=name)
    return _native.media.encode_picture(array, as_native_config(config), name)


def _save(path: str | os.PathLike[str], array: "NDArray[Any]", config: VideoEncodeConfig) -> None:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path must be text or path-like, got {type(text).__name__}")
    name = text.encode("utf-8", "backslashreplace").decode()
    encoded = _encode(array, config, name)
    try:
        _replace(text, encoded)
    except OSError as exc:
        raise MuxError(f"cannot write {name}: {exc.strerror or exc}", source=name, action="write") from exc


def _picture(data: Any, pix_fmt: str) -> "tuple[NDArray[Any], int, int]":
    """The data as a C-contiguous array that matches the pixel format, its height and its width."""
    import numpy as np

    if pix_fmt not in _LAYOUTS:
        raise ValueError(f"pix_fmt must be one of {', '.join(map(repr, _LAYOUTS))}, got {pix_fmt!r}")
    axes, itemsize = _LAYOUTS[pix_fmt]
    array = _as_array(data)
    fits = {
        "(height, width)": array.ndim == 2,
        "(height, width, 2)": array.ndim == 3 and array.shape[2] == 2,
        "(height, width, 3)": array.ndim == 3 and array.shape[2] == 3,
        "(height, width, 4)": array.ndim == 3 and array.shape[2] == 4,
        "(3, height, width)": array.ndim == 3 and array.shape[0] == 3,
    }
    if not fits[axes] or array.size == 0:
        raise ValueError(f"the shape must be {axes} for {pix_fmt}, got {array.shape}")
    if array.dtype.kind not in "iu" or array.dtype.itemsize != itemsize:
        raise ValueError(f"the dtype must be an integer of {8 * itemsize} bits for {pix_fmt}, got {array.dtype}")
    if itemsize == 2 and not pix_fmt.endswith(("le", "be")):
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    elif itemsize == 2 and not array.dtype.isnative and array.dtype.byteorder != {"be": ">", "le": "<"}[pix_fmt[-2:]]:
        raise ValueError(f"the byte order must be that of {pix_fmt}, got {array.dtype.str}")
    height, width = array.shape[1:] if axes == "(3, height, width)" else array.shape[:2]
    return np.ascontiguousarray(array), height, width


def _as_array(data: Any) -> "NDArray[Any]":
    import numpy as np

    if callable(getattr(data, "detach", None)):  # a torch tensor
        data = data.detach()
        if data.device.type != "cpu":
            raise ValueError(f"data must be in memory of the CPU, got a tensor on {data.device}; copy it with .cpu()")
    return np.asarray(data)


def _replace(path: str, data: bytes) -> None:
    """Write a file atomically: readers see either the previous content or all of ``data``."""
    path = os.path.realpath(path)
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        # Write to a pipe or a device directly: it cannot be replaced. A directory raises in open().
        with open(path, "wb") as file:
            file.write(data)
        return
    draft = os.path.join(os.path.dirname(path), f".spdl-{secrets.token_hex(8)}.tmp")
    try:
        with open(draft, "xb") as file:
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
