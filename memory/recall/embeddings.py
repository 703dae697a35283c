"""Which older messages mean something like a question: asked before the turn begins, within a hard deadline.

Outside of every transaction, because it asks the upstream. Whatever goes wrong, the answer is: none, and they are
found by their words alone. The vectors are made in `memory.recall.embedding_job`, and compared in
`memory.recall.nearest`.
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
from memory.recall.nearest import nearest_messages
from memory.recall.ranking import Near

logger = logging.getLogger(__name__)

QUESTION_CHARS = 4000

_breakers: WeakKeyDictionary[Embedder, Breaker] = WeakKeyDictionary()
"""One for each endpoint and model, that is, one a process: so no turn waits for one that is dead, or too slow."""


def knows_meanings(user: User, chat_id: UUID) -> bool:
    """Whether that chat of that user has vectors to look for a question's neighbours in. No statement where off.

    Not where the turn would be refused: a question that nobody answers is not embedded either.
    """
    return (
        registry.embeds()
        and _of(chat_id).filter(chat__owner=user).exists()
        and not quotas.is_refused(user.pk)
    )


def last_question(chat_id: UUID) -> str:
    """The last question of a chat, which is to be answered again."""
    asked = Message.objects.filter(chat_id=chat_id, role=Role.USER).order_by("-seq")
    return asked.values_list("content", flat=True).first() or ""


async def near_in_meaning(chat_id: UUID, question: str) -> tuple[Near, ...]:
    """The messages that are near to `question`, the nearest first; () if that cannot be told in time."""
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
    """The same, for threads without a running event loop; () at once where there is nothing to ask."""
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
    """The chat's row, if its vectors are those of the model in use."""
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
