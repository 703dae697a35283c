"""Begin a turn: store the user's message, and plan the prompt that is sent to the model.

New turns are written here and in `conversations.replies.finish`, always under the chat's row lock. A turn begins in
one short transaction. It checks the owner, then the idempotency key, then that no reply is being written, then the
owner's allowance; it stores the user message and the `ActiveReply`, together with the record of the prompt and the
reservation. Once it has committed, the message is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database import executors
from chatmemory.database.ids import new_id
from chatmemory.errors import ChatBusy, Conflict, IdempotencyMismatch
from chatmemory.llm.attachments import attachments_in, payload_of
from chatmemory.llm.protocol import Variant
from chatmemory.runtime import fault_points, process
from conversations import attachments, chat_lifecycle
from conversations.accounts import quotas
from conversations.derived import derived
from conversations.models import (
    ACTIVE_REPLY,
    ActiveReply,
    Chat,
    IdempotencyKey,
    Message,
    Role,
    Status,
    get_chat,
    get_message,
)
from conversations.replies import finish, generation, open_turn
from conversations.replies.open_turn import OpenTurn
from conversations.replies.reply import BegunTurn, ExistingReply, Pending, TurnRequest, fingerprint
from conversations.titles import automatic_title
from memory.context.prompt import PromptRequest
from memory.context.record import material_of
from memory.folding.request import freshen
from memory.recall.embeddings import near_in_meaning
from memory.recall.ranking import Near
from memory.turn import StaleMemory, prompt_for

T = TypeVar("T")
KEY_LIFETIME = timedelta(hours=24)
"""After this time an idempotency key may be used for another request. The sweep removes it."""
KEY_IS_OLD = Q(created_at__lt=Now() - KEY_LIFETIME)
"""By the database's clock, as servers' clocks may differ."""

_CHANGED = ("last_seq", "open_seq", "updated_at")
"""Fields of a chat that every turn changes."""


async def begin_when_ready(begin: Callable[..., T], search: tuple[UUID, str] | None = None) -> T:
    """Call `begin` with what a search for messages near a question found, once the chat's memory is fresh enough.

    `search` has the chat and its question. A fold that exceeds the time limit continues in the background.
    """
    generation.refuse_when_draining()
    near = await near_in_meaning(*search) if search else ()
    try:
        return await executors.write(begin, near=near, may_wait=True)
    except StaleMemory as stale:
        with suppress(TimeoutError):
            async with asyncio.timeout(stale.seconds):
                await executors.slow(freshen, stale.chat_id, stale.seconds)
    generation.refuse_when_draining()
    return await executors.write(begin, near=near)


def begin_turn(
    user: User,
    request: TurnRequest,
    *,
    chat_id: UUID | None,
    key: str = "",
    request_hash: str = "",
    near: tuple[Near, ...] = (),
    may_wait: bool = False,
) -> BegunTurn | ExistingReply:
    """Store the user's message and begin the reply, in a new chat if `chat_id` is None.

    An open turn continues with the outputs of its tool calls, and ends if they are not sent. With an idempotency key
    that was used before, return the turn it began; `request_hash` replaces the request's own for that comparison.
    Raises `NotFound`, `Conflict`, `IdempotencyMismatch`, `ChatBusy`, `RateLimited`, `QuotaExceeded`, and with
    `may_wait` memory's `StaleMemory`, having stored nothing.
    """
    request_hash = request_hash or request.fingerprint(chat_id)
    columns = derived(request.message, Role.USER, user.pk)  # before the lock

    def begin() -> BegunTurn | ExistingReply:
        chat = None if chat_id is None else get_chat(user, chat_id, lock=True)
        if known := known_turn(user, key, request_hash):
            return known
        if chat is None:
            chat = chat_lifecycle.create_chat(user, **({"policy": request.policy} if request.policy else {}))
        else:
            require_idle(chat)
        turn = open_turn.store_outputs(chat, request.outputs) if request.outputs else None
        if turn is None or request.message:
            open_turn.close(chat)
            turn = OpenTurn(_store_question(chat, request, columns), ())
        else:
            chat.save(update_fields=_CHANGED)
        begun = _begin_reply(chat, turn, request, near=near, may_wait=may_wait)
        _remember(user, key, request_hash, begun.pending)
        fault_points.point("begin.stored")
        return begun

    return _once(begin)


def begin_regeneration(
    user: User,
    chat_id: UUID,
    message_id: UUID,
    variant: Variant | None,
    *,
    key: str = "",
    near: tuple[Near, ...] = (),
    may_wait: bool = False,
    anew: TurnRequest | None = None,
) -> BegunTurn | ExistingReply:
    """Begin a new answer to the question of the last turn; `message_id` is that of the question or of its answer.

    By default the variant is the one that answered before; with `anew`, its instructions and parameters are used.
    Raises `NotFound`, `IdempotencyMismatch`, `ChatBusy`, `Conflict`, `RateLimited`, `QuotaExceeded`, and with
    `may_wait` memory's `StaleMemory`, having stored nothing.
    """
    request_hash = fingerprint(["regenerate", str(chat_id), str(message_id), variant.name if variant else ""])

    def begin() -> BegunTurn | ExistingReply:
        chat = get_chat(user, chat_id, lock=True)
        if known := known_turn(user, key, request_hash):
            return known
        require_idle(chat)
        question, answers = _last_turn(chat, message_id)
        last = next((row for row in reversed(answers) if row.role == Role.ASSISTANT), None)
        chosen = (
            variant or settings.MODEL_VARIANTS.get(last.model_variant if last else "") or default_variant()
        )
        instructions, sources = material_of(last) if last and not anew else ("", ())
        request = TurnRequest(
            message=question.content, variant=chosen, instructions=instructions, sources=sources
        )
        turn = OpenTurn(question, ())
        if anew:
            request = replace(anew, message=question.content, variant=chosen)
            if anew.outputs:
                turn = open_turn.until_last_output(open_turn.turn_from(chat, question.seq))
        standing = next(
            (
                answer
                for answer in reversed(answers)
                if answer.superseded_by_id is None
                and answer.role == Role.ASSISTANT
                and answer.seq > turn.last_seq
            ),
            None,
        )
        begun = _begin_reply(
            chat, turn, request, near=near, again=True, supersedes=standing, may_wait=may_wait
        )
        _remember(user, key, request_hash, begun.pending)
        fault_points.point("begin.stored")
        return begun

    return _once(begin)


def default_variant() -> Variant:
    """Return the variant used if none is named."""
    variant: Variant = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
    return variant


def _once(begin: Callable[[], T]) -> T:
    """Run in a transaction; if two requests raced for one idempotency key, the second run finds the winner's turn."""
    try:
        with transaction.atomic():
            return begin()
    except IntegrityError:
        with transaction.atomic():
            return begin()


