"""The memory card in a reply (seed 002): taken out of the reply's text, and searched for what nobody said.

`CardStream` is a push filter. It holds back only what may be the beginning of a block, and of a block at most as much
as one may have, so it needs little memory, and its output does not depend on where the stream is split into chunks.

`unsaid_in` finds what a card copied from material that nobody said: a turn's sources and instructions. Detected are
copies: a number, a name, an id, an address or a run of words that is in the material but in nothing that was said; and
any link or order that is in nothing that was said. Paraphrases are not detected.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import KnownLinks
from chatmemory.text.spans import CJK, SpanIndex, spans
from memory.policies.card import CARD_CLOSE, CARD_OPEN

BLOCK_CHARS: Final = 16_384
"""Characters of a block that are kept; a longer one is removed, too, up to its end."""

SPACE_CHARS: Final = 64
"""Maximum number of characters of the whitespace before a block that are removed with it."""

_OPEN = re.compile(re.escape(CARD_OPEN), re.IGNORECASE | re.ASCII)
_CLOSE = re.compile(re.escape(CARD_CLOSE), re.IGNORECASE | re.ASCII)


class CardStream:
    """A filter: show what `feed` returns for each chunk; `finish` returns the rest and the card."""

    def __init__(self) -> None:
        self._held = ""
        """Outside a block, what may be the beginning of one; inside, the block so far, or the end of a long one."""
        self._is_inside = False
        self._searched = 0
        """Characters held in which the tag that is searched cannot begin."""
        self._card: str | None = None

    def feed(self, text: str) -> str:
        """Take a chunk and return the text that can be shown now; may be empty."""
        if not (self._held or self._is_inside or "<" in text or text[-1:].isspace()):
            return text
        self._held += text
        shown: list[str] = []
        while found := (_CLOSE if self._is_inside else _OPEN).search(self._held, self._searched):
            if self._is_inside:
                self._card = self._held[: found.start()][-BLOCK_CHARS:] or CARD_OPEN
            else:
                shown.append(self._held[: _without_space(self._held, found.start())])
            self._held, self._searched = self._held[found.end() :], 0
            self._is_inside = not self._is_inside
        if self._is_inside:
            self._held = self._held[-BLOCK_CHARS - len(CARD_CLOSE) :]
            self._searched = max(0, len(self._held) - len(CARD_CLOSE) + 1)
        else:
            start, _ = _edge(self._held)
            shown.append(self._held[:start])
            self._held = self._held[start:]
        return "".join(shown)

    def finish(self, *, cut_off: bool) -> tuple[str, str | None]:
        """Return the rest of the text, and the card: what the last block holds, or the tag if that has no end.

        The card is None if there was no block. If the reply was `cut_off`, something that looks like the beginning of a
        block is treated as one.
        """
        if self._is_inside:
            return "", CARD_OPEN
        start, tag = _edge(self._held)
        is_begun = cut_off and len(self._held) - tag > 1
        return self._held[:start] if is_begun else self._held, self._card


def _edge(text: str) -> tuple[int, int]:
    """Start of the suffix of `text` that may belong to a block: with its whitespace, and of the tag by itself."""
    tag = len(text)
    for length in range(min(len(text), len(CARD_OPEN) - 1), 0, -1):
        if text[-length:].upper() == CARD_OPEN[:length]:
            tag = len(text) - length
            break
    return _without_space(text, tag), tag


def _without_space(text: str, end: int) -> int:
    """Start of the whitespace before `end`, but at most `SPACE_CHARS` back."""
    start = end
    while start > max(0, end - SPACE_CHARS) and text[start - 1].isspace():
        start -= 1
    return start


RUN_WORDS = 6
"""Words in a row that two texts do not share by chance."""
RUN_SIGNS = 12
"""The same for scripts without spaces, in characters."""

_WORD = re.compile(rf"{CJK.pattern}|\w+?(?={CJK.pattern}|\b)")


def unsaid_in(texts: Collection[str], material: Iterable[str], said: Sequence[str]) -> set[str]:
    """Return those of `texts` that contain something that is in `material` but in no text of `said`.

    Empty without any material.
    """
    material = [text for text in material if text.strip()]
    if not material or not texts:
        return set()
    links, orders = KnownLinks(said), KnownOrders(said)
    given_spans, said_spans = SpanIndex("\n".join(material)), SpanIndex("\n".join(said))
    given, known = _flat(material), _flat(said)
    return {
        text
        for text in texts
        if links.new_in(text)
        or orders.new_in(text)
        or any(span in given_spans and span not in said_spans for span in spans(text))
        or any(run in given and run not in known for run in _runs(text))
    }


def _runs(text: str) -> Iterable[str]:
    words = _words(text)
    size = RUN_SIGNS if CJK.search(text) else RUN_WORDS
    return (f" {' '.join(words[at : at + size])} " for at in range(len(words) - size + 1))


def _flat(texts: Iterable[str]) -> str:
    return f" {' | '.join(' '.join(_words(text)) for text in texts)} "


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
