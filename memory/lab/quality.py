"""The quality of the built-in summarizer: annotated facts kept in one summary of a talk, compared with two baselines.

*lead* takes the first sentences, *random* random ones, until the summary is full; random is the mean of several
seeds. All three see only the talk, without tool messages. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chatmemory.llm.offline.extract import sentences
from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.protocol import Prompt, PromptMessage, Variant
from chatmemory.text.tokens import count_tokens
from memory.history.turns import Turn
from memory.lab.conversation import Conversation, KnownFact
from memory.lab.retention import Haystack
from memory.policies.summarizer_input import summarizer_input

SUMMARY_TOKENS = 500
SEEDS = 20


@dataclass(frozen=True, slots=True)
class Quality:
    """The shares (0 to 1) of one talk's annotated facts that summaries of `SUMMARY_TOKENS` contain, in any form.

    Facts that only tools said cannot be in a summary, and count nevertheless: `said` is the number of those that can.
    """

    talk: str
    tokens: int
    """Tokens of what was said."""
    facts: int
    said: int
    summarizer: float
    random: float
    lead: float
    summarizer_of_said: float


def quality_of(talk: Conversation) -> Quality:
    """Measure one talk, which must have at least one fact."""
    said = [text for one in talk.exchanges for text in (one.question, one.reply)]
    told = [fact for fact in talk.facts if fact.exchanges]
    summary = built_in(talk)
    draws = [_filled(_shuffled(said, seed)) for seed in range(SEEDS)]
    return Quality(
        talk=talk.name,
        tokens=sum(map(count_tokens, said)),
        facts=len(talk.facts),
        said=len(told),
        summarizer=kept_share(talk.facts, summary),
        random=_mean(kept_share(talk.facts, draw) for draw in draws),
        lead=kept_share(talk.facts, _filled(_sentences(said))),
        summarizer_of_said=kept_share(told, summary),
    )


def kept_share(facts: Sequence[KnownFact], summary: str) -> float:
    """The share of `facts` that are in `summary`, in any form."""
    found = Haystack(summary)
    return _mean(found.has((fact.canonical, *fact.surface)) for fact in facts)


def built_in(talk: Conversation) -> str:
    """The built-in summarizer's summary of the talk."""
    turns = [_turn(one.question, one.reply) for one in talk.exchanges]
    asked = Prompt((PromptMessage("user", summarizer_input("", turns)),), answer_tokens=SUMMARY_TOKENS)
    model = OfflineModel(summary_tokens=SUMMARY_TOKENS)
    return model.complete(asked, Variant("lab", "built-in"), timeout=60).text


def mean_of(rows: Sequence[Quality], of: Callable[[Quality], float]) -> float:
    """The mean over talks, unweighted."""
    return _mean(map(of, rows))


def _turn(question: str, reply: str) -> Turn:
    """An exchange as a turn with what the summarizer reads: its texts; its position in a chat makes no difference."""
    return Turn(0, 0, question, reply, False, count_tokens(question), count_tokens(reply), (), None)


def _sentences(said: Iterable[str]) -> list[str]:
    return [sentence for text in said for sentence in sentences(text)]


def _shuffled(said: Iterable[str], seed: int) -> list[str]:
    found = _sentences(said)
    random.Random(seed).shuffle(found)  # noqa: S311  # a fair draw, no secret
    return found


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


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