def require_idle(chat: Chat) -> None:
    """Raise `ChatBusy` if a reply is being written; finish one whose process is gone. The chat must be locked."""
    active = ACTIVE_REPLY.first(chat.pk)
    if active is None:
        return
    if not ActiveReply.objects.filter(finish.expired(), pk=active.pk).exists():
        raise ChatBusy("A reply is being written in this chat.", retry_after=1)
    finish.finish_abandoned(active)
    chat.refresh_from_db(fields=["last_seq"])


def _store_question(chat: Chat, request: TurnRequest, columns: dict[str, Any]) -> Message:
    chat.last_seq += 1
    changed: tuple[str, ...] = _CHANGED
    if not chat.title and (chat.last_seq == 1 or chat.title_is_automatic):
        chat.title, chat.title_is_automatic = automatic_title(request.message), True
        changed = (*changed, "title", "title_is_automatic")
    chat.save(update_fields=changed)
    now = timezone.now()
    message = Message.objects.create(
        chat=chat,
        seq=chat.last_seq,
        role=Role.USER,
        content=request.message,
        status=Status.COMPLETE,
        payload=payload_of(request.attachments),
        metadata=dict(request.metadata),
        created_at=now,
        completed_at=now,
        **columns,
    )
    if request.attachments:
        attachments.store(chat.owner_id, [(message, request.attachments)])
    return message


