"""The error of ``spdl.resume``. Imports no other module of the package."""


class ResumeError(ValueError):
    """A state cannot be loaded, saved or combined. The attempt has changed nothing.

    The message names the state, says what is wrong with it or how it differs from the expected one, and what to do.
    ``__cause__`` is the error of the parser or of the operating system, if any.
    """
