"""Recall by meaning: vectors of messages are made by workers, stored, and compared with that of a question. The call
of the embeddings server is in `chatmemory.llm.openai.client`.

It needs an embeddings model and PostgreSQL with pgvector; otherwise, and if anything fails, messages are found only by
their words. No request waits for vectors of messages: the tables show what is missing, so a worker may stop at any
time. The vector of a question is requested before the turn begins, within a hard deadline and outside all transactions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from functools import cache
from heapq import nlargest
from statistics import fmean
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Func, IntegerField, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Now
from pgvector.django import MaxInnerProduct

from chatmemory.database import executors, vector_field
from chatmemory.database.owned import ChatKey
from chatmemory.llm import registry
from chatmemory.llm.known_models import price_of
from chatmemory.llm.openai.failures import REST_SECONDS
from chatmemory.llm.protocol import Embedded, UpstreamError
from chatmemory.text.thoughts import visible_text
from conversations.accounts import quotas
from conversations.models import TEXT_STATUSES, Chat, Message, Role, lock_chat
from memory import queue
from memory.history.rows import last_question, pending_seq
from memory.models import ChatEmbeddings, ConversationBrief, MessageEmbedding
from memory.recall.ranking import Near, nearness

if TYPE_CHECKING:
    from chatmemory.llm.openai.client import UpstreamEmbedder

logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Timeout of a request for vectors of messages; until then no other worker sends the same one."""
CHARS = 2500
"""Characters of a message that are embedded: models accept about as many, and vectors of more text say little."""
QUESTION_CHARS = 4000
MAX_WAIT = 600
CHATS_OF_A_SWEEP = 20
MAX_QUEUED = 1000
"""Tasks that a sweep reads from the queue, to avoid adding one that is already there."""
MAX_NEAREST = 400
"""Maximum number of messages that are near to a question."""
NEWEST = 10_000
"""How many of the newest messages of a chat are compared. They are compared exactly, without a vector index: an index
over all chats would have to be searched far beyond the one chat that is asked about."""


def embeds() -> bool:
    """Whether messages are also found by meaning. Queries the database once per process."""
    return registry.embeds() and _has_pgvector()


@cache
def _has_pgvector() -> bool:
    if not vector_field.is_pgvector():
        logger.warning(
            "MEMORY_EMBEDDINGS_MODEL has no effect on recall: the database is not PostgreSQL with pgvector, so "
            "messages are found only by their words. docs/recall.md says how to add it."
        )
        return False
    return True


def _searched_for(chat: ChatKey, question: str | None) -> str:
    """Return the text to search for; "" if the chat has no vectors, or if the turn would be refused."""
    if not embeds() or not _of(chat).exists() or quotas.is_refused(chat.owner_id):
        return ""
    return last_question(chat) if question is None else question


async def near_in_meaning(chat: ChatKey, question: str | None) -> tuple[Near, ...]:
    """Return the messages nearest to a question, nearest first; () if they cannot be determined in time.

    None is the last question of the chat. No query if embeddings are off.
    """
    text = await executors.read(_searched_for, chat, question) if registry.embeds() else ""
    deadline = asyncio.get_running_loop().time() + settings.MEMORY_EMBEDDINGS_SECONDS
    if text and (vector := await _vector_of(text, chat)):
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                return await executors.read(nearest_messages, chat, vector)
    return ()


def near_now(chat: ChatKey, question: str) -> tuple[Near, ...]:
    """Do the same in threads without a running event loop; return () at once if there is nothing to compare."""
    if not question or not embeds() or not _of(chat).exists():
        return ()
    vector = registry.embedder().run(_vector_of(question, chat))
    return nearest_messages(chat, vector) if vector else ()


