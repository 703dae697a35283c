"""Pages of the admin on a large database: time and number of queries of each.

1,000 chats of 1,000 turns and one of 50,000, with their records and revisions, made in bulk; `BENCH_CHATS` sets a
smaller number of chats. Each page is requested through Django's test client, in this process, which measures the
server's own time without a network. A page of ours that is not in `PAGES` is not measured.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from benchmarks.chats import make_chat
from benchmarks.figures import Figure, Group
from benchmarks.speech import Exchange
from chatmemory.llm.protocol import Reply, Usage
from chatmemory.text.turn_line import make_line
from conversations.models import Chat, Message
from conversations.replies import begin, finish
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.models import ConversationBrief, FoldDay, SummaryRevision, UsageDay
from memory.usage import daily

MANY = 1000
"""The number of chats beside the long one, and the number of turns in each."""
LONG = 50_000
TIMES = 5
"""The number of timed requests per page, after one that is not timed."""
BAR_MS = 300
SLOWEST = 5
"""The number of pages that are listed."""
WORD = "harbour"
"""The word that is searched for; it is said in one turn of a hundred."""


@dataclass(frozen=True, slots=True)
class World:
    """The chats that the pages show."""

    chats: int
    short: Chat
    long: Chat


@dataclass(frozen=True, slots=True)
class Post:
    """A form that is posted to an address; none of the forms used here changes anything."""

    url: str
    data: dict[str, str]


Where = Callable[[World], str | Post]


def run(owner: User) -> Group:
    """Measure every page: the median time and number of queries of the slowest ones."""
    chats = int(os.environ.get("BENCH_CHATS", MANY))
    world = _fill(owner, chats)
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.create_superuser("looks"))
    pages = sorted(_figures(client, world), key=lambda one: -one.value)
    title = f"Pages of the admin, {chats:,} chats of {MANY:,} turns and one of {LONG:,}"
    middle = Figure(f"median of {len(pages)} pages", median(page.value for page in pages), "ms")
    return Group(title, (middle, *pages[:SLOWEST]))


def _figures(client: Client, world: World) -> Iterator[Figure]:
    for name, where in PAGES.items():
        try:
            asked = where(world)
        except NoReverseMatch:
            print(f"There is no page for {name!r}.", file=sys.stderr)
        else:
            yield _figure(client, name, asked)


def _figure(client: Client, name: str, asked: str | Post) -> Figure:
    with CaptureQueriesContext(connection) as captured:
        _ask(client, asked)
    queries = len(captured)  # the next request empties the log
    spent = []
    for _ in range(TIMES):
        started = time.perf_counter()
        _ask(client, asked)
        spent.append((time.perf_counter() - started) * 1000)
    note = f"{max(spent):.0f} ms at most, {queries} queries"
    return Figure(name, median(spent), "ms", bar=BAR_MS, note=note)


def _ask(client: Client, asked: str | Post) -> None:
    response = client.get(asked) if isinstance(asked, str) else client.post(asked.url, asked.data)
    if response.status_code != 200:
        raise RuntimeError(f"{asked} answered {response.status_code}")
    _ = response.content


# The database


def _fill(owner: User, chats: int) -> World:
    said = tuple(_exchange(number) for number in range(100))
    long = make_chat(owner, LONG, said=said)
    made = [make_chat(owner, MANY, said=said) for _ in range(chats)]
    world = World(chats, made[len(made) // 2], long)
    for chat in (world.short, long):
        _say(chat)
    _fail(made)
    _keep_figures()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return world


def _exchange(number: int) -> Exchange:
    """Return a short exchange, so that two million messages fit on a disk."""
    word = WORD if number == 50 else "garden"
    user, assistant = (
        f"What of the {word}, number {number}?",
        f"The {word} {number} is open from 9:{number:02}.",
    )
    return Exchange(user, assistant, 10, 12, assistant, make_line(user, assistant, 40))


def _say(chat: Chat) -> None:
    """Add a turn as the message endpoint does, so that the newest record is one made by the product."""
    request = TurnRequest(message=f"Is the {WORD} open?", variant=begin.default_variant())
    begun = begin.begin_turn(chat.owner, request, chat_id=chat.pk)
    assert isinstance(begun, BegunTurn)
    reply = Reply("complete", None, Usage(1500, 500, 20), "gpt-5-mini", "")
    finish.finish(begun.pending, "It is.", Ending.of(reply))
    chat.refresh_from_db()


def _fail(chats: list[Chat]) -> None:
    """Mark one chat in ten as due, failing and degraded."""
    some = [chat.pk for chat in chats[::10]]
    error = {"code": "upstream_timeout", "message": "", "attempt": 2}
    ConversationBrief.objects.filter(pk__in=some).update(
        due=True, attempts=2, degraded=True, last_error=error, next_attempt_at="2100-01-01T00:00:00Z"
    )


def _keep_figures() -> None:
    """Store ninety days of usage of three variants, and of folds."""
    for back in range(90):
        day = daily.today() - timedelta(days=back)
        UsageDay.objects.bulk_create(
            UsageDay(
                day=day,
                model_variant=f"variant-{number}",
                replies=900,
                input_tokens=10**6,
                cost_usd=Decimal(1),
            )
            for number in range(3)
        )
        FoldDay.objects.create(day=day, kind="fold", policy="chunked", folds=40, duration_ms=90_000, share_sum=30)


# The pages


def _list(model: str, **query: Any) -> Where:
    return lambda _: _url(f"admin:{model}_changelist", **query)


def _of(which: str, name: str, **query: Any) -> Where:
    """A page of the short or the long chat."""
    return lambda world: _url(f"admin:{name}", getattr(world, which).pk, **query)


def _in_chat(which: str, model: str, path: str = "chat", **query: Any) -> Where:
    """A list filtered by one chat."""
    return lambda world: _url(f"admin:{model}_changelist", **{f"{path}__id__exact": getattr(world, which).pk}, **query)


def _at(which: str, share: float) -> Where:
    """The chat's page at a message, given as a share of the chat's length."""

    def where(world: World) -> str:
        chat: Chat = getattr(world, which)
        return _url("admin:conversations_chat_change", chat.pk, at=max(1, int(chat.last_seq * share)))

    return where


def _newest(model: type[SummaryRevision] | type[Message], name: str) -> Where:
    """The page of the long chat's newest row of a model; a message's record has the message's id."""
    order = "-version" if model is SummaryRevision else "-seq"
    return lambda world: _url(f"admin:{name}", model._default_manager.filter(chat=world.long).order_by(order)[0].pk)


