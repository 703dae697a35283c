"""Messages found by meaning: messages without a common word are recalled, and a failing endpoint fails no turn."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from chatmemory.llm import registry
from chatmemory.llm.openai.failures import FAILURES, REST_SECONDS
from chatmemory.text.markers import RECALL_HEADING
from conversations.chat_lifecycle import delete_chat
from conversations.message_changes import edit_message, forget_message
from conversations.models import Chat, Message
from memory.context.build import preview
from memory.models import ChatEmbeddings, MessageEmbedding
from memory.recall import embeddings
from memory.tasks import embed_task
from tests.support.exhaustive import first_of
from tests.support.factories import add_turn, add_turns, make_chat
from tests.support.fakes.embeddings import HOW
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import WORDS
from tests.support.live_server import Client
from tests.support.vectors import enable_vectors

pytestmark = pytest.mark.django_db(transaction=True)

FACT = "The locker with the oars opens with the code 7319."
QUESTION = "Which combination does that cupboard have?"
"""The same meaning as the fact, without any of its words."""
BAD = [how for how in HOW if how != "normal"]


@pytest.fixture(autouse=True)
def embedding(settings: Any, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts have room for a few turns, and vectors come from the fake upstream."""
    enable_vectors(monkeypatch)
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 6000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000
    settings.MEMORY_EMBEDDINGS_MODEL = "text-embedding-3-small"
    settings.MEMORY_EMBEDDINGS_DIMENSIONS = 64
    settings.MEMORY_EMBEDDINGS_SECONDS = 5.0


def long_chat(turns: int = 60) -> Chat:
    """A chat of Alice's with the fact in its second turn, without vectors yet."""
    owner, _ = User.objects.get_or_create(username="alice")
    chat = make_chat(owner)
    talk = [(f"Q{number} {WORDS}", f"A{number} {WORDS}") for number in range(turns)]
    talk[1] = (FACT, "Noted.")
    add_turns(chat, talk)
    return chat


def embedded(turns: int = 60) -> Chat:
    """Such a chat after a worker has embedded it."""
    chat = long_chat(turns)
    embed_task(str(chat.pk))
    assert seqs(chat) == list(range(1, 2 * turns + 1))
    return chat


def seqs(chat: Chat) -> list[int]:
    return list(MessageEmbedding.objects.filter(chat=chat).order_by("seq").values_list("seq", flat=True))


def row(chat: Chat) -> ChatEmbeddings:
    return ChatEmbeddings.objects.get(pk=chat.pk)


def recalled(chat: Chat) -> str:
    sections = preview(chat, QUESTION).sections
    return next((section.text for section in sections if section.kind == "recall"), "")


def message(chat: Chat, seq: int) -> Message:
    return Message.objects.get(chat=chat, seq=seq)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Advance the clock only for code that requests a question's vector."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + seconds)
    monkeypatch.setattr("memory.recall.embeddings.time", clock)


