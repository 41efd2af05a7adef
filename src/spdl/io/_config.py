"""Options that travel together: how to open containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DemuxConfig:
    """How to open a container. Made by ``demux_config``, which says what the fields mean."""

    format: str | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    buffer_size: int = 8096
    tolerate_errors: bool = False

    def __post_init__(self) -> None:
        """Check the types; native code knows which formats and options there are.

        Raises:
            TypeError: A field is of the wrong type.
            ValueError: ``buffer_size`` is less than 1.
        """
        if self.format is not None and not isinstance(self.format, str):
            raise TypeError(f"format must be str or None, got {type(self.format).__name__}")
        object.__setattr__(self, "format_options", as_options("format_options", self.format_options))
        if isinstance(self.buffer_size, bool) or not isinstance(self.buffer_size, int):
            raise TypeError(f"buffer_size must be int, got {type(self.buffer_size).__name__}")
        if not 1 <= self.buffer_size < 2**30:
            raise ValueError(f"buffer_size must be >= 1 and < 2**30, got {self.buffer_size}")
        if not isinstance(self.tolerate_errors, bool):
            raise TypeError(f"tolerate_errors must be bool, got {type(self.tolerate_errors).__name__}")


def as_options(name: str, options: Mapping[str, str | int | float] | None) -> dict[str, str]:
    """Options for FFmpeg: a copy, with every value as text.

    Raises:
        TypeError: It is not a mapping, or a key is not text, or a value neither text nor a number.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dict, got {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str | int | float):
            raise TypeError(f"{name} must map str to str, got {key!r}: {value!r}")
    return {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in options.items()}


def demux_config(
    format: str | None = None,
    format_options: Mapping[str, str | int | float] | None = None,
    buffer_size: int = 8096,
    *,
    tolerate_errors: bool = False,
) -> DemuxConfig:
    """Say how to open a container, where FFmpeg cannot tell by itself.

    Args:
        format: FFmpeg's name of the format, for data without a header, such as ``"rawvideo"`` or ``"s16le"``.
        format_options: Options of that format or of the protocol, as FFmpeg names them:
            ``{"video_size": "64x48", "pixel_format": "rgb24"}``.
        buffer_size: In bytes, how much is read at a time of data in memory. Files are read by FFmpeg itself.
        tolerate_errors: Whether damage ends the reading instead of raising. ``packets.num_errors`` tells.

    Returns:
        Immutable options. Formats and options that FFmpeg does not know raise ``DemuxError`` when they are used.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: ``buffer_size`` is less than 1.
    """
    return DemuxConfig(format, as_options("format_options", format_options), buffer_size, tolerate_errors)
