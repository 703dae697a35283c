"""A prompt as the upstream received it, parsed: summary, lines, verbatim turns, excerpts, the question. Pure.

Uses only the headings, as a model would, and not what the server says that it sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chatmemory.text.markers import LINES_HEADING, RECALL_HEADING, SUMMARY_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from tests.support.fakes.connection import Request

CODE = re.compile(r"[A-Z]{2}-\d{4}")
"""A planted fact."""


@dataclass(frozen=True)
class Seen:
    """What one prompt shows of memory."""

    question: str
    summary: str
    lines: str
    verbatim: tuple[tuple[str, str], ...]
    """(role, text) of each message."""
    recalled: tuple[str, ...]
    """Excerpts of earlier turns, even if they are shown elsewhere, too."""
    tokens: int
    """Tokens of memory, including the overhead of its messages."""

    @property
    def places(self) -> tuple[set[str], set[str], set[str]]:
        """The codes in the summary, in lines, and in verbatim turns."""
        said = "\n".join(text for _, text in self.verbatim)
        return codes(self.summary), codes(self.lines), codes(said)


def seen(request: Request) -> Seen:
    """Parse a streamed request. The question comes last; turns have no sources in these tests."""
    *memory, (role, question) = request.said
    assert role == "user"
    summaries = [text for _, text in memory if text.startswith(SUMMARY_HEADING)]
    lines = [text for _, text in memory if text.startswith(LINES_HEADING)]
    assert len(summaries) <= 1, "two summaries in one prompt"
    assert len(lines) <= 1, "two blocks of lines in one prompt"
    recalled = [text for _, text in memory if text.startswith(RECALL_HEADING)]
    headed = {*summaries, *lines, *recalled}
    return Seen(
        question=question,
        summary="".join(summaries),
        lines="".join(lines),
        verbatim=tuple(item for item in memory if item[1] not in headed),
        recalled=tuple(recalled),
        tokens=sum(count_tokens(text) + MESSAGE_OVERHEAD for _, text in memory),
    )


def codes(text: str) -> set[str]:
    """Return every planted fact in `text`."""
    return set(CODE.findall(text))


def code(number: int) -> str:
    """Return the fact that turn `number` plants."""
    return f"{chr(65 + number // 26 % 26)}{chr(65 + number % 26)}-{1000 + number}"
