"""Exports of ChatGPT and Claude, imported by `POST /v1/chats/import` and by `import_chat`: each conversation once."""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DataError, OperationalError, connection

from conversations.accounts.models import Allowance
from conversations.api import imports
from conversations.interchange import importing
from conversations.interchange.exports import Export
from conversations.interchange.importing import ImportReport, import_export
from conversations.interchange.rows import prepare_chat
from conversations.interchange.services import KINDS
from conversations.models import Chat, Message
from tests.support.docs import snippet
from tests.support.exhaustive import first_of
from tests.support.exports import chatgpt, claude, node, zipped
from tests.support.live_server import Client, LiveServer
from tests.support.processes import ROOT

pytestmark = pytest.mark.postgres

IMAGE = {"content_type": "image_asset_pointer"}
THREE = [
    chatgpt("c1"),
    chatgpt("c2", node("q", "root", "user", IMAGE, "What is it?", kind="multimodal_text")),
    claude("c3"),
]
NOTHING_SKIPPED = {f"{kind}_skipped": 0 for kind in KINDS}
COUNTS = {
    "done": True,
    "chats": 3,
    "messages": 5,
    "already_there": 0,
    "empty": 0,
    "failed": 0,
    "failures": [],
    "shortened": [],
    **NOTHING_SKIPPED,
    "images_skipped": 1,
    "thoughts_skipped": 2,
}
AGAIN = {**COUNTS, "chats": 0, "messages": 0, "already_there": 3, **NOTHING_SKIPPED}


def send(client: Client, body: bytes | Any, kind: str = "application/zip") -> dict[str, Any]:
    answer = client.post(
        "chats/import",
        content=body if isinstance(body, bytes) else json.dumps(body),
        headers={"Content-Type": kind} if kind else {},
    )
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def names(owner: str = "alice") -> list[str]:
    return sorted(chat.metadata["source_id"] for chat in Chat.objects.filter(owner__username=owner))


ALL = ["chatgpt:c1", "chatgpt:c2", "claude:c3"]


@pytest.mark.parametrize("kind", first_of(["application/zip", "application/json", "text/plain", ""], 2))
def test_each_conversation_is_imported_once(alice: Client, bob: Client, kind: str) -> None:
    body = json.dumps(THREE).encode() if "json" in kind else zipped(conversations=THREE)
    assert send(alice, body, kind) == COUNTS
    assert send(alice, body, kind) == AGAIN
    assert send(bob, body, kind) == COUNTS
    assert names() == names("bob") == ALL
    (found,) = alice.get("chats", params={"search": "Reeds"}).json()["results"]
    question, reply = alice.get(f"chats/{found['id']}/messages").json()["results"]
    assert (question["content"], reply["content"]) == ("What is c3?", "c3 it is.")
    assert found["created_at"] == "2026-01-02T03:04:05.678901Z"


def test_import_reports_unreadable_and_stores_the_rest(alice: Client) -> None:
    told = send(alice, json.dumps([{}, *THREE, chatgpt("c4", current="root")]).encode()[:-1] + b", [}")
    assert (told["chats"], told["empty"], told["failed"], told["done"]) == (3, 1, 2, True)
    assert told["failures"] == [
        "conversation 1 of the file: it is not a conversation of ChatGPT or Claude",
        "the file after conversation 5: it is damaged, or not JSON; the rest is not read",
    ]
    assert names() == ALL


