"""Formats numbers for tables: shares as percentages, durations and counts with a unit, in a few characters."""


def share(part: float, whole: float = 1.0) -> str:
    """Format a share: ``"98%"``. Limited to 100%, because counters are read at slightly different moments."""
    return f"{100 * min(1.0, max(0.0, part / whole)):.0f}%" if whole > 0 else "-"


def seconds(value: float) -> str:
    """Format a duration with three digits: ``"12.3 us"``, ``"4.56 ms"``, ``"789 s"``, ``"2:05 h"``."""
    if value >= 3600:
        minutes = round(value / 60)
        return f"{minutes // 60}:{minutes % 60:02d} h"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= 0.9995 * scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value / 1e-6)} us" if value > 0 else "0 s"


def count(number: int) -> str:
    """Format a number in at most six characters: ``"12345"``, ``"1.23M"``."""
    return str(number) if number < 100_000 else _large(number)


def rate(per_second: float) -> str:
    """Format a number per second in at most six characters, without the unit: ``"98.1"``, ``"12.3k"``."""
    return _digits(per_second) if per_second < 9999.5 else _large(per_second)


def _large(number: float) -> str:
    for unit, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if number < 999.5 * scale:
            return _digits(number / scale) + unit
    return f"{number:.2g}"


def _digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}".rstrip("0").rstrip(".")


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit: ``"3.1 us"``, ``"400.0 us"``, ``"2.5 ms"``, ``"75.0 s"``."""
    size = abs(seconds)
    if size < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if size < 1.0:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s"
