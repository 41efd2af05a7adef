"""The error of ``spdl.resume``. Imports no other module of the package."""

__all__ = ["ResumeError"]


class ResumeError(ValueError):
    """A state cannot be loaded, saved or combined. Nothing has been changed by the attempt.

    The message says which state it is, what is wrong with it or how it differs from what is asked of it, and what to
    do. ``__cause__`` has the error of the parser or of the operating system, where there is one.
    """
