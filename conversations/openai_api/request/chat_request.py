"""The body of `POST /v1/chat/completions` → a value, or the error that OpenAI would answer with.

Pure. No parameter is dropped silently: one that is neither served here nor passed on to the model is refused by name.
A null field counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chatmemory.llm.attachments import Attachment
from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import ModelNotFound, RequestError, require_storable, unsupported
from conversations.openai_api.request.history import HistoryMessage, RequestLimits, read_history
from conversations.openai_api.request.parts import required_text
from conversations.openai_api.request.tools import check_choice, read_tools

METADATA_PAIRS, METADATA_KEY_CHARS, METADATA_VALUE_CHARS = 16, 64, 512
"""OpenAI's limits for `metadata`."""
STOPS = 4
MAX_TOKENS = 10_000_000
"""The largest limit of an answer; no model writes as much."""
MODEL_CHARS = 128
"""Length of the database column for a completion's model; a test compares them."""
PARAMETERS_MAX_BYTES = 256 * 1024
"""Limit of the JSON of parameters passed to the model: a schema may be long, but a prompt's record must not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for a completion. `history` ends with the assistant's last message; `new` follows it: outputs of the
    tools that it called, the user's message, or both.

    `new` is empty if the model shall go on with its own last message. That, and an answer to nothing but instructions,
    is no turn of a conversation, so `store` is False.
    """

    model: str
    new: tuple[HistoryMessage, ...]
    history: tuple[HistoryMessage, ...] = ()
    instructions: str = ""
    """The messages of roles system and developer, from any position."""
    stream: bool = False
    include_usage: bool = False
    store: bool = True
    conversation: str = ""
    """The name by which the client knows the conversation; "" if the body has none."""
    metadata: Mapping[str, str] = field(default_factory=dict)
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
    def attachments(self) -> tuple[Attachment, ...]:
        """Attachments of the question."""
        return self.new[-1].attachments

    @property
    def has_attachments(self) -> bool:
        """Whether any message of the request has attachments."""
        return any(one.attachments for one in (*self.history, *self.new))

    @property
    def outputs(self) -> tuple[HistoryMessage, ...]:
        """Outputs of the tools that were called last."""
        return tuple(one for one in self.new if one.role == "tool")


def read_request(body: object, limits: RequestLimits) -> ChatRequest:
    """Check the parsed `body`. Raises `RequestError`."""
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object.", param=None)
    given = {name: value for name, value in body.items() if value is not None}
    _require(given)
    unknown = given.keys() - _SERVED - _PASSED.keys() - _NEUTRAL.keys() - _LIMITS
    if unknown:
        name = min(unknown)
        raise RequestError(
            f"Unrecognized request argument supplied: {name[:64]}", param=name[:64], code="unknown_parameter"
        )
    for name, is_neutral in _NEUTRAL.items():
        if name in given and not is_neutral(given[name]):
            raise unsupported(name)
    for name, check in _PASSED.items():
        if name in given:
            check(name, given[name])
    sent = read_history(given["messages"], limits)
    if len(sent.instructions) > limits.instructions_chars:
        raise RequestError(
            f"The system and developer messages have {len(sent.instructions)} characters together; at most "
            f"{limits.instructions_chars} are taken.",
            param="messages",
            code="string_above_max_length",
        )
    metadata = read_metadata(given.get("metadata", {}))
    tools = read_tools(given.get("tools", []))
    check_choice(given.get("tool_choice"), tools)
    said, instructions = sent.said, sent.instructions
    if (
        not said
    ):  # only a system message: it is the question then, because a model answers no instructions alone
        said, instructions = (HistoryMessage("user", instructions),), ""
        is_turn = False
    else:
        is_turn = said[-1].role != "assistant"
    last = max((at for at, one in enumerate(said) if one.role == "assistant"), default=-1)
    return ChatRequest(
        model=_model(given["model"]),
        new=said[last + 1 :],
        history=said[: last + 1],
        instructions=instructions,
        tools=tools,
        stream=_flag("stream", given.get("stream", False)),
        include_usage=_wants_usage(given.get("stream_options", {})),
        store=_flag("store", given.get("store", True)) and is_turn,
        conversation=_conversation(given.get("conversation", ""))
        or metadata.get("conversation_id", "")
        or metadata.get("session_id", ""),
        metadata=metadata,
        max_tokens=_max_tokens(given),
        parameters=_parameters(given, has_tools=bool(tools)),
    )


def _parameters(given: Mapping[str, Any], *, has_tools: bool) -> dict[str, Any]:
    """Return the parameters that are passed to the model unchanged and stored with the reply."""
    without = set() if has_tools else {"tool_choice", "parallel_tool_calls"}
    wanted = {name: given[name] for name in _PASSED if name in given and name not in without}
    require_storable(wanted, "parameters", param=None, max_bytes=PARAMETERS_MAX_BYTES)
    return wanted


def _require(given: Mapping[str, Any]) -> None:
    for name in ("messages", "model"):
        if name not in given:
            raise RequestError(
                f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
            )


def _model(value: object) -> str:
    name = required_text("model", value)
    if not 0 < len(name) <= MODEL_CHARS or not name.isprintable():
        raise ModelNotFound(name)
    return name


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"Invalid type for '{name}': expected a boolean.", param=name, code="invalid_type")
    return value


