"""Ranked passages → excerpts: what of each is shown, and how many there are. Pure.

Which passages are good is decided in `memory.ranking`, which of the excerpts a prompt has room for in `memory.picking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memory.analysis import passages
from memory.excerpts import AROUND, Excerpt, Said, excerpt_of
from memory.planned import Quote
from memory.ranking import Ranked

WORTH = 0.05
"""Passages that score less than this share of the best are not shown."""
LOOKED_AT = 20
"""Of how many tokens of room one message is looked at closely."""


WIDER = 4
"""How many times as many are held against each other by who said them and how long they are."""
SPARE = 2
"""How many times its tokens are found for a room, because some of it is there anyhow."""


def looked_at(room: int) -> int:
    """How many messages are looked at closely for so many tokens."""
    return max(12, min(200, room // LOOKED_AT))


def worth_showing(ranked: Sequence[Ranked], room: int) -> list[Ranked]:
    """Those of `ranked` (best first) that may be shown: good enough, and about as many as `room` tokens hold.

    What says the same to the question as a better one is left out.
    """
    shown: dict[object, Ranked] = {}
    for one in ranked:
        if room <= 0 or one.score < WORTH * ranked[0].score:
            break
        if shown.setdefault(one.says, one) is one:
            room -= one.tokens + AROUND // 2
    return list(shown.values())


def excerpts(ranked: Iterable[Ranked], said: Mapping[int, Said]) -> list[Excerpt]:
    """What would be shown of each passage, in the same order; those of which nothing is there are left out."""
    spans: dict[int, list[tuple[int, int]]] = {}
    made: list[Excerpt] = []
    for one in ranked:
        seq = one.message.seq
        if seq not in said:
            continue
        if one.passage is None:
            made.append(excerpt_of((Quote(seq),), said))
            continue
        if seq not in spans:
            spans[seq] = passages(said[seq].text)
        if one.passage < len(spans[seq]):
            made.append(excerpt_of((Quote(seq, *spans[seq][one.passage]),), said))
    return [excerpt for excerpt in made if excerpt.tokens]
