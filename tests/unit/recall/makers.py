"""Earlier turns as recall finds them, for pure tests: messages from before the turns of a context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from hypothesis import strategies as st

from chatmemory.text.tokens import count_tokens
from memory.recall.excerpts import Excerpt, Quote, RecalledMessage, excerpt_of
from tests.unit.context.makers import long_texts

BEFORE = 1000
"""Recalled messages have smaller seqs; the turns of a context are moved to greater ones."""


def said_of(texts: Sequence[str], first: int = 1) -> dict[int, RecalledMessage]:
    """Messages, alternately of the user and the assistant."""
    return {
        seq: RecalledMessage(
            UUID(int=seq), seq, (seq - first) % 2 == 0, "2026-05-03", text, count_tokens(text)
        )
        for seq, text in enumerate(texts, start=first)
    }


@st.composite
def quotes(draw: st.DrawFn, said: RecalledMessage) -> tuple[Quote, ...]:
    """The quotes of a message: all of it, or pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(said.text)), max_size=4)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return tuple(Quote(said.seq, start, end) for start, end in pairs) or (Quote(said.seq),)


@st.composite
def recalled(draw: st.DrawFn) -> tuple[list[Excerpt], dict[int, RecalledMessage]]:
    """Some excerpts, best first, and the messages they quote."""
    texts = draw(st.lists(long_texts, max_size=10))
    days = st.sampled_from(["2026-05-03", "2026-05-04"])
    said = {seq: replace(one, on=draw(days)) for seq, one in said_of(texts).items()}
    wanted = draw(st.permutations(list(said)))
    made = [excerpt_of(draw(quotes(said[seq])), said) for seq in wanted[: draw(st.integers(0, len(wanted)))]]
    return [excerpt for excerpt in made if excerpt.tokens], said
