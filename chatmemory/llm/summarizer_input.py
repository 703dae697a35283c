"""The input of a summarizer (seed 000, section 5.2.4): written here, and parsed by the built-in model. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chatmemory.text.markers import quote_markers

NO_SUMMARY = "NONE"
"""Replaces the existing summary if there is none (seed 000 section 5.2.4)."""

_SUMMARY_OPEN, _SUMMARY_CLOSE = "=== EXISTING_SUMMARY ===", "=== END_EXISTING_SUMMARY ==="
_TURNS_OPEN, _TURNS_CLOSE = "=== NEW_TURNS ===", "=== END_NEW_TURNS ==="

_BLOCK = re.compile(r"(?:\A|\n\n)Turn \d+:\n")


def write_summarizer_input(existing: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Build the request to fold (user, assistant) pairs into `existing`, verbatim. Empty pairs are left out."""
    spoken = [pair for pair in pairs if any(pair)]
    blocks = [f"Turn {number}:\n{_sides(*pair)}" for number, pair in enumerate(spoken, start=1)]
    return "\n".join(
        (
            _SUMMARY_OPEN,
            quote_markers(existing) or NO_SUMMARY,
            f"{_SUMMARY_CLOSE}\n",
            _TURNS_OPEN,
            "\n\n".join(blocks),
            _TURNS_CLOSE,
        )
    )


def parse_summarizer_input(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The existing summary and the (user, assistant) pairs of a summarizer input, still quoted.

    Raises `ValueError` if `text` is anything else.
    """
    head, between, tail = f"{_SUMMARY_OPEN}\n", f"\n{_SUMMARY_CLOSE}\n\n{_TURNS_OPEN}\n", f"\n{_TURNS_CLOSE}"
    existing, found, body = text.removeprefix(head).partition(between)
    if not (text.startswith(head) and found and body.endswith(tail)):
        raise ValueError("not a summarizer input")
    blocks = _BLOCK.split(body.removesuffix(tail))
    if blocks[0]:
        raise ValueError("not a summarizer input: text before the first turn")
    return "" if existing == NO_SUMMARY else existing, [_pair(block) for block in blocks[1:]]


def _sides(user: str, assistant: str) -> str:
    sides = (("User", user), ("Assistant", assistant))
    return "\n".join(f"{name}: {quote_markers(said)}" for name, said in sides if said)


def _pair(block: str) -> tuple[str, str]:
    if block.startswith("Assistant: "):
        return "", block.removeprefix("Assistant: ")
    user, _, assistant = block.removeprefix("User: ").partition("\nAssistant: ")
    return user, assistant
