"""What was deleted is gone: from prompts at once, and within five minutes from everything stored (P25).

Every text to be forgotten has a canary, an unguessable word, which the fake's summarizer repeats. Afterwards it must
be in no byte of a dump (of PostgreSQL by `pg_dump`, of SQLite the files themselves) and in no
log.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from conversations.models import Chat, Message
from memory.models import SummaryRevision
from tests.faults.bench.canaries import PATTERN
from tests.faults.bench.forgetting import dump, gone, traces
from tests.processes.talking import LOW, say, settled
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOKENS = 100
"""Upper bound for a turn sent in the meantime."""
LONG = 2000
"""Turns of the long chats."""
BITES = {"MEMORY_FOLD_BITE_TOKENS": "1000", "MEMORY_MIN_RETAINED": "0"}
"""Makes their folds produce about eighty revisions, each with one call."""


def canary() -> str:
    return f"CN-{secrets.randbelow(10**18):018}"


def forget(client: Client, chat_id: UUID, *seqs: int) -> None:
    """Delete these messages of a chat."""
    for message in Message.objects.filter(chat=chat_id, seq__in=seqs):
        assert client.delete(f"chats/{chat_id}/messages/{message.pk}").status_code == 204


@pytest.fixture
def talking(product: Product, fake: FakeUpstream) -> Product:
    """The product with all its processes, with a summarizer that keeps canaries."""
    product.env |= LOW | BITES
    fake.behave("normal", lane="complete", pattern=PATTERN)
    product.worker()
    product.server()
    return product


@pytest.mark.promise("P25")
def test_what_was_deleted_is_nowhere(talking: Product, fake: FakeUpstream) -> None:
    client, zoe = talking.client(), f"zoe{secrets.randbelow(10**9):09}"
    deleted, edited, chats, users = [canary() for _ in range(4)]
    chat_id = remembered(client, deleted, edited)
    other = remembered(client, chats)
    theirs = remembered(talking.client(zoe), users)
    held = [deleted, edited, chats, users]
    assert len([one for one in held if one in dump().decode("utf-8", "replace")]) == 4
    forget(client, chat_id, 1, 2)
    for message in Message.objects.filter(chat=chat_id, seq__in=[3, 4]):
        answer = client.patch(f"chats/{chat_id}/messages/{message.pk}", json={"content": "Nothing of note."})
        assert answer.status_code == 200
    assert client.delete(f"chats/{other}").status_code == 204
    assert talking.clients[-1].erase(confirm=zoe).status_code == 204
    over = time.monotonic()
    say(client, "And what do you know now?", chat_id)
    assert traces_in_prompts(fake, over, *held) == [], "prompts do without at once"
    assert not Chat.objects.filter(pk__in=[other, theirs]).exists()
    assert not User.objects.filter(username=zoe).exists()
    gone(talking, *held, zoe)
    wait_for(lambda: settled(chat_id), "what is left, folded again", timeout=60)
    assert traces(talking, *held, zoe) == []
    assert traces_in_prompts(fake, over, *held) == []


@pytest.mark.promise("P25")
def test_forgetting_in_long_chats_costs_what_came_after(product: Product, fake: FakeUpstream) -> None:
    """While a chat forgets a message, others are sent to it, and none is lost."""
    product.env |= LOW | BITES
    fake.behave("normal", lane="complete", pattern=PATTERN)
    words = {3: canary(), 1990: canary()}
    chats = {seq: long_chat(seq, word) for seq, word in words.items()}
    product.worker()
    product.server()
    product.manage("sweep")
    for chat in chats.values():
        wait_for(partial(settled, chat.pk), "a long chat, folded", timeout=240)
    client = product.client()
    for seq, chat in chats.items():
        assert words[seq] in dump().decode("utf-8", "replace")
        had_seen = SummaryRevision.objects.filter(chat=chat, through_seq__gte=seq - 1).count()
        assert had_seen > 5
        calls = len(fake.calls("complete"))
        with sending(product, chat.pk) as sent:
            forget(client, chat.pk, seq)
            over = time.monotonic()
            gone(product, words[seq])
            wait_for(partial(settled, chat.pk), "what is left, folded again", timeout=240)
        cost = len(fake.calls("complete")) - calls
        assert sent, "nobody was kept from talking"
        assert traces_in_prompts(fake, over, words[seq]) == []
        since = len(sent) * TOKENS // int(BITES["MEMORY_FOLD_BITE_TOKENS"]) + 2
        assert cost <= had_seen + since, f"{cost} calls for {had_seen} revisions and {len(sent)} turns"


def long_chat(seq: int, word: str) -> Chat:
    """Make an unfolded chat of `LONG` turns, in which message `seq` says the word."""
    chat = make_chat(make_user("alice"))
    said = [(f"Turn {number}: {lorem(12)}", f"Noted, {lorem(12)}") for number in range(LONG)]
    asked, answered = said[(seq - 1) // 2]
    said[(seq - 1) // 2] = (f"{asked} {word}", answered) if seq % 2 else (asked, f"{answered} {word}")
    add_turns(chat, said)
    return chat


@contextmanager
def sending(product: Product, chat_id: UUID) -> Iterator[list[str]]:
    """A user who keeps sending messages to a chat. Yields what was sent; each message must be stored and answered."""
    over, sent, client = threading.Event(), list[str](), product.client()

    def talk() -> None:
        while not over.is_set():
            message = f"Meanwhile {len(sent)}: {lorem(12)}"
            say(client, message, chat_id)
            sent.append(message)

    with ThreadPoolExecutor(1) as pool:
        talking = pool.submit(talk)
        try:
            yield sent
        finally:
            over.set()
            talking.result()
    stored = Message.objects.filter(chat=chat_id, content__startswith="Meanwhile ").order_by("seq")
    assert list(stored.values_list("content", flat=True)) == sent
    assert Message.objects.filter(reply_to__in=stored, status="complete").count() == len(sent)


def traces_in_prompts(fake: FakeUpstream, since: float, *words: str) -> list[str]:
    """Return the words that the upstream was sent after that moment."""
    prompts = [request.text for request in fake.requests if request.at > since]
    return [word for word in words for prompt in prompts if word in prompt]


def remembered(client: Client, *words: str) -> UUID:
    """Make a chat whose first turns and summary contain these words; the first turn has metadata."""
    chat_id: UUID | None = None
    for word in words:
        body: dict[str, Any] = {"message": f"Note {word}, please: {lorem(120)}"}
        if word is words[0]:
            body["metadata"] = {"note": word}
        path = f"chats/{chat_id}/messages" if chat_id else "message/first"
        events = client.events("POST", path, json=body, headers={"Idempotency-Key": word[-12:]})
        assert words[0] in events[-1].data["message"]["content"] or chat_id
        chat_id = UUID(events[0].data["chat_id"])
    for number in range(10):
        say(client, f"Turn {number}: {lorem(150)}", chat_id)
    assert chat_id is not None
    brief = wait_for(partial(settled, chat_id), "a fold")
    assert all(word in brief.global_summary for word in words)
    return chat_id