def test_zip_packed_again_by_windows_is_imported(alice: Client) -> None:
    assert send(alice, zipped(conversations=THREE).replace(b"export/", b"export\\")) == COUNTS


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "damaged, or not JSON"),
        (b"what?", "damaged, or not JSON"),
        (json.dumps(THREE).encode("utf-16"), "its text is not UTF-8, but probably UTF-16"),
        (b'{"messages": []}', "not a conversation of ChatGPT or Claude"),
        (b"[" + b"[]," * 1000 + b"[]]", "The first of 1001"),
        (zipped(users=[]), "no conversations.json"),
        (b"PK\x03\x04", "the zip is damaged"),
    ],
)
def test_import_rejects_other_files(alice: Client, body: bytes, why: str) -> None:
    answer = alice.post("chats/import", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert why in answer.json()["error"]["message"]
    assert not Chat.objects.exists()


def test_a_body_has_the_limit_of_large_bodies(alice: Client, settings: Any) -> None:
    settings.REQUEST_MAX_BYTES = 100
    assert send(alice, THREE)["chats"] == 3
    settings.OPENAI_REQUEST_MAX_BYTES = 200
    answer = alice.post("chats/import", content=zipped(conversations=THREE))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_a_request_ends_in_time_and_the_same_file_goes_on(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "IMPORT_SECONDS", 0.0)
    answers = [send(alice, THREE) for _ in range(4)]
    assert [(one["done"], one["chats"], one["already_there"]) for one in answers] == [
        (False, 1, 0),
        (False, 1, 1),
        (False, 1, 2),
        (True, 0, 3),
    ]
    monkeypatch.setattr(imports, "MAX_SECONDS", 0.0)
    assert alice.post("chats/import", json=THREE).status_code == 400
    assert names() == ALL


def test_conversations_that_cannot_be_stored_are_named_without_text_and_the_rest_imported(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(owner: User, chat: Any) -> Any:
        if chat.metadata["source_id"] == "chatgpt:c2":
            raise DataError("secret words")
        return prepare_chat(owner, chat)

    monkeypatch.setattr(importing, "prepare_chat", refuse)
    monkeypatch.setattr(importing, "MAX_MESSAGES", 3)
    many = [node("n0", None, "user", "Q"), *(node(f"n{at}", f"n{at - 1}", "user", "Q") for at in range(1, 4))]
    told = send(alice, [chatgpt("many", *many), *THREE])
    assert (told["chats"], told["failed"]) == (2, 2)
    assert told["failures"] == [
        "conversation 1 of the file: it has 4 messages; at most 3 are taken here",
        "conversation 3 of the file: the database cannot store it (DataError)",
    ]


@pytest.mark.promise("P33")
def test_imports_at_once_double_nothing(alice: Client) -> None:
    """Of several processes; one of them has one import at a time."""
    user = User.objects.get(username="alice")
    body = zipped(conversations=[chatgpt(f"m{at}") for at in range(40)])

    def import_all(report: ImportReport) -> None:
        for _ in import_export(user, Export(BytesIO(body)), report):
            pass
        connection.close()

    reports = [ImportReport() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(import_all, reports))
    assert sum(one.chats for one in reports) == 40
    assert sum(one.already_there for one in reports) == 120
    assert len(names()) == len(set(names())) == 40


def test_a_process_imports_once_per_user_and_for_one_user_at_a_time(
    alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, began, release = threading.Lock(), threading.Event(), threading.Event()

    def importing_now(*_: object) -> Any:
        assert lock.acquire(blocking=False)
        began.set()
        release.wait(10)
        lock.release()
        return {}

    monkeypatch.setattr(imports, "_import", importing_now)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send, alice, THREE)
        assert began.wait(10)
        second = pool.submit(send, bob, THREE)
        refused = alice.post("chats/import", json=THREE)
        release.set()
        assert first.result() == second.result() == {}
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    Allowance.objects.update(requests_per_minute=2)
    assert alice.post("chats/import", json=THREE).status_code == 429


def test_seconds_of_importing_per_hour_are_limited_also_of_refused_files(
    alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "SECONDS_PER_HOUR", 2)
    codes = [alice.post("chats/import", content=b"what?").status_code for _ in range(3)]
    assert codes == [400, 400, 429]
    assert send(bob, THREE)["chats"] == 3


def test_message_that_is_too_long_is_cut_and_named_and_its_conversation_imported(
    alice: Client, settings: Any, tmp_path: Path
) -> None:
    settings.MESSAGE_MAX_CHARS = 300
    long = chatgpt("long", node("q", "root", "user", "x" * 301), node("a", "q", "assistant", "A"))
    told = send(alice, [*THREE, long])
    assert (told["chats"], told["messages"], told["failed"]) == (4, 7, 0)
    assert told["shortened"] == ["“Herons”, message 1: 301 characters, cut to 300"]
    chat = Chat.objects.get(metadata__source_id="chatgpt:long")
    texts = [one.content for one in chat.messages.order_by("seq")]
    assert texts == ["x" * 290 + "\n[cut off]", "A"]
    assert send(alice, [long])["shortened"] == []
    chat.delete()
    file = tmp_path / "conversations.json"  # an operator may import messages of any length
    file.write_text(json.dumps([long]))
    run(file)
    assert Message.objects.filter(content="x" * 301).exists()


def test_hostile_citations_take_no_time(alice: Client) -> None:
    """The citation of ChatGPT, which is taken out, without its end."""
    began = time.process_time()
    told = send(alice, [chatgpt("c", node("q", "root", "user", "\ue200cite\ue202" * 28_000))])
    assert (told["chats"], time.process_time() - began < 2) == (1, True)


def test_import_counts_to_daily_tokens(alice: Client) -> None:
    Allowance.objects.update_or_create(pk=User.objects.get(username="alice").pk, defaults={"tokens_per_day": 200})
    long = chatgpt("long", node("q", "root", "user", "word " * 400))
    for already_there in (0, 3):
        report = send(alice, [long, *THREE])
        assert (report["failed"], report["already_there"]) == (1, already_there)
        assert "tokens" in report["failures"][0]
    assert 0 < Allowance.objects.get().day_tokens < 200


def test_import_for_user_being_deleted_stores_nothing(alice: Client) -> None:
    user = User.objects.get(username="alice")
    steps = import_export(user, Export(BytesIO(zipped(conversations=THREE))), ImportReport())
    next(steps)
    User.objects.update(is_active=False)
    with pytest.raises(User.DoesNotExist):
        next(steps)
    assert names() == ALL[:1]


def test_a_server_that_restarts_sends_the_client_back(alice: Client, drain: Callable[[], None]) -> None:
    drain()
    assert alice.post("chats/import", json=THREE).status_code == 503


@pytest.mark.exhaustive
def test_the_commands_of_the_docs_import_an_export(
    live: LiveServer, alice: Client, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "IMPORT_SECONDS", 0.0)
    loop = snippet("docs/commands.md", "bash", live.url)
    env = {**os.environ, "TOKEN": alice.token, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(["bash", "-c", loop], cwd=export.parent, env=env, capture_output=True, text=True)
    assert [json.loads(line)["done"] for line in done.stdout.splitlines()] == [False, False, False, True]
    (command,) = re.findall(r"chatmemory (import_chat .*)\n```", (ROOT / "docs/commands.md").read_text())
    monkeypatch.chdir(export.parent)
    out = StringIO()
    call_command(*command.split(), stdout=out)
    assert "3 chats already there" in out.getvalue()


# --- import_chat


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file = tmp_path / "export.zip"
    file.write_bytes(zipped(conversations_000=THREE[:2], conversations_001=THREE[2:]))
    return file


def run(*args: object, err: str = "") -> str:
    out, errors = StringIO(), StringIO()
    call_command("import_chat", *map(str, args), user="alice", stdout=out, stderr=errors)
    assert errors.getvalue() == err
    return out.getvalue()


def test_the_command_tells_counts_of_exports_and_ids_of_others(alice: Client, export: Path) -> None:
    other = export.parent / "chat.json"
    other.write_text(json.dumps({"messages": [{"role": "user", "content": "Hello"}]}))
    told = "3 chats, 5 messages {}; {} chats already there, 0 empty, 2 thoughts, 1 images left out.\n"
    assert run(export, "--dry-run") == f"export.zip: {told.format('to import', 0)}"
    assert not Chat.objects.exists()
    chat_id, counts = run(export, other).splitlines()
    assert Chat.objects.get(pk=chat_id).last_seq == 1
    assert f"{counts}\n" == f"export.zip: {told.format('imported', 0)}"
    again = "0 chats, 0 messages imported; 3 chats already there, 0 empty, nothing left out."
    assert again in run(export)
    assert Message.objects.count() == 6


def test_import_command_counts_omissions(alice: Client, tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    hello, output = {"role": "user", "content": "Hello"}, {"role": "tool", "content": "1"}
    file.write_text("\n".join(json.dumps({"messages": [hello, output]}) for _ in range(2)))
    assert len(run(file, err="2 tool messages left out.\n").splitlines()) == 2


def test_the_command_fails_if_something_cannot_be_imported(alice: Client, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([*THREE, 7]))
    with pytest.raises(CommandError, match="Conversations that could not be imported: 1"):
        run(file, err="conversation 4 of the file: it is not a conversation of ChatGPT or Claude\n")
    assert names() == ALL
    file.write_bytes(zipped(users=[]))
    with pytest.raises(CommandError, match=r"conversations.json: the zip has no conversations.json"):
        run(file)


def test_the_command_ends_when_the_database_is_away(
    alice: Client, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("secret words")

    monkeypatch.setattr(importing, "prepare_chat", fail)
    with pytest.raises(CommandError, match=r"it was not stored \(OperationalError\)"):
        run(export)
