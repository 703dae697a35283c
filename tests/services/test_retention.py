"""Retention: which chats a sweep erases and how it finds them; and the log of erasures, with its replay in a database
that has again what was erased."""

import io
import json
import re
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.bulk import insert
from conversations import account_deletion, chat_lifecycle
from conversations.accounts.end_users import create_app
from conversations.accounts.models import App
from conversations.chat_lifecycle import delete_chat
from conversations.message_changes import forget_message
from conversations.models import ActiveReply, Chat, Message
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.reply import TurnRequest
from conversations.retention import due
from conversations.retention.models import Erased
from memory.worker.sweep import sweep
from tests.support.commands import refusal, run
from tests.support.database import plan_of
from tests.support.factories import add_turn, make_chat, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


# Which chats are erased


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


# The command, and the log


def retain(*args: object) -> str:
    return run("retain", *args).strip()


def logged(*args: str) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in retain("--log", *args).splitlines()]
    assert all(set(line) == {"kind", "id", "at"} for line in lines)
    return [(line["kind"], line["id"]) for line in lines]


def test_each_erasure_is_logged_once_and_erased_again_where_it_is_back(tmp_path: Path) -> None:
    user, kept = make_user("bob"), make_chat()
    deleted, theirs = make_chat(), make_chat(user)
    heron = add_turn(kept, "The blue heron", "Noted.").reply_to
    assert heron is not None
    for _ in range(2):
        forget_message(kept.key, heron.pk)
        delete_chat(deleted)
    account_deletion.request_erasure(user.pk)
    account_deletion.erase(user.pk)
    whole = logged()
    assert whole == [
        ("message", str(heron.pk)),
        ("chat", str(deleted.pk)),
        ("user", Erased.user_id(user)),
        ("chat", str(theirs.pk)),
    ]
    Erased.objects.filter(kind="message").update(at=timezone.now() - timedelta(days=2))
    assert logged("--since", (timezone.now() - timedelta(days=1)).isoformat()) == whole[1:]
    log = tmp_path / "erased.jsonl"
    log.write_text(retain("--log"))

    Erased.objects.all().delete()  # as in a backup from before
    user.save(force_insert=True)
    deleted.save(force_insert=True)
    Message.objects.filter(pk=heron.pk).update(status="complete", content="The blue heron")
    assert retain("--replay", log) == "Erased: 3. Already gone: 1."
    assert retain("--replay", log) == "Erased: 0. Already gone: 4."
    assert set(logged()) == set(whole)
    assert set(Chat.objects.all()) == {kept}
    assert not User.objects.filter(pk=user.pk).exists()
    assert Message.objects.get(pk=heron.pk).content == ""


def test_replay_skips_reused_ids(tmp_path: Path) -> None:
    user = make_user("bob")
    (tmp_path / "log").write_text(json.dumps({"kind": "user", "id": Erased.user_id(user)}))
    User.objects.update(date_joined=user.date_joined + timedelta(seconds=1))
    assert retain("--replay", tmp_path / "log") == "Erased: 0. Already gone: 1."
    assert User.objects.filter(pk=user.pk).exists()


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"kind": "chat", "id": "7"}',
        '{"kind": "chat", "id": 7}',
        '{"kind": "user", "id": "7"}',
        '{"kind": "user", "id": "7 yesterday"}',
        '{"kind": "cat", "id": "01a215d5-ec36-76a6-a88e-911ce87e20d7"}',
    ],
)
def test_replay_bad_line_stops_before_erasing(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = make_chat()
    text = f'{{"kind": "chat", "id": "{chat.pk}"}}\n{line}\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert re.search("Line 2 .*Nothing was erased", refusal("retain", "--replay", "-"))
    assert Chat.objects.exists()


def test_the_dry_run_counts_by_rule_and_erases_nothing(settings: Any) -> None:
    settings.RETENTION_DAYS = 30
    at = timezone.now() - timedelta(days=40)
    make_chat(last_message_at=at)
    make_chat(last_message_at=at, retain_days=50)
    make_chat(last_message_at=at, temporary=True)
    rows = [line.split(maxsplit=1) for line in retain("--dry-run").splitlines()]
    assert rows == [["1", "temporary"], ["0", "chat"], ["1", "server"], ["0", "server (apps)"]]
    assert Chat.objects.count() == 3
    assert retain() == "Erased: 2 chats."
    assert retain() == "Erased: 0 chats."
