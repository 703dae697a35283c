"""The outline of a reply: its headings or bullets, which the policy `card` shows of the newest reply. Pure."""

from __future__ import annotations

import re

from chatmemory.text.turn_line import one_line

_HEADING = re.compile(r"#{1,3}\s+\S|\*\*.+\*\*|\d+\.\s+\S|\s*[-*]\s+\S")


def outline(reply: str) -> str:
    """Up to five headings or bullets of a reply, 50 characters each, joined by ` | `, or else its first short lines.

    At most 400 characters (seed 002, generateOutline).
    """
    lines = [one_line(line) for line in reply.splitlines()]
    points = [line for line in lines if _HEADING.match(line)][:5]
    return " | ".join(line[:50] for line in points or _short(lines))[:400]


def _short(lines: list[str]) -> list[str]:
    spoken = [line for line in lines if line]
    return [line for line in spoken if len(line) <= 80][:3] or spoken[:1]
