"""How long a chat is kept, by who says what."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conversations.retention.rule import ChatFacts, ServerRule, is_due, kept_for

NOW = datetime(2026, 11, 26, tzinfo=UTC)


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
        (30, {"is_pinned": True}, None),
        (30, {"is_pinned": True, "own_days": 1, "app_days": 1}, None),
        (0, {"is_temporary": True}, 2),
        (1, {"is_temporary": True, "is_pinned": True, "own_days": 1, "app_days": 1}, 2),
    ],
)
def test_the_nearest_word_counts(server: int, said: dict[str, Any], days: int | None) -> None:
    rule = ServerRule(server, temporary_hours=48)
    chat = ChatFacts(last_message_at=NOW, **said)
    assert kept_for(chat, rule) == (None if days is None else timedelta(days=days))
    if days is None:
        assert not is_due(chat, rule, NOW + timedelta(days=50_000))
    else:
        over = NOW + timedelta(days=days)
        assert is_due(chat, rule, over)
        assert not is_due(chat, rule, over - timedelta(microseconds=1))
