"""Phrases of the built-in model's replies: about itself, and around quotations. Summaries leave them out."""

from __future__ import annotations

INTRODUCTION = "This is the built-in offline model; it can only quote."
FOUND = f"{INTRODUCTION} Matches in this chat:"
NOTHING = (
    f"{INTRODUCTION} No match in this chat. Your message was saved. "
    "Set OPENAI_API_KEY or OPENAI_BASE_URL and restart for real answers."
)


QUOTED = "- "
"""Precedes each line that this model quotes."""


def split_own_words(reply: str) -> tuple[str, str]:
    """Split a reply into text that is not this model's, and lines that this model quoted.

    This model writes only about itself, and quotes its prompt, which includes memory.
    """
    said, _, own = reply.partition(INTRODUCTION)
    lines = (line.removeprefix("> ") for line in own.splitlines())
    return said.rstrip() if own else said, "\n".join(line for line in lines if line.startswith(QUOTED))
