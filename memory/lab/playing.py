"""Playing a talk: its questions and replies go through the services, as they would come from a client and a model.

The context of each turn is assembled, the recorded reply is finished, and a chat that is due is folded before its next
turn, in process, as by a worker that keeps up. Runs on a database of its own (`memory.lab.runner` sees to that).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from chatmemory import process
from chatmemory.llm import registry
from chatmemory.llm.protocol import Prompt, Reply, Variant
from conversations import finishing, services
from conversations.finishing import Ending
from conversations.models import Chat, Message, Status
from conversations.services import Begun, TurnRequest
from memory import folding
from memory.lab.finding import Haystack
from memory.lab.keeping import Keeping, Thing, spans_of
from memory.lab.measures import Call, Run, TurnMeasure
from memory.lab.prompts import memory_text, prompt_tokens, shared_prefix
from memory.lab.talks import Exchange, Talk
from memory.lab.watching import Calls
from memory.models import ConversationBrief

OWNER = "lab"


@dataclass(slots=True)
class _Stage:
    """A chat that is being played, and what was measured so far."""

    talk: Talk
    chat: Chat
    owner: User
    variant: Variant
    calls: Calls
    turns: list[TurnMeasure] = field(default_factory=list)
    called: list[Call] = field(default_factory=list)
    spans: Keeping = field(default_factory=Keeping)
    facts: Keeping = field(default_factory=Keeping)
    prompt: Prompt | None = None
    """The one before."""


def play(talk: Talk, policy: str, tell: Callable[[int], None] = lambda _: None) -> Run:
    """Play `talk` under `policy`. `tell` is told of each turn that is done.

    Writes into the database of this process, and watches its models. Not to be called in a transaction.
    """
    owner, _ = User.objects.get_or_create(username=OWNER)
    chat = services.create_chat(owner, policy=policy, instructions=talk.instructions)
    stage = _Stage(talk, chat, owner, services.default_variant(), Calls())
    said = _facts_by_exchange(talk)
    with registry.watched_by(stage.calls.watched):
        for number, exchange in enumerate(talk.exchanges):
            _turn(stage, exchange, said.get(number, []))
            tell(1)
    return Run(
        talk=talk.name,
        policy=policy,
        turns=tuple(stage.turns),
        calls=tuple(stage.called),
        spans=stage.spans.tallies,
        facts=stage.facts.tallies,
    )


def _turn(stage: _Stage, exchange: Exchange, facts: list[Thing]) -> None:
    begun = _begin(stage, exchange)
    memory = Haystack(memory_text(begun.prompt))
    stage.spans.look(memory)
    stage.facts.look(memory)
    reply = _finish(begun, exchange)
    folds, waited = _fold(stage.chat.pk)
    stage.turns.append(_measured(stage, begun, reply, folds, waited=waited))
    stage.called += [
        Call(len(stage.turns) - 1, usage.input_tokens, usage.output_tokens) for usage in stage.calls.usages
    ]
    stage.calls.usages.clear()
    stage.prompt = begun.prompt
    stage.spans.say(spans_of(exchange.question, exchange.reply))
    stage.facts.say(facts)


def _begin(stage: _Stage, exchange: Exchange) -> Begun:
    request = TurnRequest(message=exchange.question, variant=stage.variant)
    begun = services.begin_turn(stage.owner, request, chat_id=stage.chat.pk)
    assert isinstance(begun, Begun)  # no idempotency key, so nothing stands already
    return begun


def _finish(begun: Begun, exchange: Exchange) -> Message:
    status = Status.INCOMPLETE if exchange.cut_off else Status.COMPLETE
    ending = Ending(
        status, Reply("incomplete" if exchange.cut_off else "complete", model=begun.variant.model)
    )
    reply = finishing.finish(begun.pending, exchange.reply, ending, owner=process.name())
    assert reply is not None  # nobody else works on this database
    return reply


def _fold(chat_id: UUID) -> tuple[int, bool]:
    """Fold what is due: how many revisions that made, and whether the chat is still due."""
    folds = 0
    while due := _is_due(chat_id):
        report = folding.fold(chat_id, until=time.monotonic() + settings.MEMORY_FOLD_SECONDS)
        folds += report.published
        if report.outcome != "more":
            due = _is_due(chat_id)
            break
    return folds, due


def _is_due(chat_id: UUID) -> bool:
    return ConversationBrief.objects.filter(pk=chat_id, due=True).exists()


def _measured(stage: _Stage, begun: Begun, reply: Message, folds: int, *, waited: bool) -> TurnMeasure:
    record = begun.pending.context
    return TurnMeasure(
        memory=record["tokens"],
        budget=record["budget"],
        prompt=prompt_tokens(begun.prompt),
        prefix=shared_prefix(stage.prompt, begun.prompt) if stage.prompt else 0,
        reply=reply.token_count,
        before=len(stage.turns),
        unrepresented=record["unrepresented"],
        folds=folds,
        waited=waited,
    )


def _facts_by_exchange(talk: Talk) -> dict[int, list[Thing]]:
    """The annotated facts that each exchange says."""
    said: dict[int, list[Thing]] = {}
    for fact in talk.facts:
        thing = Thing(fact.key, fact.surface, (fact.canonical,))
        for number in fact.exchanges:
            said.setdefault(number, []).append(thing)
    return said
