"""The body of `POST /v1/chat/completions` → a value, or the error that OpenAI would answer with.

Pure. No parameter is dropped silently: one that is neither served here nor passed on to the model is refused by name.
A null field counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from chatmemory.llm.protocol import PromptMessage
from conversations.openai_api.errors import (
    ModelNotFound,
    RequestError,
    require_storable,
    unsupported,
    validation_error,
)
from conversations.openai_api.history import ReadMessage, RequestLimits, Text, Typed, Wire, in_order

MAX_MESSAGES = 50_000
MAX_TOOLS = 128
MAX_TOKENS = 10_000_000
"""The largest limit of an answer; no model writes as much."""
MODEL_CHARS = 128
"""Length of the database column for a completion's model; a test compares them."""
MESSAGES_OF_INSTRUCTIONS = 10
"""System and developer messages may have as much text together as so many longest messages: more than a model reads."""
TOOL_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
MAX_JSON_BYTES = 256 * 1024
"""Limit of the JSON of all tools, which are stored once per chat, and of the parameters passed to the model, which
each prompt's record has: a schema may be long, but a record must not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for a completion. `history` ends with the assistant's last message; `new` follows it: outputs of the
    tools that it called, the user's message, or both.

    `new` is empty if the model shall go on with its own last message. That, and an answer to nothing but instructions,
    is no turn of a conversation, so `store` is False.
    """

    model: str
    new: tuple[PromptMessage, ...]
    history: tuple[PromptMessage, ...] = ()
    instructions: str = ""
    """The messages of roles system and developer, from any position."""
    stream: bool = False
    include_usage: bool = False
    store: bool = True
    conversation: str = ""
    """The name by which the client knows the conversation; "" if the body has none."""
    max_tokens: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters passed to the model unchanged, by their names in Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the model may call."""

    @property
    def question(self) -> str:
        """The user's message; "" if the request only has outputs of tools."""
        return self.new[-1].content if self.new[-1].role == "user" else ""

    @property
    def outputs(self) -> tuple[PromptMessage, ...]:
        """Outputs of the tools that were called last."""
        return tuple(one for one in self.new if one.role == "tool")


class StreamOptions(Wire):
    model_config = ConfigDict(extra="forbid")

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class NamedSchema(Wire):
    name: str


class Format(Typed):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class Definition(Wire):
    name: Annotated[str, Field(pattern=TOOL_NAME)]
    parameters: dict[str, Any] | None = None
    format: dict[str, Any] | None = None


class WireTool(Typed):
    type: Literal["function", "custom"]
    function: Definition | None = None
    custom: Definition | None = None


Stops = BeforeValidator(lambda value: value if isinstance(value, list) else [value])
"""One text, or a list of some."""
Name = BeforeValidator(lambda value: value.get("id") if isinstance(value, dict) else value)
"""A name, given as a string or as an object with an `id`, as in the Responses API."""


