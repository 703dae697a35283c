"""Earlier turns as recall finds them, for pure tests: messages, and a chat as the index holds it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from hypothesis import strategies as st

from chatmemory.text.tokens import count_tokens
from memory.recall.question import read_question
from memory.recall.ranking import (
    PRESELECT_FACTOR,
    Excerpt,
    Indexed,
    Lengths,
    Quote,
    Ranked,
    RecalledMessage,
    closest,
    excerpt_of,
    messages_to_read,
    promising,
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
            UUID(int=seq),
            seq,
            ("user", "assistant")[(seq - first) % 2],
            "2026-05-03",
            text,
            count_tokens(text),
        )
        for seq, text in enumerate(texts, start=first)
    }


@st.composite
def recalled(draw: st.DrawFn) -> tuple[list[Excerpt], dict[int, RecalledMessage]]:
    """Some excerpts, best first, and the messages they quote, as a whole or in pieces."""
    texts = draw(st.lists(long_texts, max_size=10))
    days = st.sampled_from(["2026-05-03", "2026-05-04"])
    said = {seq: replace(one, on=draw(days)) for seq, one in said_of(texts).items()}
    made: list[Excerpt] = []
    for seq in draw(st.permutations(list(said)))[: draw(st.integers(0, len(said)))]:
        cuts = sorted(draw(st.lists(st.integers(0, len(said[seq].text)), max_size=4)))
        pieces = [Quote(seq, *pair) for pair in zip(cuts[::2], cuts[1::2], strict=False)] or [Quote(seq)]
        made += [excerpt_of(quote, said[seq]) for quote in pieces]
    return [excerpt for excerpt in made if excerpt.tokens], said


MOST = 120


class Told:
    """A chat as the index holds it, queried without a database."""

    def __init__(self, *texts: str, days: Mapping[int, str] = MappingProxyType({})) -> None:
        self.said: dict[int, RecalledMessage] = said_of(texts)
        self.messages = {
            seq: Indexed(
                seq,
                one.role == "user",
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
        scores = promising(matches, frozenset(shown), PRESELECT_FACTOR * most)
        sizes = {seq: (self.messages[seq].is_user, self.messages[seq].tokens) for seq in scores if seq in self.messages}
        lengths = Lengths.of(asked, sizes.values())
        there = [self.messages[seq] for seq in sorted(closest(scores, sizes, lengths, most))]
        return rank(asked, matches, there, lengths)

    def best(self, question: str) -> list[int]:
        """The seqs of the messages, best passage first."""
        return list(dict.fromkeys(one.message.seq for one in self.ranked(question)))


def small_talk(turns: int) -> list[str]:
    return [f"{side} number {turn} of the quiet harbour" for turn in range(turns) for side in ("Walk", "Lamp")]
