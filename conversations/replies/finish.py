"""Finish a reply: one transaction deletes the `ActiveReply` and stores the final message.

The process that deletes the `ActiveReply` finishes the reply and settles its reservation; all others find it done.
Normally that is the process of the generation, which renews its lease while it writes. If it no longer can, it is one
that handles a cancel or finds the lease expired, which uses the last checkpoint: the next begin, the sweep, and every
server once per length of a lease. So a reply that was cut off by a crash is final within two leases of it, even if no
worker runs and no client asks.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory import metrics
from chatmemory.database.compiled import Write
from chatmemory.database.owned import ChatKey
from chatmemory.llm.protocol import Prompt, Usage
from chatmemory.runtime import fault_points, process
from conversations import attachments
from conversations.accounts import quotas
from conversations.derived import derived_columns, turn_line
from conversations.models import ActiveReply, Chat, Message, Role, Status, lock_chat
from conversations.replies import open_turn
from conversations.replies.reply import Ending, Pending, counts_of
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookEventType
from memory.turn import FinishedTurn, smaller_prompt, turn_finished

logger = logging.getLogger(__name__)

CLOCK_TOLERANCE = timedelta(hours=1)
"""A lease that ends more than this beyond its length was taken before the clock was set back, and counts as expired."""


_SET_CHAT = Write(
    lambda chat, owner, last_seq, open_seq, now: (
        Chat.objects.filter(pk=chat, owner=owner),
        {"last_seq": last_seq, "open_seq": open_seq, "updated_at": now, "last_message_at": now},
    )
)
_DELETE_ACTIVE = Write(
    lambda chat, owner, message: (
        ActiveReply.objects.filter(chat=chat, owner_id=owner, message_id=message),
        None,
    )
)


def finish(pending: Pending, text: str, ending: Ending, **times: int) -> Message | None:
    """Store the reply as it ended. Return None if it was already finished elsewhere, or its chat is gone."""
    message = _message(pending, text, ending)
    is_no_answer = ending.status == Status.FAILED or message.superseded_by_id is not None
    is_open = bool(ending.reply.calls) or (is_no_answer and pending.open_seq > 0)
    turn = FinishedTurn(message, pending.snapshot, ending.card, is_open, pending.memory_at_start)
    with transaction.atomic():
        # The chat before its other rows, as everywhere: a concurrent deletion of the chat would otherwise deadlock.
        called = ending.reply.calls
        calls = open_turn.call_rows(message, called, pending.active.owner_id) if called else []
        open_seq = pending.user_message.seq if is_open else 0
        _SET_CHAT.run(*pending.chat_key, pending.seq + len(calls), open_seq, timezone.now())
        if not _DELETE_ACTIVE.run(*pending.chat_key, pending.message_id):
            transaction.set_rollback(True)
            return None
        Message.objects.bulk_create([message, *calls])  # without a signal: `turn_finished` counts it
        if pending.active.supersedes and message.status != Status.FAILED and not message.superseded_by_id:
            # Several if a retry failed before, or tools were called.
            earlier = Message.objects.filter(**pending.chat_key.columns, superseded_by=None)
            follows = max((pending.user_message.seq, *pending.snapshot.plan.open_turn))
            earlier.filter(seq__gt=follows, seq__lt=pending.seq).update(superseded_by=message)
        if pending.app_id is not None:
            outbox.record(pending.chat_key, WebhookEventType.REPLY_COMPLETED, _figures(message))
        turn_finished(turn)
        spent = counts_of(message, pending.snapshot.prompt_tokens)
        quotas.settle(pending.active.owner_id, pending.active, spent.total if spent else None, pending.app_id)
        fault_points.point("finish.stored")
    fault_points.point("finish.committed")
    count(message, spent)
    logger.info(
        "reply finished",
        extra={
            "chat": str(pending.chat_id),
            "reply": str(pending.message_id),
            "status": message.status,
            "error": ending.reply.error.code if ending.reply.error else None,
            "variant": pending.active.model_variant,
            "tokens": message.token_count,
            "user": pending.active.owner_id,
            **times,
        },
    )
    return message


def count(reply: Message, usage: Usage | None) -> None:
    """Count a reply that ended, and its tokens, in the metrics."""
    variant = reply.model_variant if reply.model_variant in settings.MODEL_VARIANTS else "removed"
    metrics.REPLIES.labels(reply.status, variant).inc()
    counted_by = "us" if reply.input_tokens is None else "upstream"
    for kind in ("input", "cached", "output"):
        metrics.TOKENS.labels(kind, counted_by).inc(getattr(usage, f"{kind}_tokens") if usage else 0)


def checkpoint(renew: Sequence[UUID], owners: Collection[int]) -> dict[UUID, bool]:
    """Renew the leases of `renew`. Return this process's replies of `owners`, each with whether it is to be cancelled.

    Not of all: a reply that could not be finished must lose its lease, so that the next begin finishes it. A database
    that is distributed by owner asks only the nodes of these.
    """
    mine = ActiveReply.objects.filter(lease_owner=process.name(), owner_id__in=owners)
    if renew:
        lease = Now() + timedelta(seconds=settings.REPLY_LEASE_SECONDS)
        mine.filter(message_id__in=renew).update(lease_expires_at=lease)
    fault_points.point("checkpoint.written")
    return dict(mine.values_list("message_id", "cancel_requested"))


def store_variant(pending: Pending) -> None:
    """Store which variant writes this process's reply now, for its readers, and for the process that finishes it."""
    its = ActiveReply.objects.filter(**pending.chat_key.columns, message_id=pending.message_id)
    mine = its.filter(lease_owner=process.name())
    now = pending.active
    mine.update(model_variant=now.model_variant, model=now.model, metadata=now.metadata)


