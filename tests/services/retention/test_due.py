"""The chats that a sweep erases are those that the rule names, found by an index, in steps, and asked once more."""

import re
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.bulk import insert
from conversations import chat_lifecycle
from conversations.accounts.end_users import create_app
from conversations.accounts.models import App
from conversations.models import ActiveReply, Chat
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.reply import TurnRequest
from conversations.retention import due
from conversations.retention.models import Erased
from memory.worker.sweep import sweep
from tests.support.database import plan_of
from tests.support.factories import add_turn, make_chat, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("conversations.chat_lifecycle.time.sleep", taken.append)
    return taken


def old(days: float, **fields: Any) -> Chat:
    return make_chat(last_message_at=timezone.now() - timedelta(days=days), **fields)


def app(name: str, days: int | None) -> App:
    made = create_app(name)
    made.retain_days = days
    made.save()
    return made


def kept_for(chat: Chat, server: int) -> int | None:
    """Return how many days the docs promise a chat; None for ever."""
    if chat.temporary:
        return 2
    named = [one for one in (chat.retain_days, chat.app and chat.app.retain_days) if one is not None]
    return None if chat.pinned else (named[0] if named else server) or None


def counts() -> list[int]:
    return [chats.count() for _, chats in due.due_chats()]


def test_the_nearest_word_counts(settings: Any, pauses: list[float]) -> None:
    settings.TEMPORARY_CHAT_HOURS = 48
    apps = [None, app("never", 0), app("week", 7), app("as-the-server", None)]
    cases = product((False, True), (False, True), (None, 1, 400), apps, (0, 3, 20, 100, 500))
    chats = [
        (old(days, temporary=temporary, pinned=pinned, retain_days=own, app=its), days)
        for temporary, pinned, own, its, days in cases
    ]
    gone = set[Any]()
    for server in (0, 30):
        settings.RETENTION_DAYS = server
        over = {one.pk for one, days in chats if (kept := kept_for(one, server)) and kept <= days} - gone
        assert sum(counts()) == len(over)
        assert due.erase_due() == len(over) > 0
        gone |= over
        assert set(Chat.objects.values_list("pk", flat=True)) == {one.pk for one, _ in chats} - gone
    assert set(Erased.objects.values_list("kind", "object_id")) == {("chat", str(pk)) for pk in gone}
    assert bool(pauses) == (connection.vendor == "sqlite")


def test_apps_of_the_same_days_are_asked_for_at_once(settings: Any) -> None:
    settings.RETENTION_DAYS = 30
    for at in range(20):
        old(10, app=app(f"app{at}", (7, None)[at % 2]))
    with CaptureQueriesContext(connection) as captured:
        assert counts() == [0, 0, 0, 0, 10]
    assert len(captured) == 6


def test_no_rule_waits_until_another_has_nothing_left(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.RETENTION_DAYS, order = 1, list[Any]()

    def stuck(_: Any, keys: list[Any], **options: Any) -> int:
        order.extend(keys)
        return 0

    monkeypatch.setattr(due, "PAGE", 1)
    monkeypatch.setattr(chat_lifecycle, "delete_chats", stuck)
    for _ in range(3):
        old(9, temporary=True)
    kept = old(9)
    assert due.erase_due() == 0
    assert order[1] == kept.key


def test_a_changed_rule_counts_from_the_next_sweep_on(settings: Any) -> None:
    chat = old(10)
    for days, expected in ((0, 0), (11, 0), (9, 1)):
        settings.RETENTION_DAYS = days
        assert sweep()["chats_erased"] == expected
    assert not Chat.objects.filter(pk=chat.pk).exists()


def test_a_sweep_has_its_time_and_the_next_goes_on(settings: Any) -> None:
    settings.RETENTION_DAYS = 1
    for _ in range(3):
        old(2)
    assert due.erase_due(seconds=-1) == 0
    assert due.erase_due() == 3


def test_sweep_continues_after_a_failed_erasure(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.RETENTION_DAYS = 1
    stuck, *_ = [old(3), old(2), old(2)]
    delete = chat_lifecycle.delete_chat

    def failing(chat: Chat) -> None:
        if chat.pk == stuck.pk:
            raise DatabaseError
        delete(chat)

    monkeypatch.setattr(due, "PAGE", 1)
    monkeypatch.setattr(chat_lifecycle, "delete_chat", failing)
    assert due.erase_due() == 2
    assert list(Chat.objects.all()) == [stuck]


def test_a_message_in_time_keeps_the_chat(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the chat was found, and before it is locked. A reply that is being written keeps it, too."""
    settings.RETENTION_DAYS = 1
    user = make_user()
    chat = old(2)
    add_turn(chat, "Hello", "Hello!")
    delete = chat_lifecycle.delete_chats

    def late(*args: Any, **options: Any) -> int:
        begin_turn(user, TurnRequest(message="Wait!", variant=default_variant()), chat_id=chat.pk)
        return delete(*args, **options)

    monkeypatch.setattr(chat_lifecycle, "delete_chats", late)
    assert due.erase_due() == 0
    monkeypatch.setattr(chat_lifecycle, "delete_chats", delete)
    Chat.objects.update(last_message_at=timezone.now() - timedelta(days=2))
    assert due.erase_due() == 0
    ActiveReply.objects.all().delete()
    assert due.erase_due() == 1


@pytest.mark.exhaustive
def test_sweep_reads_only_due_chats(settings: Any) -> None:
    """Whatever the number of chats, and however many are old, but kept by another rule."""
    settings.RETENTION_DAYS = 30
    owner, now = make_user(), timezone.now()
    apps = [app("kept", 0), app("as-the-server", None), app("long", 40)]
    rows: list[Chat] = []
    fields: dict[str, Any] = {"owner": owner, "policy": "chunked", "created_at": now, "updated_at": now}
    for at in range(10_000):
        chat = Chat(**fields, last_message_at=now - timedelta(minutes=4 * at))
        chat.retain_days = 36_500 if at % 4 == 1 else None
        chat.pinned, chat.app = at % 4 == 2, apps[at % 3] if at % 4 == 3 else None
        rows.append(chat)
    insert(rows)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as captured:
        assert due.erase_due() == 0
        assert counts() == [0] * 5
    asked = [one["sql"] for one in captured.captured_queries if 'FROM "conversations_chat"' in one["sql"]]
    plans = {sql: plan_of(sql) for sql in asked}
    assert len(plans) == 2 * 5
    by_index = re.compile("USING (?:COVERING )?INDEX chat_|Index (?:Only )?Scan using chat_")
    for sql, plan in plans.items():
        assert by_index.search(plan), plan
        says_which_apps = '"app_id" I' in sql  # IS NULL or IN: of these, what is due is sorted
        assert says_which_apps or not re.search("B-TREE|Sort", plan), plan
