"""The values of a reply: the request, the reply to write, how it ended and what is stored of that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings

from chatmemory.database.owned import ChatKey
from chatmemory.llm.attachments import Attachment
from chatmemory.llm.offline import NAME as OFFLINE
from chatmemory.llm.openai.failures import EMPTY_REPLY
from chatmemory.llm.protocol import Price, Prompt, Reply, ReplyError, Usage, Variant, storable_cost
from chatmemory.text.thoughts import visible_text
from conversations.accounts.quotas import Slot
from conversations.models import ActiveReply, Chat, Message, Role, Status
from conversations.replies.open_turn import ToolOutput
from memory.briefs import MemoryAtStart
from memory.context.plan import Snapshot, Source
from memory.turn import PreparedPrompt

INTERRUPTED = ReplyError("interrupted", "The server stopped while this reply was being written.")
NO_ANSWER = ReplyError("upstream_error", "The model ended without an answer.")
REQUESTED = "requested_variant"
"""Names in a reply's metadata the variant that was requested, if its fallback has answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a client sends with a message; only for a first message: `policy`, `temporary`, `project`, `across`."""

    message: str
    """The user's message; empty if only outputs of tools are sent, so that the reply to the last message continues."""
    variant: Variant
    instructions: str = ""
    sources: tuple[Source, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policy: str | None = None
    temporary: bool = False
    project: str = ""
    across: str = ""
    """The most that the new chat shares with others; "": as all chats do."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters passed to the model, by their names in Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the model may call, in the format of Chat Completions."""
    outputs: tuple[ToolOutput, ...] = ()
    """Outputs of the tools that the last reply called."""
    attachments: tuple[Attachment, ...] = ()
    """Images and files that came with the message, with their bytes."""

    def fingerprint(self, chat_id: UUID | None) -> str:
        """Return a hash that is the same for the same request, with which an idempotency key is compared."""
        sources = [[source.title, source.text] for source in self.sources]
        fields: list[Any] = [self.message, self.variant.name, self.instructions, sources, self.metadata, self.policy]
        if self.temporary:
            fields.append("temporary")
        if self.project or self.across:
            fields.append([self.project, self.across])
        return fingerprint(["message", str(chat_id or "first"), *fields])


def fingerprint(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Pending:
    """A reply that is to be written, and the turn it belongs to."""

    active: ActiveReply
    """Its row, as it was when it began, or when the fallback of its variant took over."""
    seq: int
    snapshot: Snapshot
    """The stored record of the prompt."""
    app_id: int | None
    """The chat's app."""
    open_seq: int
    """The chat's `open_seq` when the reply began."""
    memory_at_start: MemoryAtStart | None
    """None in another process than that which began the turn."""

    @classmethod
    def of(cls, active: ActiveReply, chat: Chat, prepared: PreparedPrompt | None = None) -> Pending:
        """Return the reply of this row, which is being written in `chat`; `prepared` is its prompt if it begins."""
        snapshot = prepared.snapshot if prepared else Snapshot.from_json(active.context)
        at_start = prepared.memory_at_start if prepared else None
        return cls(active, chat.last_seq + 1, snapshot, chat.app_id, chat.open_seq, at_start)

    @property
    def user_message(self) -> Message:
        question: Message = self.active.user_message
        return question

    @property
    def message_id(self) -> UUID:
        return self.active.message_id

    @property
    def chat_id(self) -> UUID:
        return self.active.chat_id

    @property
    def chat_key(self) -> ChatKey:
        return self.active.chat_key

    @property
    def head(self) -> ReplyHead:
        return ReplyHead(self.chat_key, self.user_message.pk, self.message_id, self.active.model_variant, self.snapshot)


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that has begun: the prompt to send to the model, and the reply to be written."""

    pending: Pending
    prompt: Prompt
    variant: Variant
    slot: Slot | None = None
    """Its slot among the replies of its app."""


@dataclass(frozen=True, slots=True)
class ExistingReply:
    """A reply that already exists, final or being written, and can be followed."""

    chat: ChatKey
    message_id: UUID


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """What a reader gets of a reply before its text."""

    chat: ChatKey
    user_message_id: UUID | None
    message_id: UUID
    variant: str
    snapshot: Snapshot | None
    """The stored record of the prompt; None for an imported reply."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt, by our own count."""
        return self.snapshot.prompt_tokens if self.snapshot else 0


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
    def cut_off(cls, text: str, error: ReplyError = INTERRUPTED) -> Ending:
        """Return the ending of a reply cut off by this server: incomplete if it has text, else failed."""
        return cls(Status.INCOMPLETE if text else Status.FAILED, Reply("incomplete", error=error))

    def without_extras(self) -> Ending:
        """Return the same without the upstream's details about its answer, so that no column can refuse the rest."""
        return Ending(self.status, Reply(self.reply.status, self.reply.error))

    def with_card(self, card: str | None, seen: str) -> Ending:
        """Return the ending of a reply whose memory card, if any, was removed. A reply with nothing else failed."""
        if card is None or seen.strip() or self.reply.calls or self.status == Status.CANCELLED:
            is_thought = bool(seen.strip()) and not visible_text(seen)
            return replace(self, card="" if is_thought else card or "")
        return Ending(Status.FAILED, replace(self.reply, error=self.reply.error or EMPTY_REPLY), card)

    def message(self, text: str, variant: str, model: str, **fields: Any) -> Message:
        """Return the final message, unsaved, with what the upstream reported of it."""
        reply, usage = self.reply, self.reply.usage
        known = settings.MODEL_VARIANTS.get(variant)
        return Message(
            role=Role.ASSISTANT,
            content=text,
            payload={"calls": len(reply.calls)} if reply.calls else None,
            status=self.status,
            model_variant=variant,
            model=reply.model or model,
            response_id=reply.response_id,
            input_tokens=usage.input_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            cost_usd=_cost(known.price if known else None, reply),
            error={"code": reply.error.code, "message": reply.error.sentence} if reply.error else None,
            **fields,
        )


def _cost(price: Price | None, reply: Reply) -> Decimal | None:
    """Return USD at the variant's price, or None if that is unknown. The built-in model is free for every variant."""
    if reply.usage is None:
        return None
    if reply.model == OFFLINE:
        return Decimal(0)
    return storable_cost(price.cost(reply.usage)) if price else None


def counts_of(message: Message, prompt_tokens: int) -> Usage | None:
    """Return the tokens of a call, as billed by the upstream or by our own count; None if it failed unbilled."""
    is_unbilled = message.status == Status.FAILED
    return message.billed or (None if is_unbilled else Usage(prompt_tokens, 0, message.token_count))
