"""Playing a conversation: its questions and replies go through the services, as if from a client and a model.

The context of each turn is assembled, the recorded reply is finished, and a chat that is due is folded before its
next turn, in process, as by a worker that keeps up. Each call of the summarizer is counted. If the policy wants a
card of each reply, the built-in model adds one that matches the recorded reply. Runs on a database of its own, which
`memory.lab.runner` provides.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from chatmemory.llm import registry
from chatmemory.llm.offline import card_after, card_block, counted
from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from chatmemory.text.spans import SpanIndex
from chatmemory.text.tokens import count_tokens
from conversations import chat_lifecycle
from conversations.models import Chat, Status
from conversations.replies import begin, finish
from conversations.replies.open_turn import ToolOutput
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.folding import fold
from memory.lab.conversation import Conversation, Exchange, KnownFact
from memory.lab.measures import Run, TurnMeasure, has, prompt_tokens, shared_prefix, spans_of
from memory.models import ConversationBrief


@dataclass(frozen=True, slots=True)
class _Counted:
    """A model whose calls are appended to `usages`; one that fails, with what it was sent."""

    model: ChatModel
    usages: list[Usage]

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        return self.model.stream(prompt, variant, deadlines)

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        at = len(self.usages)
        self.usages.append(Usage(prompt_tokens(prompt), 0, 0))
        answer = self.model.complete(prompt, variant, timeout=timeout)
        self.usages[at] = answer.usage or counted(prompt, answer.text)
        return answer


OWNER = "lab"
CACHED_PROMPTS = 8
"""How many prompts of a chat a provider's cache still has: it matches prefixes of any, not only of the latest."""


class Player:
    """Plays a talk through the engine, turn by turn, and keeps the measures so far.

    It continues `chat`, or begins a new one. Writes into the database of this process. Must not be used in a
    transaction.
    """

    def __init__(
        self,
        talk: Conversation,
        policy: str,
        chat: Chat | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.talk = talk
        self.policy = policy
        owner, _ = User.objects.get_or_create(username=OWNER)
        fields = {"policy": policy, "options": dict(options or {}), "instructions": talk.instructions}
        self._chat = chat or chat_lifecycle.create_chat(owner, **fields)
        self._variant = begin.default_variant()
        self._prompts: deque[Prompt] = deque(maxlen=CACHED_PROMPTS)
        self._turns: list[TurnMeasure] = []
        self._facts: dict[str, KnownFact] = {}
        self._named = self._held = 0

    def turn(self) -> None:
        """Play the next exchange of the talk."""
        number = len(self._turns)
        exchange = self.talk.exchanges[number]
        begun = self._begin(TurnRequest(message=exchange.question, variant=self._variant))
        memory = "\n".join(message.text for message in begun.prompt.messages[:-1])  # all before the question
        self._look(exchange.question, memory)
        last = self._through_tools(begun, exchange)
        card = card_after(last.prompt, exchange.reply)
        # Finished as by a generation that has removed the card from the reply.
        status = Status.INCOMPLETE if exchange.cut_off else Status.COMPLETE
        reply = Reply("incomplete" if exchange.cut_off else "complete", model=last.variant.model)
        finish.finish(last.pending, exchange.reply, Ending(status, reply, card))
        calls: list[Usage] = []
        with registry.wrap_models(lambda model: _Counted(model, calls)):
            is_due = ConversationBrief.objects.filter(chat=self._chat, due=True).exists()
            folds = fold.fold(self._chat.key, until=math.inf).published if is_due else 0
        sent = begun.pending.snapshot
        measure = TurnMeasure(
            memory=sent.tokens,
            budget=sent.plan.budget,
            prompt=prompt_tokens(begun.prompt),
            prefix=max((shared_prefix(one, begun.prompt) for one in self._prompts), default=0),
            reply=count_tokens(exchange.reply + card_block(card)),
            before=number,
            unrepresented=sent.plan.unrepresented,
            folds=folds,
            calls=tuple(calls),
        )
        self._turns.append(measure)
        self._prompts.append(begun.prompt)
        if self.talk.facts:
            facts = [fact for fact in self.talk.facts if number in fact.exchanges]
        else:
            facts = spans_of(exchange.question, exchange.reply)
        self._facts |= {fact.canonical.casefold(): fact for fact in facts}

    def run(self) -> Run:
        """The measures so far."""
        return Run(self.talk.name, self.policy, tuple(self._turns), self._named, self._held)

    def _look(self, question: str, memory: str) -> None:
        """Count what the question names, and what of it the memory of its prompt holds."""
        repeated, remembered = SpanIndex(question), SpanIndex(memory)
        named = [fact for fact in self._facts.values() if has(repeated, fact)]
        self._named += len(named)
        self._held += sum(has(remembered, fact) for fact in named)

    def _through_tools(self, begun: BegunTurn, exchange: Exchange) -> BegunTurn:
        """Play the rounds in which tools were called, and return the begun reply that follows them."""
        for one in exchange.rounds:
            reply = Reply("complete", model=begun.variant.model, calls=one.message.calls)
            ending = Ending(Status.COMPLETE, reply)
            finish.finish(begun.pending, one.message.content, ending)
            outputs = tuple(ToolOutput(output.call_id, output.content) for output in one.outputs)
            begun = self._begin(TurnRequest(message="", variant=self._variant, outputs=outputs))
        return begun

    def _begin(self, request: TurnRequest) -> BegunTurn:
        begun = begin.begin_turn(self._chat.owner, request, chat_id=self._chat.pk)
        assert isinstance(begun, BegunTurn)  # without an idempotency key there is no earlier reply
        return begun


def play(
    talk: Conversation,
    policy: str,
    tell: Callable[[], None] = lambda: None,
    options: Mapping[str, Any] | None = None,
) -> Run:
    """Play all of `talk` under `policy`, in a chat with `options`. `tell` is called after each turn."""
    player = Player(talk, policy, options=options)
    for _ in talk.exchanges:
        player.turn()
        tell()
    return player.run()
