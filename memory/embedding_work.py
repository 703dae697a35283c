"""Vectors of turns, made in the background: batch after batch, from where the last one ended.

What stands in the tables says what is missing, so it may stop anywhere. What is asked of the vectors is in
`memory.embeddings`. Nothing that anybody waits for depends on it: while the endpoint fails, turns are found by their
words alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from chatmemory.llm import registry
from chatmemory.llm.embeddings import Embedded
from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import UpstreamError
from conversations.models import Chat
from memory import queueing
from memory.loading import each_turn, pending_seq
from memory.models import ChatEmbeddings, ConversationBrief, TurnEmbedding
from memory.turns import Turn

logger = logging.getLogger(__name__)

BATCH = 64
"""Turns of one request."""
SECONDS = 20.0
"""That a request may take; until then nobody else begins the same."""
USER_CHARS, REPLY_CHARS = 1500, 2500
"""What of a turn its vector is made of: models take so much, and their vectors of more say little."""
MAX_WAIT = 600
CHATS_OF_A_SWEEP = 20


def has_been_said(chat_id: UUID) -> None:
    """Something new is in a chat: have it embedded. Nothing where embeddings are off."""
    if registry.embeds():
        queueing.enqueue_embedding(chat_id)


def step_back(chat_id: UUID, from_seq: int) -> None:
    """The turn that begins with message `from_seq` changed: its vector goes, in the transaction of the change."""
    TurnEmbedding.objects.filter(chat_id=chat_id, seq=from_seq).delete()
    ChatEmbeddings.objects.filter(chat_id=chat_id, through_seq__gte=from_seq).update(through_seq=from_seq - 1)


def enqueue_missing() -> int:
    """Hint the queue at chats that have turns without vectors; how many."""
    if not registry.embeds():
        return 0
    current = Q(embedded__model=settings.MEMORY_EMBEDDINGS_MODEL) & Q(
        embedded__dimensions=settings.MEMORY_EMBEDDINGS_DIMENSIONS
    )
    whole = current & Q(embedded__through_seq__gte=F("last_seq"))
    waits = Q(embedded__next_attempt_at__gt=Now())
    behind = Chat.objects.exclude(Q(last_seq=0) | whole | waits).order_by("-updated_at")
    chats = list(behind.values_list("pk", flat=True)[:CHATS_OF_A_SWEEP])
    for chat_id in chats:
        queueing.enqueue_embedding(chat_id)
    return len(chats)


def catch_up(chat_id: UUID, until: float) -> bool:
    """Embed turns of a chat until `until` (monotonic seconds) at most. True if there are more, and it went well."""
    while registry.embeds() and _embed_some(chat_id):
        if time.monotonic() >= until:
            return True
    return False


def _embed_some(chat_id: UUID) -> bool:
    """One batch. True if it was stored, or was outrun, and there may be more."""
    work = _claim(chat_id)
    epoch = ConversationBrief.objects.filter(pk=chat_id).values_list("epoch", flat=True).first()
    if work is None or epoch is None:
        return False
    turns = list(islice(each_turn(chat_id, work.through_seq, pending_seq(chat_id), text=True), BATCH))
    seqs = [turn.from_seq for turn in turns]
    known = set(TurnEmbedding.objects.filter(chat_id=chat_id, seq__in=seqs).values_list("seq", flat=True))
    missing = [turn for turn in turns if turn.tokens and turn.from_seq not in known]
    try:
        made = _embed(missing)
    except UpstreamError as error:
        logger.warning(
            "embeddings failed",
            extra={"chat": str(chat_id), "code": error.code, "attempt": work.attempts + 1},
        )
        return False
    _store(chat_id, epoch, turns, missing, made)
    return len(turns) == BATCH


def _claim(chat_id: UUID) -> ChatEmbeddings | None:
    """The chat's row, if its time has come; counted as an attempt. What another model made goes."""
    wanted = {
        "model": settings.MEMORY_EMBEDDINGS_MODEL,
        "dimensions": settings.MEMORY_EMBEDDINGS_DIMENSIONS,
    }
    if not Chat.objects.filter(pk=chat_id).exists():
        return None
    row, _ = ChatEmbeddings.objects.get_or_create(chat_id=chat_id, defaults=wanted)
    if (row.model, row.dimensions) != tuple(wanted.values()):
        with transaction.atomic():
            ChatEmbeddings.objects.filter(pk=chat_id).update(
                **wanted, through_seq=0, attempts=0, next_attempt_at=None
            )
            TurnEmbedding.objects.filter(chat_id=chat_id).delete()
        row.refresh_from_db()
    wait = timedelta(seconds=min(MAX_WAIT, 2 * SECONDS * 2 ** min(row.attempts, 10)))
    free = ChatEmbeddings.objects.filter(Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now()), **wanted)
    taken = free.filter(pk=chat_id).update(attempts=F("attempts") + 1, next_attempt_at=Now() + wait)
    return row if taken else None


def _embed(turns: Sequence[Turn]) -> Embedded:
    if not turns:
        return Embedded((), 0)
    texts = [f"{turn.user[:USER_CHARS]}\n\n{turn.assistant[:REPLY_CHARS]}".strip() for turn in turns]
    return registry.embedder().embed_now(texts, timeout=SECONDS)


def _store(
    chat_id: UUID, epoch: int, turns: Sequence[Turn], embedded: Sequence[Turn], made: Embedded
) -> None:
    """Keep what was made, unless something was taken out of the chat meanwhile. What it cost is kept in any case."""
    price = price_of(settings.MEMORY_EMBEDDINGS_MODEL)
    cost = made.tokens * price.input / 1_000_000 if price else Decimal(0)
    rows = [
        TurnEmbedding(chat_id=chat_id, seq=turn.from_seq, vector=vector)
        for turn, vector in zip(embedded, made.vectors, strict=True)
    ]
    done = {"attempts": 0, "next_attempt_at": None}
    with transaction.atomic():
        brief = ConversationBrief.objects.select_for_update().filter(pk=chat_id, epoch=epoch).first()
        work = ChatEmbeddings.objects.filter(pk=chat_id)
        work.update(tokens=F("tokens") + made.tokens, cost_usd=F("cost_usd") + cost, **done)
        if brief is not None and turns:
            TurnEmbedding.objects.bulk_create(rows, ignore_conflicts=True)
            work.update(through_seq=turns[-1].through_seq)
    if rows:
        logger.info(
            "turns embedded",
            extra={
                "chat": str(chat_id),
                "turns": len(rows),
                "tokens": made.tokens,
                "cost_usd": str(cost),
                "kept": brief is not None,
            },
        )