def store_smaller_prompt(pending: Pending, sent: Prompt) -> tuple[Pending, Prompt] | None:
    """Plan a smaller prompt in place of `sent`, which the model's server found too long, and store what it is made of.

    Return None if it would be no smaller, or if the reply is no longer this process's.
    """
    with transaction.atomic():
        chat = Chat.objects.select_related("brief").filter(pk=pending.chat_id, owner_id=pending.active.owner_id).first()
        if chat is None:
            return None
        prepared = smaller_prompt(chat, pending.user_message, pending.snapshot)
        mine = ActiveReply.objects.filter(**pending.chat_key.columns, message_id=pending.message_id)
        is_smaller = prepared.snapshot.prompt_tokens < pending.snapshot.prompt_tokens
        context = prepared.snapshot.to_json()
        if not is_smaller or not mine.filter(lease_owner=process.name()).update(context=context):
            transaction.set_rollback(True)
            return None
    prompt = attachments.with_bytes(prepared.prompt, pending.active.owner_id)
    return replace(pending, snapshot=prepared.snapshot), replace(prompt, parameters=sent.parameters)


def store_partial(grown: Sequence[tuple[Pending, str]]) -> None:
    """Store partial texts of this process's replies, in one transaction.

    Uses `executemany`, because `bulk_update` takes 45 times as long for 500 streams (measured).
    """
    table = connection.ops.quote_name(ActiveReply._meta.db_table)
    to_db = ActiveReply._meta.get_field("message_id").get_db_prep_value
    rows = [(text, to_db(one.message_id, connection), one.active.owner_id, process.name()) for one, text in grown]
    update = f"UPDATE {table} SET text = %s WHERE message_id = %s AND owner_id = %s AND owner = %s"  # noqa: S608  # our own table's name
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(update, rows)


def _figures(message: Message) -> dict[str, Any]:
    """The figures of an ended reply for its webhook event."""
    chat = f"/v1/chats/{message.chat_id}"
    return {
        "message_id": str(message.pk),
        "user_message_id": str(message.reply_to_id),
        "status": str(message.status),
        "error": message.error and message.error["code"],
        "model_variant": message.model_variant,
        "token_count": message.token_count,
        "usage": message.usage,
        "links": {"chat": chat, "message": f"{chat}/messages/{message.pk}"},
    }


def _message(pending: Pending, text: str, ending: Ending) -> Message:
    question, is_cut_off = pending.user_message, ending.status in (Status.INCOMPLETE, Status.CANCELLED)
    message = ending.message(
        text,
        pending.active.model_variant,
        pending.active.model,
        metadata=pending.active.metadata,
        id=pending.message_id,
        chat_id=pending.chat_id,
        seq=pending.seq,
        reply_to=question,
        line=turn_line(
            question.content,
            "" if ending.status == Status.FAILED else text,
            cut_off=is_cut_off and bool(text),
        ),
        created_at=pending.active.started_at,
        completed_at=timezone.now(),
        **derived_columns(text, Role.ASSISTANT, pending.active.owner_id),
    )
    if pending.open_seq and pending.active.supersedes and ending.status == Status.CANCELLED:
        # The earlier try called tools, and waits for their outputs.
        earlier = Message.objects.filter(**pending.chat_key.columns, pk=pending.active.supersedes)
        calling = earlier.filter(payload__isnull=False)
        message.superseded_by_id = calling.values_list("pk", flat=True).first()
    return message


# Replies whose process is gone


def expired() -> Q:
    """Return the condition for replies whose process is gone: their lease has expired."""
    latest = Now() + timedelta(seconds=settings.REPLY_LEASE_SECONDS) + CLOCK_TOLERANCE
    return Q(lease_expires_at__lt=Now()) | Q(lease_expires_at__gt=latest)


def finish_in(key: ChatKey, which: Q) -> bool:
    """Finish the reply of a chat from its last checkpoint, if it is one of `which`; return whether it was."""
    with transaction.atomic():
        chat = lock_chat(key)  # the lock keeps both
        active = ActiveReply.objects.filter(which, **key.columns).select_related("user_message").first()
        if chat is None or active is None:
            return False
        ending = Ending.cancelled() if active.cancel_requested else Ending.cut_off(active.text)
        return finish(Pending.of(active, chat), active.text, ending) is not None


def finish_expired() -> int:
    """Finish every reply with an expired lease; return how many there were. Called by the sweep.

    A reply that cannot be finished is logged and does not stop the others.
    """
    finished = 0
    for key in list(ActiveReply.objects.filter(expired()).values_list("pk", "owner_id")[:1000]):
        try:
            finished += finish_in(ChatKey(*key), expired())
        except Exception as exc:  # noqa: BLE001  # any fault of one reply must not stop the others
            logger.error("reply not finished", extra={"chat": str(key[0]), "error": type(exc).__name__})
    return finished
