"""Begin a turn: store the user's message, and plan the prompt that is sent to the model.

New turns are written here and in `conversations.replies.finish`, always under the chat's row lock. A turn begins in
one short transaction. It checks the owner, then the idempotency key, then that no reply is being written, then the
owner's allowance; it stores the user message and the `ActiveReply`, together with the record of the prompt and the
reservation. Once it has committed, the message is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database import executors
from chatmemory.database.compiled import Select, Write
from chatmemory.database.ids import new_id
from chatmemory.database.owned import ChatKey
from chatmemory.errors import ChatBusy, Conflict, IdempotencyMismatch, NotFound
from chatmemory.llm import registry
from chatmemory.llm.attachments import attachments_in, payload_of
from chatmemory.llm.protocol import Variant
from chatmemory.runtime import fault_points, process, tracing
from chatmemory.text.turn_line import automatic_title
from conversations import attachments, chat_lifecycle
from conversations.accounts import quotas
from conversations.derived import derived_columns
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message, Role, Status
from conversations.replies import finish, generation, open_turn
from conversations.replies.open_turn import OpenTurn, Steps
from conversations.replies.reply import (
    REQUESTED,
    BegunTurn,
    ExistingReply,
    Pending,
    TurnRequest,
    fingerprint,
)
from memory.context.build import material_of, stored_snapshot
from memory.context.prompt import PromptRequest
from memory.folding.request import freshen
from memory.recall.embeddings import near_in_meaning
from memory.recall.ranking import Near
from memory.turn import StaleMemory, prompt_for

T = TypeVar("T")
KEY_IS_OLD = Q(created_at__lt=Now() - timedelta(hours=24))
"""Then an idempotency key may be used for another request, and the sweep removes it. By the database's clock."""

_CHAT = Select(
    lambda chat, owner: (
        Chat.objects.select_related("active_reply", "brief", "owner__allowance", "owner__consent")
        .annotate(now=Now())
        .filter(pk=chat, owner=owner)
    )
)
"""A chat with all that a turn needs to know of it, in one query."""
_LOCK_CHAT = Write(
    lambda chat, owner, messages, now: (
        Chat.objects.filter(pk=chat, owner=owner),
        {"last_seq": F("last_seq") + messages, "updated_at": now, "last_message_at": now},
    )
)


@dataclass(frozen=True, slots=True)
class Readiness:
    """The results of the work before a turn begins."""

    near: tuple[Near, ...] = ()
    """The messages that are near the question in meaning."""
    may_wait: bool = False
    """Whether the turn can still wait for its chat's memory: then `StaleMemory` is raised if it should."""


AT_ONCE = Readiness()


async def begin_when_ready(begin: Callable[..., T], search: tuple[ChatKey, str | None] | None = None) -> T:
    """Call `begin` with `ready`, what a turn needs before it begins, once the chat's memory is fresh enough.

    `search` has the chat and its question, None for its last one. A fold that exceeds the time limit continues in the
    background.
    """
    generation.refuse_when_draining()
    with tracing.span("begin_turn"):
        near = await near_in_meaning(*search) if search else ()
        try:
            return await executors.write(begin, ready=Readiness(near, may_wait=True))
        except StaleMemory as stale:
            with suppress(TimeoutError):
                async with asyncio.timeout(stale.seconds):
                    await executors.slow(freshen, stale.chat, stale.seconds)
        generation.refuse_when_draining()
        return await executors.write(begin, ready=Readiness(near))


