"""How often many streams at once are read, so that all of them together leave the event loop time for the rest. Pure.

What a read costs, and the write that follows it, hardly depends on how much it brings. With many streams open each of
them is therefore read less often, and each read brings all that came meanwhile; a stream alone is read as it comes.
Measured with 500 streams of 20 deltas a second: see "slow streams" in docs/benchmarks.md.
"""

from __future__ import annotations

READS_A_SECOND = 5000
"""Of all streams together."""
WORTHWHILE_SECONDS = 0.01
"""A shorter pause would cost more than it saves: fewer than 50 streams have none."""
LONGEST_SECONDS = 0.2


def pause_between_reads(streams: int) -> float:
    """Seconds that one of so many open streams waits before it is read again."""
    seconds = streams / READS_A_SECOND
    return min(seconds, LONGEST_SECONDS) if seconds >= WORTHWHILE_SECONDS else 0.0
