"""Keeps text from users from imitating the structure of a prompt: its markers and headings are quoted.

A line that looks like one of our markers is prefixed with `> `, so that it can neither close a section nor open one.
All other text is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from chatmemory.text.confusables import line_skeleton

SUMMARY_HEADING = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
LINES_HEADING = "EARLIER TURNS, ONE LINE EACH (oldest first; details may be missing):"
FACTS_HEADING = "FACTS – PRIOR CONVERSATION (use only if relevant):"
SOURCES_HEADING = "SOURCES (retrieved material for this question):"
RECALL_HEADING = "EXCERPTS FROM EARLIER IN THIS CONVERSATION (oldest first; use only if relevant):"
RECENT_HEADING = "RECENT CONVERSATION:"
PINS_HEADING = "PINNED – WHAT THE USER WANTS KEPT IN MIND (newest first; a newer one overrides an older one):"


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
    r"|(?:\[\s*[\do]+\s*\]\s*)?(?:user|ass[il1|]stant|tool)\s*(?:\(\s*updated\b[^)]{0,40}\)\s*)?:"
    r"|\[\s*[\do]{4}\s*-\s*[\do]{2}\s*-\s*[\do]{2}\s*\]"
    r"|sources\s*\(retrieved\s+material"
    r"|\[\s*(?:important\s+data\s+from\s+previous\s+conversations|conversation\s+summary|recent\s+messages)\s*\]"
    r"|<\s*/?\s*memory_card"
    r"|<\s*\|"
    r"|(?:conversation\s+context|previous\s+response\s+outline)\s*:"
    r")"
)
"""Matches the beginning of lines to quote, as they look (`chatmemory.text.confusables`): our markers and headings, a
role, also emphasized or as a heading, a model's own token for a role. A list item may begin with users and
assistants, as our own lines do. A letter o may be a digit of another script.
"""


def is_marker(line: str) -> bool:
    """Whether a line could be read as one of our markers, in any spelling."""
    return _MARKER.match(line_skeleton(line)) is not None


def quote_markers(text: str) -> str:
    """Prefix every line of `text` that looks like a marker with `> `; other text is unchanged."""
    return quote_lines(text, is_marker)


def quote_lines(text: str, is_taken: Callable[[str], bool]) -> str:
    """Prefix every line of `text` for which `is_taken` is true with `> `; other text is unchanged.

    A line ends at every Unicode line boundary (`str.splitlines`), because a model may read it that way, too.
    """
    lines = text.splitlines(keepends=True)
    taken = [is_taken(line) for line in lines]
    if not any(taken):
        return text
    return "".join(f"> {line}" if quote else line for line, quote in zip(lines, taken, strict=True))
