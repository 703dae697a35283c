"""The body of `POST /v1/chat/completions` → a value, or the error that OpenAI would answer with.

Pure. Nothing that a client asks for is dropped silently: what is neither served here nor passed on to the model is
refused by its name. A field that is null is as good as absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import ModelNotFound, RequestError

Role = Literal["user", "assistant"]

METADATA_PAIRS, METADATA_KEY_CHARS, METADATA_VALUE_CHARS = 16, 64, 512
"""OpenAI's bounds of `metadata`."""
STOPS = 4
MODEL_CHARS = 128
"""What the column of a completion's model has room for; a test compares them."""
PARAMETERS_MAX_BYTES = 256 * 1024
"""What goes to the model besides the messages, as JSON: a schema may be long, a prompt's record is not."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one side said, until the other side spoke."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for a completion. `history` alternates between the sides and ends with the assistant's, if at all."""

    model: str
    question: str
    history: tuple[Said, ...] = ()
    instructions: str = ""
    """The messages of roles system and developer, wherever they stand."""
    stream: bool = False
    include_usage: bool = False
    store: bool = True
    conversation: str = ""
    """The name by which the client knows the conversation, "" if it says none in the body."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    max_tokens: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What goes to the model as it is, by the names of Chat Completions."""


def read_request(body: object, *, max_chars: int, max_instructions: int) -> ChatRequest:
    """Check the parsed `body`. A message may have `max_chars` code points. Raises `RequestError`."""
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
    instructions, spoken = _messages(given["messages"], max_chars)
    if len(instructions) > max_instructions:
        raise RequestError(
            f"The system and developer messages have {len(instructions)} characters together; at most "
            f"{max_instructions} are taken.",
            param="messages",
            code="string_above_max_length",
        )
    metadata = read_metadata(given.get("metadata", {}))
    return ChatRequest(
        model=_model(given["model"]),
        question=spoken[-1].content,
        history=spoken[:-1],
        instructions=instructions,
        stream=_flag("stream", given.get("stream", False)),
        include_usage=_wants_usage(given.get("stream_options", {})),
        store=_flag("store", given.get("store", True)),
        conversation=_conversation(given.get("conversation", ""))
        or metadata.get("conversation_id", "")
        or metadata.get("session_id", ""),
        metadata=metadata,
        max_tokens=_max_tokens(given),
        parameters=_storable({name: given[name] for name in _PASSED if name in given}),
    )


def unsupported(name: str, why: str = "is not supported here") -> RequestError:
    """The error for a parameter that would have no effect."""
    return RequestError(f"The parameter '{name}' {why}.", param=name, code="unsupported_parameter")


