"""The cost of prompts of consecutive turns: the last turns of each chat, played through the services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.evidence.questions import Sample
from benchmarks.evidence.stored import fold, imported

if TYPE_CHECKING:
    from memory.lab.measures import TurnMeasure


@dataclass(frozen=True, slots=True)
class Sequel:
    """Totals and averages over the prompts of some turns of a set."""

    turns: int
    prompt_tokens: float
    memory_tokens: float
    cached: float
    """The share of all tokens that lie in a prefix shared with the chat's previous prompt."""
    folds: int
    unrepresented: int
    """The largest number of turns that one of the prompts did not represent at all."""


def played(sample: Sample, turns: int) -> Iterator[TurnMeasure]:
    """Yield the measures of the last `turns` turns of `sample`, after the rest is imported and folded.

    The rest is folded by the summarizer that keeps nothing, what comes due later by the built-in one. The chat is
    removed afterwards.
    """
    from conversations.chat_lifecycle import delete_chat
    from conversations.interchange.values import ImportedChat, ImportedMessage
    from memory.lab.conversation import talk_of
    from memory.lab.replay import Player

    start = max(0, len(sample.messages) - 2 * turns)
    start -= start > 0 and sample.messages[start].role != "user"
    said = tuple(ImportedMessage(one.role, one.text, number=at + 1) for at, one in enumerate(sample.messages[start:]))
    talk = talk_of(ImportedChat(messages=said), sample.name)
    head = replace(sample, messages=sample.messages[:start])
    chat = imported(head, f"{sample.key}/played")
    try:
        fold(chat)
        player = Player(talk, chat.policy, chat)
        for _ in talk.exchanges:
            player.turn()
        yield from player.run().turns
    finally:
        delete_chat(chat)


def summed(chats: Iterable[Sequence[TurnMeasure]]) -> Sequel:
    """Return the totals of all turns; a chat's first prompt is left out of `cached`, because no prompt precedes it."""
    some = [turns for turns in chats if turns]
    every = [turn for turns in some for turn in turns]
    later = [turn for turns in some for turn in turns[1:]]
    return Sequel(
        turns=len(every),
        prompt_tokens=fmean(turn.prompt for turn in every),
        memory_tokens=fmean(turn.memory for turn in every),
        cached=sum(turn.prefix for turn in later) / max(1, sum(turn.prompt for turn in later)),
        folds=sum(turn.folds for turn in every),
        unrepresented=max(turn.unrepresented for turn in every),
    )
