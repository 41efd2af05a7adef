"""Native part of spdl.io: everything that needs FFmpeg."""

def libraries() -> list[tuple[str, tuple[int, int, int], str]]:
    """
    The FFmpeg libraries in use: name, version, and the file each was loaded from, "" if that is not known.
    """

def license() -> str:
    """Licence of this build of FFmpeg."""

def configuration() -> str:
    """Options that FFmpeg was configured with."""

def filters() -> list[str]:
    """Names of all filters."""

def decoders(codec: str) -> list[str]:
    """
    Names of the decoders for a codec, the default one first; none for a codec that FFmpeg does not know.
    """

def encoders(codec: str) -> list[str]:
    """
    Names of the encoders for a codec, the default one first; none for a codec that FFmpeg does not know.
    """

def require_filter(name: str) -> None:
    """Raise FilterError if this FFmpeg has no such filter."""

def log_level() -> int:
    """FFmpeg's log level."""

def set_log_level(level: int) -> None:
    """Sets FFmpeg's log level, for the whole process."""
