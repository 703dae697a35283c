"""How long a chat is kept, by who says what."""

from datetime import timedelta
from typing import Any

import pytest

from conversations.retention.rule import ServerRule, kept_for

NOTHING: dict[str, Any] = {"temporary": False, "pinned": False, "own_days": None, "app_days": None}


@pytest.mark.parametrize(
    ("server", "said", "days"),
    [
        (0, {}, None),
        (30, {}, 30),
        (30, {"app_days": 7}, 7),
        (7, {"app_days": 30}, 30),
        (0, {"app_days": 7}, 7),
        (30, {"app_days": 0}, None),
        (30, {"app_days": 7, "own_days": 90}, 90),
        (0, {"own_days": 36_500}, 36_500),
        (30, {"pinned": True}, None),
        (30, {"pinned": True, "own_days": 1, "app_days": 1}, None),
        (0, {"temporary": True}, 2),
        (1, {"temporary": True, "pinned": True, "own_days": 1, "app_days": 1}, 2),
    ],
)
def test_the_nearest_word_counts(server: int, said: dict[str, Any], days: int | None) -> None:
    kept = kept_for(ServerRule(server, temporary_hours=48), **NOTHING | said)
    assert kept == (None if days is None else timedelta(days=days))