async def _vector_of(question: str, chat: ChatKey) -> list[float] | None:
    """Return the vector of a question; None if the call fails, which is counted and logged, or may not be made now."""
    embedder = registry.embedder()
    if not embedder.breaker.allows(time.monotonic()):
        return None
    try:
        result = await embedder.embed([question[:QUESTION_CHARS]], timeout=settings.MEMORY_EMBEDDINGS_SECONDS)
    except UpstreamError as error:
        logger.warning("question not embedded", extra={"chat": str(chat.id), "code": error.reason.code})
        if embedder.breaker.failed(time.monotonic()):
            logger.warning("embeddings endpoint left alone", extra={"seconds": REST_SECONDS})
        return None
    embedder.breaker.succeeded()
    return result.vectors[0]


def nearest_messages(chat: ChatKey, vector: list[float]) -> tuple[Near, ...]:
    """Return the messages near to `vector`, nearest first."""
    size = Func("vector", function="vector_dims", output_field=IntegerField())
    stored = MessageEmbedding.objects.filter(**chat.columns).alias(size=size).filter(size=len(vector))
    compared = stored.annotate(product=-MaxInnerProduct("vector", vector)).order_by("-seq")
    products = dict(compared.values_list("seq", "product")[:NEWEST])
    if not products:
        return ()
    best = nlargest(MAX_NEAREST, products, key=lambda seq: (products[seq], seq))
    return tuple(map(Near, best, nearness([products[seq] for seq in best], fmean(products.values()))))


def _of(chat: ChatKey) -> QuerySet[ChatEmbeddings]:
    """The chat's row, if its vectors are from the model in use."""
    embedder = registry.embedder()
    return ChatEmbeddings.objects.filter(
        **chat.columns, through_seq__gt=0, model=embedder.model, dimensions=embedder.dimensions
    )


def enqueue_chat(chat: ChatKey) -> None:
    """Queue a chat with new messages for embedding. Do nothing if embeddings are off."""
    if embeds():
        queue.enqueue_embedding(chat)


def step_back(chat: ChatKey, from_seq: int) -> None:
    """Delete the vectors of a turn that changed, from message `from_seq` on. Call it in the change's transaction."""
    questions = Message.objects.filter(**chat.columns, role=Role.USER, seq__gt=from_seq).order_by("seq")
    gone = MessageEmbedding.objects.filter(**chat.columns, seq__gte=from_seq)
    if (following := questions.values_list("seq", flat=True).first()) is not None:
        gone = gone.filter(seq__lt=following)
    gone.delete()
    ChatEmbeddings.objects.filter(**chat.columns, through_seq__gte=from_seq).update(through_seq=from_seq - 1)


def enqueue_missing() -> int:
    """Queue chats that have messages without vectors; return how many."""
    if not embeds():
        return 0
    embedder = registry.embedder()
    current = Q(embedded__model=embedder.model, embedded__dimensions=embedder.dimensions)
    whole = current & Q(embedded__through_seq__gte=F("last_seq"))
    waits = Q(embedded__next_attempt_at__gt=Now())
    behind = Chat.objects.exclude(Q(last_seq=0) | whole | waits).order_by("-updated_at")
    queued = queue.waiting_chats(queue.EMBED_TASK, MAX_QUEUED)
    chats = list(behind.exclude(pk__in=queued).values_list("pk", "owner_id")[:CHATS_OF_A_SWEEP])
    for chat in chats:
        queue.enqueue_embedding(ChatKey(*chat), lost=True)
    return len(chats)


def catch_up(chat: ChatKey, until: float) -> bool:
    """Embed messages of a chat until `until` (monotonic seconds). True if there may be more, and none failed."""
    while embeds() and _embed_some(chat):
        if time.monotonic() >= until:
            return True
    return False


