"""Chats found, counted and deleted by metadata, end user and title: those of the caller, and no others."""

import json
import os
import subprocess
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User

from conversations import chat_lifecycle
from conversations.accounts.models import EndUser
from conversations.chat_filters import MAX_INDEXED, chats_of
from conversations.models import Chat, ChatMetadata
from tests.api.talking import error, paged
from tests.support.database import traces
from tests.support.docs import snippet
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

METADATA: dict[str, Any] = {
    "customer": "AB-1",
    'say "hello"': 'it\'s "so"; -- \\',
    "a.b[0]": "1.50",
    "ключ 🗝": "ж",
    "a&b=c%20": "&=+ ",
    "": "",
    "number": 7,
    "share": 0.5,
    "flag": True,
    "none": None,
}
WRITTEN = {"number": "7", "share": "0.5", "flag": "true", "none": "null"}
"""How a URL has the values that are no strings."""


def create_chat(client: Client, **metadata: Any) -> str:
    """Return a new chat with this metadata."""
    return str(client.post("chats", json={"metadata": metadata}).json()["id"])


def find_chats(client: Client, metadata: dict[str, Any], **query: Any) -> list[str]:
    params = {f"metadata.{key}": value for key, value in metadata.items()} | query
    answer = client.get("chats", params=params)
    assert answer.status_code == 200, answer.text
    return [chat["id"] for chat in answer.json()["results"]]


def test_a_chat_is_found_by_each_of_its_members(alice: Client, bob: Client) -> None:
    create_chat(bob, **METADATA)
    chat = create_chat(alice, **METADATA, nested={"a": "b"}, list=["a"])
    create_chat(alice, customer="AB-2")
    for key, value in METADATA.items():
        written = WRITTEN.get(key, value)
        assert find_chats(alice, {key: written}) == [chat], key
        assert find_chats(alice, {key: f"{written}x"}) == [], key
    assert find_chats(alice, {key: WRITTEN.get(key, value) for key, value in METADATA.items()}) == [chat]
    assert find_chats(alice, {"customer": ["AB-1", "AB-2"]}) == []
    assert [find_chats(alice, one) for one in ({"nested": '{"a": "b"}'}, {"nested.a": "b"}, {"list": "a"})] == [[]] * 3


def test_find_chats_uses_current_metadata(alice: Client) -> None:
    chat = create_chat(alice, step=1, customer="AB-1")
    assert alice.patch(f"chats/{chat}", json={"title": "New"}).status_code == 200
    assert alice.patch(f"chats/{chat}", json={"metadata": {"step": True}}).status_code == 200
    searches: list[dict[str, str]] = [{"step": "1"}, {"customer": "AB-1"}, {"step": "true"}]
    assert [find_chats(alice, one) for one in searches] == [[], [], [chat]]
    assert alice.patch(f"chats/{chat}", json={"metadata": {"step": 1}}).status_code == 200
    assert [find_chats(alice, one) for one in searches] == [[chat], [], []], "1 is not true"
    assert alice.delete(f"chats/{chat}").status_code == 204
    assert not ChatMetadata.objects.exists()


def test_metadata_of_many_members_is_kept_found_by_the_first_and_written_where_it_differs(
    alice: Client,
) -> None:
    many = {f"k{number}": 1 for number in range(1500)}
    chat = create_chat(alice, **many)
    assert [find_chats(alice, {key: "1"}) for key in ("k0", "k63", "k64")] == [[chat], [chat], []]
    before = set(ChatMetadata.objects.values_list("pk", flat=True))
    assert len(before) == MAX_INDEXED
    changed = alice.patch(f"chats/{chat}", json={"metadata": {**many, "k1": 2}}).json()
    assert changed["metadata"] == {**many, "k1": 2}
    after = set(ChatMetadata.objects.values_list("pk", flat=True))
    assert (len(after), len(before - after)) == (MAX_INDEXED, 1), "only what differs is written"


def test_find_chats_pages_newest_first(alice: Client, bob: Client) -> None:
    mine = [create_chat(alice, kind="a", even=number % 2) for number in range(6)]
    create_chat(alice, kind="b")
    assert [chat["id"] for chat in paged(alice, "chats?metadata.kind=a&limit=2")] == mine[::-1]
    assert [chat["id"] for chat in paged(alice, "chats?metadata.kind=a&metadata.even=1&limit=2")] == mine[5::-2]
    alice.patch(f"chats/{mine[3]}", json={"title": "My order"})
    bob.post("chats", json={"title": "My order, too"})
    assert find_chats(alice, {"kind": "a"}, search="ORDER") == find_chats(alice, {}, search="my") == [mine[3]]
    assert find_chats(alice, {}, search="%") == []


def test_a_branch_is_found_as_its_chat_is(alice: Client, upstream: FakeUpstream) -> None:
    def completed(*history: str) -> str:
        messages = [{"role": "user", "content": one} for one in history]
        messages[1::2] = [{"role": "assistant", "content": one["content"]} for one in messages[1::2]]
        answer = alice.post("chat/completions", json={"model": "arco", "messages": messages}).json()
        return str(answer["choices"][0]["message"]["content"])

    first = completed("Hello")
    (chat,) = paged(alice, "chats")
    alice.patch(f"chats/{chat['id']}", json={"metadata": {"kind": "a"}})
    for question in ("And then?", "Or else?"):
        completed("Hello", first, question)
    assert len(find_chats(alice, {"kind": "a"})) == len(find_chats(alice, {})) == 2