def _storable(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters, which are kept with the reply: no NUL, no lone surrogate, no number that JSON does not have."""
    try:
        text = json.dumps(parameters, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (ValueError, RecursionError):
        raise RequestError(
            "The parameters hold what JSON text cannot.", param=None, code="invalid_value"
        ) from None
    if size > PARAMETERS_MAX_BYTES or "\\u0000" in text.replace("\\\\", ""):
        raise RequestError(
            f"The parameters have over {PARAMETERS_MAX_BYTES:,} bytes as JSON, or hold a NUL.",
            param=None,
            code="invalid_value",
        )
    return parameters


def _require(given: Mapping[str, Any]) -> None:
    for name in ("messages", "model"):
        if name not in given:
            raise RequestError(
                f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
            )


def _messages(value: object, max_chars: int) -> tuple[str, tuple[Said, ...]]:
    """The instructions, and what was said; messages of one side that follow each other are one."""
    if not isinstance(value, list) or not value:
        raise RequestError(
            "Invalid 'messages': a list of at least one message is expected.",
            param="messages",
            code="invalid_type",
        )
    instructions: list[str] = []
    spoken: list[tuple[Role, list[str]]] = []
    for index, message in enumerate(value):
        role, text = _message(f"messages.[{index}]", message, max_chars)
        if role == "system":
            instructions.append(text)
        elif spoken and spoken[-1][0] == role:
            spoken[-1][1].append(text)
        else:
            spoken.append((role, [text]))
    said = tuple(Said(role, "\n\n".join(texts)) for role, texts in spoken)
    if not said or said[-1].role != "user":
        raise RequestError("The last message must be the user's.", param="messages", code="invalid_value")
    if not said[-1].content.strip():
        raise RequestError(
            "The last message says nothing.",
            param=f"messages.[{len(value) - 1}].content",
            code="invalid_value",
        )
    if len(said[-1].content) > max_chars:
        raise _too_long(f"messages.[{len(value) - 1}].content", len(said[-1].content), max_chars)
    return "\n\n".join(instructions), said


def _message(at: str, message: object, max_chars: int) -> tuple[Any, str]:
    if not isinstance(message, dict):
        raise RequestError(f"Invalid type for '{at}': expected an object.", param=at, code="invalid_type")
    role = message.get("role")
    if role in ("tool", "function"):
        raise RequestError(
            "Messages of tools are not supported here yet.", param=f"{at}.role", code="unsupported_value"
        )
    if role not in ("system", "developer", "user", "assistant"):
        raise RequestError(
            f"Invalid value for '{at}.role': supported are 'system', 'developer', 'user' and 'assistant'.",
            param=f"{at}.role",
            code="invalid_value",
        )
    for name in message.keys() - _OF_A_MESSAGE:
        if message[name]:
            raise unsupported(f"{at}.{str(name)[:64]}")
    content = message.get("content")
    if content is None and role == "assistant":
        content = message.get("refusal") or ""
    text = _content(f"{at}.content", content)
    if len(text) > max_chars:
        raise _too_long(f"{at}.content", len(text), max_chars)
    return ("system" if role in ("system", "developer") else role), text


_OF_A_MESSAGE = {"role", "content", "refusal", "annotations"}
"""Fields of a message that may say something: what an SDK sends back of an answer holds all of its fields."""


def _content(at: str, content: object) -> str:
    if isinstance(content, str):
        return clean(content)
    if not isinstance(content, list):
        raise RequestError(
            f"Invalid type for '{at}': expected a string or a list of parts.", param=at, code="invalid_type"
        )
    return "\n\n".join(_part(f"{at}.[{index}]", part) for index, part in enumerate(content))


def _part(at: str, part: object) -> str:
    if not isinstance(part, dict):
        raise RequestError(f"Invalid type for '{at}': expected an object.", param=at, code="invalid_type")
    kind = part.get("type")
    if kind not in ("text", "refusal"):
        raise RequestError(
            f"Parts of the type {str(kind)[:64]!r} are not supported here yet.",
            param=f"{at}.type",
            code="unsupported_value",
        )
    return clean(_text(f"{at}.{kind}", part.get(kind)))


def _too_long(at: str, length: int, limit: int) -> RequestError:
    return RequestError(
        f"Invalid '{at}': it has {length} characters, and at most {limit} are taken.",
        param=at,
        code="string_above_max_length",
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RequestError(f"Invalid type for '{name}': expected a string.", param=name, code="invalid_type")
    return value


def _model(value: object) -> str:
    name = _text("model", value)
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
    """A name, or an object with an `id`, as the Responses API takes it."""
    name = value.get("id") if isinstance(value, dict) else value
    return _text("conversation", name)


def read_metadata(value: object) -> dict[str, str]:
    """Check an object of strings within OpenAI's bounds. Raises `RequestError`."""
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
    limits = [_whole(name, given[name], 1) for name in sorted(_LIMITS & given.keys())]
    return min(limits, default=None)


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
    _text(name, value)


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


_SERVED = {"messages", "model", "stream", "stream_options", "store", "metadata", "conversation"}
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
    "user": _is_text,
    "safety_identifier": _is_text,
    "prompt_cache_key": _is_text,
}
"""What goes to the model, each with its check."""
_NEUTRAL: dict[str, Callable[[Any], bool]] = {
    "n": lambda value: value == 1 and not isinstance(value, bool),
    "logprobs": lambda value: value is False,
    "top_logprobs": lambda value: value == 0 and not isinstance(value, bool),
    "tools": lambda value: value == [],
    "tool_choice": lambda value: value == "none",
    "functions": lambda value: value == [],
    "function_call": lambda value: value == "none",
    "parallel_tool_calls": lambda value: value is True,
    "modalities": lambda value: value == ["text"],
    "audio": lambda value: False,
    "prediction": lambda value: False,
    "web_search_options": lambda value: False,
    "moderation": lambda value: False,
    "prompt_cache_options": lambda value: False,
    "prompt_cache_retention": lambda value: False,
}
"""What is not supported, each with whether a value of it asks for nothing."""
