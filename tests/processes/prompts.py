"""Facts that tests plant in turns, and that they look for in prompts, summaries and answers. Pure."""

import re

CODE = re.compile(r"[A-Z]{2}-\d{4}")
"""A planted fact."""


def codes(text: str) -> set[str]:
    """Return every planted fact in `text`."""
    return set(CODE.findall(text))


def code(number: int) -> str:
    """Return the fact that turn `number` plants."""
    return f"{chr(65 + number // 26 % 26)}{chr(65 + number % 26)}-{1000 + number}"
