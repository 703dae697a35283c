"""No frequent query scans `messages`: query plans over 20,000 rows, in one chat of 10,000 and many small ones.

The queries are the product's own, captured while it works, and explained by the database of this run.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import resolve
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory, force_authenticate

from benchmarks.chats import FOLD, make_chat
from benchmarks.speech import Exchange
from chatmemory.llm.protocol import Reply
from conversations.api.chats import messages_page
from conversations.chat_filters import index_metadata
from conversations.message_changes import edit_message, forget_message
from conversations.models import ActiveReply, Chat, Message, get_message
from conversations.replies import begin as services
from conversations.replies import finish, stream
from conversations.replies.reply import BegunTurn, Ending, ExistingReply, TurnRequest
from memory.briefs import unfolded
from memory.changes import messages_changed
from memory.folding import fold as folding
from memory.models import ConversationBrief
from memory.revisions.by_hand import restore
from memory.worker import sweep as sweeping
from tests.support.database import plan_of
from tests.support.factories import brief_of

LONG_TURNS = 5_000
SHORT_TURNS = 100
SHORT_CHATS = 50
SAID = (Exchange("How so?", "It is so.", 3, 4, "It is so.", "User: How so? / Assistant: It is so."),)

pytestmark = [pytest.mark.django_db, pytest.mark.exhaustive, pytest.mark.postgres, pytest.mark.nightly]


@dataclass(frozen=True)
class World:
    """One user with 20,000 messages, in a long chat and many short ones."""

    owner: User
    long: Chat
    short: Chat

    def get(self, path: str) -> None:
        """Call the view of a path with a GET request for this user."""
        self._call(APIRequestFactory().get(f"/v1/{path}"))

    def post(self, path: str) -> None:
        """Call it with an empty POST request."""
        self._call(APIRequestFactory().post(f"/v1/{path}", {}, format="json"))

    @property
    def path(self) -> str:
        """The path of the long chat."""
        return f"chats/{self.long.pk}"

    def _call(self, request: Any) -> None:
        force_authenticate(request, self.owner)
        match = resolve(request.path)
        assert match.func(request, **match.kwargs).status_code == 200

    def newest(self) -> Message:
        return self.at(self.long.last_seq)

    def at(self, seq: int) -> Message:
        return Message.objects.get(chat=self.long, seq=seq)


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """Rows made in a transaction that is never committed, then analyzed: plans are those of a database in use."""
    with django_db_blocker.unblock(), transaction.atomic():
        owner = User.objects.create_user("planner")
        long = make_chat(owner, LONG_TURNS, said=SAID, records=False)
        short = [make_chat(owner, SHORT_TURNS, said=SAID, records=False) for _ in range(SHORT_CHATS)]
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        connection.check_constraints()  # now; otherwise PostgreSQL does it after every test
        yield World(owner, long, short[0])
        transaction.set_rollback(True)


def begin(world: World, chat: Chat) -> BegunTurn:
    request = TurnRequest(message="And now?", variant=services.default_variant())
    begun = services.begin_turn(world.owner, request, chat_id=chat.pk, key=f"key-{time.monotonic_ns()}")
    assert isinstance(begun, BegunTurn)
    return begun


def turn(world: World, chat: Chat) -> Message:
    pending = begin(world, chat).pending
    finished = finish.finish(pending, "So it is.", Ending.of(Reply("complete")))
    assert finished is not None
    return finished


def again(world: World) -> None:
    """Regenerate the last reply."""
    begun = services.begin_regeneration(world.owner, world.long.pk, world.newest().pk, None)
    assert isinstance(begun, BegunTurn)
    finish.finish(begun.pending, "Another.", Ending.of(Reply("complete")))


def attach(world: World) -> None:
    """Send the same idempotency key twice, and look the reply up as a client that resumes its stream does."""
    request = TurnRequest(message="And now?", variant=services.default_variant())
    first = services.begin_turn(world.owner, request, chat_id=world.long.pk, key="same")
    second = services.begin_turn(world.owner, request, chat_id=world.long.pk, key="same")
    assert isinstance(first, BegunTurn)
    assert isinstance(second, ExistingReply)
    assert stream.find(second.chat, second.message_id).variant == "arco"
    finish.store_partial([(first.pending, "So")])
    finish.checkpoint([second.message_id], [second.chat.owner_id])
    assert stream.text_after(second.chat, second.message_id, 1) == ("o", False)
    assert get_message(world.long, second.message_id) is not None


def fold(world: World) -> None:
    """Fold the long chat with the built-in summarizer."""
    ConversationBrief.objects.filter(pk=world.long.pk).update(requested="update")
    assert folding.fold(world.long.key, until=time.monotonic() + 30).published == 1


def sweep(world: World) -> None:
    """Sweep a reply whose process is gone and a chat that is due."""
    pending = begin(world, world.long).pending
    ActiveReply.objects.filter(pk=pending.chat_id).update(lease_expires_at=pending.active.started_at)
    ConversationBrief.objects.filter(pk=world.short.pk).update(due=True)
    assert sweeping.sweep()["replies_finished"] == 1


def pages(world: World) -> None:
    """Read the page of the newest messages and that of the oldest."""
    for order in ("asc", "desc"):
        request = Request(APIRequestFactory().get("/", {"order": order}))
        assert len(messages_page(request, world.long).data["results"]) == 50


ACTS: dict[str, Callable[[World], object]] = {
    "turn": lambda world: turn(world, world.long),
    "again": again,
    "attach": attach,
    "fold": fold,
    "sweep": sweep,
    "pages": pages,
    "chats": lambda world: world.get("chats"),
    "chats found": lambda world: world.get("chats?metadata.kind=a&since=2026-01-01&search=x"),
    "chat": lambda world: world.get(world.path),
    "message": lambda world: world.get(f"{world.path}/messages/{world.newest().pk}"),
    "brief": lambda world: world.get(f"{world.path}/brief"),
    "revisions": lambda world: world.get(f"{world.path}/revisions"),
    "revision": lambda world: world.get(f"{world.path}/revisions/3"),
    "context": lambda world: world.post(f"{world.path}/context"),
    "past context": lambda world: world.get(f"{world.path}/messages/{turn(world, world.long).pk}/context"),
    "edit": lambda world: edit_message(world.long, world.newest().pk, "It was so."),
    "forget": lambda world: forget_message(world.long.key, world.newest().pk),
    "edit behind the fold": lambda world: messages_changed(world.long.key, from_seq=2 * LONG_TURNS - 1),
    "edit in the fold": lambda world: edit_message(world.long, world.at(2 * LONG_TURNS - 1_000).pk, "It was so."),
    "restore": lambda world: restore(world.long, brief_of(world.long).version - 3),
}


def scans(plan: str) -> bool:
    plan = plan.replace("SCAN conversations_message USING INDEX message_not_analysed", "")  # it has these rows alone
    return any(sign in plan for sign in ("SCAN conversations_message", "Seq Scan on conversations_message"))


@pytest.mark.parametrize("act", ACTS)
def test_no_query_scans_messages(world: World, act: str) -> None:
    with CaptureQueriesContext(connection) as captured:
        ACTS[act](world)
    asked = [query["sql"] for query in captured.captured_queries]
    explained = {sql: plan_of(sql) for sql in asked if sql.startswith(("SELECT", "UPDATE", "DELETE"))}
    assert explained
    assert {sql: plan for sql, plan in explained.items() if scans(plan)} == {}


def test_a_scan_would_be_seen(world: World) -> None:
    assert scans(plan_of("SELECT count(*) FROM conversations_message WHERE content = 'x'"))


def test_a_turn_takes_the_same_queries_at_any_length(world: World) -> None:
    turn(world, make_chat(world.owner, 1, said=SAID))  # a user's first turn creates the row of the allowance
    counts = []
    for chat in (make_chat(world.owner, 10, said=SAID), world.short, world.long):
        with CaptureQueriesContext(connection) as captured:
            turn(world, chat)
        counts.append([query["sql"].split(" ", 1)[0] for query in captured.captured_queries])
    assert counts[0] == counts[1] == counts[2]
    assert len(counts[0]) <= 30


def test_chats_are_found_by_metadata_without_a_scan_or_a_sort(world: World) -> None:
    metadata = [{"kind": "a", "customer": str(number // 5)} for number in range(5_000)]
    chats = Chat.objects.bulk_create(Chat(owner=world.owner, policy="chunked", metadata=one) for one in metadata)
    for chat in chats:
        index_metadata(chat)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    for asked in ("customer=7", "kind=a", "customer=7&metadata.kind=a"):
        with CaptureQueriesContext(connection) as captured:
            world.get(f"chats?limit=5&metadata.{asked}")
        plan = plan_of(captured.captured_queries[0]["sql"])
        signs = ("SCAN ", "Seq Scan", "TEMP B-TREE", "Sort")
        assert [sign for sign in signs if sign in plan] == [], plan


@contextmanager
def work() -> Iterator[list[int]]:
    """Count the steps of SQLite's virtual machine in the block, ten instructions each."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    connection.connection.set_progress_handler(step, 10)
    try:
        yield steps
    finally:
        connection.connection.set_progress_handler(None, 0)


def restores(chat: Chat) -> None:
    restore(chat, brief_of(chat).version - 3)


def edits(chat: Chat) -> None:
    edit_message(chat, Message.objects.get(chat=chat, seq=chat.last_seq - 4 * FOLD).pk, "It was so.")


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="SQLite tells how much work a statement is")
@pytest.mark.parametrize("act", [restores, edits])
def test_restore_or_step_back_costs_in_proportion_to_the_turns_after_the_version(
    world: World, act: Callable[[Chat], None]
) -> None:
    spent = []
    for chat in (world.short, world.long):
        with work() as steps:
            act(chat)
        assert unfolded(brief_of(chat)).turns == 3 * FOLD
        spent += steps
    assert spent[1] <= 1.2 * spent[0]
