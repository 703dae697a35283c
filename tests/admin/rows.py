"""Chats with memory for the admin to show, and how its pages are asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from chatmemory.llm.protocol import Reply, Usage
from conversations import finishing, services
from conversations.importing import import_chat
from conversations.interchange import ImportedChat, ImportedMessage
from conversations.models import ActiveReply, Chat, Message
from memory.lab.outcome import Outcome
from memory.lab.tables import as_json, sheets_of
from memory.models import Comparing, Comparison, ConversationBrief, SummaryRevision
from tests.lab.makers import TALK, outcome_of, run_of, turn

PAGES = [
    "conversations_chat",
    "conversations_message",
    "conversations_activereply",
    "conversations_idempotencykey",
]
PAGES += ["memory_conversationbrief", "memory_summaryrevision", "memory_contextrecord", "memory_comparison"]


def make_chat(owner: User, *, turns: int = 6, title: str = "A trip", said: str = "Hello") -> Chat:
    """A chat of `turns` finished turns."""
    messages = tuple(
        ImportedMessage(role=role, content=f"{said} {number}", metadata={"note": said})
        for number in range(turns)
        for role in ("user", "assistant")
    )
    return import_chat(
        owner, ImportedChat(title=title, instructions=said, metadata={"note": said}, messages=messages)
    )


def add_revision(chat: Chat, version: int, text: str, *, through: int) -> SummaryRevision:
    """A revision as a fold would have written it, and the brief that uses it."""
    revision = SummaryRevision.objects.create(
        chat=chat,
        version=version,
        parent=version - 1 or None,
        kind="fold",
        policy=chat.policy,
        global_summary=text,
        from_seq=through - 1,
        through_seq=through,
        turns=1,
        tokens_before=900,
        tokens_after=40,
        model=text[:100],
        retained={"kept": [text], "lost": [text], "share": 0.5},
    )
    ConversationBrief.objects.filter(chat=chat).update(
        version=version, head=version, global_summary=text, folded_through_seq=through, token_count=40
    )
    return revision


def add_comparison(chat: Chat, **fields: Any) -> Comparison:
    """A comparison as it stands when it is done."""
    told: dict[str, Any] = {
        "policies": ["chunked", "interval"],
        "state": Comparing.DONE,
        "turns": 6,
        "of_turns": 6,
        "progress": {"chunked": 6, "interval": 6},
        "result": {
            "sheets": [as_json(sheet) for sheet in sheets_of(measured())],
            "note": "",
            "has_plot": True,
        },
        "plot": "<svg/>",
    }
    return Comparison.objects.create(chat=chat, **(told | fields))


def measured() -> Outcome:
    """What was measured on two turns."""
    runs = [run_of(turn(1000, 1200), turn(2345, 2600), policy=policy) for policy in ("chunked", "interval")]
    return outcome_of(*runs, talk=replace(TALK, facts=()))


def say(chat: Chat, text: str, answer: str) -> Message:
    """A turn as the message door makes it, with its context record."""
    variant = services.default_variant()
    begun = services.begin_turn(
        chat.owner, services.TurnRequest(message=text, variant=variant), chat_id=chat.pk
    )
    assert isinstance(begun, services.Begun)
    ending = finishing.Ending.of(Reply("complete", None, Usage(100, 0, 20), "offline", ""))
    reply = finishing.finish(begun.pending, answer, ending)
    assert reply is not None
    return reply


def begin(chat: Chat, text: str, key: str) -> ActiveReply:
    """A turn whose reply is being written, asked for with an idempotency key."""
    request = services.TurnRequest(message=text, variant=services.default_variant())
    services.begin_turn(chat.owner, request, chat_id=chat.pk, key=key)
    ActiveReply.objects.filter(chat=chat).update(text=text)
    return ActiveReply.objects.get(chat=chat)


def text_of(client: Client, page: str, *args: Any, **query: Any) -> str:
    response = client.get(reverse(f"admin:{page}", args=args), query)
    assert response.status_code == 200
    return response.content.decode()
