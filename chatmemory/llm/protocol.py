"""What a model is asked and what it answers, as values. Nothing here talks to anyone.

A `ChatModel` has two verbs. `stream` serves a person who waits: it yields text as it comes and ends with exactly
one `Reply`, which says honestly how it ended. `complete` serves the background: one answer, or an `UpstreamError`.
Models translate every failure of theirs into these values; no SDK type and no SDK exception passes this line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, Protocol

from chatmemory.llm.attachments import Attachment
from chatmemory.text.tokens import MESSAGE_OVERHEAD

CALL_OVERHEAD = 8
"""About what a call of a tool costs beside its name and its arguments: its id and what stands around it, in tokens."""

Role = Literal["user", "assistant", "tool"]
ReplyStatus = Literal["complete", "incomplete", "failed"]
ErrorCode = Literal[
    "upstream_error", "upstream_timeout", "context_length_exceeded", "refused", "interrupted", "too_long"
]

MILLION = Decimal(1_000_000)
MAX_COST_USD = Decimal("9999999.999999999")
"""Of one answer or one fold: what the columns of costs have room for. A test holds it against them."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function or a custom tool that the client offered, as the model made it."""

    id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it: it may be none. Of a custom tool any text."""
    is_custom: bool = False

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> ToolCall:
        """From `payload`, as it is stored."""
        return cls(
            payload["call_id"], payload["name"], payload["arguments"], is_custom=payload.get("custom", False)
        )

    @property
    def payload(self) -> dict[str, Any]:
        """What is stored of it."""
        stored = {"call_id": self.id, "name": self.name, "arguments": self.arguments}
        return stored | ({"custom": True} if self.is_custom else {})

    @property
    def text(self) -> str:
        """The call as memory reads it."""
        return f"Called {self.name}({self.arguments})"


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message as the model gets it. Memory and questions are never sent in the system role."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    """What the assistant called beside what it said."""
    call_id: str = ""
    """The call that a message in the role of a tool is the output of."""
    attachments: tuple[Attachment, ...] = ()
    """Of a user's message. The content has a mark for each."""

    @property
    def text(self) -> str:
        """All of it, for people to read."""
        return "\n\n".join(part for part in (self.content, *(call.text for call in self.calls)) if part)

    def tokens(self, count: Callable[[str], int]) -> int:
        """What it costs by `count`, overhead included; its attachments are counted apart."""
        calls = sum(count(call.name) + count(call.arguments) + CALL_OVERHEAD for call in self.calls)
        return count(self.content) + MESSAGE_OVERHEAD + calls

    def with_texts(self, change: Callable[[str], str]) -> PromptMessage:
        """The same with `change` made to its content and to the arguments of its calls."""
        calls = tuple(replace(call, arguments=change(call.arguments)) for call in self.calls)
        return replace(self, content=change(self.content), calls=calls)


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON object that an answer is to be. Where an upstream has no structured output, the instructions say it."""

    name: str
    """Letters and underscores."""
    schema: Mapping[str, Any]
    """JSON Schema, strict: every property required, none besides."""
    extract: Callable[[str, int], str] | None = field(default=None, compare=False)
    """What the built-in model answers to a message, in about so many tokens (0: not said). Without it: text."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call once beside its answer; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything a model is sent: `instructions` (system role, the operator's words) and the messages, in order."""

    messages: tuple[PromptMessage, ...]
    instructions: str = ""
    cache_key: str = ""
    """Routes prompts of one chat to one provider cache (`prompt_cache_key`)."""
    hosted_prompt: tuple[str, str] | None = None
    """(id, version) of a prompt kept at the provider; then no model and no instructions are sent."""
    schema: Schema | None = None
    """`complete` only: the answer is to be such an object."""
    tool: Tool | None = None
    """`stream` only: the model may call it; its arguments come with the `Reply`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """`stream` only: what the client asked of the model besides, by the names of Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """`stream` only: the tools that the client offers, as Chat Completions has them. Their calls are the reply's."""
    answer_tokens: int = 0
    """`complete` only: about how long the answer is to be; 0: not said. The instructions say it in words to models
    that read; the built-in one goes by this."""

    @property
    def attachments(self) -> list[Attachment]:
        """Of all messages, in order."""
        return [one for message in self.messages for one in message.attachments]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the upstream billed them; `cached_tokens` are part of `input_tokens`."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: Decimal
    cached: Decimal
    output: Decimal

    def cost(self, usage: Usage) -> Decimal:
        """What `usage` costs in USD."""
        fresh = usage.input_tokens - usage.cached_tokens
        total = fresh * self.input + usage.cached_tokens * self.cached + usage.output_tokens * self.output
        return total / MILLION


def storable_cost(usd: Decimal | None) -> Decimal | None:
    """`usd`, or None ("not known") where no column has room for it: token counts or a price are wrong then."""
    return usd if usd is not None and usd <= MAX_COST_USD else None


@dataclass(frozen=True, slots=True)
class Variant:
    """A model as clients may choose it: a public name for a model, its effort, its limit and its price."""

    name: str
    model: str
    reasoning_effort: str | None = None
    max_output_tokens: int | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class ReplyError:
    """Why a reply is not complete: a code that clients rely on and a sentence for a person."""

    code: ErrorCode
    message: str
    retry_after: int | None = field(default=None, compare=False)
    """Seconds after which the upstream wants to be asked again, where it said so; bounded."""
    upstream_code: str = field(default="", compare=False)
    """The upstream's own word for it (`model_not_found`), for the log alone; "" for what might be anything else."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the reply: clean text (no NUL, no lone surrogate), never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """How a reply ended. `complete` only if the upstream's own terminal marker was seen."""

    status: ReplyStatus
    error: ReplyError | None = None
    usage: Usage | None = None
    model: str = ""
    response_id: str = ""
    call: str = ""
    """Arguments (JSON text, as the model wrote it) of the last call of the prompt's tool; "" if it made none."""
    calls: tuple[ToolCall, ...] = ()
    """Of the tools that the client offered, in order; none unless the reply is complete."""
    logprobs: tuple[Mapping[str, Any], ...] = ()
    """Of each token, as Chat Completions has them; none unless the client asked for them."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer of `complete`. `truncated` if the model stopped at its output limit."""

    text: str
    model: str
    usage: Usage | None = None
    truncated: bool = False
    refused: bool = False
    response_id: str = ""


class UpstreamError(Exception):
    """`complete` got no usable answer. `code` is one of `ErrorCode`; the message never holds what people said."""

    def __init__(self, code: ErrorCode, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Limits of one upstream stream: seconds to the first byte, between bytes and in total; bytes of text."""

    first_byte: float = 30.0
    idle: float = 30.0
    total: float = 300.0
    max_bytes: int = 2 * 1024 * 1024


class ChatModel(Protocol):
    """The two verbs of a model."""

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        """Yield deltas as they come, then one `Reply`. Raises nothing but `CancelledError`; never retries."""
        ...

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer in at most `timeout` seconds, retrying what a retry may mend. Raises `UpstreamError`."""
        ...


@dataclass(frozen=True, slots=True)
class Variants:
    """The variants that a caller may choose from, by name, and the one used when none is named."""

    by_name: dict[str, Variant] = field(default_factory=dict)
    default: str = ""
