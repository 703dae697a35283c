"""Finish a reply: one transaction deletes the `ActiveReply` and stores the final message.

The process that deletes the `ActiveReply` finishes the reply and settles its reservation; all others find it done.
Normally that is the process of the generation; if it no longer can, it is one that handles a cancel or finds the
lease expired (`conversations.replies.lease`), which uses the last checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.models.signals import post_save
from django.utils import timezone

from chatmemory.database.compiled_writes import Delete, Insert, Update
from chatmemory.llm.offline.model import NAME as OFFLINE
from chatmemory.llm.openai.failures import EMPTY_REPLY
from chatmemory.llm.protocol import Price, Reply, ReplyError, storable_cost
from chatmemory.runtime import fault_points, process
from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import make_line, outline
from conversations.accounts import quotas
from conversations.accounts.quotas import Reservation
from conversations.models import ActiveReply, Chat, Message, Role, Status
from conversations.replies import open_turn
from memory.briefs import Standing
from memory.context.plan import Snapshot
from memory.recall.analysis.hashed_terms import stored_terms
from memory.turn import turn_finished

logger = logging.getLogger(__name__)

INTERRUPTED = ReplyError("interrupted", "The server stopped while this reply was being written.")

_SAVE_CHAT = Update(Chat, "last_seq", "open_seq", "updated_at")
_DELETE_ANY = Delete(ActiveReply, "chat", "message_id")
_DELETE_OWN = Delete(ActiveReply, "chat", "message_id", "owner")
_REPLY = Insert(Message)


@dataclass(frozen=True, slots=True)
class Pending:
    """A reply that is to be written, and the turn it belongs to."""

    chat_id: UUID
    message_id: UUID
    seq: int
    user_message: Message
    supersedes: UUID | None
    variant: str
    model: str
    context: Snapshot
    """What is stored of the prompt."""
    started_at: datetime
    owner_id: int
    open_seq: int = 0
    """The chat's `open_seq` when the reply began."""
    reservation: Reservation | None = None
    standing: Standing | None = None
    """What memory knew when the turn began; None in another process than that which began it."""

    @classmethod
    def of(cls, active: ActiveReply) -> Pending:
        """Return the same value, read from a row."""
        found = Chat.objects.values_list("last_seq", "owner_id", "open_seq").get(pk=active.chat_id)
        last_seq, owner_id, open_seq = found
        return cls(
            chat_id=active.chat_id,
            message_id=active.message_id,
            seq=last_seq + 1,
            user_message=active.user_message,
            supersedes=active.supersedes,
            variant=active.model_variant,
            model=active.model,
            context=Snapshot.from_json(active.context),
            started_at=active.started_at,
            owner_id=owner_id,
            open_seq=open_seq,
            reservation=Reservation.of(active, owner_id),
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How a reply ended: its final status and what the upstream reported."""

    status: Status
    reply: Reply
    card: str = ""
    """The memory card that was removed from the end of the reply's text."""

    @classmethod
    def of(cls, reply: Reply) -> Ending:
        return cls(Status(reply.status), reply)

    @classmethod
    def cancelled(cls) -> Ending:
        return cls(Status.CANCELLED, Reply("incomplete"))

    @classmethod
    def interrupted(cls, text: str) -> Ending:
        """Return the ending of a reply cut off by this server: incomplete if it has text, else failed."""
        return cls(Status.INCOMPLETE if text else Status.FAILED, Reply("incomplete", error=INTERRUPTED))

    def without_extras(self) -> Ending:
        """Return the same without the upstream's details about its answer, so that no column can refuse the rest."""
        return Ending(self.status, Reply(self.reply.status, self.reply.error))

    def with_card(self, card: str | None, seen: str) -> Ending:
        """Return the ending of a reply whose memory card, if any, was removed. A reply with nothing else failed."""
        if card is None or seen.strip() or self.reply.calls or self.status == Status.CANCELLED:
            return replace(self, card=card or "")
        return Ending(Status.FAILED, replace(self.reply, error=self.reply.error or EMPTY_REPLY), card)


def finish(pending: Pending, text: str, ending: Ending, *, owner: str | None = None) -> Message | None:
    """Store the reply as it ended. Return None if it was already finished elsewhere, or its chat is gone.

    With `owner`, only if the reply still belongs to that process.
    """
    message = _message(pending, text, ending)
    with transaction.atomic():
        # The chat before its other rows, as everywhere: a concurrent deletion of the chat would otherwise deadlock.
        calls = open_turn.call_rows(message, ending.reply.calls, pending.owner_id)
        open_seq = pending.user_message.seq if message.leaves_open else 0
        _SAVE_CHAT.set(pending.chat_id, pending.seq + len(calls), open_seq, message.completed_at)
        ids = pending.chat_id, pending.message_id
        if not (_DELETE_OWN.where(*ids, owner) if owner else _DELETE_ANY.where(*ids)):
            transaction.set_rollback(True)
            return None
        _REPLY.save(message)
        if calls:
            Message.objects.bulk_create(calls)
        post_save.send(
            Message, instance=message, created=True, raw=False, using=DEFAULT_DB_ALIAS, update_fields=None
        )
        if pending.supersedes and message.status != Status.FAILED and not message.superseded_by_id:
            _earlier_answers(pending).update(superseded_by=message)
        turn_finished(message, pending.context, ending.card)
        quotas.settle(pending.reservation, _spent(message, pending.context))
        fault_points.point("finish.stored")
    fault_points.point("finish.committed")
    logger.info(
        "reply finished",
        extra={
            "chat": str(pending.chat_id),
            "reply": str(pending.message_id),
            "status": message.status,
            "error": ending.reply.error.code if ending.reply.error else None,
            "variant": pending.variant,
            "tokens": message.token_count,
        },
    )
    return message


def load_final_message(pending: Pending) -> Message | None:
    """Return the final message if it is stored by now, by any process."""
    return Message.objects.filter(chat_id=pending.chat_id, pk=pending.message_id).first()


def request_cancel(chat_id: UUID, message_id: UUID) -> bool:
    """Ask the process that writes this reply to stop. Return False if it is not being written (any more)."""
    return bool(
        ActiveReply.objects.filter(chat_id=chat_id, message_id=message_id).update(cancel_requested=True)
    )


def finish_cancelled(chat_id: UUID, message_id: UUID) -> None:
    """End a reply whose owner did not react to the cancel, from its last checkpoint."""
    with transaction.atomic():
        active = locked_active(chat_id, ActiveReply.objects.filter(message_id=message_id))
        if active is not None:
            finish(Pending.of(active), active.text, Ending.cancelled())


def locked_active(chat_id: UUID, which: QuerySet[ActiveReply]) -> ActiveReply | None:
    """Lock a chat and return the reply being written in it, if it is one of `which`. The lock keeps both."""
    Chat.objects.select_for_update().filter(pk=chat_id).first()
    return which.filter(pk=chat_id).select_related("user_message").first()


def checkpoint(grown: Sequence[tuple[UUID, str]], *, renew: Sequence[UUID]) -> dict[UUID, bool]:
    """Store partial texts of this process's replies, and renew the leases of `renew`.

    Return the replies that still belong to this process, each with whether its cancel was requested.
    """
    mine = ActiveReply.objects.filter(owner=process.name())
    # Mostly there is nothing to write: this saves PostgreSQL's round trips for a transaction, and SQLite's lock.
    with transaction.atomic() if grown or renew else nullcontext():
        store_partial(grown)
        if renew:
            # Only those: a reply that could not be finished must lose its lease, so that the next begin finishes it.
            mine.filter(message_id__in=renew).update(
                lease_expires_at=Now() + timedelta(seconds=settings.REPLY_LEASE_SECONDS)
            )
        fault_points.point("checkpoint.written")
        return dict(mine.values_list("message_id", "cancel_requested"))


def store_partial(grown: Sequence[tuple[UUID, str]]) -> None:
    """Store partial texts of this process's replies, in one transaction.

    Uses `executemany`, because `bulk_update` takes 45 times as long for 500 streams (measured).
    """
    if not grown:
        return
    table = connection.ops.quote_name(ActiveReply._meta.db_table)
    to_db = ActiveReply._meta.get_field("message_id").get_db_prep_value
    rows = [(text, to_db(message_id, connection), process.name()) for message_id, text in grown]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET text = %s WHERE message_id = %s AND owner = %s", rows)  # noqa: S608  # our own table's name


def _earlier_answers(pending: Pending) -> QuerySet[Message]:
    """Return the current earlier answers; several if a retry failed before or tools were called."""
    after, before = _follows(pending), pending.seq
    return Message.objects.filter(chat_id=pending.chat_id, seq__gt=after, seq__lt=before, superseded_by=None)


def _follows(pending: Pending) -> int:
    """Return the seq of the message that the reply follows: the question, or the last output of a tool."""
    return max((pending.user_message.seq, *pending.context.plan.open_turn))


def _calls_instead(pending: Pending, ending: Ending) -> UUID | None:
    """Return the id of the reply whose tool calls still wait for outputs, because another try was cancelled."""
    if not (pending.open_seq and pending.supersedes and ending.status == Status.CANCELLED):
        return None
    earlier = Message.objects.filter(pk=pending.supersedes, payload__isnull=False)
    return earlier.values_list("pk", flat=True).first()


def _message(pending: Pending, text: str, ending: Ending) -> Message:
    reply, question = ending.reply, pending.user_message
    is_later = _follows(pending) > question.seq
    said = ending.status != Status.FAILED
    cut_off = ending.status in (Status.INCOMPLETE, Status.CANCELLED)
    price = (
        settings.MODEL_VARIANTS[pending.variant].price if pending.variant in settings.MODEL_VARIANTS else None
    )
    message = Message(
        id=pending.message_id,
        chat_id=pending.chat_id,
        seq=pending.seq,
        role=Role.ASSISTANT,
        content=text,
        payload={"calls": len(reply.calls)} if reply.calls else None,
        status=ending.status,
        model_variant=pending.variant,
        model=reply.model or pending.model,
        token_count=count_tokens(text),
        reply_to=question,
        outline=outline(text),
        line=make_line(
            question.content,
            text if said else "",
            settings.MEMORY_LIMITS.line_tokens,
            cut_off=cut_off and bool(text),
        ),
        terms=stored_terms(text, pending.owner_id),
        response_id=reply.response_id,
        input_tokens=reply.usage.input_tokens if reply.usage else None,
        cached_tokens=reply.usage.cached_tokens if reply.usage else None,
        output_tokens=reply.usage.output_tokens if reply.usage else None,
        cost_usd=cost_of(price, reply),
        error={"code": reply.error.code, "message": reply.error.message} if reply.error else None,
        created_at=pending.started_at,
        completed_at=timezone.now(),
    )
    message.superseded_by_id = _calls_instead(pending, ending)
    is_no_answer = ending.status == Status.FAILED or message.superseded_by_id is not None
    message.leaves_open = bool(reply.calls) or (is_no_answer and pending.open_seq > 0)
    message.after_tools = is_later and not pending.context.again
    message.standing = pending.standing
    message.retry_after = reply.error.retry_after if reply.error else None
    return message


def _spent(message: Message, prompt: Snapshot) -> int | None:
    """Return the tokens a reply used, as billed by the upstream or by our own count; None if it failed unbilled."""
    if message.input_tokens is not None:
        return message.input_tokens + (message.output_tokens or 0)
    if message.status == Status.FAILED:
        return None
    return prompt.prompt_tokens + message.token_count


def cost_of(price: Price | None, reply: Reply) -> Decimal | None:
    """Return USD at the variant's price, or None if that is unknown. The built-in model is free for every variant."""
    if reply.usage is None:
        return None
    if reply.model == OFFLINE:
        return Decimal(0)
    return storable_cost(price.cost(reply.usage)) if price else None
