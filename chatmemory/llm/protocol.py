"""The interface of a model: prompts and answers as values, without any I/O.

A `ChatModel` has two methods. `stream` serves a waiting user: it yields text as it arrives and ends with exactly one
`Reply`, which says how it ended. `complete` serves background work: one answer, or an `UpstreamError`. Models
translate all their failures into these values; no SDK type and no SDK exception crosses this interface.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from typing import Any, Literal, Protocol

import orjson

from chatmemory.llm.attachments import Attachment
from chatmemory.text.tokens import MESSAGE_OVERHEAD

CALL_OVERHEAD = 8
"""Estimated tokens of a tool call in addition to its name and arguments: its id and the syntax around it."""

Role = Literal["user", "assistant", "tool"]
ReplyStatus = Literal["complete", "incomplete", "failed"]
ErrorCode = Literal[
    "upstream_error", "upstream_timeout", "context_length_exceeded", "refused", "interrupted", "too_long"
]

MAX_EXTRA_CHARS = 65_536
"""Maximum length of a call's extra fields, as JSON."""
_BASE64 = re.compile(r"[\w+/=-]{1,60000}", re.ASCII)
MAX_COST_USD = Decimal("9999999.999999999")
"""Maximum cost of one answer or one fold: what the cost columns can store. A test compares them."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function or a custom tool that the client offered, as the model made it."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it, possibly invalid. For a custom tool, any text."""
    is_custom: bool = False
    extra: str = ""
    """`extra_content` as JSON: what the model demands back with the call, as Gemini its thought's signature, or the
    Responses API the tool's group (`namespace`) and the encrypted thoughts before the call (`reasoning`, in Chat
    Completions a text); and which model that is (`model`)."""

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> ToolCall:
        """Create a call from its stored `payload`."""
        is_custom, extra = payload.get("custom", False), payload.get("extra", "")
        return cls(payload["call_id"], payload["name"], payload["arguments"], is_custom, extra)

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON that is stored for the call."""
        stored = {"call_id": self.id, "name": self.name, "arguments": self.arguments}
        custom = {"custom": True} if self.is_custom else {}
        return stored | custom | ({"extra": self.extra} if self.extra else {})

    @property
    def replayed(self) -> ToolCall:
        """The call as a model is sent it again: servers refuse arguments that are no JSON object."""
        if self.is_custom or is_object(self.arguments):
            return self
        wrapped = {"arguments": self.arguments} if self.arguments.strip() else {}
        return replace(self, arguments=json.dumps(wrapped, ensure_ascii=False))

    @property
    def namespace(self) -> dict[str, str]:
        """The group of the tool as a field of an item of the Responses API; empty if it is of none."""
        found = self._extra.get("namespace")
        return {"namespace": found} if isinstance(found, str) else {}

    @property
    def reasoning(self) -> list[dict[str, Any]]:
        """The encrypted thoughts before the call, as items of the Responses API."""
        found = self._extra.get("reasoning")
        return [item for one in found if (item := reasoning_item(one))] if isinstance(found, list) else []

    def made_by(self, model: str) -> ToolCall:
        """The call with a note that this model made it, and demands its extra fields back."""
        return replace(self, extra=json.dumps(self._extra | {"model": model}))

    def sent_to(self, model: str) -> ToolCall:
        """The call without what only another model demands back: servers refuse that, or cannot read it. Some refuse
        another server's ids, too: Mistral's all but those of nine letters and digits, OpenAI's those above 40."""
        if self._extra.get("model", model) == model:
            return self
        short = sha256(self.id.encode()).hexdigest()[:9]
        return replace(self, id=short, extra=json.dumps(self.namespace) if self.namespace else "")

    @property
    def thoughts(self) -> str:
        """The thoughts before the call as text, which DeepSeek's and Kimi's models demand back (Chat Completions)."""
        found = self._extra.get("reasoning")
        return found if isinstance(found, str) else ""

    def after(self, reasoning: Sequence[dict[str, Any]] | str) -> ToolCall:
        """The call with the thoughts before it, unless they are too long to be kept."""
        extra = json.dumps(self._extra | {"reasoning": reasoning})
        return replace(self, extra=extra) if reasoning and len(extra) <= MAX_EXTRA_CHARS else self

    @property
    def reasoning_tokens(self) -> int:
        """An estimate of what the model counts for them: encrypted text is a third longer than what it hides."""
        return (sum(len(one["encrypted_content"]) for one in self.reasoning) + len(self.thoughts)) // 4

    @property
    def without_reasoning(self) -> ToolCall:
        """The call as it is sent once its turn is over, without its thoughts. A blank stands for those in text, because
        DeepSeek's server refuses a call without any."""
        blank = {"reasoning": " "} if self.thoughts else {}
        extra = {name: value for name, value in self._extra.items() if name != "reasoning"} | blank
        return replace(self, extra=json.dumps(extra)) if "reasoning" in self._extra else self

    @property
    def _extra(self) -> dict[str, Any]:
        return json.loads(self.extra) if self.extra else {}

    @property
    def text(self) -> str:
        """The call as memory reads it."""
        return f"Called {self.name}({self.arguments})"

    @property
    def chat_json(self) -> dict[str, Any]:
        """The call in Chat Completions' format."""
        kind, arguments = ("custom", "input") if self.is_custom else ("function", "arguments")
        shown = {name: value for name, value in self._extra.items() if name not in ("namespace", "reasoning", "model")}
        extra = {"extra_content": shown} if shown else {}
        return {"id": self.id, "type": kind, kind: {"name": self.name, arguments: self.arguments}, **extra}


