"""Keeps text from users from imitating the structure of a prompt: its markers and headings are quoted.

A line that looks like one of our markers is prefixed with `> `, so that it can neither close a section nor open one.
All other text is unchanged. A marker that is written with invisible characters, letters of another alphabet, or a
lookalike of a colon reads to people and models like the plain one. So what is compared is the `skeleton` of a text,
which is never shown or stored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

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
"""Matches the beginning of lines to quote, as they look (`skeleton`): our markers and headings, a
role, also emphasized or as a heading, a model's own token for a role. A list item may begin with users and
assistants, as our own lines do. A letter o may be a digit of another script.
"""

INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that are invisible, or shown as empty space."""

_UNSEEN = re.compile(
    f"{INVISIBLE.pattern[:-1]}\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
"""The same, plus combining marks."""

CONFUSABLES: Final = {
    "a": "\u13aa\u15c5\u237a\ua4ee\U000102a0\U00016f40",
    "b": "\u0184\u13cf\u13f4\u1472\u15af\u15f7\ua4d0\ua7b4\U00010282\U000102a1\U00010301",
    "c": (
        "\u03f2\u03f9\u13df\u2ca4\u2ca5\ua4da\uabaf\U000102a2\U00010302\U00010415\U0001043d\U0001051c"
        "\U000118e9\U000118f2\U0001f74c"
    ),
    "d": "\u13a0\u13e7\u146f\u15de\u15ea\ua4d2\ua4d3",
    "e": "\u04bd\u13ac\u212e\u22ff\u2d39\ua4f0\uab32\U00010286\U000118a6\U000118ae",
    "f": (
        "\u03dc\u15b4\ua4dd\ua798\ua799\uab35\U00010287\U000102a5\U00010525\U000118a2\U000118c2"
        "\U0001d213\U0001d7ca"
    ),
    "g": "\u018d\u13c0\u13f3\u1d83\ua4d6",
    "h": "\u13bb\u13c2\u157c\u2c8e\ua4e7\U000102cf\U0001d6ae\U0001d6e8\U0001d722\U0001d75c\U0001d796",
    "i": "\u0269\u02db\u037a\u13a5\u2373\ua647\uab75\U000118c3",
    "j": "\u037f\u03f3\u13ab\u148d\ua4d9\ua7b2",
    "k": "\u13e6\u16d5\u2c94\ua4d7\U00010518",
    "l": (
        "\u0196\u13de\u14aa\u16c1\u23fd\u2c92\u2cd0\u2d4f\ua4e1\ua4f2\U0001028a\U00010309\U00010320"
        "\U0001041b\U00010526\U000118a3\U000118b2\U00016f16\U00016f28\U0001d22a"
    ),
    "m": (
        "\u03fa\u13b7\u15f0\u16d6\u2c98\ua4df\U000102b0\U00010311\U0001d6b3\U0001d6ed\U0001d727"
        "\U0001d761\U0001d79b"
    ),
    "n": "\u057c\u2c9a\ua4e0\U00010513\U0001d6b4\U0001d6ee\U0001d728\U0001d762\U0001d79c",
    "o": (
        "\u03c3\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c02\u0c66\u0c82\u0ce6\u0d02\u0d20"
        "\u0d66\u0d82\u0e50\u0ed0\u101d\u1040\u10ff\u12d0\u1d11\u2c9e\u2c9f\u2d54\u3007\ua4f3\uab3d"
        "\U00010292\U000102ab\U00010404\U0001042c\U000104c2\U000104ea\U00010516\U000114d0\U000118b5"
        "\U000118c8\U000118d7\U000118e0\U0001d6d4\U0001d70e\U0001d748\U0001d782\U0001d7bc"
    ),
    "p": "\u13e2\u146d\u2374\u2ca2\u2ca3\ua4d1\U00010295",
    "q": "\u0563\u0566\u2d55",
    "r": "\u13a1\u13d2\u1587\u1d26\u2c85\ua4e3\uab47\uab48\uab81\U000104b4\U00016f35\U0001d216",
    "s": "\u01bd\u13d5\u13da\ua4e2\uabaa\U00010296\U00010420\U00010448\U000118c1\U00016f3a",
    "t": "\u13a2\u22a4\u27d9\u2ca6\ua4d4\U00010297\U000102b1\U00010315\U000118bc\U00016f0a\U0001f768",
    "u": (
        "\u028b\u1200\u144c\u222a\u22c3\ua4f4\ua79f\uab4e\uab52\U000104ce\U000104f6\U000118b8"
        "\U000118d8\U00016f42"
    ),
    "v": (
        "\u0474\u0475\u06f7\u13d9\u142f\u2228\u22c1\u2d38\ua4e6\ua6df\uaba9\U0001051d\U00011706"
        "\U000118a0\U000118c0\U00016f08\U0001d20d"
    ),
    "w": "\u026f\u0461\u0561\u13b3\u13d4\ua4ea\uab83\U0001170a\U0001170e\U0001170f\U000118e6\U000118ef",
    "x": (
        "\u00d7\u1541\u157d\u166d\u166e\u16b7\u2573\u292b\u292c\u2a2f\u2cac\u2d5d\ua4eb\ua7b3"
        "\U00010290\U000102b4\U00010317\U00010322\U00010527\U000118ec"
    ),
    "y": (
        "\u0263\u03b3\u03d2\u04af\u10e7\u13a9\u13bd\u1d8c\u1eff\u213d\u2ca8\ua4ec\uab5a\U000102b2"
        "\U000118a4\U000118dc\U00016f43\U0001d6bc\U0001d6c4\U0001d6f6\U0001d6fe\U0001d730\U0001d738"
        "\U0001d76a\U0001d772\U0001d7a4\U0001d7ac"
    ),
    "z": "\u13c3\ua4dc\uab93\U000102f5\U000118a9\U000118c4\U000118e5",
    "(": "\u2768\u2772\ufd3e",
    ")": "\u2769\u2773\ufd3f",
    "*": "\u204e\u2217\U0001031f",
    "-": "\u02d7\u2043\u2796\u2cba",
    "/": "\u1735\u2041\u2044\u2215\u2571\u27cb\u29f8\u2cc6\U0001d23a",
    ":": "\u0903\u0a83\ufe30",
    "<": "\u16b2\U0001d236",
    "=": "\ua4ff",
    ">": "\U00016f3f\U0001d237",
}
"""By the lower-case letter, or the sign, that they resemble."""
"""Characters that look like an ASCII letter or sign, but are not normalized to it.

From the confusables of Unicode Technical Standard #39 (as of 2024-01, Unicode License v3): those of the letters and
signs in our markers, without those that `_DOUBLES` lists by hand and those that NFKD folds anyway. Strokes used in
Chinese and Japanese, and digits that mean themselves, are left out.
"""

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