def begin_turn(
    user: User,
    request: TurnRequest,
    *,
    chat_id: UUID | None,
    key: str = "",
    request_hash: str = "",
    ready: Readiness = AT_ONCE,
) -> BegunTurn | ExistingReply:
    """Store the user's message and begin the reply, in a new chat if `chat_id` is None.

    An open turn continues with the outputs of its tool calls, and ends if they are not sent. With an idempotency key
    that was used before, return the turn it began; `request_hash` replaces the request's own for that comparison.
    Raises `NotFound`, `Conflict`, `IdempotencyMismatch`, `ChatBusy`, `RateLimited`, `QuotaExceeded`, and memory's
    `StaleMemory`, having stored nothing.
    """
    columns = derived_columns(request.message, Role.USER, user.pk)  # before the lock
    messages = len(request.outputs) + bool(request.message)
    given = {"policy": request.policy, "project": request.project, "across": request.across}
    new_chat: dict[str, Any] = {name: value for name, value in given.items() if value}
    if request.temporary:
        new_chat["temporary"] = True
    elif chat_id is None:
        new_chat |= {"title": automatic_title(request.message), "title_is_automatic": True}

    def begin(chat: Chat, now: datetime) -> BegunTurn:
        fields = ("last_seq", "open_seq", "title", "title_is_automatic")
        stored = [getattr(chat, name) for name in fields]
        chat.last_seq -= messages
        if request.outputs:
            turn = open_turn.store_outputs(chat, request.outputs)
            question, steps = turn.question, turn.steps
        if request.message or not request.outputs:
            if chat.open_seq:
                open_turn.close(chat)
            question, steps = _store_question(chat, request, columns), ()
        if [getattr(chat, name) for name in fields] != stored:
            chat.save(update_fields=fields)
        return _begin_reply(chat, now, question, steps, request, ready)

    request_key = RequestKey(user, key, request_hash or request.fingerprint(chat_id))
    return _in_chat(chat_id, begin, request_key, messages=messages, new_chat=new_chat)


def begin_regeneration(
    user: User,
    chat_id: UUID,
    message_id: UUID,
    variant: Variant | None,
    *,
    key: str = "",
    request_hash: str = "",
    ready: Readiness = AT_ONCE,
    anew: TurnRequest | None = None,
) -> BegunTurn | ExistingReply:
    """Begin a new answer to the question of the last turn; `message_id` is that of the question or of its answer.

    By default the variant is the one that was requested before; with `anew`, its instructions and parameters are used.
    `request_hash` replaces the request's own, as in `begin_turn`. Raises `NotFound`, `IdempotencyMismatch`, `ChatBusy`,
    `Conflict`, `RateLimited`, `QuotaExceeded`, and memory's `StaleMemory`, having stored nothing.
    """

    def begin(chat: Chat, now: datetime) -> BegunTurn:
        question, *later = _last_turn(chat, message_id)
        replies = [row for row in reversed(later) if row.role == Role.ASSISTANT]
        last = replies[0] if replies else None
        before = str(last.metadata.get(REQUESTED) or last.model_variant) if last else ""
        chosen = variant or settings.MODEL_VARIANTS.get(before) or default_variant()
        steps: Steps = ()
        if anew is None:
            sent = stored_snapshot(last) if last else None
            instructions, sources = material_of(chat.key, sent) if sent else ("", ())
            request = TurnRequest(message=question.content, variant=chosen, instructions=instructions, sources=sources)
        else:
            request = replace(anew, message=question.content, variant=chosen)
            if anew.outputs:
                steps = OpenTurn.of(question, *later).until_last_output().steps
        after = steps[-1][0] if steps else question.seq
        current = next((row for row in replies if row.superseded_by_id is None and row.seq > after), None)
        return _begin_reply(chat, now, question, steps, request, ready, again=True, supersedes=current)

    own_hash = fingerprint(["regenerate", str(chat_id), str(message_id), variant.name if variant else ""])
    return _in_chat(chat_id, begin, RequestKey(user, key, request_hash or own_hash))


def default_variant() -> Variant:
    """Return the variant used if none is named."""
    return settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]


def _in_chat(
    chat_id: UUID | None,
    begin: Callable[[Chat, datetime], BegunTurn],
    request_key: RequestKey,
    *,
    messages: int = 0,
    new_chat: Mapping[str, Any] | None = None,
) -> BegunTurn | ExistingReply:
    """Begin a turn in the locked chat, whose `last_seq` has been raised by `messages`; in a new one without an id.

    A reply whose process is gone is finished first.
    """

    def attempt() -> BegunTurn | ExistingReply:
        with transaction.atomic():
            chat, now = _locked(request_key.user, chat_id, messages, new_chat or {})
            if known := request_key.known_turn():
                transaction.set_rollback(True)
                return known
            if hasattr(chat, "active_reply"):
                raise ChatBusy
            slot = quotas.take_app_slot(chat.app_id)
            begun = replace(begin(chat, now), slot=slot)
            request_key.remember(begun.pending)
            fault_points.point("begin.stored")
            return begun

    for _ in range(2):
        try:
            return attempt()
        except IntegrityError:
            pass  # two requests raced for one key: now the winner's turn is found
        except ChatBusy:
            if chat_id is None or not finish.finish_in(ChatKey(chat_id, request_key.user.pk), finish.expired()):
                raise
    return attempt()


