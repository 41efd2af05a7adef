"""Formats durations for log lines."""


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit: ``"3.1 us"``, ``"400.0 us"``, ``"2.5 ms"``, ``"75.0 s"``."""
    size = abs(seconds)
    if size < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if size < 1.0:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s"