def reasoning_item(item: object) -> dict[str, Any] | None:
    """Return what is kept of an item of the Responses API with encrypted thoughts; None for any other item."""
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return None
    kept = {name: item[name] for name in ("id", "encrypted_content") if _BASE64.fullmatch(str(item.get(name) or ""))}
    return {"type": "reasoning", "summary": [], **kept} if "encrypted_content" in kept else None


def is_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(orjson.loads(text), dict)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message as the model receives it. Memory and questions are never sent in the system role."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    """The tool calls that the assistant made in addition to the text."""
    call_id: str = ""
    """The id of the call whose output this is, for a message in the role of a tool."""
    attachments: tuple[Attachment, ...] = ()
    """The attachments of a user's message. The content has a mark for each."""
    name: str = ""
    """The name of the speaker, if several share this role. Only Chat Completions has it."""

    @property
    def text(self) -> str:
        """The whole message as text for people."""
        return "\n\n".join(part for part in (self.content, *(call.text for call in self.calls)) if part)

    @property
    def chat_json(self) -> dict[str, Any]:
        """The message in Chat Completions' format."""
        if self.role == "tool":
            return {"role": "tool", "tool_call_id": self.call_id, "content": self.content}
        message: dict[str, Any] = {"role": self.role} | ({"name": self.name} if self.name else {})
        if self.attachments:
            parts = [one.chat_part for one in self.attachments]
            return message | {"content": [{"type": "text", "text": self.content}, *parts]}
        if not self.calls:
            return message | {"content": self.content}
        message |= {"content": self.content or None, "tool_calls": [call.chat_json for call in self.calls]}
        thoughts = "".join(call.thoughts for call in self.calls)
        return message | ({"reasoning_content": thoughts} if thoughts else {})

    def follows_on(self, last: PromptMessage) -> bool:
        """Whether this message continues `last`, in the same role and name."""
        return self.role != "tool" and (self.role, self.name) == (last.role, last.name)

    def joined(self, following: PromptMessage) -> PromptMessage:
        """Return this message and one of the same role as a single one, their texts joined by a blank line."""
        return replace(
            self,
            content="\n\n".join(text for text in (self.content, following.content) if text),
            calls=self.calls + following.calls,
            attachments=self.attachments + following.attachments,
        )

    def tokens(self, count: Callable[[str], int]) -> int:
        """The tokens of the message by `count`, including overhead but not its attachments."""
        calls = sum(count(call.name) + count(call.arguments) + CALL_OVERHEAD for call in self.calls)
        reasoning = sum(call.reasoning_tokens for call in self.calls)
        return count(self.content) + MESSAGE_OVERHEAD + calls + reasoning

    def with_texts(self, change: Callable[[str], str]) -> PromptMessage:
        """Return a copy with `change` applied to every text that a client may have chosen."""
        calls = tuple(
            replace(call, id=change(call.id), name=change(call.name), arguments=change(call.arguments))
            for call in self.calls
        )
        attachments = tuple(one.with_texts(change) for one in self.attachments)
        content, call_id = change(self.content), change(self.call_id)
        return replace(self, content=content, calls=calls, call_id=call_id, attachments=attachments)


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON object that an answer must be. For upstreams without structured output, the instructions describe it."""

    name: str
    """The schema's name: letters and underscores."""
    schema: Mapping[str, Any]
    """A strict JSON Schema: every property is required, and no others are allowed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything that a model is sent: `instructions` (system role, set by the operator) and the messages, in order."""

    messages: tuple[PromptMessage, ...]
    instructions: str = ""
    cache_key: str = ""
    """Routes prompts of one chat to one provider cache (`prompt_cache_key`)."""
    schema: Schema | None = None
    """For `complete` only: the answer must be such an object."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """For `stream` only: the client's other parameters for the model, by their names in Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """For `stream` only: the client's tools, in Chat Completions' format. Their calls are in the `Reply`."""
    answer_tokens: int = 0
    """For `complete` by the built-in model: about how long to answer. Others find it in the instructions."""
    alternates: bool = True
    """Whether user and assistant take turns in Chat Completions; False for prompts that an older version sent."""

    @property
    def attachments(self) -> list[Attachment]:
        """The attachments of all messages, in order."""
        return [one for message in self.messages for one in message.attachments]

    @property
    def chat_messages(self) -> list[dict[str, Any]]:
        """The prompt as messages in Chat Completions' format: instructions first, then user and assistant in turn."""
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        messages = in_turn(self.messages) if self.alternates else self.messages
        return system + [message.chat_json for message in messages]


