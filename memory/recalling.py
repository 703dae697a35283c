"""Ranked turns → excerpts: what of each is shown, and how many there are. Pure.

A short message is shown whole, a long one by the passages that speak to the question. Which turns are good is decided
in `memory.ranking`, how many of the excerpts a prompt has room for in `memory.plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memory.analysis import passages
from memory.excerpts import Excerpt, Said, excerpt_of
from memory.planned import Quote
from memory.ranking import Ranked, Side, is_same

WHOLE_TOKENS = 150
"""A message of up to so many tokens is shown whole."""
WORTH = 0.2
"""Turns that score less than this share of the best are not shown."""
LOOKED_AT = 48
"""Of how many tokens of room one message is looked at closely."""


def looked_at(room: int) -> int:
    """How many messages are looked at closely for so many tokens."""
    return max(12, min(72, room // LOOKED_AT))


def worth_showing(ranked: Sequence[Ranked], room: int) -> list[Ranked]:
    """Those of `ranked` (best first) that may be shown: good enough, and about as many as `room` tokens hold."""
    return as_many_as_fit([one for one in ranked if one.score >= WORTH * ranked[0].score], room)


def as_many_as_fit(ranked: Sequence[Ranked], room: int) -> list[Ranked]:
    """The first of `ranked`, about as many as `room` tokens hold, without what says the same as a better one."""
    shown: list[Ranked] = []
    for one in ranked:
        if room <= 0:
            break
        if any(is_same(one, other) for other in shown):
            continue
        shown.append(one)
        room -= sum(min(side.message.tokens, WHOLE_TOKENS) for side in one.sides)
    return shown


def excerpts(ranked: Iterable[Ranked], said: Mapping[int, Said]) -> list[Excerpt]:
    """What would be shown of each turn, in the same order; turns of which nothing is there are left out."""
    made = (excerpt_of([q for side in one.sides for q in _quotes(side, said)], said) for one in ranked)
    return [excerpt for excerpt in made if excerpt.tokens]


def _quotes(side: Side, said: Mapping[int, Said]) -> list[Quote]:
    message = side.message
    if message.seq not in said:
        return []
    if message.tokens <= WHOLE_TOKENS:
        return [Quote(message.seq)]
    spans = passages(said[message.seq].text)
    chosen = [spans[number] for number in sorted(side.best) if number < len(spans)]
    return _joined(message.seq, chosen)


def _joined(seq: int, spans: Iterable[tuple[int, int]]) -> list[Quote]:
    """A quote for each of `spans`; one where they touch."""
    quotes: list[Quote] = []
    for start, end in spans:
        if quotes and quotes[-1].end == start:
            quotes[-1] = quotes[-1]._replace(end=end)
        else:
            quotes.append(Quote(seq, start, end))
    return quotes
