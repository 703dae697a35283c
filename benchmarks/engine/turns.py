"""The turn's own work: begin, context and finish as services, in one thread, with no model to wait for.

Timed in turn with the sketch of `benchmarks.engine.sketch`, so that ratios hold when the machine's speed drifts.
Between two turns the chat is reset, untimed, so every turn is the same turn.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.chats import make_chat
from benchmarks.engine.budgets import Prompts
from benchmarks.engine.sketch import Given, sketch_turn
from benchmarks.figures import Figure, Group, ratio
from benchmarks.speech import exchanges
from chatmemory.llm.protocol import Reply, Usage
from conversations.models import ActiveReply, Chat, Message
from conversations.replies import begin, finish
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.models import ContextRecord, ConversationBrief

LENGTHS = (10, 1_000, 50_000)
ROUNDS = 60
WARM_UP = 10
ORM_BAR = 1.1
FLAT_BAR = 1.1


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of a chat's turns and of their sketch, in milliseconds, and the number of queries of one turn."""

    name: str
    turns: list[float]
    sketches: list[float]
    queries: int


class Bench:
    """One chat, reset after every turn."""

    def __init__(self, name: str, owner: User, chat: Chat, prompts: Prompts) -> None:
        self.owner = owner
        self.chat = chat
        self._name = name
        self._prompts = prompts
        self._turns: list[float] = []
        self._sketches: list[float] = []
        self._brief = ConversationBrief.objects.get(pk=chat.pk)
        self._turn()
        self._brief.anchor_seq = ConversationBrief.objects.values_list("anchor_seq", flat=True).get(pk=chat.pk)
        self.reset()

    def prepare(self) -> None:
        """Record one turn for the sketch, before the rounds."""
        self._given, self._queries = self._take_apart()
        self.reset()

    def round(self) -> None:
        """Time one turn and one run of its sketch."""
        self._turns.append(self._timed(self._turn))
        self._prompts.add(self._begun.prompt)
        self._sketches.append(self._timed(lambda: sketch_turn(self.owner, self.chat, self._given)))

    def measured(self) -> Measured:
        """Return the times of the rounds without the warm-up."""
        return Measured(self._name, self._turns[WARM_UP:], self._sketches[WARM_UP:], self._queries)

    def reset(self) -> None:
        """Remove the newest turn."""
        later = Message.objects.filter(chat_id=self.chat.pk, seq__gt=self.chat.last_seq)
        ContextRecord.objects.filter(reply__in=list(later)).delete()
        later.delete()
        Chat.objects.filter(pk=self.chat.pk).update(last_seq=self.chat.last_seq)
        self._brief.save()

    def _timed(self, act: Callable[[], object]) -> float:
        started = time.perf_counter()
        act()
        spent = (time.perf_counter() - started) * 1000
        self.reset()
        return spent

    def _turn(self) -> None:
        self._finish(self._begin())

    def _begin(self) -> BegunTurn:
        request = TurnRequest(message=exchanges()[0].user, variant=begin.default_variant())
        begun = begin.begin_turn(self.owner, request, chat_id=self.chat.pk)
        assert isinstance(begun, BegunTurn)
        self._begun = begun
        return begun

    def _finish(self, begun: BegunTurn) -> Message:
        reply = Reply("complete", usage=Usage(1500, 0, 180), model="gpt-5-mini", response_id="resp_benchmark")
        said = exchanges()[0].assistant
        message = finish.finish(begun.pending, said, Ending.of(reply))
        assert message is not None
        return message

    def _take_apart(self) -> tuple[Given, int]:
        """Run one turn; return what the sketch needs of it, and its number of queries."""
        with CaptureQueriesContext(connection) as captured:
            begun = self._begin()
            stored = ActiveReply.objects.get(pk=self.chat.pk)
            reply = self._finish(begun)
        names = (
            "message_id",
            "supersedes",
            "model_variant",
            "model",
            "metadata",
            "context",
            "lease_owner",
            "started_at",
        )
        plan = begun.pending.snapshot.plan
        given = Given(
            question=begun.pending.user_message,
            reply=reply,
            active={name: getattr(stored, name) for name in names},
            record=ContextRecord.objects.get(pk=reply.pk),
            read_seqs=tuple(seq for first, last, *_ in plan.verbatim for seq in range(first, last + 1)),
        )
        self.reset()
        return given, len(captured.captured_queries) - 1


def run(owner: User, *, rounds: int = ROUNDS, lengths: tuple[int, ...] = LENGTHS) -> Group:
    """Time chats of each length, and one with a long unfolded span, in rounds of one turn each, so all drift alike.

    Recall is off: short chats do not need it, and it has a benchmark of its own.
    """
    settings.MEMORY_RECALL_SHARE = 0.0
    prompts = Prompts()
    waiting = make_chat(owner, 10_000, unfolded=5_000)
    _let_wait(waiting)
    benches = [
        *(Bench(f"chat of {length:,} turns", owner, make_chat(owner, length), prompts) for length in lengths),
        Bench("10,000 turns, 5,000 of them not folded", owner, waiting, prompts),
    ]
    for bench in benches:
        bench.prepare()
    with _quiet():
        for _ in range(WARM_UP + rounds):
            for bench in benches:
                bench.round()
    *measured, long = [bench.measured() for bench in benches]
    return Group("The turn's own work", (*_figures(measured, long), prompts.figure()))


def _figures(measured: list[Measured], long: Measured) -> Iterator[Figure]:
    for one in (*measured, long):
        sketch = f"sketch {median(one.sketches):.2f} ms"
        note = f"{sketch}; {one.queries} queries; medians of {len(one.turns)}"
        yield Figure(one.name, median(one.turns), "ms", note=note)
        yield Figure(f"{one.name}, over the sketch", ratio(one.turns, one.sketches), "×", bar=ORM_BAR, portable=True)
    shortest, longest = measured[0], measured[-1]
    yield Figure("longest over shortest", ratio(longest.turns, shortest.turns), "×", bar=FLAT_BAR, portable=True)
    different = len({one.queries for one in measured})
    yield Figure("different numbers of queries a turn", different, "", bar=1, portable=True)


def _let_wait(chat: Chat) -> None:
    """Mark the chat as one whose summarizer failed and whose next attempt is later: this is how a span gets long."""
    later = timezone.now() + timedelta(hours=1)
    ConversationBrief.objects.filter(pk=chat.pk).update(due=True, attempts=3, next_attempt_at=later)


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off garbage collection, which would otherwise hit one side or the other by chance."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
