"""Find what a model's answer copied from material that nobody said: a turn's sources and instructions.

Detected are copies: a number, a name, an id, an address or a run of words that is in the material but in nothing that
was said; and any link or order that is in nothing that was said. Paraphrases are not detected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import KnownLinks
from chatmemory.text.spans import CJK, SpanIndex, spans

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
    brought = {text for text in texts if links.new_in(text) or orders.new_in(text)}
    return brought | _with_spans(texts, material, said) | _with_runs(texts, material, said)


def _with_spans(texts: Collection[str], material: Iterable[str], said: Iterable[str]) -> set[str]:
    found = {text: spans(text) for text in texts}
    sought = {span for some in found.values() for span in some}
    given, told = SpanIndex("\n".join(material), sought), SpanIndex("\n".join(said), sought)
    return {text for text, some in found.items() if any(span in given and span not in told for span in some)}


def _with_runs(texts: Collection[str], material: Iterable[str], said: Iterable[str]) -> set[str]:
    given, told = _flat(material), _flat(said)
    return {text for text in texts if any(run in given and run not in told for run in _runs(text))}


def _runs(text: str) -> Iterable[str]:
    words = _words(text)
    size = RUN_SIGNS if CJK.search(text) else RUN_WORDS
    return (f" {' '.join(words[at : at + size])} " for at in range(len(words) - size + 1))


def _flat(texts: Iterable[str]) -> str:
    return f" {' | '.join(' '.join(_words(text)) for text in texts)} "


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
