"""No call of a user makes a server hold more than 64 MB, even with every object of theirs at its maximum size."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from chatmemory.text.tokens import count_tokens
from conversations.models import Chat, Message
from memory.changes import messages_changed
from memory.models import ConversationBrief, SummaryRevision
from memory.recall.terms import stored_terms
from tests.faults.bench.resident import MB, MOST, resident
from tests.support.live_server import Client
from tests.support.processes import Product, here

ROWS = 200
ROUNDS = 3
WORD_LETTERS = "".join(map(chr, range(0x10330, 0x10340)))
"""Letters that take four bytes each, in UTF-8 and in Python."""


def long_text(chars: int) -> str:
    """Return distinct words of four-byte letters: as many terms and bytes as fit into `chars` characters."""
    dice = random.Random(1)
    words = (f"{''.join(dice.choices(WORD_LETTERS, k=7))} " for _ in range(chars // 8))
    return "heron " + "".join(words)[: chars - 6]


def tiny_objects(size: int) -> dict[str, Any]:
    """Return JSON of about `size` bytes that needs many times as much memory once parsed."""
    return {"list": [{"": 0}] * (size // 8)}


def make_messages(owner: User) -> Chat:
    """Make a chat of messages of maximum length."""
    chat = Chat.objects.create(owner=owner, policy="chunked", last_seq=ROWS, title="long")
    text, now = long_text(200_000), timezone.now()
    columns = {
        "chat": chat,
        "content": text,
        "status": "complete",
        "token_count": count_tokens(text),
        "terms": stored_terms(text, owner.pk),
        "metadata": tiny_objects(16_000),
        "created_at": now,
        "completed_at": now,
    }
    questions = [Message(seq=seq, role="user", **columns) for seq in range(1, ROWS, 2)]
    replies = [Message(seq=one.seq + 1, role="assistant", reply_to=one, **columns) for one in questions]
    with transaction.atomic():
        Message.objects.bulk_create(questions, batch_size=20)
        Message.objects.bulk_create(replies, batch_size=20)
        messages_changed(chat.key, from_seq=1)
    return chat


def make_revisions(chat: Chat) -> None:
    """Make as many versions of a large memory as a page shows."""
    summary, state = long_text(25_000), tiny_objects(200_000)
    rows = [
        SummaryRevision(
            chat=chat, version=version, parent=version - 1 or None, kind="fold", policy="chunked",
            global_summary=summary, state=state, from_seq=version, through_seq=version, turns=1,
            tokens_before=1, tokens_after=1, model="m", retained={"kept": [], "lost": [], "share": 1},
        )
        for version in range(1, 101)
    ]  # fmt: skip
    SummaryRevision.objects.bulk_create(rows, batch_size=20)
    ConversationBrief.objects.filter(chat=chat).update(version=100, head=100, global_summary=summary, state=state)


def make_chats(owner: User, metadata: dict[str, Any], title: str, count: int = ROWS) -> None:
    instructions = long_text(20_000)
    rows = [
        Chat(owner=owner, policy="chunked", title=title, instructions=instructions, metadata=metadata)
        for _ in range(count)
    ]
    Chat.objects.bulk_create(rows, batch_size=20)


@pytest.fixture
def hoard(transactional_db: None) -> Chat:
    owner = User.objects.create(username="alice")
    make_chats(owner, tiny_objects(16_000), "now")
    make_chats(owner, {"text": "x" * 1_900_000}, "before", 30)
    make_chats(owner, tiny_objects(1_900_000), "worst", 3)
    chat = make_messages(owner)
    make_revisions(chat)
    return chat


def calls(chat: Chat) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """Yield method, path, status and other options of each call."""
    at = f"chats/{chat.pk}"
    reply = Message.objects.get(chat=chat, seq=ROWS).pk
    yield "GET", "chats?limit=200&search=now", 200, {}
    yield "GET", "chats?limit=200&search=before", 200, {}
    yield "GET", "chats?limit=200&search=worst", 200, {}
    yield "GET", f"{at}/messages?limit=200", 200, {}
    yield "GET", f"{at}/messages?limit=200&order=desc", 200, {}
    yield "GET", f"{at}/messages/{reply}", 200, {}
    yield "GET", f"{at}/messages/{reply}/stream", 200, {}
    yield "GET", f"{at}/revisions?limit=100", 200, {}
    yield "GET", f"{at}/revisions/2/diff", 200, {}
    yield "GET", f"{at}/brief", 200, {}
    yield "POST", "search", 200, {"json": {"q": "heron", "limit": 50}}
    yield "POST", f"{at}/context", 200, {"json": {"message": long_text(100_000)}}
    yield "POST", f"{at}/context", 200, {"json": {"message": "x", "budget": 1_000_000}}
    sources = [{"text": "x" * 190_000}] * 10
    yield "POST", f"{at}/context", 200, {"json": {"message": "heron", "sources": sources}}
    hostile = json.dumps({"title": "x", "metadata": tiny_objects(2_300_000)}, separators=(",", ":")).encode()
    yield "POST", "chats", 400, {"content": hostile, "headers": {"Content-Type": "application/json"}}
    yield "GET", "me/export", 200, {}


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the memory of a process from /proc")
@pytest.mark.promise("P29")
def test_no_call_holds_more_than_64_mb(hoard: Chat, tmp_path: Path) -> None:
    with Product(tmp_path, here()) as product:
        pid = product.server().process.pid
        client = product.client("alice")
        client.http.timeout = httpx.Timeout(120)
        client.get("chats?search=none")
        worst, after = (0, ""), list[int]()
        for _ in range(ROUNDS):
            for call in calls(hoard):
                worst = max(worst, (growth(pid, client, *call), call[1]))
            after.append(resident(pid))
        assert product.errors() == []
    assert worst[0] < MOST, f"{worst[1]} takes {worst[0] / MB:.0f} MB"
    assert after[-1] - after[-2] < MOST, f"it goes on growing: {[round(one / MB) for one in after]}"


def growth(pid: int, client: Client, method: str, path: str, status: int, options: dict[str, Any]) -> int:
    """Return by how many bytes the server's memory peaks above its level before a call."""
    before = resident(pid)
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak to the current value
    with client.http.stream(method, f"/v1/{path}", **options) as answer:
        for _ in answer.iter_raw():
            pass
    assert answer.status_code == status, path
    return resident(pid, "VmHWM") - before
