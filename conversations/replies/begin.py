"""Begin a turn: store the user's message, and plan the prompt that is sent to the model.

New turns are written here and in `conversations.replies.finish`, always under the chat's row lock. A turn begins in
one short transaction. It checks the owner, then the idempotency key, then that no reply is being written, then the
owner's allowance; it stores the user message and the `ActiveReply`, together with the record of the prompt and the
reservation. Once it has committed, the message is safe.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.compiled_writes import Insert, Update
from chatmemory.database.ids import new_id
from chatmemory.errors import ChatBusy, Conflict
from chatmemory.llm.attachments import Attachment, attachments_in, payload_of
from chatmemory.llm.protocol import Prompt, Variant
from chatmemory.runtime import fault_points, process
from chatmemory.text.tokens import count_tokens
from conversations import attachments, chat_lifecycle
from conversations.accounts import quotas
from conversations.lookup import ACTIVE_REPLY, get_chat, get_message
from conversations.models import ActiveReply, Chat, Message, Role, Status
from conversations.replies import idempotency, lease, open_turn
from conversations.replies.finish import Pending
from conversations.replies.idempotency import ExistingReply
from conversations.replies.open_turn import OpenTurn, ToolOutput
from conversations.titles import automatic_title
from memory.context.prompt import PromptRequest
from memory.context.record import material_of
from memory.context.render import Source
from memory.recall.analysis.hashed_terms import stored_terms
from memory.recall.ranking import Near
from memory.turn import prompt_for

_SAVE_CHAT = Update(Chat, "last_seq", "open_seq", "updated_at")
_NAMED = Update(Chat, "last_seq", "open_seq", "updated_at", "title", "title_is_automatic")
_QUESTION = Insert(Message)


@cache
def _active_reply(lease_seconds: float) -> Insert[ActiveReply]:
    return Insert(ActiveReply, lease_expires_at=Now() + timedelta(seconds=lease_seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a client sends with a message. `policy` is only for a first message."""

    message: str
    """The user's message; empty if only outputs of tools are sent, so that the reply to the last message continues."""
    variant: Variant
    instructions: str = ""
    sources: tuple[Source, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policy: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters passed to the model, by their names in Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the model may call, in the format of Chat Completions."""
    outputs: tuple[ToolOutput, ...] = ()
    """Outputs of the tools that the last reply called."""
    attachments: tuple[Attachment, ...] = ()
    """Images and files that came with the message, with their bytes."""
    near: tuple[Near, ...] = ()
    """Older messages similar in meaning. Not sent by the client."""

    def fingerprint(self, chat_id: UUID | None) -> str:
        """Return a hash that is the same for the same request, with which an idempotency key is compared."""
        sources = [[source.title, source.text] for source in self.sources]
        fields = [self.message, self.variant.name, self.instructions, sources, self.metadata, self.policy]
        return _fingerprint(["message", str(chat_id or "first"), *fields])


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that has begun: the prompt to send to the model, and the reply to be written."""

    pending: Pending
    prompt: Prompt
    variant: Variant
    brings_card: bool = False
    """Whether the reply is to contain a memory card, which its reader must not see."""


def begin_turn(
    user: User,
    request: TurnRequest,
    *,
    chat_id: UUID | None,
    key: str = "",
    may_wait: bool = False,
    fingerprint: str = "",
) -> BegunTurn | ExistingReply:
    """Store the user's message and begin the reply, in a new chat if `chat_id` is None.

    An open turn continues with the outputs of its tool calls, and ends if they are not sent. With an idempotency key
    that was used before, return the turn it began; `fingerprint` replaces the request's own for that comparison.
    Raises `NotFound`, `Conflict`, `IdempotencyMismatch`, `ChatBusy`, `RateLimited`, `QuotaExceeded`, and with
    `may_wait` memory's `StaleMemory`, having stored nothing.
    """
    fingerprint = fingerprint or request.fingerprint(chat_id)
    counted = count_tokens(request.message)

    def begin() -> BegunTurn | ExistingReply:
        chat = None if chat_id is None else get_chat(user, chat_id, lock=True)
        if known := idempotency.known_turn(user, key, fingerprint):
            return known
        if chat is None:
            chat = chat_lifecycle.create_chat(user, **({"policy": request.policy} if request.policy else {}))
        else:
            require_idle(chat)
        turn = open_turn.store_outputs(chat, request.outputs) if request.outputs else None
        if turn is None or request.message:
            open_turn.close(chat)
            turn = OpenTurn(_store_question(chat, request, counted), ())
        else:
            _SAVE_CHAT.save(chat)
        begun = _begin_reply(chat, turn, request.variant, request, may_wait=may_wait)
        idempotency.remember(user, key, fingerprint, begun.pending)
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
    may_wait: bool = False,
    near: tuple[Near, ...] = (),
    anew: TurnRequest | None = None,
) -> BegunTurn | ExistingReply:
    """Begin a new answer to the question of the last turn; `message_id` is that of the question or of its answer.

    By default the variant is the one that answered before; with `anew`, its instructions and parameters are used.
    Raises `NotFound`, `IdempotencyMismatch`, `ChatBusy`, `Conflict`, `RateLimited`, `QuotaExceeded`, and with
    `may_wait` memory's `StaleMemory`, having stored nothing.
    """
    fingerprint = _fingerprint(["regenerate", str(chat_id), str(message_id), variant.name if variant else ""])

    def begin() -> BegunTurn | ExistingReply:
        chat = get_chat(user, chat_id, lock=True)
        if known := idempotency.known_turn(user, key, fingerprint):
            return known
        require_idle(chat)
        question, answers = _last_turn(chat, message_id)
        last = next((row for row in reversed(answers) if row.role == Role.ASSISTANT), None)
        chosen = (
            variant or settings.MODEL_VARIANTS.get(last.model_variant if last else "") or default_variant()
        )
        instructions, sources = material_of(last) if last and not anew else ("", ())
        request = TurnRequest(
            message=question.content, variant=chosen, instructions=instructions, sources=sources, near=near
        )
        turn = OpenTurn(question, ())
        if anew:
            request = replace(anew, message=question.content, near=near)
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
        begun = _begin_reply(chat, turn, chosen, request, again=True, supersedes=standing, may_wait=may_wait)
        idempotency.remember(user, key, fingerprint, begun.pending)
        fault_points.point("begin.stored")
        return begun

    return _once(begin)