NOTHING_SAID = "[…]"
"""Stands for the user's message where the assistant spoke first."""


def in_turn(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Return the messages with neighbours of one role joined, beginning with the user's.

    The templates of many models (Gemma, Mistral, and others) refuse any other order. Outputs of tools stay apart, each
    with its call; so do the messages of people with different names.
    """
    joined: list[PromptMessage] = []
    if messages and messages[0].role != "user":
        joined.append(PromptMessage("user", NOTHING_SAID))
    for message in messages:
        if joined and message.follows_on(joined[-1]):
            joined[-1] = joined[-1].joined(message)
        else:
            joined.append(message)
    return joined


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as billed by the upstream; `cached_tokens` are part of `input_tokens`."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in USD per million tokens."""

    input: Decimal
    cached: Decimal
    output: Decimal

    def cost(self, usage: Usage) -> Decimal:
        """The cost of `usage` in USD."""
        fresh = usage.input_tokens - usage.cached_tokens
        total = fresh * self.input + usage.cached_tokens * self.cached + usage.output_tokens * self.output
        return total / 1_000_000


def storable_cost(usd: Decimal | None) -> Decimal | None:
    """`usd`, or None (unknown) if it exceeds the cost columns: token counts or a price are wrong then."""
    return usd if usd is not None and usd <= MAX_COST_USD else None


@dataclass(frozen=True, slots=True)
class Upstream:
    """A model's server: its address, empty for OpenAI's, the key for it, empty for none, and the API that it speaks."""

    base_url: str
    api_key: str = field(repr=False)
    style: Literal["responses", "chat"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A model that clients can choose: a public name for a model, its effort, its limit and its price."""

    name: str
    model: str
    reasoning_effort: str | None = None
    max_output_tokens: int | None = None
    price: Price | None = None
    upstream: Upstream | None = None
    """Its own server; None: the one of `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    fallback: Variant | None = None
    """Answers if this one fails before its first word. It has no fallback itself."""
    system: bool = True
    """Whether its template knows the system role; if not, instructions begin the first user message."""
    extra: bool | tuple[str, ...] = False
    """The parameters beyond OpenAI's that its server is sent; True: any."""

    def takes(self, name: str) -> bool:
        """Whether its server is sent a parameter beyond OpenAI's."""
        return self.extra if isinstance(self.extra, bool) else name in self.extra

    @property
    def candidates(self) -> tuple[Variant, ...]:
        """The variants that may answer."""
        return (self, self.fallback) if self.fallback else (self,)

    def limited_to(self, tokens: int) -> Variant:
        """This variant and its fallback, with outputs of at most `tokens`."""
        limit = min(tokens, self.max_output_tokens or tokens)
        fallback = self.fallback and self.fallback.limited_to(tokens)
        return replace(self, max_output_tokens=limit, fallback=fallback)


@dataclass(frozen=True, slots=True)
class ReplyError:
    """Why a reply is not complete: a code that clients rely on, and a sentence for people."""

    code: ErrorCode
    message: str
    retry_after: int | None = field(default=None, compare=False)
    """Seconds to wait before the next request, if the upstream gave them; bounded."""
    upstream_code: str = field(default="", compare=False)
    """The upstream's own code (`model_not_found`), empty if it may be something else."""
    upstream_status: int = field(default=0, compare=False)
    """The upstream's HTTP status, if it refused the request; else 0."""
    upstream_reason: str = field(default="", compare=False)
    """The text with which the upstream rejected a request, without addresses and keys. It can quote the request,
    so only the sender sees it."""
    quotable_reason: str = field(default="", compare=False)
    """The same if it quotes nothing of the prompt, so that it may be logged and stored."""

    @property
    def sentence(self) -> str:
        """The message with the upstream's own reason, if that is known and quotes nothing."""
        return self.with_reason(self.quotable_reason)

    def with_reason(self, reason: str) -> str:
        """The message, followed by `reason` if that is not empty."""
        return f"{self.message.rstrip('.')}: {reason}" if reason else self.message


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the reply: clean text (no NUL, no lone surrogate), never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """How a reply ended. `complete` only if the upstream's own terminal marker arrived."""

    status: ReplyStatus
    error: ReplyError | None = None
    usage: Usage | None = None
    model: str = ""
    response_id: str = ""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the client's tools, in order; empty unless the reply is complete."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer of `complete`. `truncated` if the model stopped at its output limit."""

    text: str
    model: str
    usage: Usage | None = None
    truncated: bool = False
    refused: bool = False


class UpstreamError(Exception):
    """No usable answer, and why. The message never quotes a chat. `may_retry`: the same request may succeed later."""

    def __init__(self, reason: ReplyError, *, may_retry: bool = False) -> None:
        super().__init__(reason.sentence)
        self.reason, self.may_retry = reason, may_retry


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Limits of one upstream stream: seconds to the first byte, between bytes and in total; bytes of text."""

    first_byte: float = 30.0
    idle: float = 30.0
    total: float = 300.0
    max_bytes: int = 2 * 1024 * 1024


class ChatModel(Protocol):
    """The two methods of a model."""

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        """Yield deltas as they arrive, then one `Reply`. Raise only `CancelledError`; never retry a failure."""
        ...

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer within `timeout` seconds, retrying failures that may be temporary. Raise `UpstreamError`."""
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of length one in the order of their texts, and the billed tokens (0 if the endpoint reports none)."""

    vectors: tuple[list[float], ...]
    tokens: int