def _locked(user: User, chat_id: UUID | None, messages: int, new_chat: Mapping[str, Any]) -> tuple[Chat, datetime]:
    """Return the chat as a turn needs it, and the database's time; raising its `last_seq` locks it."""
    if chat_id is None:
        chat_id = chat_lifecycle.create_chat(user, last_seq=messages, **new_chat).pk
    elif not _LOCK_CHAT.run(chat_id, user.pk, messages, timezone.now()):
        raise NotFound("Chat not found.")
    chat: Any = _CHAT.first(chat_id, user.pk)
    if chat is None:  # SQLite checks references only at the end
        raise IntegrityError("FOREIGN KEY constraint: the owner is gone")
    return chat, chat.now


def _store_question(chat: Chat, request: TurnRequest, columns: dict[str, Any]) -> Message:
    chat.last_seq += 1
    if not (chat.title or chat.temporary) and (chat.last_seq == 1 or chat.title_is_automatic):
        chat.title, chat.title_is_automatic = automatic_title(request.message), True
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
    now: datetime,
    question: Message,
    steps: Steps,
    request: TurnRequest,
    ready: Readiness,
    *,
    again: bool = False,
    supersedes: Message | None = None,
) -> BegunTurn:
    variant = request.variant
    prompt_request = PromptRequest(
        question.content,
        turn_instructions=request.instructions,
        sources=request.sources,
        tools=request.tools,
        open_seqs=tuple(seq for seq, _ in steps),
        open_turn=tuple(step for _, step in steps),
        attachments=attachments_in(question.payload),
        near=ready.near,
        disarms=registry.disarms_control_tokens(variant),
    )
    prepared = prompt_for(chat, prompt_request, question.seq, again=again, may_wait=ready.may_wait)
    tokens = quotas.tokens_for(prepared.snapshot.prompt_tokens, variant)
    reservation = quotas.reserve(chat.owner_id, tokens, getattr(chat.owner, "allowance", None), now)
    active = ActiveReply.objects.create(
        chat=chat,
        message_id=new_id(),
        user_message=question,
        supersedes=supersedes.pk if supersedes else None,
        model_variant=variant.name,
        model=variant.model,
        context=prepared.snapshot.to_json(),
        lease_owner=process.name(),
        started_at=timezone.now(),
        lease_expires_at=now + timedelta(seconds=settings.REPLY_LEASE_SECONDS),
        **reservation,
    )
    prompt = attachments.with_bytes(prepared.prompt, chat.owner_id)
    prompt = replace(prompt, parameters=request.parameters)
    return BegunTurn(Pending.of(active, chat, prepared), prompt, variant)


def _last_turn(chat: Chat, message_id: UUID) -> list[Message]:
    """Return the last question and its answers so far, if `message_id` is one of them."""
    message = Message.objects.filter(chat=chat, pk=message_id).first()
    if message is None:
        raise NotFound("This chat has no such message.")
    question = Message.objects.filter(chat=chat, role=Role.USER).order_by("-seq").first()
    if question is None or message.seq < question.seq:
        raise Conflict("Only the last turn of a chat can be answered again.")
    if question.status == Status.DELETED:
        raise Conflict("The question of this turn was deleted.")
    return [question, *Message.objects.filter(chat=chat, seq__gt=question.seq).order_by("seq")]


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The idempotency key of a user's request, "" if it has none, and a hash that tells it from other requests."""

    user: User
    key: str
    request_hash: str

    def known_turn(self) -> ExistingReply | None:
        """Return the turn begun with this key, or None. Raises `IdempotencyMismatch` for a different request."""
        if not self.key:
            return None
        used = IdempotencyKey.objects.filter(user=self.user, key=self.key).exclude(KEY_IS_OLD)
        if (row := used.first()) is None:
            return None
        if row.request_hash != self.request_hash:
            raise IdempotencyMismatch("This idempotency key was used with another request.")
        return ExistingReply(ChatKey(row.chat_id, row.user_id), row.message_id)

    def remember(self, pending: Pending) -> None:
        """Store the key, if any, of a turn that begins. Raises `IntegrityError` if another request was first."""
        if self.key:
            IdempotencyKey.objects.filter(KEY_IS_OLD, user=self.user, key=self.key).delete()
            IdempotencyKey.objects.create(
                user=self.user,
                key=self.key,
                request_hash=self.request_hash,
                chat_id=pending.chat_id,
                user_message_id=pending.user_message.pk,
                message_id=pending.message_id,
                created_at=Now(),
            )
