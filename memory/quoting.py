"""Keeping what people typed from posing as the structure of a prompt: markers, quoting, summarizer input.

A line that looks like one of our markers is prefixed with `> `, so that it can neither close a section nor
open one. Everything else stays as it was typed. Nothing here knows which model reads the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.turns import Turn, assistant_text

SUMMARY_HEADING = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
LINES_HEADING = "EARLIER TURNS, ONE LINE EACH (oldest first; details may be missing):"
FACTS_HEADING = "FACTS – PRIOR CONVERSATION (use only if relevant):"
SOURCES_HEADING = "SOURCES (retrieved material for this question):"
RECENT_HEADING = "RECENT CONVERSATION:"

NO_SUMMARY = "NONE"
"""Stands for the existing summary when there is none (seed 000 section 5.2.4)."""

_SUMMARY_OPEN, _SUMMARY_CLOSE = "=== EXISTING_SUMMARY ===", "=== END_EXISTING_SUMMARY ==="
_TURNS_OPEN, _TURNS_CLOSE = "=== NEW_TURNS ===", "=== END_NEW_TURNS ==="

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that take no room on a screen and could hide a marker from a comparison."""

_MARKER = re.compile(
    r"\s*(?:"
    r"={3,}\s*[^=\s]"
    r"|(?:turn\s+\d+|user|assistant|recent\s+conversation)\s*[:：]"
    r"|background\s*[-‐‑–—−]+\s*prior\s+conversation\s+summary"
    r"|facts\s*[-‐‑–—−]+\s*prior\s+conversation"
    r"|\[\s*(?:user|assistant)\s*\]\s*[:：]"
    r"|#+\s*(?:existing\s+facts|conversation\s*[:：])"
    r"|earlier\s+turns,\s+one\s+line\s+each"
    r"|sources\s*\(retrieved\s+material"
    r"|\[\s*(?:important\s+data\s+from\s+previous\s+conversations|conversation\s+summary|recent\s+messages)\s*\]"
    r"|<\s*/?\s*memory_card"
    r"|(?:conversation\s+context|previous\s+response\s+outline)\s*[:：]"
    r")",
    re.IGNORECASE,
)

_BLOCK = re.compile(r"(?:\A|\n\n)Turn \d+:\n")


def is_marker(line: str) -> bool:
    """Whether a single line could be read as one of our markers, invisible characters and case aside."""
    return _MARKER.match(_INVISIBLE.sub("", line)) is not None


def quote_markers(text: str) -> str:
    """`text` with every line that looks like a marker prefixed with `> `; otherwise unchanged.

    A line ends wherever Unicode says so (`str.splitlines`), because a model may see it that way too.
    """
    lines = text.splitlines(keepends=True)
    if not any(map(is_marker, lines)):
        return text
    return "".join(f"> {line}" if is_marker(line) else line for line in lines)


def summarizer_input(existing: str, turns: Sequence[Turn]) -> str:
    """What the summarizer is asked, to the letter of seed 000 section 5.2.4, leaving out silent turns."""
    spoken = [turn for turn in turns if turn.user or turn.assistant]
    blocks = [f"Turn {number}:\n{_sides(turn)}" for number, turn in enumerate(spoken, start=1)]
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
    """The existing summary and the (user, assistant) pairs of a `summarizer_input`, as they were quoted.

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


def _sides(turn: Turn) -> str:
    sides = (("User", turn.user), ("Assistant", assistant_text(turn)))
    return "\n".join(f"{name}: {quote_markers(said)}" for name, said in sides if said)


def _pair(block: str) -> tuple[str, str]:
    if block.startswith("Assistant: "):
        return "", block.removeprefix("Assistant: ")
    user, _, assistant = block.removeprefix("User: ").partition("\nAssistant: ")
    return user, assistant
