"""Chats with memory for the admin to show, and helpers that request its pages."""

from collections.abc import Callable, Iterator
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory.llm.protocol import Reply, Usage
from conversations.interchange.rows import import_chat
from conversations.interchange.values import ImportedChat, ImportedMessage
from conversations.models import ActiveReply, Chat, Message
from conversations.replies import begin as services
from conversations.replies import finish
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.context.plan import Source
from memory.models import ConversationBrief, SummaryRevision

EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>"'></pre><svg/onload=alert(3)>{{ 7|add:7 }}"""
EVIL_IN_PRE = """</pre><script>alert(1)</script>"'<img src=x onerror=alert(2)>"""

PAGES = ["conversations_chat", "conversations_message", "conversations_activereply"]
PAGES += ["memory_conversationbrief", "memory_summaryrevision", "memory_contextrecord"]


def member_of_staff(name: str, *permissions: str) -> Client:
    """Return a client signed in as a staff user with these permissions, by codename."""
    user = User.objects.create_user(name, is_staff=True)
    found = Permission.objects.filter(codename__in=permissions)
    assert found.count() == len(permissions)
    user.user_permissions.set(found)
    client = Client()
    client.force_login(user)
    return client


def make_chat(owner: User, *, turns: int = 6, title: str = "A trip", said: str = "Hello") -> Chat:
    """Make a chat of `turns` finished turns."""
    messages = tuple(
        ImportedMessage(role=role, content=f"{said} {number}", metadata={"note": said})
        for number in range(turns)
        for role in ("user", "assistant")
    )
    return import_chat(owner, ImportedChat(title=title, instructions=said, metadata={"note": said}, messages=messages))


def add_revision(chat: Chat, version: int, text: str, *, through: int) -> SummaryRevision:
    """Store a revision as a fold would have written it, and point the brief to it."""
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


def say(chat: Chat, text: str, answer: str, **fields: Any) -> Message:
    """Store a turn as the message API does, with its context record. `fields` are fields of the request."""
    request = TurnRequest(message=text, variant=services.default_variant(), **fields)
    begun = services.begin_turn(chat.owner, request, chat_id=chat.pk)
    assert isinstance(begun, BegunTurn)
    ending = Ending.of(Reply("complete", None, Usage(100, 0, 20), "offline", ""))
    reply = finish.finish(begun.pending, answer, ending)
    assert reply is not None
    return reply


def begin(chat: Chat, text: str, key: str) -> ActiveReply:
    """Begin a turn with an idempotency key; its reply is being written."""
    request = TurnRequest(message=text, variant=services.default_variant())
    services.begin_turn(chat.owner, request, chat_id=chat.pk, key=key)
    ActiveReply.objects.filter(chat=chat).update(text=text)
    return ActiveReply.objects.get(chat=chat)


def make_saying(owner: User, text: str) -> Chat:
    """Make a chat that has `text` in every text field, as far as it fits, with a row for every page."""
    note = {"note": text, text[:40]: [text]}
    chat = make_chat(owner, title=text[:200], said=text)
    Chat.objects.filter(pk=chat.pk).update(options={**note, "focus": text[:500]})
    add_revision(chat, 1, text, through=2)
    add_revision(chat, 2, text + text, through=4)
    SummaryRevision.objects.filter(chat=chat).update(state=note, model="offline", focus=text[:500])
    error = {"code": "refused", "message": text}
    ConversationBrief.objects.filter(chat=chat).update(last_error=error, state=note, rebuild=note)
    Message.objects.filter(chat=chat).update(line=text, outline=text[:400], error=error)
    say(chat, text, text, instructions=text, sources=(Source(text, text),), metadata=note)
    begin(chat, text, f"{text[:80]} {chat.pk}")
    return chat


def say_elsewhere(chat: Chat, text: str) -> None:
    """Put `text` into fields that should never have people's words: from another server, or leaked by a bug."""
    Message.objects.filter(chat=chat).update(model=text[:128], model_variant=text[:64], response_id=text[:200])
    SummaryRevision.objects.filter(chat=chat).update(model=text[:100], prompt_hash=text[:64])
    ConversationBrief.objects.filter(chat=chat).update(lease_owner=text[:100])
    ActiveReply.objects.filter(chat=chat).update(model=text[:128], lease_owner=text[:100])


def model_of(page: str) -> type[Model]:
    """Return the model named by `app_model`."""
    label, name = page.split("_", 1)
    return apps.get_model(label, name)


def every_page(client: Client) -> Iterator[tuple[str, str]]:
    """Yield the text of each list and of the page of each row, with a label."""
    for page in PAGES:
        yield page, text_of(client, f"{page}_changelist")
        for row in model_of(page)._default_manager.all():
            yield f"{page} {row.pk}", text_of(client, f"{page}_change", row.pk)


def queries(act: Callable[[], object]) -> list[str]:
    """Return the statements that `act` sends."""
    with CaptureQueriesContext(connection) as captured:
        act()
    return [one["sql"] for one in captured.captured_queries]


def plan_of(sql: str) -> str:
    """Return how the database would execute a statement."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def text_of(client: Client, page: str, *args: Any, **query: Any) -> str:
    response = client.get(reverse(f"admin:{page}", args=args), query)
    assert response.status_code == 200
    return response.content.decode()
