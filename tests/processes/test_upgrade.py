"""A database of an earlier version, migrated and used: nothing that people said or had summarized is lost.

`upgrade/` has the databases that commit 3554c75 left when its server and its worker were killed, migrated by commit
fe405414, and what its API had said of them: a chat of each policy with its versions, a pin and verified prompts; an
image; a turn that waits for the output of a tool; a fold that was running; a reply that was being written.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from tests.support.fakes.upstream import FakeUpstream
from tests.support.images import png
from tests.support.live_server import Client
from tests.support.processes import Product, scratch
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.exhaustive, pytest.mark.postgres]

FILES = Path(__file__).with_name("upgrade")
NUMBERS = {
    "MEMORY_K_RAW_TURNS": "2",
    "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "400",
    "MEMORY_PROMPT_TOKEN_BUDGET": "900",
    "MEMORY_SUMMARY_TOKEN_CAP": "200",
}
"""The settings that the earlier version ran with."""


@pytest.fixture
def old(fake: FakeUpstream, db: None, tmp_path: Path) -> Iterator[Product]:
    """Yield the product on the database of the earlier version, migrated."""
    is_postgres = connection.vendor == "postgresql"
    if not is_postgres:
        (tmp_path / "scratch.sqlite3").write_bytes(unpacked("sqlite.sqlite3"))
    with scratch(tmp_path, settings.DATABASE_URL if is_postgres else "") as url:
        if is_postgres:
            with psycopg.connect(url.replace("postgres://", "postgresql://"), autocommit=True) as opened:
                opened.execute(unpacked("postgres.sql"))
        with Product(tmp_path, url, **NUMBERS) as product:
            product.use(fake)
            # Its queue was signed with a key of its own. The queue is only a hint: the sweep sees what is due.
            product.expected.add("dropped a task that was signed with another key")
            product.manage("migrate", "--verbosity", "0")
            yield product
            assert product.errors() == []


def unpacked(name: str) -> bytes:
    return gzip.decompress((FILES / f"{name}.gz").read_bytes())


def client(product: Product, user: str) -> Client:
    product.clients.append(Client(product.url, product.manage("create_token", user).split()[-1]))
    return product.clients[-1]


def test_nothing_is_lost(old: Product) -> None:
    vendor = "postgres" if connection.vendor == "postgresql" else "sqlite"
    said: dict[str, Any] = json.loads(unpacked(f"{vendor}.json"))
    chats = {chat["name"]: chat for chat in said["chats"]}
    old.server()
    users = {name: client(old, name) for name in ("alice", "bob")}
    for chat in chats.values():
        assert_whole(users[chat["owner"]], chat)
    assert_the_cut_reply_is_kept(users["alice"], said["active"])
    assert_the_image_is_kept(users["bob"], chats["attachments"])
    assert_the_open_turn_goes_on(users["bob"], chats["open turn"])
    assert_the_fold_goes_on(old, users["bob"], chats["running fold"])
    users["alice"].ask("And what comes after all that?", chats["hierarchical"]["id"])


def assert_whole(user: Client, chat: dict[str, Any]) -> None:
    """Messages, versions and pins are as they were, and each prompt is still the one that was sent."""
    path = f"chats/{chat['id']}"
    answer = user.get(f"{path}/messages?limit=200")
    assert answer.status_code == 200, answer.text
    now = answer.json()["results"]
    assert [{key: new[key] for key in old} for old, new in zip(chat["messages"], now, strict=False)] == chat["messages"]
    versions = {one["version"]: one for one in user.get(f"{path}/revisions?limit=100").json()["results"]}
    assert [{key: versions[old["version"]][key] for key in old} for old in chat["revisions"]] == chat["revisions"]
    assert [one["text"] for one in user.get(f"{path}/pins").json()["results"]] == chat["pins"]
    for message, prompt in chat["prompts"].items():
        again = user.get(f"{path}/messages/{message}/context").json()
        assert (again["verified"], again["prompt_hash"], again["tokens"]) == (True, *prompt.values())


def assert_the_cut_reply_is_kept(user: Client, active: dict[str, str]) -> None:
    def newest() -> dict[str, Any]:
        found: dict[str, Any] = user.get(f"chats/{active['chat']}/messages?order=desc").json()["results"][0]
        return found

    wait_for(lambda: newest()["status"] == "incomplete", "the end of a reply whose server was killed")
    assert newest()["content"].startswith(active["text"].strip())


def assert_the_image_is_kept(user: Client, chat: dict[str, Any]) -> None:
    (image,) = chat["messages"][0]["attachments"]
    assert user.get(f"chats/{chat['id']}/attachments/{image['sha256']}").content == png(32, 24, 7)


def assert_the_open_turn_goes_on(user: Client, chat: dict[str, Any]) -> None:
    """By its name: how tool calls are recognized changed, so that without it the history is imported once more."""
    question, _, call = chat["messages"]
    function = {"name": call["tool_call"]["name"], "arguments": call["tool_call"]["arguments"]}
    tool_call = {"id": call["tool_call"]["id"], "type": "function", "function": function}
    messages = [
        {"role": "user", "content": question["content"]},
        {"role": "assistant", "content": None, "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": tool_call["id"], "content": "AB-1234: two seats"},
    ]
    answer = user.post(
        "chat/completions",
        json={"model": "arco", "messages": messages},
        headers={"x-chatmemory-conversation-id": chat["id"]},
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-chatmemory-conversation-id"] == chat["id"]


def assert_the_fold_goes_on(product: Product, user: Client, chat: dict[str, Any]) -> None:
    assert chat["revisions"] == []
    product.worker()
    wait_for(
        lambda: user.get(f"chats/{chat['id']}/brief").json()["version"] > 0,
        "the fold that the killed worker had begun",
        timeout=120,
    )
