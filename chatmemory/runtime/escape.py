"""Text of strangers where a terminal may show it: what would move its cursor, recolour or reorder it is spelled out.

Pure. For logs, commands and files that people look at; not for pages, which browsers draw.
"""

from __future__ import annotations

import re

_ACTS = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
"""Controls, among them ESC and its one-byte kin, line ends, marks of direction, what takes no room, and what cannot be
written at all. Joiners stay, because emoji are made with them."""


def plain(text: str) -> str:
    """`text` on one line, what acts on a terminal spelled like a string of Python's: `\\x1b`."""
    return _ACTS.sub(_spelled, text)


def plain_lines(text: str) -> str:
    """As `plain`, but lines stay."""
    return "\n".join(map(plain, text.split("\n")))


def plain_json(text: str) -> str:
    """JSON with what acts on a terminal escaped: it reads as the same values. `text` has no tabs outside of strings."""
    return "\n".join(_ACTS.sub(_escaped, line) for line in text.split("\n"))


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
