"""What a text looks like, for comparisons: without invisible characters, and with plain letters for their lookalikes.

A marker or an order that is written with invisible characters, letters of another alphabet, or a lookalike of a colon
reads to people and models like the plain one. The result is never shown or stored.
"""

from __future__ import annotations

import re
import unicodedata

from chatmemory.text.confusable_characters import CONFUSABLES

INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that are invisible, or shown as empty space."""

_UNSEEN = re.compile(
    f"{INVISIBLE.pattern[:-1]}\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
"""The same, plus combining marks."""

_DOUBLES = str.maketrans(
    {
        **{double: plain for plain, doubles in CONFUSABLES.items() for double in doubles},
        # Cyrillic, Greek and Armenian letters, small capitals, and letters with a stroke or without a dot.
        **dict(
            zip(
                "абвгеёзікмнорстухцѕјһԁԛԝӏьАВЕЗІКМНОРСТУХЅЈҺԌԚԜҮӀ"
                "αβεζηικμνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
                "ոսօհցքյՏՍՕ"
                "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"
                "ıɑɡøłđħŧƒ",
                "abbreezikmhopctyxusjhdqwlbABEZIKMHOPCTYXSJHGQWYI"
                "abeznikuvoptuxwABEZHIKMNOPTYX"
                "nuohgpjSUO"
                "abcdefghijklmnoprstuvwyz"
                "iagoldhtf",
                strict=True,
            )
        ),
        **dict.fromkeys(
            "\u02d0\u02d1\u02f8\u0589\u05c3\u0703\u0704\u16ec\u1803\u1809\u205a\u2236\ua4fd\ua789\ufe13\ufe55\uff1a",
            ":",
        ),
        **dict.fromkeys("\u2550\u02ed\ua78a\u2e40\u30a0\u1400\u3013\u2261\uff1d\ufe66", "="),
        **dict.fromkeys("\u3010\u3014\u27e6\u298b\ufe5d", "["),
        **dict.fromkeys("\u3011\u3015\u27e7\u298c\ufe5e", "]"),
        **dict.fromkeys("\u2039\u27e8\u3008\u276e\u02c2\u1438", "<"),
        **dict.fromkeys("\u203a\u27e9\u3009\u276f\u02c3\u1433", ">"),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u02bc", "'"),
        **dict.fromkeys("\u01c0\u2223\u2502\u23d0", "|"),
    }
)
"""Lookalikes of letters and signs. A capital has its own entry if it resembles another letter than its small form."""


def skeleton(text: str) -> str:
    """`text` as it looks, in lower case, with its line ends. Cheap for ASCII."""
    seen = _UNSEEN.sub("", text)
    if seen.isascii():
        return seen.lower()
    plain = unicodedata.normalize("NFKD", seen.translate(_DOUBLES)).lower()
    return _UNSEEN.sub("", plain).translate(_DOUBLES)


def line_skeleton(line: str, length: int = 160) -> str:
    """How the first `length` characters of a line look, without leading space: enough to recognize a marker."""
    return skeleton(_UNSEEN.sub("", line).lstrip()[:length])