def _confirm(action: str) -> Where:
    """The page that asks to confirm an action on the long chat's memory, with an estimate of its cost."""
    return lambda world: Post(
        _url("admin:conversations_chat_changelist"),
        {"action": action, "_selected_action": str(world.long.pk)},
    )


def _url(name: str, *args: Any, **query: Any) -> str:
    url = reverse(name, args=args)
    return f"{url}?{urlencode(query)}" if query else url


PAGES: dict[str, Where] = {
    "start page": lambda _: _url("admin-overview"),
    "playground": lambda _: _url("playground"),
    "list of chats": _list("conversations_chat"),
    "list of chats, by title": _list("conversations_chat", q="50000 turns"),
    "list of chats with failed replies": _list("conversations_chat", memory="failed"),
    "list of chats of low quality": _list("conversations_chat", memory="quality"),
    "search in all messages": _list("conversations_message", q=WORD),
    "list of messages": _list("conversations_message"),
    "list of briefs": _list("memory_conversationbrief"),
    "list of chats that fail": _list("conversations_chat", memory="failing"),
    "list of revisions": _list("memory_summaryrevision"),
    "list of context records": _list("memory_contextrecord"),
    "messages of the long chat": _in_chat("long", "conversations_message"),
    "revisions of the long chat": _in_chat("long", "memory_summaryrevision"),
    "records of the long chat": _in_chat("long", "memory_contextrecord", "reply__chat"),
    "chat of 1,000 turns": _of("short", "conversations_chat_change"),
    "long chat, newest": _of("long", "conversations_chat_change"),
    "long chat, oldest": _at("long", 0),
    "long chat, in the middle": _at("long", 0.5),
    "long chat, trace of a number": _of("long", "conversations_chat_trace", text="garden 77"),
    "message of the long chat": _newest(Message, "conversations_message_change"),
    "context record of the long chat": _newest(Message, "memory_contextrecord_change"),
    "brief of 1,000 turns": _of("short", "memory_conversationbrief_change"),
    "brief of the long chat": _of("long", "memory_conversationbrief_change"),
    "revision of the long chat": _newest(SummaryRevision, "memory_summaryrevision_change"),
    "messages of the long chat, search": _in_chat("long", "conversations_message", q=WORD),
    "edit the long chat's memory": _of("long", "memory_conversationbrief_edit"),
    "rebuild the long chat?": _confirm("rebuild_memory"),
    "who has read what": _list("conversations_contentview"),
}
"""By name, the address of each page. A page that needs only a name and a chat is one line here."""
