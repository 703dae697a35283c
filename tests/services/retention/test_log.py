"""The log of erasures, and its replay in a database that has again what was erased."""

import io
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from conversations import account_deletion
from conversations.chat_lifecycle import delete_chat
from conversations.message_changes import forget_message
from conversations.models import Chat, Message
from conversations.retention.models import Erased
from tests.support.commands import refusal, run
from tests.support.factories import add_turn, make_chat, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


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
