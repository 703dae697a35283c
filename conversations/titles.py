"""Titles that are made here, from a chat's first message. Pure: text in, text out."""

from __future__ import annotations

MAX_TITLE_CHARS = 60
CONSIDERED_CHARS = 2000
"""Of a message: what its title is made from is at its beginning."""


def automatic_title(message: str) -> str:
    """The first line that shows anything, on one line, cut to what a list has room for. "" where nothing shows."""
    for line in message[:CONSIDERED_CHARS].splitlines():
        if any(character.isprintable() and not character.isspace() for character in line):
            words = " ".join(line.split())
            return words if len(words) <= MAX_TITLE_CHARS else words[: MAX_TITLE_CHARS - 1].rstrip() + "…"
    return ""


def repeats(title: str, message: str) -> bool:
    """Whether somebody, such as an older playground, made this title from this message."""
    first_line = message.strip(" \t\r\n\ufeff").split("\n")[0][:MAX_TITLE_CHARS].strip()
    return bool(title) and title in (automatic_title(message), first_line)
