"""Earlier turns as recall finds them, for pure tests: messages, and a chat as the index holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from hypothesis import strategies as st

from chatmemory.text.tokens import count_tokens
from memory.recall.excerpts import Excerpt, Quote, RecalledMessage, excerpt_of
from memory.recall.question import read_question
from memory.recall.ranking import (
    PRESELECT_FACTOR,
    Indexed,
    Lengths,
    Ranked,
    Size,
    closest,
    messages_to_read,
    promising_seqs,
    rank,
    weigh,
)
from memory.recall.terms import stored_terms
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


MOST = 120


class Told:
    """A chat as the index holds it, queried without a database."""

    def __init__(self, *texts: str, days: Mapping[int, str] = MappingProxyType({})) -> None:
        self.said: dict[int, RecalledMessage] = said_of(texts)
        self.messages = {
            seq: Indexed(
                seq,
                one.is_user,
                count_tokens(one.text),
                tuple(stored_terms(one.text, 1).split("\n")),
                days.get(seq, one.on),
            )
            for seq, one in self.said.items()
        }

    def ranked(self, question: str, shown: Sequence[int] = ()) -> list[Ranked]:
        asked = read_question(question, 1)
        seqs = [
            [seq for seq, one in self.messages.items() if any(word.token in p for p in one.passages)][-MOST:]
            for word in asked.words
        ]
        matches = weigh(asked, seqs, MOST, len(self.said))
        most = messages_to_read(1000)
        promising = [
            self.messages.get(seq)
            for seq in promising_seqs(matches, frozenset(shown), PRESELECT_FACTOR * most)
        ]
        sizes = {one.seq: Size(one.is_user, one.tokens) for one in promising if one}
        there = [self.messages[seq] for seq in sorted(closest(asked, matches, sizes, most))]
        return rank(asked, matches, there, Lengths.of(asked, sizes.values()))

    def best(self, question: str) -> list[int]:
        """The seqs of the messages, best passage first."""
        return list(dict.fromkeys(one.message.seq for one in self.ranked(question)))


def small_talk(turns: int) -> list[str]:
    return [
        f"{side} number {turn} of the quiet harbour" for turn in range(turns) for side in ("Walk", "Lamp")
    ]
