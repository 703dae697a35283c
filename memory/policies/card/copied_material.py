"""What of a model's answer it copied from material that nobody said: a turn's sources and instructions.

Found is what is copied: a number, a name, an id or an address, or a run of words, that the material has and nothing
that was said; and any link or order that nothing that was said has. What is told in other words is not found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from chatmemory.text.entities import CJK
from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import KnownLinks
from chatmemory.text.salience import Holding, spans

RUN_WORDS = 6
"""In a row, which two texts do not share by chance."""
RUN_SIGNS = 12
"""The same in a script without spaces."""

_WORD = re.compile(rf"{CJK.pattern}|\w+?(?={CJK.pattern}|\b)")


def unsaid_in(texts: Collection[str], material: Iterable[str], said: Sequence[str]) -> set[str]:
    """Those of `texts` that have something of `material` that no text of `said` has. Nothing without any material."""
    material = [text for text in material if text.strip()]
    if not material or not texts:
        return set()
    links, orders = KnownLinks(said), KnownOrders(said)
    brought = {text for text in texts if links.new_in(text) or orders.new_in(text)}
    return brought | _with_spans(texts, material, said) | _with_runs(texts, material, said)


def _with_spans(texts: Collection[str], material: Iterable[str], said: Iterable[str]) -> set[str]:
    found = {text: spans(text) for text in texts}
    sought = {span for some in found.values() for span in some}
    given, told = Holding("\n".join(material), sought), Holding("\n".join(said), sought)
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
