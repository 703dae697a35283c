"""What clients are shown about the work on a chat's memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.explain.work import BriefWork, WorkNow, work_of

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
LEASE = timedelta(seconds=60)
IDLE = BriefWork(False, False, False, None, None, None, None, 0, "")
SOON, BEFORE = NOW + timedelta(seconds=40), NOW - timedelta(seconds=20)


@pytest.mark.parametrize(
    ("changed", "has_worker", "work"),
    [
        ({}, False, WorkNow("idle")),
        ({"is_wanted": True, "queued_at": BEFORE}, True, WorkNow("queued", BEFORE)),
        ({"is_wanted": True, "queued_at": BEFORE}, False, WorkNow("no_worker", BEFORE)),
        ({"is_wanted": True, "is_leased": True, "lease_expires_at": SOON}, True, WorkNow("folding", BEFORE)),
        (
            {"is_wanted": True, "is_rebuild": True, "is_leased": True, "lease_expires_at": SOON},
            False,
            WorkNow("rebuilding", BEFORE),
        ),
        ({"is_wanted": True, "is_leased": True, "lease_expires_at": BEFORE}, True, WorkNow("queued")),
        (
            {"is_wanted": True, "later": SOON, "attempts": 2, "error": "upstream_timeout"},
            True,
            WorkNow("waiting", None, 2, "upstream_timeout"),
        ),
        (
            {"is_wanted": True, "later": BEFORE, "attempts": 1, "error": "x"},
            True,
            WorkNow("queued", None, 1, "x"),
        ),
        ({"later": SOON}, True, WorkNow("idle")),
        ({"paused_at": BEFORE}, False, WorkNow("paused", BEFORE)),
        ({"paused_at": BEFORE, "is_wanted": True}, True, WorkNow("queued")),
    ],
)
def test_the_state_of_the_work(changed: dict[str, Any], has_worker: bool, work: WorkNow) -> None:
    assert work_of(replace(IDLE, **changed), NOW, LEASE, has_worker=has_worker) == work
