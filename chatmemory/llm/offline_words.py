"""What the built-in model says of itself in its replies, which is no part of any conversation that is to be kept."""

from __future__ import annotations

INTRODUCTION = "This is the built-in offline model; it can only quote."
FOUND = f"{INTRODUCTION} What this chat holds on your question:"
NOTHING = (
    f"{INTRODUCTION} It found nothing on your question in this chat, but your message is kept. "
    "For real answers set OPENAI_API_KEY, or OPENAI_BASE_URL for any compatible server, and start again."
)


def without_own_words(reply: str) -> str:
    """`reply` without what this model says of itself; what it quoted stays."""
    return reply.replace(NOTHING, "").replace(FOUND, "").lstrip() if INTRODUCTION in reply else reply