def test_embeddings_find_passages_without_shared_words(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    chat = embedded()
    made = alice.ask(QUESTION, str(chat.pk))
    prompt = upstream.calls("stream")[-1].text
    assert f"User: {FACT}" in prompt.split(RECALL_HEADING)[1]
    assert upstream.embeddings.asked[-1] == [QUESTION]
    path = f"chats/{chat.pk}/messages/{made['message']['id']}/regenerate"
    made = alice.post(path, json={"stream": False}).json()
    assert f"User: {FACT}" in upstream.calls("stream")[-1].text.split(RECALL_HEADING)[1]

    settings.MEMORY_EMBEDDINGS_MODEL = ""
    past = alice.get(f"chats/{chat.pk}/messages/{made['message']['id']}/context").json()
    assert past["exact"] is True
    assert FACT in str(past)
    asked = len(upstream.embeddings.asked)
    alice.ask(QUESTION, str(chat.pk))
    assert RECALL_HEADING not in upstream.calls("stream")[-1].text
    assert len(upstream.embeddings.asked) == asked


def test_an_answer_that_another_replaced_has_no_vector_any_more(alice: Client, upstream: FakeUpstream) -> None:
    chat = embedded(5)
    made = alice.ask("Where is the dinghy?", str(chat.pk))
    embed_task(str(chat.pk))
    assert seqs(chat) == list(range(1, 13))
    path = f"chats/{chat.pk}/messages/{made['message']['id']}/regenerate"
    assert alice.post(path, json={"stream": False}).status_code == 200
    assert seqs(chat) == list(range(1, 11))
    embed_task(str(chat.pk))
    assert seqs(chat) == [*range(1, 12), 13]


def test_embeddings_skip_empty_texts(upstream: FakeUpstream) -> None:
    chat = long_chat(3)
    Message.objects.filter(chat=chat, seq=4).update(content=" \n")
    embed_task(str(chat.pk))
    assert seqs(chat) == [1, 2, 3, 5, 6]
    assert row(chat).through_seq == 6


def test_a_finished_turn_is_embedded_by_the_queue(alice: Client, upstream: FakeUpstream) -> None:
    chat = embedded(10)
    alice.ask("Where is the dinghy?", str(chat.pk))
    assert embeddings.enqueue_missing() == 0, "a task waits"
    OrmQ.objects.all().delete()
    assert embeddings.enqueue_missing() == 1
    embed_task(str(chat.pk))
    assert seqs(chat)[-2:] == [21, 22]
    assert row(chat).through_seq == Chat.objects.get(pk=chat.pk).last_seq
    assert embeddings.enqueue_missing() == 0


@pytest.mark.parametrize("how", first_of(BAD))
def test_an_endpoint_gone_bad_costs_no_turn(alice: Client, upstream: FakeUpstream, settings: Any, how: str) -> None:
    chat = embedded()
    settings.MEMORY_EMBEDDINGS_SECONDS = 0.3
    upstream.embeddings.how = how
    before = time.monotonic()
    assert alice.ask(QUESTION, str(chat.pk))["message"]["status"] == "complete"
    assert time.monotonic() - before < 4
    assert RECALL_HEADING not in upstream.calls("stream")[-1].text


@pytest.mark.parametrize("how", first_of(["status", "slow"]))
def test_an_endpoint_that_keeps_failing_is_left_alone_for_a_while(
    alice: Client, upstream: FakeUpstream, settings: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    chat = embedded()
    settings.MEMORY_EMBEDDINGS_SECONDS = 0.2
    upstream.embeddings.how = how

    def asked() -> int:
        """How many requests the endpoint gets during two turns."""
        before = len(upstream.embeddings.asked)
        for _ in range(2):
            assert alice.ask(QUESTION, str(chat.pk))["message"]["status"] == "complete"
        return len(upstream.embeddings.asked) - before

    assert (asked(), asked(), asked()) == (2, FAILURES - 2, 0)
    assert recalled(chat) == ""
    assert len(upstream.embeddings.asked[1:]) == FAILURES, "previews leave it alone, too"
    later(monkeypatch, REST_SECONDS)
    assert asked() == 1
    upstream.embeddings.how = "normal"
    later(monkeypatch, 3 * REST_SECONDS)
    settings.MEMORY_EMBEDDINGS_SECONDS = 5.0
    assert asked() == 2
    assert FACT in upstream.calls("stream")[-1].text.split(RECALL_HEADING)[1]


@pytest.mark.parametrize("how", first_of([how for how in BAD if how != "slow"]))
def test_work_that_fails_waits_and_is_taken_up_where_it_ended(upstream: FakeUpstream, how: str) -> None:
    chat = long_chat()
    upstream.embeddings.how = how
    for _ in range(3):
        embed_task(str(chat.pk))
    assert len(upstream.embeddings.asked) == 1  # the next attempt is not yet due
    assert embeddings.enqueue_missing() == 0
    assert (row(chat).attempts, seqs(chat)) == (1, [])
    upstream.embeddings.how = "normal"
    ChatEmbeddings.objects.update(next_attempt_at=None)
    embed_task(str(chat.pk))
    assert (row(chat).attempts, len(seqs(chat))) == (0, 120)


def test_a_long_chat_is_embedded_batch_by_batch_and_its_cost_kept(upstream: FakeUpstream) -> None:
    chat = embedded(150)
    assert [len(texts) for texts in upstream.embeddings.asked] == [128, 128, 44]
    tokens = sum(len(text.split()) for texts in upstream.embeddings.asked for text in texts)
    assert row(chat).tokens == tokens
    assert float(row(chat).cost_usd) == pytest.approx(tokens * 0.02 / 1e6)
    embed_task(str(chat.pk))
    assert len(upstream.embeddings.asked) == 3


def test_edit_or_forget_deletes_vectors(upstream: FakeUpstream) -> None:
    chat = embedded()
    edit_message(chat, message(chat, 5).pk, "The dinghy leaks.")
    assert seqs(chat) == [seq for seq in range(1, 121) if seq not in (5, 6)]
    forget_message(chat.key, message(chat, 4).pk)
    forget_message(chat.key, message(chat, 3).pk)
    assert not {3, 4} & {*seqs(chat)}
    embed_task(str(chat.pk))
    _, again = upstream.embeddings.asked
    assert again == ["The dinghy leaks.", f"A2 {WORDS}"], "nothing else twice, and nothing forgotten"
    assert seqs(chat) == [seq for seq in range(1, 121) if seq not in (3, 4)]
    delete_chat(chat)
    assert not MessageEmbedding.objects.exists()
    assert not ChatEmbeddings.objects.exists()


def test_forget_while_embedding_stores_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = long_chat(10)
    embedder = registry.embedder()
    run = embedder.run

    def forgetting(work: Any) -> Any:
        made = run(work)
        forget_message(chat.key, message(chat, 3).pk)
        forget_message(chat.key, message(chat, 4).pk)
        return made

    monkeypatch.setattr(embedder, "run", forgetting)
    embed_task(str(chat.pk))
    assert seqs(chat) == []
    monkeypatch.undo()
    embed_task(str(chat.pk))
    assert seqs(chat) == [1, 2, *range(5, 21)]


def test_a_chat_that_is_deleted_is_not_embedded(upstream: FakeUpstream) -> None:
    """The task does not fail either, although it may find the chat gone only when it creates the chat's row."""
    chat = long_chat(2)
    ChatEmbeddings.objects.filter(pk=chat.pk).delete()
    asked = len(upstream.embeddings.asked)
    delete_chat(chat)
    embed_task(str(chat.pk))
    assert not ChatEmbeddings.objects.exists()
    assert len(upstream.embeddings.asked) == asked


def test_another_embedding_model_replaces_vectors(settings: Any, upstream: FakeUpstream) -> None:
    chat = embedded(10)
    settings.MEMORY_EMBEDDINGS_DIMENSIONS = 32
    assert FACT not in recalled(chat)
    OrmQ.objects.all().delete()
    assert embeddings.enqueue_missing() == 1
    embed_task(str(chat.pk))
    sizes = {len(vector) for vector in MessageEmbedding.objects.values_list("vector", flat=True)}
    assert (len(seqs(chat)), sizes) == (20, {32})


def test_no_other_chat_is_ever_near() -> None:
    mine, other = embedded(), embedded()
    Message.objects.filter(chat=mine, seq=3).update(content="Nothing", terms="")
    MessageEmbedding.objects.filter(chat=mine, seq=3).delete()
    assert FACT in recalled(other)
    assert FACT not in recalled(mine)


def test_embeddings_off_makes_no_request(settings: Any, upstream: FakeUpstream) -> None:
    settings.MEMORY_EMBEDDINGS_MODEL = ""
    chat = long_chat()
    with CaptureQueriesContext(connection) as queries:
        preview(chat, QUESTION)
        add_turn(chat, "And now?", "Now this.")
    assert not [query for query in queries.captured_queries if "embedding" in query["sql"]]
    embed_task(str(chat.pk))
    assert embeddings.enqueue_missing() == 0
    assert upstream.embeddings.asked == []
    assert not ChatEmbeddings.objects.exists()