def _wants_usage(options: object) -> bool:
    if not isinstance(options, dict):
        raise RequestError(
            "Invalid type for 'stream_options': expected an object.",
            param="stream_options",
            code="invalid_type",
        )
    if unknown := options.keys() - {"include_usage", "include_obfuscation"}:
        raise unsupported(f"stream_options.{min(map(str, unknown))[:64]}")
    if options.get("include_obfuscation"):
        raise unsupported("stream_options.include_obfuscation")
    return _flag("stream_options.include_usage", options.get("include_usage") or False)


def _conversation(value: object) -> str:
    """Return a name, given as a string or as an object with an `id`, as in the Responses API."""
    name = value.get("id") if isinstance(value, dict) else value
    return required_text("conversation", name)


def read_metadata(value: object) -> dict[str, str]:
    """Check an object of strings within OpenAI's limits. Raises `RequestError`."""
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise RequestError(
            "Invalid type for 'metadata': expected an object of strings.",
            param="metadata",
            code="invalid_type",
        )
    if (
        len(value) > METADATA_PAIRS
        or any(len(key) > METADATA_KEY_CHARS for key in value)
        or any(len(one) > METADATA_VALUE_CHARS for one in value.values())
    ):
        raise RequestError(
            f"Invalid 'metadata': at most {METADATA_PAIRS} pairs, keys of {METADATA_KEY_CHARS} and values of "
            f"{METADATA_VALUE_CHARS} characters.",
            param="metadata",
            code="invalid_value",
        )
    return {clean(key): clean(one) for key, one in value.items()}


def _max_tokens(given: Mapping[str, Any]) -> int | None:
    limits = {name: _whole(name, given[name], 1) for name in sorted(_LIMITS & given.keys())}
    for name, limit in limits.items():
        if limit > MAX_TOKENS:
            raise RequestError(
                f"Invalid '{name}': expected at most {MAX_TOKENS}.",
                param=name,
                code="integer_above_max_value",
            )
    return min(limits.values(), default=None)


def _whole(name: str, value: object, least: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(
            f"Invalid type for '{name}': expected an integer.", param=name, code="invalid_type"
        )
    if least is not None and value < least:
        raise RequestError(
            f"Invalid '{name}': expected at least {least}.", param=name, code="integer_below_min_value"
        )
    return value


def _number(low: float, high: float) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise RequestError(
                f"Invalid type for '{name}': expected a number.", param=name, code="invalid_type"
            )
        if not low <= value <= high:
            raise RequestError(
                f"Invalid '{name}': expected a number from {low:g} to {high:g}.",
                param=name,
                code="invalid_value",
            )

    return check


def _is_text(name: str, value: object) -> None:
    required_text(name, value)


def _is_any(name: str, value: object) -> None:
    """Accept any value: `check_choice` checks it together with the tools."""


def _is_flag(name: str, value: object) -> None:
    _flag(name, value)


def _is_whole(name: str, value: object) -> None:
    _whole(name, value)


def _is_stop(name: str, value: object) -> None:
    stops = value if isinstance(value, list) else [value]
    if len(stops) > STOPS or not all(isinstance(one, str) and one for one in stops):
        raise RequestError(
            f"Invalid '{name}': expected a string, or at most {STOPS} of them.",
            param=name,
            code="invalid_value",
        )


def _is_object(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise RequestError(f"Invalid type for '{name}': expected an object.", param=name, code="invalid_type")


def _is_format(name: str, value: object) -> None:
    _is_object(name, value)
    assert isinstance(value, dict)
    if value.get("type") not in ("text", "json_object", "json_schema"):
        raise RequestError(
            f"Invalid value for '{name}.type': supported are 'text', 'json_object' and 'json_schema'.",
            param=f"{name}.type",
            code="invalid_value",
        )
    schema = value.get("json_schema")
    if value["type"] == "json_schema" and not (
        isinstance(schema, dict) and isinstance(schema.get("name"), str)
    ):
        raise RequestError(
            f"Missing required parameter: '{name}.json_schema.name'.",
            param=f"{name}.json_schema",
            code="missing_required_parameter",
        )


_SERVED = {"messages", "model", "stream", "stream_options", "store", "metadata", "conversation", "tools"}
_LIMITS = {"max_tokens", "max_completion_tokens"}
_PASSED: dict[str, Callable[[str, object], None]] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "seed": _is_whole,
    "stop": _is_stop,
    "logit_bias": _is_object,
    "response_format": _is_format,
    "reasoning_effort": _is_text,
    "verbosity": _is_text,
    "service_tier": _is_text,
    "tool_choice": _is_any,
    "parallel_tool_calls": _is_flag,
    "user": _is_text,
    "safety_identifier": _is_text,
    "prompt_cache_key": _is_text,
}
"""Parameters passed to the model, each with its check."""
_NEUTRAL: dict[str, Callable[[Any], bool]] = {
    "n": lambda value: value == 1 and not isinstance(value, bool),
    "logprobs": lambda value: value is False,
    "top_logprobs": lambda value: value == 0 and not isinstance(value, bool),
    "functions": lambda value: value == [],
    "function_call": lambda value: value == "none",
    "modalities": lambda value: value == ["text"],
    "audio": lambda value: False,
    "prediction": lambda value: False,
    "web_search_options": lambda value: False,
    "moderation": lambda value: False,
    "prompt_cache_options": lambda value: False,
    "prompt_cache_retention": lambda value: False,
}
"""Unsupported parameters, each with a check whether a value has no effect and is thus accepted."""