class PassedOn(Wire):
    """Parameters that are passed to the model as they are."""

    temperature: Annotated[float, Ge(0), Le(2)] | None = None
    top_p: Annotated[float, Ge(0), Le(1)] | None = None
    presence_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    frequency_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    seed: int | None = None
    stop: Annotated[list[Annotated[str, MinLen(1)]], MaxLen(4), Stops] | None = None
    logit_bias: dict[str, Any] | None = None
    response_format: Format | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class Body(PassedOn):
    """All that a request may have."""

    model_config = ConfigDict(extra="forbid")

    messages: Annotated[list[ReadMessage], MinLen(1), MaxLen(MAX_MESSAGES), Field(fail_fast=True)]
    model: str
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    store: bool = True
    metadata: Annotated[dict[Annotated[Text, MaxLen(64)], Annotated[Text, MaxLen(512)]], MaxLen(16)] = {}
    conversation: Annotated[str, Name] = ""
    max_tokens: Annotated[int, Ge(1), Le(MAX_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Ge(1), Le(MAX_TOKENS)] | None = None
    tools: Annotated[list[WireTool], MaxLen(MAX_TOOLS), Field(fail_fast=True)] = []


WITHOUT_EFFECT: Final[Mapping[str, object]] = {
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "functions": [],
    "function_call": "none",
    "modalities": ["text"],
    "audio": None,
    "prediction": None,
    "web_search_options": None,
    "moderation": None,
    "prompt_cache_options": None,
    "prompt_cache_retention": None,
}
"""Unsupported parameters, each with the value that has no effect and is thus accepted."""


def read_request(body: object, limits: RequestLimits) -> ChatRequest:
    """Check the parsed `body`. Raises `RequestError`."""
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object.", param=None)
    given = {name: value for name, value in body.items() if value is not None}
    for name, neutral in WITHOUT_EFFECT.items():
        value = given.pop(name, neutral)
        if type(value) is not type(neutral) or value != neutral:
            raise unsupported(name)
    try:
        checked = Body.model_validate(given, context=limits)
    except ValidationError as error:
        raise validation_error(error) from None
    if not 0 < len(checked.model) <= MODEL_CHARS or not checked.model.isprintable():
        raise ModelNotFound(checked.model)
    tools = tuple(given.get("tools", ()))
    _check_tools(tools, given.get("tool_choice"))
    of_tools = {"tool_choice", "parallel_tool_calls"}
    parameters = {
        name: given[name]
        for name in PassedOn.model_fields
        if name in given and (tools or name not in of_tools)
    }
    require_storable(parameters, "parameters", param=None, max_bytes=MAX_JSON_BYTES)
    said, instructions = _said(checked.messages, limits)
    is_turn = bool(said) and said[-1].role != "assistant"
    if not said:  # only system messages: they are the question, because a model answers no instructions alone
        said, instructions = (PromptMessage("user", instructions),), ""
    last = max((at for at, one in enumerate(said) if one.role == "assistant"), default=-1)
    named = (checked.metadata.get(name, "") for name in ("conversation_id", "session_id"))
    longest = (checked.max_tokens, checked.max_completion_tokens)
    return ChatRequest(
        model=checked.model,
        new=said[last + 1 :],
        history=said[: last + 1],
        instructions=instructions,
        tools=tools,
        stream=checked.stream,
        include_usage=bool(checked.stream_options.include_usage),
        store=checked.store and is_turn,
        conversation=checked.conversation or next(filter(None, named), ""),
        max_tokens=min((limit for limit in longest if limit is not None), default=None),
        parameters=parameters,
    )


def _said(messages: Sequence[object], limits: RequestLimits) -> tuple[tuple[PromptMessage, ...], str]:
    """Return what each side said, and the instructions, from any position."""
    instructions = "\n\n".join(one for one in messages if isinstance(one, str))
    spoken = [(at, one) for at, one in enumerate(messages) if isinstance(one, PromptMessage)]
    said = in_order(spoken, len(messages), limits.message_chars)
    if not said and not instructions.strip():
        raise RequestError("The messages say nothing.", param="messages", code="invalid_value")
    if len(instructions) > MESSAGES_OF_INSTRUCTIONS * limits.message_chars:
        raise RequestError(
            f"The system and developer messages have {len(instructions)} characters together; at most "
            f"{MESSAGES_OF_INSTRUCTIONS * limits.message_chars} are taken.",
            param="messages",
            code="string_above_max_length",
        )
    return said, instructions


def _check_tools(tools: Sequence[Mapping[str, Any]], choice: object) -> None:
    """Raise `RequestError` for tools of one name, and for a `tool_choice` that is malformed or names none of them."""
    names = [_tool_name(tool) for tool in tools]
    if len(set(names)) < len(names):
        raise RequestError("Two tools have the same name.", param="tools", code="invalid_value")
    require_storable(tools, "tools", param="tools", max_bytes=MAX_JSON_BYTES)
    if choice in (None, "none", "auto"):
        return
    if not tools:
        why = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        raise RequestError(why, param="tool_choice", code=None)
    match choice:
        case "required":
            chosen = []
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [*allowed]}}:
            chosen = [_tool_name(tool) for tool in allowed]
        case _:
            chosen = [_tool_name(choice)]
    if any(name not in names for name in chosen):
        raise RequestError(
            "Invalid 'tool_choice': expected 'none', 'auto', 'required', or an object for a function, a custom tool, "
            "or a list of allowed tools, all of them found in the 'tools' parameter.",
            param="tool_choice",
            code="invalid_value",
        )


def _tool_name(tool: object) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None
