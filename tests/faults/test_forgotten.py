"""What was deleted is gone: from prompts at once, and within five minutes from everything stored (P25).

Every text to be forgotten has an unguessable word, which the fake's summarizer repeats. Afterwards it must be in no
byte of a dump (of PostgreSQL by `pg_dump`, of SQLite the files themselves) and in no log.
"""

import secrets
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection

from conversations.models import Chat, Message
from tests.faults.bench.postgres import bindir
from tests.processes.talking import LOW, say, settled
from tests.support.database import bytes_of
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product, here
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def dump() -> bytes:
    """Return everything that the database stores, as someone who obtains its files would see it."""
    if connection.vendor == "sqlite":
        found = Path(str(connection.settings_dict["NAME"]))
        return b"".join(bytes_of(path) for path in found.parent.glob(f"{found.name}*"))
    return subprocess.run([bindir() / "pg_dump", "--dbname", here()], capture_output=True, check=True).stdout


@pytest.mark.promise("P25")
def test_deleted_text_is_in_no_table(product: Product, fake: FakeUpstream) -> None:
    product.env |= LOW | {"MEMORY_FOLD_BITE_TOKENS": "1000", "MEMORY_MIN_RETAINED": "0"}
    fake.behave("normal", lane="complete", pattern=r"[A-Z]{2}-\d{4,}")
    product.worker()
    product.server()
    client, zoe = product.client(), f"zoe{secrets.randbelow(10**9):09}"
    held = [f"CN-{secrets.randbelow(10**18):018}" for _ in range(4)]
    chat_id = remembered(client, *held[:2])
    other = remembered(client, held[2])
    theirs = remembered(product.client(zoe), held[3])
    assert all(word.encode() in dump() for word in held)

    for message in Message.objects.filter(chat=chat_id, seq__lte=4):
        path = f"chats/{chat_id}/messages/{message.pk}"
        edit = {"content": "Nothing of note."}
        answer = client.delete(path) if message.seq <= 2 else client.patch(path, json=edit)
        assert answer.status_code in (200, 204)
    assert client.delete(f"chats/{other}").status_code == 204
    assert product.clients[-1].erase(confirm=zoe).status_code == 204
    over = time.monotonic()
    say(client, "And what do you know now?", chat_id)
    assert in_prompts(fake, over, *held) == [], "prompts do without at once"
    assert not Chat.objects.filter(pk__in=[other, theirs]).exists()
    assert not User.objects.filter(username=zoe).exists()

    while left := find_words(product, *held, zoe):
        assert time.monotonic() - over < 300, left
        product.manage("sweep")
    wait_for(lambda: settled(chat_id), "what is left, folded again", timeout=60)
    assert find_words(product, *held, zoe) == in_prompts(fake, over, *held) == []


def in_prompts(fake: FakeUpstream, since: float, *words: str) -> list[str]:
    """Return the words that the upstream was sent after that moment."""
    prompts = [request.text for request in fake.requests if request.at > since]
    return [word for word in words for prompt in prompts if word in prompt]


def find_words(product: Product, *words: str) -> list[str]:
    """Return those of the words that are in the dump or in the logs."""
    places = dump().lower() + product.log_text().lower().encode()
    return [word for word in words if word.lower().encode() in places]


def remembered(client: Client, *words: str) -> UUID:
    """Make a chat whose first turns and summary contain these words; the first turn has metadata."""
    chat_id: UUID | None = None
    for word in words:
        body: dict[str, Any] = {"message": f"Note {word}, please: {lorem(120)}"}
        if word is words[0]:
            body["metadata"] = {"note": word}
        path = f"chats/{chat_id}/messages" if chat_id else "message/first"
        events = client.events("POST", path, json=body, headers={"Idempotency-Key": word[-12:]})
        chat_id = UUID(events[0].data["chat_id"])
    for number in range(10):
        say(client, f"Turn {number}: {lorem(150)}", chat_id)
    assert chat_id is not None
    brief = wait_for(partial(settled, chat_id), "a fold")
    assert all(word in brief.global_summary for word in words)
    return chat_id
