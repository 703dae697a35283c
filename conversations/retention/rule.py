"""How long a chat is kept. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFacts:
    """What is known of a chat."""

    last_message_at: datetime
    is_temporary: bool = False
    is_pinned: bool = False
    own_days: int | None = None
    app_days: int | None = None


@dataclass(frozen=True, slots=True)
class ServerRule:
    """What the server is set to."""

    days: int
    """0: chats are kept for ever."""
    temporary_hours: int


def kept_for(chat: ChatFacts, server: ServerRule) -> timedelta | None:
    """Return how long a chat is kept after its last message; None for ever.

    Its own days come before its app's, and those before the server's. A pin does not hold a temporary chat.
    """
    if chat.is_temporary:
        return timedelta(hours=server.temporary_hours)
    if chat.is_pinned:
        return None
    said = (days for days in (chat.own_days, chat.app_days) if days is not None)
    days = next(said, server.days)
    return timedelta(days=days) if days else None


def is_due(chat: ChatFacts, server: ServerRule, now: datetime) -> bool:
    """Whether a chat is to be erased."""
    kept = kept_for(chat, server)
    return kept is not None and chat.last_message_at + kept <= now
