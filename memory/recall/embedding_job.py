"""Vectors of messages, made in the background: batch after batch, from where the last one ended.

What stands in the tables says what is missing, so it may stop anywhere. What is asked of the vectors is in
`memory.recall.embeddings`. Nothing that anybody waits for depends on it: while the endpoint fails, messages are found
by their words alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.functions import Now

from chatmemory.llm import registry
from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import UpstreamError
from chatmemory.llm.vectors import Embedded, Embedder
from conversations.models import SPOKEN, Chat, Message, Role
from memory import queue
from memory.history.rows import pending_seq
from memory.models import ChatEmbeddings, ConversationBrief, MessageEmbedding
from memory.queue import QueueAway

logger = logging.getLogger(__name__)

SECONDS = 20.0
"""That a request may take; until then nobody else begins the same."""
CHARS = 2500
"""What of a message its vector is made of: models take so much, and their vectors of more say little."""
MAX_WAIT = 600
CHATS_OF_A_SWEEP = 20
MAX_QUEUED = 1000
"""Tasks that a sweep reads from the queue, to add none that waits there."""


def has_been_said(chat_id: UUID) -> None:
    """Something new is in a chat: have it embedded. Nothing where embeddings are off."""
    if registry.embeds():
        queue.enqueue_embedding(chat_id)


def step_back(chat_id: UUID, from_seq: int) -> None:
    """A turn changed from message `from_seq` on: its vectors from there go, in the transaction of the change."""
    asked = Message.objects.filter(chat_id=chat_id, role=Role.USER, seq__gt=from_seq).order_by("seq")
    gone = MessageEmbedding.objects.filter(chat_id=chat_id, seq__gte=from_seq)
    if (following := asked.values_list("seq", flat=True).first()) is not None:
        gone = gone.filter(seq__lt=following)
    gone.delete()
    ChatEmbeddings.objects.filter(chat_id=chat_id, through_seq__gte=from_seq).update(through_seq=from_seq - 1)


def enqueue_missing() -> int:
    """Hint the queue at chats that have messages without vectors; how many."""
    if not registry.embeds():
        return 0
    embedder = registry.embedder()
    current = Q(embedded__model=embedder.model, embedded__dimensions=embedder.dimensions)
    whole = current & Q(embedded__through_seq__gte=F("last_seq"))
    waits = Q(embedded__next_attempt_at__gt=Now())
    behind = Chat.objects.exclude(Q(last_seq=0) | whole | waits).order_by("-updated_at")
    try:
        queued = queue.waiting_chats(queue.EMBED_TASK, MAX_QUEUED)
    except QueueAway:
        return 0
    chats = list(behind.exclude(pk__in=queued).values_list("pk", flat=True)[:CHATS_OF_A_SWEEP])
    for chat_id in chats:
        queue.enqueue_embedding(chat_id, lost=True)
    return len(chats)


def catch_up(chat_id: UUID, until: float) -> bool:
    """Embed messages of a chat until `until` (monotonic seconds) at most. True if there are more, and it went well."""
    while registry.embeds() and _embed_some(chat_id):
        if time.monotonic() >= until:
            return True
    return False


def _embed_some(chat_id: UUID) -> bool:
    """One batch. True if it was stored, or was outrun, and there may be more."""
    embedder = registry.embedder()
    work = _claim(chat_id, embedder)
    epoch = ConversationBrief.objects.filter(pk=chat_id).values_list("epoch", flat=True).first()
    if work is None or epoch is None:
        return False
    said = _said_after(chat_id, work.through_seq, embedder.batch)
    known = set(MessageEmbedding.objects.filter(chat_id=chat_id, seq__in=said).values_list("seq", flat=True))
    missing = {seq: text for seq, text in said.items() if text.strip() and seq not in known}
    try:
        made = _embed(embedder, [text[:CHARS] for text in missing.values()])
    except UpstreamError as error:
        logger.warning(
            "embeddings failed",
            extra={"chat": str(chat_id), "code": error.code, "attempt": work.attempts + 1},
        )
        return False
    _store(work, epoch, missing, made, max(said, default=work.through_seq))
    return len(said) == embedder.batch


def _said_after(chat_id: UUID, seq: int, most: int) -> dict[int, str]:
    """What the next messages of finished turns say, `most` of them, by seq; "" where one is not part of a turn."""
    rows = Message.objects.filter(chat_id=chat_id, seq__gt=seq).order_by("seq")
    if (pending := pending_seq(chat_id)) is not None:
        rows = rows.filter(seq__lt=pending)
    of_turns = Case(
        When(status__in=SPOKEN, superseded_by=None, then="content"),
        default=Value(""),
        output_field=TextField(),
    )
    return dict(rows.values_list("seq", of_turns)[:most])


def _claim(chat_id: UUID, embedder: Embedder) -> ChatEmbeddings | None:
    """The chat's row, if its time has come; counted as an attempt. What another model made goes."""
    wanted = {"model": embedder.model, "dimensions": embedder.dimensions}
    try:
        row, _ = ChatEmbeddings.objects.get_or_create(chat_id=chat_id, defaults=wanted)
    except IntegrityError:  # the chat is deleted, perhaps this moment
        return None
    if (row.model, row.dimensions) != tuple(wanted.values()):
        with transaction.atomic():
            ChatEmbeddings.objects.filter(pk=chat_id).update(
                **wanted, through_seq=0, attempts=0, next_attempt_at=None
            )
            MessageEmbedding.objects.filter(chat_id=chat_id).delete()
        row.refresh_from_db()
    wait = timedelta(seconds=min(MAX_WAIT, 2 * SECONDS * 2 ** min(row.attempts, 10)))
    free = ChatEmbeddings.objects.filter(Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now()), **wanted)
    taken = free.filter(pk=chat_id).update(attempts=F("attempts") + 1, next_attempt_at=Now() + wait)
    return row if taken else None


def _embed(embedder: Embedder, texts: list[str]) -> Embedded:
    return embedder.embed_now(texts, timeout=SECONDS) if texts else Embedded((), 0)


def _store(work: ChatEmbeddings, epoch: int, seqs: Iterable[int], made: Embedded, through_seq: int) -> None:
    """Keep what was made, unless something was taken out of the chat meanwhile. What it cost is kept in any case."""
    chat_id, price = work.chat_id, price_of(work.model)
    cost = made.tokens * price.input / 1_000_000 if price else Decimal(0)
    rows = [
        MessageEmbedding(chat_id=chat_id, seq=seq, vector=vector)
        for seq, vector in zip(seqs, made.vectors, strict=True)
    ]
    done = {"attempts": 0, "next_attempt_at": None}
    with transaction.atomic():
        brief = ConversationBrief.objects.select_for_update().filter(pk=chat_id, epoch=epoch).first()
        row = ChatEmbeddings.objects.filter(pk=chat_id)
        row.update(tokens=F("tokens") + made.tokens, cost_usd=F("cost_usd") + cost, **done)
        if brief is not None:
            MessageEmbedding.objects.bulk_create(rows, ignore_conflicts=True)
            row.update(through_seq=through_seq)
    if rows:
        logger.info(
            "messages embedded",
            extra={
                "chat": str(chat_id),
                "messages": len(rows),
                "tokens": made.tokens,
                "cost_usd": str(cost),
                "kept": brief is not None,
            },
        )
