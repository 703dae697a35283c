"""Helpers for tests of the policy `card`: chats of that policy, and turns whose replies bring a card."""

import json
from typing import Any

from chatmemory.llm.protocol import Prompt, Reply
from conversations.models import Chat, Message, Status
from conversations.replies import finish as finishing
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.models import ContextRecord, ConversationBrief
from tests.support.factories import brief_of, make_chat
from tests.support.fakes.scripted import codes
from tests.support.folds import WORDS, turn


def card_chat(**options: Any) -> Chat:
    chat = make_chat(policy="card", options=options)
    brief = brief_of(chat)
    brief.options = options
    brief.save(update_fields=["options"])
    return chat


def begin(chat: Chat, question: str) -> BegunTurn:
    begun = begin_turn(chat.owner, TurnRequest(message=question, variant=default_variant()), chat_id=chat.pk)
    assert isinstance(begun, BegunTurn)
    return begun


def finish(begun: BegunTurn, text: str, card: object, status: Any = "complete") -> Message:
    said = card if isinstance(card, str) else json.dumps(card)
    reply = finishing.finish(begun.pending, text, Ending(Status(status), Reply(status, model="gpt-test"), said))
    assert reply is not None
    return reply


def live(chat: Chat, number: int, card: object = None, times: int = 1) -> Message:
    """Run turn `number`, with a card that names its code unless another is given; `times` as long as usual."""
    question, answer = (f"{text} {WORDS * (times - 1)}" for text in turn(number))
    told = {"decisions": [f"keep T{number}"]} if card is None else card
    return finish(begin(chat, question), answer, told)


def card_of(chat: Chat | str) -> dict[str, Any]:
    """Return the card's non-empty fields, without `is_ahead`."""
    brief = ConversationBrief.objects.get(chat_id=getattr(chat, "pk", chat))
    data: dict[str, Any] = brief.state.get("data", {})
    return {name: value for name, value in data.items() if value and name != "is_ahead"}


def marks(chat: Chat | str) -> list[str]:
    """Return the outcome recorded for the card of each reply, in order."""
    rows = ContextRecord.objects.filter(reply__chat_id=getattr(chat, "pk", chat)).order_by("reply__seq")
    return list(rows.values_list("card", flat=True))


def kept_codes(prompt: Prompt) -> str:
    """Return a summarizer's card of the codes that it was shown, at most the last twelve."""
    found = list(dict.fromkeys(codes(prompt.messages[0].content)))
    return json.dumps({"goal": " ".join(found[-12:]), "techniques": ["folded"]})
