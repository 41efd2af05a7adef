"""Checks of ``build(stall_timeout=, stall_action=)``, also for pipelines that another process will build."""

from spdl._numbers import as_timeout


def check_stall_options(seconds: object, action: object) -> None:
    """Raise ``TypeError`` or ``ValueError`` if one of these arguments is not accepted."""
    as_timeout("stall_timeout", seconds, positive=True)
    if action not in ("log", "raise"):
        raise ValueError(f'stall_action must be "log" or "raise", got {action!r}')
