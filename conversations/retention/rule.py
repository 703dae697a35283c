"""How long a chat is kept. Pure."""

from datetime import timedelta
from typing import NamedTuple


class ServerRule(NamedTuple):
    """What the server is set to."""

    days: int
    """0: chats are kept for ever."""
    temporary_hours: int


def kept_for(
    server: ServerRule, *, temporary: bool, pinned: bool, own_days: int | None, app_days: int | None
) -> timedelta | None:
    """Return how long a chat is kept after its last message; None for ever.

    Its own days come before its app's, and those before the server's. A pin does not hold a temporary chat.
    """
    if temporary:
        return timedelta(hours=server.temporary_hours)
    if pinned:
        return None
    days = next((days for days in (own_days, app_days) if days is not None), server.days)
    return timedelta(days=days) if days else None
