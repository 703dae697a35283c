"""Untrusted text in logs, traces and terminals: control characters escaped, no ids of end users in paths.

Pure. Control characters would move the cursor, recolour or reorder text in a terminal. Not for web pages.
"""

import json
import re

_ACTS = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
"""Control characters, including ESC and its C1 variants, line ends, direction marks, invisible characters, and lone
surrogates, which cannot be encoded. Joiners are kept, because emoji are made with them.
"""
_END_USER = re.compile(r"(?<=/v1/users/).+?(?=(?:/export)?\Z)", re.DOTALL)


def without_end_user(text: str) -> str:
    """Return a path, or a text that ends with one, without the id of an end user."""
    return _END_USER.sub("{end_user}", text)


def plain(text: str) -> str:
    """`text` on one line, with control characters escaped as in a Python string: `\\x1b`."""
    return _ACTS.sub(_spelled, text)


def plain_lines(text: str) -> str:
    """Like `plain`, but keep lines."""
    return "\n".join(map(plain, text.split("\n")))


def plain_json(text: str) -> str:
    """JSON with control characters escaped, so that it has the same values. `text` has no tabs outside of strings."""
    return "\n".join(_ACTS.sub(lambda found: json.dumps(found[0])[1:-1], line) for line in text.split("\n"))


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
