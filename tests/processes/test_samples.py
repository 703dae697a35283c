"""Real conversations: imported up to their last five questions, which are then sent over HTTP."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection

from conversations.models import Chat, Message
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from tests.processes import recorded
from tests.processes.prompts import seen
from tests.processes.recorded import LONG, WITH_TOOLS, Recorded
from tests.processes.talking import say, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(recorded.folder() is None, reason="SAMPLES names no folder of recorded conversations"),
]


def samples(name: str) -> list[Recorded]:
    folder = recorded.folder()
    assert folder is not None
    return recorded.read(folder / name)


@pytest.mark.parametrize("name", [LONG, WITH_TOOLS])
def test_with_the_built_in_model(offline_product: Product, tmp_path: Path, name: str) -> None:
    _goes_through(offline_product, tmp_path, samples(name))


@pytest.mark.parametrize("name", [LONG, WITH_TOOLS])
def test_with_an_upstream(product: Product, fake: FakeUpstream, tmp_path: Path, name: str) -> None:
    chats = samples(name)
    _goes_through(product, tmp_path, chats)
    prompts = [seen(request) for request in fake.calls("stream")]
    assert sorted(prompt.question for prompt in prompts) == sorted(
        q for chat in chats for q in chat.questions
    )
    assert all(prompt.tokens <= 3000 for prompt in prompts)


def _goes_through(product: Product, folder: Path, chats: list[Recorded]) -> None:
    product.worker()
    product.server()
    ids = import_all(product, folder, chats)
    for chat_id, chat in zip(ids, chats, strict=True):
        wait_for(partial(settled, chat_id), "the folds of an import", timeout=60)
        _folded_to_the_end(chat_id, chat)

    clients = [product.client() for _ in chats]
    with ThreadPoolExecutor(len(chats)) as threads:
        list(threads.map(_ask, clients, ids, chats))

    for chat_id, chat in zip(ids, chats, strict=True):
        wait_for(partial(settled, chat_id), "the folds of the turns", timeout=60)
        replies = ContextRecord.objects.filter(reply__chat=chat_id)
        assert replies.count() == len(chat.questions)
        assert not replies.exclude(unrepresented=0).exists()
        stored = list(Message.objects.filter(chat=chat_id).order_by("seq").values_list("role", "content"))
        said = [(one["role"], one["text"]) for one in chat.before if one["role"] in ("user", "assistant")]
        assert stored[: len(said)] == said
        assert [text for role, text in stored[len(said) :] if role == "user"] == chat.questions


def import_all(product: Product, folder: Path, chats: list[Recorded]) -> list[UUID]:
    """Import the chats by the command; return their ids, in order."""
    client = product.client()  # creates the user
    assert client.token
    path = folder / "recorded.json"
    path.write_text(json.dumps({"chats": [json.loads(chat.document)["chats"][0] for chat in chats]}))
    printed = product.manage("import_chat", str(path), "--user", "alice")
    return [UUID(line) for line in printed.split()]


def _folded_to_the_end(chat_id: UUID, chat: Recorded) -> None:
    """Assert that everything over the threshold is folded, in contiguous revisions, and that the window is left."""
    brief = ConversationBrief.objects.get(pk=chat_id)
    tokens = sum(Message.objects.filter(chat=chat_id).values_list("token_count", flat=True))
    revisions = SummaryRevision.objects.filter(chat=chat_id)
    assert Chat.objects.get(pk=chat_id).last_seq >= sum(one["role"] == "user" for one in chat.before)
    if tokens > 6000:
        assert revisions.count() >= tokens // 6500
        assert brief.unfolded_turns >= 3
    assert brief.unfolded_tokens + brief.token_count <= 6000


def _ask(client: Client, chat_id: UUID, chat: Recorded) -> None:
    try:
        for question in chat.questions:
            say(client, question, chat_id)
    finally:
        connection.close()
