"""Keeping what people typed from posing as the structure of a prompt: markers, quoting, summarizer input.

A line that looks like one of our markers is prefixed with `> `, so that it can neither close a section nor
open one. Everything else stays as it was typed. Nothing here knows which model reads the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from chatmemory.text.confusables import begins
from memory.history.turns import Turn, assistant_text

SUMMARY_HEADING = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
LINES_HEADING = "EARLIER TURNS, ONE LINE EACH (oldest first; details may be missing):"
FACTS_HEADING = "FACTS – PRIOR CONVERSATION (use only if relevant):"
SOURCES_HEADING = "SOURCES (retrieved material for this question):"
RECALL_HEADING = "EXCERPTS FROM EARLIER IN THIS CONVERSATION (oldest first; use only if relevant):"
RECENT_HEADING = "RECENT CONVERSATION:"
PINS_HEADING = "PINNED – WHAT THE USER WANTS KEPT IN MIND (newest first; a newer one overrides an older one):"

NO_SUMMARY = "NONE"
"""Stands for the existing summary when there is none (seed 000 section 5.2.4)."""

_SUMMARY_OPEN, _SUMMARY_CLOSE = "=== EXISTING_SUMMARY ===", "=== END_EXISTING_SUMMARY ==="
_TURNS_OPEN, _TURNS_CLOSE = "=== NEW_TURNS ===", "=== END_NEW_TURNS ==="

_MARKER = re.compile(
    r"(?:"
    r"={3,}\s*[^=\s]"
    r"|(?:turn\s+[\do]+|recent\s+conversation)\s*:"
    r"|[\s*_#~`|]*(?:user|ass[il1|]stant|human)[\s*_~`|]*:"
    r"|[\s*_#~`|•·-]*(?:system|developer)(?:\s+(?:prompt|message|note|instructions?))?[\s*_~`|]*:"
    r"|background\s*-+\s*prior\s+conversation\s+summary"
    r"|facts\s*-+\s*prior\s+conversation"
    r"|pinned\s*-+\s*what\s+the\s+user"
    r"|\[\s*(?:user|ass[il1|]stant|system|developer|human)\s*\]\s*:"
    r"|\[\s*/?\s*inst\s*\]|<\s*<\s*/?\s*sys\s*>|<\s*/?\s*(?:start|end)_of_turn"
    r"|#+\s*(?:existing\s+facts|conversation\s*:)"
    r"|earlier\s+turns,\s+one\s+line\s+each"
    r"|excerpts\s+from\s+earlier\s+in\s+this"
    r"|\[\s*messages?\s+[\do]"
    r"|\[\s*[\do]+\s*\]\s*(?:user|ass[il1|]stant)\s*:"
    r"|\[\s*[\do]{4}\s*-\s*[\do]{2}\s*-\s*[\do]{2}\s*\]"
    r"|sources\s*\(retrieved\s+material"
    r"|\[\s*(?:important\s+data\s+from\s+previous\s+conversations|conversation\s+summary|recent\s+messages)\s*\]"
    r"|<\s*/?\s*memory_card"
    r"|<\s*\|"
    r"|(?:conversation\s+context|previous\s+response\s+outline)\s*:"
    r")"
)
"""What a line must not begin with, as it looks (`chatmemory.text.confusables`): our markers and headings, a role,
also emphasized or as a heading, a model's own token for one. An item of a list may begin with users and assistants,
as lines of ours do. A letter o may be a digit of another script."""

_BLOCK = re.compile(r"(?:\A|\n\n)Turn \d+:\n")


def is_marker(line: str) -> bool:
    """Whether a single line could be read as one of our markers, however it is spelled."""
    return _MARKER.match(begins(line)) is not None


def quote_markers(text: str) -> str:
    """`text` with every line that looks like a marker prefixed with `> `; otherwise unchanged."""
    return quote_lines(text, is_marker)


def quote_lines(text: str, is_taken: Callable[[str], bool]) -> str:
    """`text` with every line that `is_taken` prefixed with `> `; otherwise unchanged.

    A line ends wherever Unicode says so (`str.splitlines`), because a model may see it that way too.
    """
    lines = text.splitlines(keepends=True)
    taken = [is_taken(line) for line in lines]
    if not any(taken):
        return text
    return "".join(f"> {line}" if quote else line for line, quote in zip(lines, taken, strict=True))


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
