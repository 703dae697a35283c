"""Earlier turns as recall finds them, for pure tests: messages that were said before the turns of a context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from hypothesis import strategies as st

from memory.excerpts import Excerpt, Said, excerpt_of
from memory.planned import Quote
from memory.tokens import count_tokens
from tests.pure.memory_makers import long_texts

BEFORE = 1000
"""Seqs of what is recalled lie below, those of a context's turns are moved above."""


def said_of(texts: Sequence[str], first: int = 1) -> dict[int, Said]:
    """Messages in turn of the user and the assistant."""
    return {
        seq: Said(UUID(int=seq), seq, (seq - first) % 2 == 0, "2026-05-03", text, count_tokens(text))
        for seq, text in enumerate(texts, start=first)
    }


@st.composite
def quotes(draw: st.DrawFn, said: Mapping[int, Said], first: int) -> tuple[Quote, ...]:
    """What is quoted of the turn that begins with message `first`: whole messages, or pieces of them."""
    found: list[Quote] = []
    for seq in (first, first + 1):
        if seq in said and draw(st.booleans()):
            cuts = sorted(draw(st.lists(st.integers(0, len(said[seq].text)), max_size=4)))
            pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
            found += [Quote(seq, start, end) for start, end in pairs] or [Quote(seq)]
    return tuple(found) or (Quote(first),)


@st.composite
def recalled(draw: st.DrawFn) -> tuple[list[Excerpt], dict[int, Said]]:
    """Some excerpts, best first, and what they quote."""
    said = said_of(draw(st.lists(long_texts, max_size=10)))
    firsts = draw(st.permutations([seq for seq in said if seq % 2]))
    made = [excerpt_of(draw(quotes(said, first)), said) for first in firsts]
    return [excerpt for excerpt in made if excerpt.tokens], said
