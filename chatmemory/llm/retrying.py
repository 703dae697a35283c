"""When to ask again: bounded, spread out, as late as the server asked for. Pure; for background calls only.

A retry after a lost answer can be billed twice, and nobody waits for a summary; so there are few, and none
that could not end in time. The interactive path never retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

TRIES = 3
FIRST_PAUSE = 0.5
MAX_PAUSE = 8.0


def pause_before_retry(
    tries: int, *, remaining: float, retry_after: float | None, jitter: float
) -> float | None:
    """Seconds to wait after `tries` failed ones, or None to give up.

    Doubles from half a second up to eight; `jitter` in 0..1 takes off up to half of it, so that workers do
    not return together. `retry_after` is a floor. None as well when the pause would leave nothing of the
    `remaining` seconds.
    """
    if tries >= TRIES:
        return None
    pause = min(FIRST_PAUSE * 2.0 ** (tries - 1), MAX_PAUSE) * (1 - jitter / 2)
    pause = max(pause, retry_after or 0.0)
    return pause if pause < remaining else None


def retry_after_in(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds that `Retry-After` asks for: in ms, in seconds, or as a date against `now` (Unix time)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    try:
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number >= 0 else None
