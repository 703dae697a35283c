"""Compute vectors of messages in the background, in batches, each from where the last one ended.

The tables show what is missing, so the job may stop at any time. The module `embeddings` reads the vectors. Nobody
waits for this job: while the endpoint fails, messages are found only by their words.
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
from conversations.models import TEXT_STATUSES, Chat, Message, Role
from memory import queue
from memory.history.rows import pending_seq
from memory.models import ChatEmbeddings, ConversationBrief, MessageEmbedding

logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Timeout of a request; until then no other worker sends the same one."""
CHARS = 2500
"""Characters of a message that are embedded: models accept about as many, and vectors of more text say little."""
MAX_WAIT = 600
CHATS_OF_A_SWEEP = 20
MAX_QUEUED = 1000
"""Tasks that a sweep reads from the queue, to avoid adding one that is already there."""


def enqueue_chat(chat_id: UUID) -> None:
    """Queue a chat with new messages for embedding. Do nothing if embeddings are off."""
    if registry.embeds():
        queue.enqueue_embedding(chat_id)


def step_back(chat_id: UUID, from_seq: int) -> None:
    """Delete the vectors of a turn that changed, from message `from_seq` on. Call it in the change's transaction."""
    asked = Message.objects.filter(chat_id=chat_id, role=Role.USER, seq__gt=from_seq).order_by("seq")
    gone = MessageEmbedding.objects.filter(chat_id=chat_id, seq__gte=from_seq)
    if (following := asked.values_list("seq", flat=True).first()) is not None:
        gone = gone.filter(seq__lt=following)
    gone.delete()
    ChatEmbeddings.objects.filter(chat_id=chat_id, through_seq__gte=from_seq).update(through_seq=from_seq - 1)


def enqueue_missing() -> int:
    """Queue chats that have messages without vectors; return how many."""
    if not registry.embeds():
        return 0
    embedder = registry.embedder()
    current = Q(embedded__model=embedder.model, embedded__dimensions=embedder.dimensions)
    whole = current & Q(embedded__through_seq__gte=F("last_seq"))
    waits = Q(embedded__next_attempt_at__gt=Now())
    behind = Chat.objects.exclude(Q(last_seq=0) | whole | waits).order_by("-updated_at")
    queued = queue.waiting_chats(queue.EMBED_TASK, MAX_QUEUED)
    chats = list(behind.exclude(pk__in=queued).values_list("pk", flat=True)[:CHATS_OF_A_SWEEP])
    for chat_id in chats:
        queue.enqueue_embedding(chat_id, lost=True)
    return len(chats)


def catch_up(chat_id: UUID, until: float) -> bool:
    """Embed messages of a chat until `until` (monotonic seconds). True if there may be more, and none failed."""
    while registry.embeds() and _embed_some(chat_id):
        if time.monotonic() >= until:
            return True
    return False


def _embed_some(chat_id: UUID) -> bool:
    """Embed one batch. True if it succeeded and there may be more."""
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
    """Return the texts of the next `most` messages of finished turns by seq; "" for one that is not in a turn."""
    rows = Message.objects.filter(chat_id=chat_id, seq__gt=seq).order_by("seq")
    if (pending := pending_seq(chat_id)) is not None:
        rows = rows.filter(seq__lt=pending)
    of_turns = Case(
        When(status__in=TEXT_STATUSES, superseded_by=None, then="content"),
        default=Value(""),
        output_field=TextField(),
    )
    return dict(rows.values_list("seq", of_turns)[:most])


def _claim(chat_id: UUID, embedder: Embedder) -> ChatEmbeddings | None:
    """Claim the chat's row if its next attempt is due, and count an attempt. Delete the vectors of another model."""
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
    """Store the vectors unless messages of the chat changed in the meantime. Their cost is stored in any case."""
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