def _embed_some(chat: ChatKey) -> bool:
    """Embed one batch. True if it succeeded and there may be more."""
    embedder = registry.embedder()
    work = _claim(chat, embedder)
    epoch = ConversationBrief.objects.filter(**chat.columns).values_list("epoch", flat=True).first()
    if work is None or epoch is None:
        return False
    batch = _next_texts(chat, work.through_seq, embedder.batch)
    known = set(MessageEmbedding.objects.filter(**chat.columns, seq__in=batch).values_list("seq", flat=True))
    missing = {seq: text for seq, text in batch.items() if text.strip() and seq not in known}
    texts = [text[:CHARS] for text in missing.values()]
    try:
        result = embedder.run(embedder.embed(texts, timeout=SECONDS)) if texts else Embedded((), 0)
    except UpstreamError as error:
        logger.warning(
            "embeddings failed",
            extra={"chat": str(chat.id), "code": error.reason.code, "attempt": work.attempts + 1},
        )
        return False
    _store(work, epoch, missing, result, max(batch, default=work.through_seq))
    return len(batch) == embedder.batch


def _next_texts(chat: ChatKey, seq: int, limit: int) -> dict[int, str]:
    """Return the texts of the next `limit` messages of finished turns by seq; "" for one that is not in a turn."""
    rows = Message.objects.filter(**chat.columns, seq__gt=seq).order_by("seq")
    if (pending := pending_seq(chat)) is not None:
        rows = rows.filter(seq__lt=pending)
    of_turns = Case(
        When(status__in=TEXT_STATUSES, superseded_by=None, then="content"),
        default=Value(""),
        output_field=TextField(),
    )
    return {seq: visible_text(text, role) for seq, text, role in rows.values_list("seq", of_turns, "role")[:limit]}


def _claim(chat: ChatKey, embedder: UpstreamEmbedder) -> ChatEmbeddings | None:
    """Claim the chat's row if its next attempt is due, and count an attempt. Delete the vectors of another model."""
    fields = {"model": embedder.model, "dimensions": embedder.dimensions}
    with transaction.atomic():  # under its lock, the chat stays
        if lock_chat(chat) is None:
            return None
        row, _ = ChatEmbeddings.objects.get_or_create(**chat.columns, defaults=fields)
    if (row.model, row.dimensions) != tuple(fields.values()):
        with transaction.atomic():
            ChatEmbeddings.objects.filter(**chat.columns).update(
                **fields, through_seq=0, attempts=0, next_attempt_at=None
            )
            MessageEmbedding.objects.filter(**chat.columns).delete()
        row.refresh_from_db()
    wait = timedelta(seconds=min(MAX_WAIT, 2 * SECONDS * 2 ** min(row.attempts, 10)))
    free = ChatEmbeddings.objects.filter(Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now()), **fields)
    taken = free.filter(**chat.columns).update(attempts=F("attempts") + 1, next_attempt_at=Now() + wait)
    return row if taken else None


def _store(work: ChatEmbeddings, epoch: int, seqs: Iterable[int], result: Embedded, through_seq: int) -> None:
    """Store the vectors unless messages of the chat changed in the meantime. Their cost is stored in any case."""
    chat, price = work.chat_key, price_of(work.model)
    cost = result.tokens * price.input / 1_000_000 if price else Decimal(0)
    rows = [
        MessageEmbedding(**chat.columns, seq=seq, vector=vector)
        for seq, vector in zip(seqs, result.vectors, strict=True)
    ]
    done = {"attempts": 0, "next_attempt_at": None}
    with transaction.atomic():
        brief = ConversationBrief.objects.select_for_update().filter(**chat.columns, epoch=epoch).first()
        row = ChatEmbeddings.objects.filter(**chat.columns)
        row.update(tokens=F("tokens") + result.tokens, cost_usd=F("cost_usd") + cost, **done)
        if brief is not None:
            MessageEmbedding.objects.bulk_create(rows, ignore_conflicts=True)
            row.update(through_seq=through_seq)
    if rows:
        logger.info(
            "messages embedded",
            extra={
                "chat": str(chat.id),
                "messages": len(rows),
                "tokens": result.tokens,
                "cost_usd": str(cost),
                "kept": brief is not None,
            },
        )
