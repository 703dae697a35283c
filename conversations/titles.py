"""Automatic titles, made from a chat's first message. Pure: text in, text out."""

MAX_TITLE_CHARS = 60
CONSIDERED_CHARS = 2000
"""Number of characters of a message that are considered: a title is made from its beginning."""


def automatic_title(message: str) -> str:
    """Return the first line with visible text as one line, cut to fit a list; "" if there is none."""
    for line in message[:CONSIDERED_CHARS].splitlines():
        if any(character.isprintable() and not character.isspace() for character in line):
            words = " ".join(line.split())
            return words if len(words) <= MAX_TITLE_CHARS else words[: MAX_TITLE_CHARS - 1].rstrip() + "…"
    return ""


def repeats(title: str, message: str) -> bool:
    """Whether this title was made from this message, either here or by a client such as an older playground."""
    first_line = message.strip(" \t\r\n\ufeff").split("\n")[0][:MAX_TITLE_CHARS].strip()
    return bool(title) and title in (automatic_title(message), first_line)
