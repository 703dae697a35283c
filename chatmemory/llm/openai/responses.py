"""Readers of an upstream's JSON in both API styles: text, tool calls, usage, model, and how the answer ended.

Pure readers of untrusted objects: a field of the wrong type raises `MalformedError` if it should hold text, and is
ignored if it is only informative.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson

from chatmemory.llm.openai import failures
from chatmemory.llm.protocol import ReplyError, Usage
from chatmemory.text.cleaning import clean

_decode = json.JSONDecoder().decode

# The lengths of the columns for stored answers; a test compares them.
MAX_MODEL_CHARS = 128
MAX_ID_CHARS = 200
MAX_TOKENS = 100_000_000
"""Maximum tokens of one answer, in or out. No model reads or writes that much, so higher counts are ignored."""

# OpenAI says "stop". The next are the same in text-generation-inference, Together and Anthropic bridges; the last two
# end an answer that calls a tool.
STOPPED = {"stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call"}
CUSTOM = "custom_tool_call"
"""The type of an item that calls a custom tool, whose `input` is any text."""


class MalformedError(ValueError):
    """The upstream sent something that violates its API."""


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """One whole answer. `text` is clean; a refusal is its text, too."""

    text: str
    error: ReplyError | None
    """None if the answer is complete."""
    usage: Usage | None
    model: str
    response_id: str


def load_object(data: bytes) -> dict[str, Any]:
    """Parse one JSON object. Raise `MalformedError` for anything else: bad UTF-8, bad JSON, a list."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as refused:
        # Python accepts some JSON that orjson refuses, such as half a surrogate pair, whose other half may come next.
        # It would go as deep as the interpreter can, where whatever is tidied up meanwhile fails, too.
        if "depth" in refused.msg:
            raise MalformedError from refused
        try:
            value = _decode(data.decode())
        except (ValueError, RecursionError) as exc:
            raise MalformedError from exc
    if not isinstance(value, dict):
        raise MalformedError
    return value


def text_in(value: object) -> str:
    """Return a text field; null and absent are empty. Raise `MalformedError` for other types."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedError
    return value


def object_in(value: object) -> dict[str, Any]:
    """Return an object field; null and absent are empty. Raise `MalformedError` for other types."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError
    return value


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list field; other items and types are ignored."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def model_in(value: object) -> str:
    """The name of a model, cut to its maximum length; empty for other types."""
    return _label(value, MAX_MODEL_CHARS)


def id_in(value: object) -> str:
    """The id of an answer, cut to its maximum length; empty for other types."""
    return _label(value, MAX_ID_CHARS)


def usage_in(value: object) -> Usage | None:
    """Token counts in either style's names; None unless input and output are present and plausible."""
    if not isinstance(value, dict):
        return None
    sent = count_in(value, "input_tokens", "prompt_tokens")
    written = count_in(value, "output_tokens", "completion_tokens")
    if sent is None or written is None:
        return None
    details = value.get("input_tokens_details") or value.get("prompt_tokens_details")
    cached = count_in(details, "cached_tokens") or 0
    return Usage(sent, min(cached, sent), written)


def text_and_refusal(response: dict[str, Any]) -> tuple[str, bool]:
    """The text of a Responses object, and whether any part of it is a refusal."""
    parts = [
        part
        for item in objects_in(response.get("output"))
        if item.get("type") == "message"
        for part in objects_in(item.get("content"))
    ]
    refused = any(part.get("type") == "refusal" for part in parts)
    return "".join(text_in(part.get("text")) + text_in(part.get("refusal")) for part in parts), refused


def calls_in(output: object) -> list[dict[str, Any]]:
    """The items of the output of a Responses object that call tools."""
    return [item for item in objects_in(output) if item.get("type") in ("function_call", CUSTOM)]


def responses_error(response: dict[str, Any], *, refused: bool) -> ReplyError | None:
    """Why a Responses object is not complete."""
    status = response.get("status", "completed")
    if status == "completed":
        return failures.REFUSED if refused else None
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return failures.ended_for(reason if isinstance(reason, str) else "")
    return failures.from_report(response.get("error"))


def chat_error(finish_reason: str, *, refused: bool) -> ReplyError | None:
    """Why a chat completion is not complete, by its finish reason."""
    if finish_reason in STOPPED:
        return failures.REFUSED if refused else None
    return failures.ended_for(finish_reason)


def read_responses(body: dict[str, Any]) -> UpstreamAnswer:
    """Read a whole answer of the Responses API."""
    text, refused = text_and_refusal(body)
    return _answer(body, text, responses_error(body, refused=refused))


def read_chat(body: dict[str, Any]) -> UpstreamAnswer:
    """Read a whole chat completion. A null `finish_reason` is accepted here, because the JSON is complete."""
    if error := body.get("error"):
        return _answer(body, "", failures.from_report(error))
    choices = objects_in(body.get("choices"))
    if not choices:
        raise MalformedError
    message = object_in(choices[0].get("message"))
    refusal = text_in(message.get("refusal"))
    reason = text_in(choices[0].get("finish_reason")) or "stop"
    return _answer(body, text_in(message.get("content")) + refusal, chat_error(reason, refused=bool(refusal)))


def _answer(body: dict[str, Any], text: str, error: ReplyError | None) -> UpstreamAnswer:
    usage = usage_in(body.get("usage"))
    return UpstreamAnswer(clean(text), error, usage, model_in(body.get("model")), id_in(body.get("id")))


def _label(value: object, length: int) -> str:
    """A name from the upstream: one line of printable characters, of bounded length; empty for other types."""
    if not isinstance(value, str):
        return ""
    return "".join(filter(str.isprintable, clean(value[: 4 * length]))).strip()[:length]


def count_in(counts: object, *names: str) -> int | None:
    """The first of these counts that is there and plausible."""
    if not isinstance(counts, dict):
        return None
    for name in names:
        value = counts.get(name)
        if type(value) is int and 0 <= value <= MAX_TOKENS:  # bool is a subclass of int
            return value
    return None
