"""Requests that were made before: a client that retries gets the turn that it began."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from conversations.models import ChatCompletion, Message, Status
from conversations.openai_api.turns import CompletionRequest, CompletionTurn, memory_question
from conversations.replies import idempotency
from conversations.replies.idempotency import ExistingReply

RETRIED_WITHIN = timedelta(minutes=10)
"""How far back a request that says it is a retry is matched with the turn it repeats."""


def find_existing(asked: CompletionRequest) -> CompletionTurn | None:
    """Return the turn that this request began before: by its idempotency key, or because the client says it retries.

    Raises `IdempotencyMismatch`. A retry of a turn that ended without a complete answer begins a new one.
    """
    known = idempotency.known_turn(asked.user, asked.idempotency_key, asked.fingerprint)
    if known is not None:
        return CompletionTurn(known, "repeated", "idempotency key")
    if not asked.is_retry:
        return None
    since = Now() - RETRIED_WITHIN
    before = ChatCompletion.objects.filter(
        user=asked.user, question=asked.keys.question, created_at__gte=since
    )
    made = before.filter(request=asked.body_hash).order_by("-message_id").first()
    if made is None:
        return None
    reply = Message.objects.filter(pk=made.message_id).first()
    if reply is not None and reply.status != Status.COMPLETE:
        return None
    question = memory_question(made)
    return CompletionTurn(ExistingReply(made.chat_id, question, made.message_id), "repeated", "retry")
