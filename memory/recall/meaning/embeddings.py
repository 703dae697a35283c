"""Find older messages with a meaning similar to a question's: before the turn begins, within a hard deadline.

Runs outside all transactions, because it calls the upstream. If anything fails, the result is empty, and messages are
found only by their words. The vectors are computed in `memory.recall.meaning.embedding_job`, and compared in
`memory.recall.meaning.nearest`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from uuid import UUID
from weakref import WeakKeyDictionary

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from chatmemory.database import executors
from chatmemory.llm import registry
from chatmemory.llm.protocol import UpstreamError
from chatmemory.llm.retry import REST_SECONDS, Breaker
from chatmemory.llm.vectors import Embedder
from conversations.accounts import quotas
from conversations.models import Message, Role
from memory.models import ChatEmbeddings
from memory.recall.meaning.nearest import nearest_messages
from memory.recall.ranking import Near

logger = logging.getLogger(__name__)

QUESTION_CHARS = 4000

_breakers: WeakKeyDictionary[Embedder, Breaker] = WeakKeyDictionary()
"""One breaker per endpoint and model, so one per process: no turn waits for an endpoint that is down or too slow."""


def has_vectors(user: User, chat_id: UUID) -> bool:
    """Whether that user's chat has vectors to compare a question with. No query if embeddings are off.

    False if the turn would be refused: a question that is not answered is not embedded either.
    """
    return (
        registry.embeds()
        and _of(chat_id).filter(chat__owner=user).exists()
        and not quotas.is_refused(user.pk)
    )


def last_question(chat_id: UUID) -> str:
    """Return the last question of a chat, which is about to be answered again."""
    asked = Message.objects.filter(chat_id=chat_id, role=Role.USER).order_by("-seq")
    return asked.values_list("content", flat=True).first() or ""


async def near_in_meaning(chat_id: UUID, question: str) -> tuple[Near, ...]:
    """Return the messages nearest to `question`, nearest first; () if they cannot be determined in time."""
    embedder, seconds = registry.embedder(), settings.MEMORY_EMBEDDINGS_SECONDS
    breaker = _breaker_of(embedder)
    if not breaker.allows(time.monotonic()):
        return ()
    try:
        async with asyncio.timeout(seconds):
            made = await embedder.embed([question[:QUESTION_CHARS]], timeout=seconds)
            breaker.succeeded()
            return await executors.read(nearest_messages, chat_id, made.vectors[0])
    except (UpstreamError, TimeoutError) as error:
        return _none(chat_id, error, breaker)


def near_now(chat_id: UUID, question: str) -> tuple[Near, ...]:
    """Do the same in threads without a running event loop; return () at once if there is nothing to compare."""
    if not question or not registry.embeds() or not _of(chat_id).exists():
        return ()
    embedder, seconds = registry.embedder(), settings.MEMORY_EMBEDDINGS_SECONDS
    breaker = _breaker_of(embedder)
    if not breaker.allows(time.monotonic()):
        return ()
    try:
        made = embedder.embed_now([question[:QUESTION_CHARS]], timeout=seconds)
    except UpstreamError as error:
        return _none(chat_id, error, breaker)
    breaker.succeeded()
    return nearest_messages(chat_id, made.vectors[0])


def _breaker_of(embedder: Embedder) -> Breaker:
    return _breakers.setdefault(embedder, Breaker())


def _of(chat_id: UUID) -> QuerySet[ChatEmbeddings]:
    """The chat's row, if its vectors are from the model in use."""
    embedder = registry.embedder()
    return ChatEmbeddings.objects.filter(
        chat_id=chat_id, through_seq__gt=0, model=embedder.model, dimensions=embedder.dimensions
    )


def _none(chat_id: UUID, error: Exception, breaker: Breaker) -> tuple[Near, ...]:
    code = error.code if isinstance(error, UpstreamError) else "upstream_timeout"
    logger.warning("question not embedded", extra={"chat": str(chat_id), "code": code})
    if breaker.failed(time.monotonic()):
        logger.warning("embeddings endpoint left alone", extra={"seconds": REST_SECONDS})
    return ()
