"""Lists end a page at a limit of bytes and link to the next; what a client may store beside a text is bounded, too."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client as Browser

from conversations.models import Chat, Message
from tests.admin.rows import make_chat
from tests.api.talking import error
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

ROOM = 10_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the room of an answer small."""
    monkeypatch.setattr("chatmemory.database.rows.ANSWER_MAX_BYTES", ROOM)


@pytest.fixture
def owner(alice: Client) -> User:
    return User.objects.get(username="alice")


def pages(client: Client, url: str, link: str = "next") -> list[dict[str, Any]]:
    """Return this page and all that follow by `link`."""
    found = [client.http.get(url).json()]
    while following := found[-1][link]:
        found.append(client.http.get(following).json())
    return found


def size(row: dict[str, Any]) -> int:
    return len(json.dumps(row, ensure_ascii=False).encode())


def check(client: Client, path: str, key: str, wanted: list[Any]) -> None:
    """Assert that each row comes once and in order, forwards and back, on pages that are limited by size."""
    there = pages(client, f"/v1/{path}limit=100")
    back = pages(client, there[-2]["next"], "previous")
    for way in (there, back[::-1]):
        assert [row[key] for page in way for row in page["results"]] == wanted
    assert 1 < len(there) < len(wanted)
    for page in there:
        rows = page["results"]
        assert len(rows) == 1 or 0 < sum(map(size, rows)) < ROOM + 1000 * len(rows)


def test_a_page_of_chats_ends_at_so_many_bytes(alice: Client, owner: User, small: None) -> None:
    sizes = [10, 2000, 20, 30_000, 9000, 500, 500, 500, 12_000, 4000, 4000, 4000, 10]
    made = [
        Chat.objects.create(owner=owner, instructions="é" * (number // 4), metadata={"note": "x" * (number // 2)})
        for number in sizes
    ]
    check(alice, "chats?", "id", [str(chat.pk) for chat in reversed(made)])


@pytest.mark.parametrize("order", first_of(["asc", "desc"]))
def test_a_page_of_messages_ends_at_so_many_bytes(order: str, alice: Client, owner: User, small: None) -> None:
    chat = make_chat(owner, turns=8)
    for message in Message.objects.filter(chat=chat):
        Message.objects.filter(pk=message.pk).update(content="ж" * (message.seq * 400))
    seqs = list(range(1, 17))
    check(alice, f"chats/{chat.pk}/messages?order={order}&", "seq", seqs if order == "asc" else seqs[::-1])


def test_usual_rows_fill_their_page(alice: Client, owner: User) -> None:
    for _ in range(60):
        Chat.objects.create(owner=owner, policy="chunked")
    assert [len(page["results"]) for page in pages(alice, "/v1/chats")] == [50, 10]
    assert [len(page["results"]) for page in pages(alice, "/v1/chats?limit=25")] == [25, 25, 10]


def test_results_of_a_search_end_at_so_many_bytes(alice: Client, owner: User, small: None) -> None:
    for number in range(6):
        make_chat(owner, turns=1, said=f"The heron {'waits ' * 700} {number}")
    answer = alice.post("search", json={"q": "heron", "limit": 20}).json()
    assert 1 <= len(answer["results"]) <= 3
    assert answer["next"] is None


def test_a_list_takes_no_more_queries_than_it_did_but_one(
    alice: Client, owner: User, django_assert_max_num_queries: Any
) -> None:
    """One query for sizes, then one for rows."""
    browser = Browser(headers={"Authorization": f"Bearer {alice.token}"})
    for _ in range(5):
        Chat.objects.create(owner=owner, policy="chunked")
    with django_assert_max_num_queries(3):
        assert browser.get("/v1/chats").status_code == 200


# What is stored beside a text

LARGE = {"note": "é" * 8200}
FITS = {"note": "é" * 8185}


def test_metadata_and_options_are_bounded(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.post("chats", json={"metadata": FITS})
    assert chat.status_code == 201, chat.text
    path = f"chats/{chat.json()['id']}"
    calls: list[tuple[Any, str, dict[str, Any]]] = [
        (alice.post, "chats", {"metadata": LARGE}),
        (alice.patch, path, {"metadata": LARGE}),
        (alice.post, "chats", {"options": LARGE}),
        (alice.patch, path, {"options": LARGE}),
        (alice.post, "message/first", {"message": "x", "metadata": LARGE}),
        (alice.post, f"{path}/messages", {"message": "x", "metadata": LARGE}),
    ]
    for call, where, body in calls:
        field = next(name for name in body if name != "message")
        told = error(call(where, json=body), 400, "invalid_request")
        assert told["details"] == {field: ["This has 16,411 bytes as JSON; at most 16,384 are allowed."]}
    assert Chat.objects.count() == 1
    assert not Message.objects.exists()


def test_pages_show_rows_older_than_limits(alice: Client, owner: User) -> None:
    chat = Chat.objects.create(owner=owner, policy="chunked", metadata={"note": "x" * 3_000_000})
    after = Chat.objects.create(owner=owner, policy="chunked")
    shown = [[row["id"] for row in page["results"]] for page in pages(alice, "/v1/chats")]
    assert shown == [[str(after.pk)], [str(chat.pk)]]
    changed = alice.patch(f"chats/{chat.pk}", json={"title": "Another"})
    assert changed.json()["metadata"] == chat.metadata


def test_imported_metadata_is_bounded(owner: User, tmp_path: Path, settings: Any) -> None:
    """A message may have more metadata than a chat: recorded outputs of tools are stored in it."""
    file = tmp_path / "chat.json"

    def store(of_chat: dict[str, Any], of_message: dict[str, Any]) -> None:
        message = {"role": "user", "text": "Hello", "metadata": of_message}
        file.write_text(json.dumps({"chats": [{"id": "1", "metadata": of_chat, "messages": [message]}]}))
        call_command("import_chat", str(file), user="alice")

    with pytest.raises(CommandError, match=r"The chat's metadata has 16\d\d\d bytes as JSON; the limit is 16384"):
        store(LARGE, {})
    with pytest.raises(CommandError, match=r"message 1 has 11000[0-9]{2} bytes as JSON; the limit is 1048576"):
        store({}, {"output": "x" * 1_100_000})
    assert not Chat.objects.exists()
    store({}, LARGE)
    settings.METADATA_MAX_BYTES = 20_000
    store(LARGE, {})
    assert Chat.objects.count() == 2
