"""What the built-in model says in its replies, of itself and as quotes: no part of a talk that is to be kept."""

from __future__ import annotations

INTRODUCTION = "This is the built-in offline model; it can only quote."
FOUND = f"{INTRODUCTION} Matches in this chat:"
NOTHING = (
    f"{INTRODUCTION} No match in this chat. Your message was saved. "
    "Set OPENAI_API_KEY or OPENAI_BASE_URL and restart for real answers."
)


QUOTED = "- "
"""Before each line that this model quotes."""


def own_words_apart(reply: str) -> tuple[str, str]:
    """What a reply says that is not this model's, and what this model quoted in it.

    All that it ever says is what it says of itself and quotes of what it was shown, memory's own words among them.
    """
    said, _, own = reply.partition(INTRODUCTION)
    lines = (line.removeprefix("> ") for line in own.splitlines())
    return said.rstrip() if own else said, "\n".join(line for line in lines if line.startswith(QUOTED))
