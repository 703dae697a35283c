"""The quality of the built-in summarizer: annotated facts kept in one summary of a talk, compared with two baselines.

*lead* takes the first sentences, *random* random ones, until the summary is full; random is the mean of several
seeds. All three see only the talk, without tool messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chatmemory.llm.offline import OfflineModel, sentences
from chatmemory.llm.protocol import Prompt, PromptMessage, Variant
from chatmemory.text.spans import SpanIndex
from chatmemory.text.tokens import count_tokens
from memory.history.turns import Turn
from memory.lab.conversation import Conversation, KnownFact
from memory.lab.measures import has
from memory.policies.answers import summarizer_input

SUMMARY_TOKENS = 500
SEEDS = 20


@dataclass(frozen=True, slots=True)
class Quality:
    """The shares (0 to 1) of one talk's annotated facts that summaries of `SUMMARY_TOKENS` contain, in any form.

    Facts that only tools said cannot be in a summary, and count nevertheless.
    """

    summarizer: float
    random: float
    lead: float


def quality_of(talk: Conversation) -> Quality:
    """Measure one talk, which must have at least one fact."""
    said = [text for one in talk.exchanges for text in (one.question, one.reply)]
    listed = [sentence for text in said for sentence in sentences(text)]
    draws = [_filled(random.Random(seed).sample(listed, len(listed))) for seed in range(SEEDS)]
    return Quality(
        summarizer=kept_share(talk.facts, built_in(talk)),
        random=sum(kept_share(talk.facts, draw) for draw in draws) / SEEDS,
        lead=kept_share(talk.facts, _filled(listed)),
    )


def kept_share(facts: Sequence[KnownFact], summary: str) -> float:
    """The share of `facts` that are in `summary`, in any form."""
    found = SpanIndex(summary)
    return sum(has(found, fact) for fact in facts) / len(facts)


def built_in(talk: Conversation) -> str:
    """The built-in summarizer's summary of the talk."""
    turns = [_turn(one.question, one.reply) for one in talk.exchanges]
    asked = Prompt((PromptMessage("user", summarizer_input("", turns)),), answer_tokens=SUMMARY_TOKENS)
    return OfflineModel().complete(asked, Variant("lab", "built-in"), timeout=60).text


def _turn(question: str, reply: str) -> Turn:
    """An exchange as a turn with what the summarizer reads: its texts; its position in a chat makes no difference."""
    return Turn(0, 0, question, reply, False, count_tokens(question), count_tokens(reply), (), None)


def _filled(ordered: Iterable[str]) -> str:
    """Join the sentences in order, as long as the summary has room for the next."""
    chosen: list[str] = []
    room = SUMMARY_TOKENS
    for sentence in ordered:
        room -= count_tokens(f"- {sentence}\n")
        if room < 0:
            break
        chosen.append(sentence)
    return "\n".join(f"- {sentence}" for sentence in chosen)
