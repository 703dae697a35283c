"""Users who leave, cancel, return and ask again for a while, on servers and a worker that are stopped at random.

No canary crosses from one chat to another, everything acknowledged is stored once, and the invariants hold. The full
run also checks that the memory of the server that is never stopped does not grow.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings

from tests.faults.bench.bench import Bench
from tests.faults.bench.soak import Soak
from tests.faults.bench.table import Tally

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SHORT_SECONDS, LONG_SECONDS = 15, 1200
LONG_SECONDS_ON_SQLITE = 120


@pytest.mark.promise("P24", injected="random disconnects, cancels and restarts of 50 users")
def test_soak(bench: Bench, effort: Callable[[int, int], int], tally: Tally) -> None:
    soak = Soak(bench, effort(8, 50), thinking=effort(1, 8) / 2)
    seconds = effort(SHORT_SECONDS, LONG_SECONDS_ON_SQLITE if settings.IS_SQLITE else LONG_SECONDS)
    soak.run(seconds, blow_every=effort(4, 20))
    assert soak.problems() == []
    assert soak.canaries.prompts
    assert soak.canaries.summaries
    tally(soak.blows.total())
    for note in soak.notes:
        tally.note(note)
