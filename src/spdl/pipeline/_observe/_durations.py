"""How a duration is written in log lines."""

__all__ = ["duration"]


def duration(seconds: float) -> str:
    """Get a duration with the unit that suits it: ``"3.1 us"``, ``"0.4 ms"`` is ``"400.0 us"``, ``"75.0 s"``."""
    size = abs(seconds)
    if size < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if size < 1.0:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s"