def test_find_chats_rejects_invalid_filters(alice: Client) -> None:
    queries = ["metadata=x", "Metadata.kind=a", "kind=a", "since=yesterday", "until=2026-13-01"]
    queries += ["&".join(f"metadata.k{number}=x" for number in range(17)), "&".join(["metadata.k=x"] * 17)]
    for query, call in product(queries, (alice.get, alice.delete)):
        error(call(f"chats?{query}"), 400, "invalid_request")


def test_chats_are_found_by_the_time_of_their_last_message(alice: Client, upstream: FakeUpstream) -> None:
    mine = [create_chat(alice, kind="a") for _ in range(3)]
    for day, chat in enumerate(mine, start=1):
        Chat.objects.filter(pk=chat).update(last_message_at=datetime(2026, 3, day, 12, tzinfo=UTC))
    assert find_chats(alice, {}, since="2026-03-02") == [mine[2], mine[1]]
    assert find_chats(alice, {}, until="2026-03-02T12:00:00Z") == [mine[0]]
    assert find_chats(alice, {"kind": "a"}, since="2026-03-02T13:00:00+01:00", until="2026-03-03") == [mine[1]]
    assert removed(alice, "until=2026-03-03") == (2, 0, 2)
    alice.ask("Hello", mine[0])
    assert find_chats(alice, {}, since="2026-03-04") == [mine[0]]


# Deletion


def removed(client: Client, query: str) -> tuple[int, int, int]:
    """Delete chats; return how many there were, how many are deleted and how many are left."""
    answer = client.delete(f"chats?{query}")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["count"], body["deleted"], body["left"]


def test_many_are_counted_and_then_deleted(alice: Client, bob: Client) -> None:
    mine = [create_chat(alice, kind="a") for _ in range(3)]
    kept, others = create_chat(alice, kind="b"), create_chat(bob, kind="a")
    assert removed(alice, "metadata.kind=a") == (3, 0, 3)
    for wrong in (2, 4):
        told = error(alice.delete(f"chats?metadata.kind=a&confirm={wrong}"), 409, "conflict")
        assert told["details"] == {"confirm": [f"The filters find 3 chats now, not {wrong}."]}
    assert removed(alice, "metadata.kind=a&confirm=3") == (3, 3, 0)
    assert removed(alice, "metadata.kind=a&confirm=0") == (0, 0, 0)
    assert [traces(one) for one in mine] == [[]] * 3
    assert [chat["id"] for chat in paged(alice, "chats")] == [kept]
    assert find_chats(bob, {"kind": "a"}) == [others]


def test_delete_chats_requires_a_filter(alice: Client) -> None:
    create_chat(alice)
    for query in ("", "search=", "confirm=1", "limit=5&search=a", "search=a&confirm=x"):
        error(alice.delete(f"chats?{query}"), 400, "invalid_request")
    assert Chat.objects.count() == 1


def test_a_deletion_ends_in_time(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations.api.chats.DELETION_SECONDS", -1.0)
    create_chat(alice, kind="a")
    assert removed(alice, "metadata.kind=a&confirm=1") == (1, 0, 1)


def test_delete_chats_skips_chats_changed_meanwhile(alice: Client) -> None:
    mine = [create_chat(alice, kind="a") for _ in range(2)]
    chats = chats_of(User.objects.get(username="alice"), members=[("kind", "a")])
    keys = [(chat.pk, chat.owner_id) for chat in chats]
    alice.patch(f"chats/{mine[0]}", json={"metadata": {"kind": "b"}})
    assert chat_lifecycle.delete_chats(chats, keys) == 1
    assert [chat["id"] for chat in paged(alice, "chats")] == [mine[0]]


def test_an_app_names_its_end_user_by_a_parameter_too(alice: Client, shop: Client) -> None:
    header = {"X-Chatmemory-User": "u-1"}
    chat = shop.post("chats", json={"metadata": {"kind": "a"}}, headers=header).json()["id"]
    assert find_chats(shop, {"kind": "a"}, user="u-1") == find_chats(shop, {}, user="u-1") == [chat]
    assert find_chats(shop, {"kind": "a"}) == []
    error(alice.get("chats?user=u-1"), 403, "permission_denied")
    for unknown in ("", "u-2"):
        error(shop.get(f"chats?user={unknown}"), 404, "not_found")
        error(shop.delete(f"chats?user={unknown}"), 404, "not_found")
    assert EndUser.objects.count() == 1, "a filter makes nobody"
    assert removed(shop, "user=u-1&confirm=1") == (1, 1, 0)


@pytest.mark.exhaustive
def test_the_commands_of_the_docs_find_a_chat_and_delete_it(alice: Client) -> None:
    commands = snippet("docs/api.md", "bash", alice.base, "Find chats, and delete many")
    env = {**os.environ, "TOKEN": alice.token, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(["bash", "-ec", commands], env=env, capture_output=True, text=True, timeout=60, check=True)
    chat, page, counted, deleted = map(json.loads, done.stdout.replace("}{", "}\n{").split("\n"))
    assert page["results"] == [chat]
    assert counted == {"count": 1, "deleted": 0, "left": 1}
    assert deleted == {"count": 1, "deleted": 1, "left": 0}
