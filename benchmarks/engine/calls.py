"""The policy `progressive` with one summarizer call per fold or two: annotated facts kept per token shown to it.

Recorded chats go through the policy only, with the built-in summarizer and without a database. A fact is looked for
after each fold of turns in which it was said, and once more at the end. Without a folder of chats in `SAMPLES` there
are no figures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from django.contrib.auth.models import User

from benchmarks.engine.talks import SAMPLES
from benchmarks.figures import Figure, Group
from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, Variant
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from chatmemory.text.turn_line import make_line
from conversations.interchange.read import read_chats
from memory.history.turns import Turn, take_bite
from memory.lab.conversation import Conversation, talk_of
from memory.lab.retention import Haystack
from memory.limits import MemoryLimits
from memory.policies import State, counts_of, get_policy, is_due, turns_due
from memory.policies.progressive.policy import ProgressiveNumbers

CALLS = (1, 2)


@dataclass(slots=True)
class Tally:
    """The totals for one number of calls."""

    folds: int = 0
    shown: int = 0
    """Tokens shown to the summarizer, instructions included."""
    said: int = 0
    """Tokens of the summarizer's answers."""
    facts: int = 0
    kept: int = 0
    facts_at_end: int = 0
    kept_at_end: int = 0


def run(owner: User) -> Group:
    """Measure the facts kept, with one call and with two."""
    del owner  # Nothing is stored.
    folder = os.environ.get("SAMPLES", "")
    talks = [talk for name in SAMPLES for talk in _talks(Path(folder) / name)] if folder else []
    figures = (figure for calls in CALLS for figure in _figures(calls, talks)) if talks else ()
    return Group("Data and summary in one call or two", tuple(figures))


def tally(talks: Sequence[Conversation], calls: int) -> Tally:
    """Fold all of `talks`, turn by turn, with `calls` summarizer calls per fold, and return the totals."""
    found = Tally()
    for talk in talks:
        _play(talk, replace(MemoryLimits(), numbers={"progressive": ProgressiveNumbers(calls=calls)}), found)
    return found


def _figures(calls: int, talks: Sequence[Conversation]) -> Iterator[Figure]:
    found = tally(talks, calls)
    name = f"facts kept, {calls} call{'s' * (calls > 1)}"
    note = f"{found.folds} folds of {len(talks)} chats; answers of {found.said:,} tokens"
    yield Figure(f"{name}: share after a fold", 100 * found.kept / max(1, found.facts), "%", note=note)
    yield Figure(f"{name}: share at the end", 100 * found.kept_at_end / max(1, found.facts_at_end), "%")
    yield Figure(f"{name}: after a fold, per 1,000 tokens shown", 1000 * found.kept / max(1, found.shown), "")


def _play(talk: Conversation, limits: MemoryLimits, found: Tally) -> None:
    policy, state, folded = get_policy("progressive"), State(), 0
    turns = [_turn(at, one.question, one.reply) for at, one in enumerate(talk.exchanges)]
    for end in range(1, len(turns) + 1):
        loose = turns[folded:end]
        while is_due(policy, state, counts_of(policy, state, loose, limits), limits):
            bite = take_bite(loose[: turns_due(policy, state, loose, limits)], limits.bite_tokens)
            state = _fold(state, bite, limits, found)
            folded += len(bite)
            loose = turns[folded:end]
            facts, kept = _looked(talk, state, range(folded - len(bite), folded))
            found.facts, found.kept = found.facts + facts, found.kept + kept
    facts, kept = _looked(talk, state, range(folded))
    found.facts_at_end, found.kept_at_end = found.facts_at_end + facts, found.kept_at_end + kept


def _fold(state: State, bite: Sequence[Turn], limits: MemoryLimits, found: Tally) -> State:
    policy = get_policy("progressive")
    answers: list[Completion] = []
    while (ask := policy.ask(state, bite, limits, answers)) is not None:
        message = PromptMessage("user", ask.input)
        prompt = Prompt((message,), ask.instructions, schema=ask.schema, answer_tokens=ask.answer_tokens)
        answers.append(OfflineModel().complete(prompt, Variant("built-in", "built-in"), timeout=60))
        found.shown += count_tokens(ask.instructions) + count_tokens(ask.input) + 2 * MESSAGE_OVERHEAD
        found.said += count_tokens(answers[-1].text)
    found.folds += 1
    return policy.absorb(state, bite, answers, limits)


def _looked(talk: Conversation, state: State, folded: range) -> tuple[int, int]:
    """Return how many facts were said in the turns `folded`, and how many of those the state contains."""
    memory = Haystack("\n".join(section.text for section in get_policy("progressive").render(state)))
    said = [fact for fact in talk.facts if any(at in folded for at in fact.exchanges)]
    return len(said), sum(memory.has((fact.canonical, *fact.surface)) for fact in said)


def _talks(path: Path) -> Iterator[Conversation]:
    for number, chat in enumerate(read_chats(path.read_text(encoding="utf-8")), start=1):
        yield talk_of(chat, f"{path.stem} {number}")


def _turn(at: int, question: str, reply: str) -> Turn:
    return Turn(
        from_seq=2 * at + 1,
        through_seq=2 * at + 2,
        user=question,
        assistant=reply,
        cut_off=False,
        user_tokens=count_tokens(question),
        assistant_tokens=count_tokens(reply),
        message_ids=(),
        last_assistant_id=None,
        line=make_line(question, reply),
    )