def default_variant() -> Variant:
    """Return the variant used if none is named."""
    variant: Variant = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
    return variant


def _once(begin: Any) -> BegunTurn | ExistingReply:
    """Run in a transaction; if two requests raced for one idempotency key, the second run finds the winner's turn."""
    try:
        with transaction.atomic():
            return begin()  # type: ignore[no-any-return]  # BegunTurn | ExistingReply, by its only two callers
    except IntegrityError:
        with transaction.atomic():
            return begin()  # type: ignore[no-any-return]  # as above


def require_idle(chat: Chat) -> None:
    """Raise `ChatBusy` if a reply is being written; finish one whose process is gone. The chat must be locked."""
    active = ACTIVE_REPLY.first(chat.pk)
    if active is None:
        return
    if not ActiveReply.objects.filter(lease.expired(), pk=active.pk).exists():
        raise ChatBusy("A reply is being written in this chat.", retry_after=1)
    lease.finish_abandoned(active)
    chat.refresh_from_db(fields=["last_seq"])


def _store_question(chat: Chat, request: TurnRequest, tokens: int) -> Message:
    chat.last_seq += 1
    changed = _SAVE_CHAT
    if not chat.title and (chat.last_seq == 1 or chat.title_is_automatic):
        chat.title, chat.title_is_automatic = automatic_title(request.message), True
        changed = _NAMED
    changed.save(chat)
    now = timezone.now()
    message = Message(
        chat=chat,
        seq=chat.last_seq,
        role=Role.USER,
        content=request.message,
        status=Status.COMPLETE,
        token_count=tokens,
        terms=stored_terms(request.message, chat.owner_id),
        payload=payload_of(request.attachments),
        metadata=dict(request.metadata),
        created_at=now,
        completed_at=now,
    )
    _QUESTION.save(message)
    if request.attachments:
        attachments.store(chat.owner_id, [(message, request.attachments)])
    return message


def _begin_reply(
    chat: Chat,
    turn: OpenTurn,
    variant: Variant,
    request: TurnRequest,
    *,
    again: bool = False,
    supersedes: Message | None = None,
    may_wait: bool = False,
) -> BegunTurn:
    question = turn.question
    asked = PromptRequest(
        question.content,
        turn_instructions=request.instructions,
        sources=request.sources,
        tools=request.tools,
        open_seqs=tuple(seq for seq, _ in turn.steps),
        open_turn=tuple(step for _, step in turn.steps),
        attachments=attachments_in(question.payload),
        near=request.near,
    )
    prepared = prompt_for(chat, asked, question.seq, again=again, may_wait=may_wait)
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
        context=prepared.snapshot,
        started_at=timezone.now(),
        owner_id=chat.owner_id,
        open_seq=chat.open_seq,
        reservation=reservation,
        standing=prepared.standing,
    )
    active = ActiveReply(
        chat=chat,
        message_id=pending.message_id,
        user_message=question,
        supersedes=pending.supersedes,
        model_variant=pending.variant,
        model=pending.model,
        context=pending.context.to_json(),
        owner=process.name(),
        started_at=pending.started_at,
        **quotas.reservation_fields(reservation),
    )
    _active_reply(settings.REPLY_LEASE_SECONDS).save(active)
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


def _fingerprint(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