def _begin_reply(
    chat: Chat,
    turn: OpenTurn,
    request: TurnRequest,
    *,
    near: tuple[Near, ...],
    again: bool = False,
    supersedes: Message | None = None,
    may_wait: bool = False,
) -> BegunTurn:
    question, variant = turn.question, request.variant
    prompt_request = PromptRequest(
        question.content,
        turn_instructions=request.instructions,
        sources=request.sources,
        tools=request.tools,
        open_seqs=tuple(seq for seq, _ in turn.steps),
        open_turn=tuple(step for _, step in turn.steps),
        attachments=attachments_in(question.payload),
        near=near,
    )
    prepared = prompt_for(chat, prompt_request, question.seq, again=again, may_wait=may_wait)
    tokens = quotas.tokens_for(prepared.snapshot.prompt_tokens, variant)
    reservation = quotas.reserve(chat.owner_id, tokens)
    pending = Pending(
        chat_id=chat.pk,
        message_id=new_id(),
        seq=chat.last_seq + 1,
        user_message=question,
        supersedes=supersedes.pk if supersedes else None,
        variant=variant.name,
        model=variant.model,
        snapshot=prepared.snapshot,
        started_at=timezone.now(),
        owner_id=chat.owner_id,
        open_seq=chat.open_seq,
        reservation=reservation,
        standing=prepared.standing,
    )
    ActiveReply.objects.create(
        chat=chat,
        message_id=pending.message_id,
        user_message=question,
        supersedes=pending.supersedes,
        model_variant=pending.variant,
        model=pending.model,
        context=pending.snapshot.to_json(),
        owner=process.name(),
        started_at=pending.started_at,
        lease_expires_at=Now() + timedelta(seconds=settings.REPLY_LEASE_SECONDS),
        **quotas.reservation_fields(reservation),
    )
    prompt = replace(prepared.prompt, parameters=request.parameters)
    return BegunTurn(pending, prompt, variant, prepared.brings_card)


def _last_turn(chat: Chat, message_id: UUID) -> tuple[Message, list[Message]]:
    """Return the last question and its answers so far, if `message_id` is one of them."""
    target = get_message(chat, message_id)
    assert isinstance(target, Message)  # the chat is idle
    question = Message.objects.filter(chat=chat, role=Role.USER).order_by("-seq").first()
    if question is None or target.seq < question.seq:
        raise Conflict("Only the last turn of a chat can be answered again.")
    if question.status == Status.DELETED:
        raise Conflict("The question of this turn was deleted.")
    return question, list(Message.objects.filter(chat=chat, seq__gt=question.seq).order_by("seq"))


# Idempotency keys


def known_turn(user: User, key: str, request_hash: str) -> ExistingReply | None:
    """Return the turn made with this idempotency key, or None. Raises `IdempotencyMismatch` for a different request."""
    if not key:
        return None
    is_old = ExpressionWrapper(KEY_IS_OLD, output_field=BooleanField())
    row = IdempotencyKey.objects.annotate(is_old=is_old).filter(user=user, key=key).first()
    if row is None:
        return None
    if row.is_old:
        row.delete()
        return None
    if row.request_hash != request_hash:
        raise IdempotencyMismatch("This idempotency key was used with another request.")
    return ExistingReply(row.chat_id, row.message_id)


def _remember(user: User, key: str, request_hash: str, pending: Pending) -> None:
    """Store the key, if any, with which a turn was begun. Raises `IntegrityError` if another request was first."""
    if key:
        IdempotencyKey.objects.create(
            user=user,
            key=key,
            request_hash=request_hash,
            chat_id=pending.chat_id,
            user_message_id=pending.user_message.pk,
            message_id=pending.message_id,
            created_at=Now(),
        )
