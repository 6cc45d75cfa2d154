"""Numbers as people read them: metrics, whole numbers, bytes, times. Missing ones are a dash."""

from __future__ import annotations

import math
from typing import Any

DASH = "–"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def metric_text(value: Any) -> str:
    """Four decimals, as in the tables of the field.

    >>> metric_text(0.10234), metric_text(None), metric_text(float("nan"))
    ('0.1023', '–', 'nan')
    """
    return f"{value:.4f}" if _number(value) else DASH


def whole_text(value: Any) -> str:
    """A whole number with its thousands apart.

    >>> whole_text(100000), whole_text(None)
    ('100,000', '–')
    """
    return f"{value:,.0f}" if _number(value) else DASH


def bytes_text(value: Any) -> str:
    """Bytes in decimal units.

    >>> bytes_text(999), bytes_text(215_296), bytes_text(4_200_000_000)
    ('999 B', '215.3 kB', '4.2 GB')
    """
    if not _number(value) or not math.isfinite(value):
        return DASH
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    for unit in units[:-1]:
        # 999.96 would be printed as 1000.0, which is one of the next unit.
        if abs(value) < (1000 if unit == "B" else 999.95):
            break
        value /= 1000
    else:
        unit = units[-1]
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def seconds_text(value: Any) -> str:
    """A duration in the two units that matter.

    >>> seconds_text(4.26), seconds_text(89.7), seconds_text(3725), seconds_text(0.0312)
    ('4.3 s', '1 min 30 s', '1 h 2 min', '0.03 s')
    """
    if not _number(value) or not math.isfinite(value):
        return DASH
    if value < 59.95:
        return f"{value:.1f} s" if value >= 0.95 else f"{value:.2f} s"
    if value < 3599.5:
        minutes, seconds = divmod(round(value), 60)
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours} h {minutes} min"
