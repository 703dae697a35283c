"""Readers of an upstream's JSON in both API styles: text, tool calls, usage, model, and how the answer ended.

Pure readers of untrusted objects: a field of the wrong type raises `MalformedError` if it should hold text, and is
ignored if it is only informative.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.failures import MalformedError
from chatmemory.llm.protocol import Completion, ReplyError, UpstreamError, Usage
from chatmemory.text.cleaning import clean

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
            value = json.loads(data.decode())
        except (ValueError, RecursionError) as exc:
            raise MalformedError from exc
    if not isinstance(value, dict):
        raise MalformedError
    return value


def text_in(value: object) -> str:
    """Return a text field; null and absent are empty. Raise `MalformedError` for other types."""
    if not isinstance(value, str | None):
        raise MalformedError
    return value or ""


def object_in(value: object) -> dict[str, Any]:
    """Return an object field; null and absent are empty. Raise `MalformedError` for other types."""
    if not isinstance(value, dict | None):
        raise MalformedError
    return value or {}


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list field; other items and types are ignored."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def usage_in(value: object) -> Usage | None:
    """Token counts in either style's names; None unless input and output are present and plausible."""
    sent = count_in(value, "input_tokens", "prompt_tokens")
    written = count_in(value, "output_tokens", "completion_tokens")
    if not isinstance(value, dict) or sent is None or written is None:
        return None
    details = value.get("input_tokens_details") or value.get("prompt_tokens_details")
    cached = count_in(details, "cached_tokens") or 0
    return Usage(sent, min(cached, sent), written)


def count_in(counts: object, *names: str) -> int | None:
    """The first of these counts that is there and plausible."""
    found = [counts.get(name) for name in names] if isinstance(counts, dict) else []
    return next((one for one in found if type(one) is int and 0 <= one <= MAX_TOKENS), None)  # not a bool


def label_in(value: object, length: int) -> str:
    """A name from the upstream: one line of printable characters, of bounded length; empty for other types."""
    if not isinstance(value, str):
        return ""
    return "".join(filter(str.isprintable, clean(value[: 4 * length]))).strip()[:length]


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
    """The items in the output of a Responses object that call tools."""
    return [item for item in objects_in(output) if item.get("type") in ("function_call", CUSTOM)]


def responses_error(response: dict[str, Any], status: object, *, refused: bool) -> ReplyError | None:
    """Why a Responses object of this status is not complete."""
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


def read_answer(body: dict[str, Any], *, is_chat: bool, model: str) -> Completion:
    """Read a whole answer in either style; `model` is the model's name if the upstream sent none.

    Cut-off and refusal are marked; any other unusual end raises `UpstreamError`.
    """
    text, error = _chat_ending(body) if is_chat else _responses_ending(body)
    if error and error not in (failures.TOO_LONG, failures.REFUSED):
        raise UpstreamError(error)
    return Completion(
        text=clean(text),
        model=label_in(body.get("model"), MAX_MODEL_CHARS) or model,
        usage=usage_in(body.get("usage")),
        truncated=error == failures.TOO_LONG,
        refused=error == failures.REFUSED,
    )


def _responses_ending(body: dict[str, Any]) -> tuple[str, ReplyError | None]:
    text, refused = text_and_refusal(body)
    return text, responses_error(body, body.get("status", "completed"), refused=refused)


def _chat_ending(body: dict[str, Any]) -> tuple[str, ReplyError | None]:
    """A null `finish_reason` is accepted here, because the JSON is complete."""
    if error := body.get("error"):
        return "", failures.from_report(error)
    choices = objects_in(body.get("choices"))
    if not choices:
        raise MalformedError
    message = object_in(choices[0].get("message"))
    refusal = text_in(message.get("refusal"))
    reason = text_in(choices[0].get("finish_reason")) or "stop"
    return text_in(message.get("content")) + refusal, chat_error(reason, refused=bool(refusal))
