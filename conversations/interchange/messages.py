"""One message of a file, in any dialect → what was said, by whom, and what came with it.

This module knows nothing of the messages around it: see `conversations.interchange.assemble`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import ToolCall
from conversations.interchange.attachments import attachment_of_part, read_attachments
from conversations.interchange.dialects import OPENAI, Dialect
from conversations.interchange.fields import (
    cost_field,
    count_field,
    object_field,
    place_field,
    text_field,
    time_field,
)
from conversations.interchange.values import FormatError, ImportedUsage, Status

FileRole = Literal["user", "assistant", "system", "tool", "tool_call", "tool_output"]
"""Kinds of messages in a file. `tool` is a tool's message whose call cannot be identified, by its dialect or order."""

FILE_ROLES: Mapping[str, FileRole] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model", "bot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "tool_call", "tool_response", "assistant_tool_call"), "tool"),
    **dict.fromkeys(("function", "function_call", "function_response", "observation"), "tool"),
}
"""The meaning of the roles of all dialects."""

STATUSES: Mapping[str, Status] = {
    "complete": "complete",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "cancelled",
    "deleted": "deleted",
}

CALLS = ("tool_calls", "function_call")


@dataclass(frozen=True, slots=True)
class FileMessage:
    """A message of a file, in our terms. `status` to `places` are only in files of our own format."""

    part: FileRole
    content: str
    raw: Mapping[str, object]
    metadata: dict[str, object] = field(default_factory=dict)
    created_at: datetime | None = None
    completed_at: datetime | None = None
    model: str = ""
    status: Status = "complete"
    edited_at: datetime | None = None
    model_variant: str = ""
    usage: ImportedUsage | None = None
    error: Mapping[str, object] | None = None
    places: Mapping[str, int | None] = field(default_factory=dict)
    """`seq` and, for a reply that names them, `reply_to` and `superseded_by`: numbers from 1."""
    payload: Mapping[str, object] | None = None
    """As `Message.payload`. For a tool message in OpenAI's format: the call that it may be the output of."""
    attachments: tuple[Attachment, ...] = ()
    """Images and files of a user's message, in OpenAI's format and our own."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls of a reply in OpenAI's format. Our own format has a message for each."""


def read_message(raw: object, dialect: Dialect, *, own: bool) -> FileMessage:
    """Read one message of `dialect`. `own`: the file was written by `export_chat`. Raises `FormatError`."""
    if not isinstance(raw, dict):
        raise FormatError("it is not an object")
    part = _part(raw, dialect)
    content, others = _content(raw, dialect)
    attachments = read_attachments(raw) if own else tuple(o for o in others if isinstance(o, Attachment))
    others = [one for one in others if not isinstance(one, Attachment)]
    calls = calls_in(raw) if part == "assistant" and dialect is OPENAI and not own else ()
    if part == "assistant" and not content and not calls and any(raw.get(name) for name in CALLS):
        part = "tool"
    if part == "tool" and own and (payload := payload_in(raw)) is not None:
        part = "tool_call" if raw.get("role") == "tool_call" else "tool_output"
        return replace(_said(part, content, raw, _metadata(raw, others), own=own), payload=payload)
    if part == "tool" and isinstance(call_id := raw.get("tool_call_id"), str):
        return FileMessage(
            part, content, raw, payload={"call_id": call_id, "name": str(raw.get("name") or "")}
        )
    if part in ("system", "tool"):
        return FileMessage(part, content, raw)
    said = _said(part, content, raw, _metadata(raw, others), own=own)
    if part == "user" and attachments:
        return replace(said, attachments=attachments)
    if calls:
        metadata = {name: value for name, value in said.metadata.items() if name != "tool_calls"}
        return replace(said, calls=calls, metadata=metadata)
    return replace(said, payload=payload_in(raw)) if own else said


def calls_in(raw: Mapping[str, object]) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message in OpenAI's format; none if one of them is incomplete."""
    found = raw.get("tool_calls")
    calls = [_call(one) for one in found] if isinstance(found, list) else []
    whole = [call for call in calls if call is not None]
    ids = {call.id for call in whole}
    return tuple(whole) if len(ids) == len(calls) else ()


def _call(value: object) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    is_custom = value.get("type") == "custom"
    tool = value.get("custom" if is_custom else "function")
    if not isinstance(tool, dict):
        return None
    parts = (value.get("id"), tool.get("name"), tool.get("input" if is_custom else "arguments"))
    call_id, name, arguments = (part if isinstance(part, str) else None for part in parts)
    if not call_id or not name or arguments is None:
        return None
    return ToolCall(call_id, name, arguments, is_custom=is_custom)


def payload_in(raw: Mapping[str, object]) -> dict[str, object] | None:
    """Return the `tool` field of our own format: a call, an output or a count of calls. Raises `FormatError`."""
    payload = object_field(raw, "tool")
    if payload is None:
        return None
    fields = {
        "tool_call": {"call_id", "name", "arguments"},
        "tool": {"call_id", "name"},
        "assistant": {"calls"},
    }
    told = {name: one for name, one in payload.items() if name != "custom" or one is not True}
    if raw.get("role") == "tool_call":
        _check_extra(told.pop("extra", "{}"))
    kind = int if raw.get("role") == "assistant" else str
    if set(told) != fields.get(str(raw.get("role"))) or not all(type(one) is kind for one in told.values()):
        raise FormatError("tool is not what a message of this role has")
    return payload


def _check_extra(extra: object) -> None:
    with suppress(ValueError, RecursionError):
        if isinstance(extra, str) and isinstance(json.loads(extra), dict):
            return
    raise FormatError("the extra content of a tool call is not a JSON object")


def _said(
    part: FileRole, content: str, raw: dict[str, object], metadata: dict[str, object], *, own: bool
) -> FileMessage:
    created = time_field(raw, "created_at")
    completed = time_field(raw, "completed_at") if "completed_at" in raw else created
    model = text_field(raw, "model", 128)
    if not own:
        return FileMessage(part, content, raw, metadata, created, completed, model)
    return FileMessage(
        part,
        content,
        raw,
        metadata,
        created,
        completed,
        model,
        status=_status(raw, part),
        edited_at=time_field(raw, "edited_at"),
        model_variant=text_field(raw, "model_variant", 64),
        usage=_usage(raw),
        error=object_field(raw, "error"),
        places={name: place_field(raw, name) for name in ("seq", "reply_to", "superseded_by") if name in raw},
    )


def _part(raw: Mapping[str, object], dialect: Dialect) -> FileRole:
    role = raw.get(dialect.role)
    if not isinstance(role, str):
        raise FormatError(f'"{dialect.role}" is missing or not a string')
    if role.lower() not in FILE_ROLES:
        raise FormatError(f'"{dialect.role}" is {json.dumps(role[:40])}, which is not a known role')
    return FILE_ROLES[role.lower()]


def _content(raw: Mapping[str, object], dialect: Dialect) -> tuple[str, list[object]]:
    """Return the text, and the other parts of the content: images and files as attachments, the rest unchanged."""
    name = next((name for name in dialect.text if name in raw), None)
    value = None if name is None else raw[name]
    if isinstance(value, str):
        return value, []
    if isinstance(value, list):
        return _joined(value)
    if value is not None:
        raise FormatError(f'"{name}" is neither a string nor a list of parts')
    if isinstance(raw.get("refusal"), str):
        return str(raw["refusal"]), []
    if name is None and not any(raw.get(call) for call in CALLS):
        raise FormatError(f'"{dialect.text[0]}" is missing')
    return "", []


def _joined(parts: list[object]) -> tuple[str, list[object]]:
    texts: list[str] = []
    others: list[object] = []
    for part in parts:
        text = _part_text(part)
        if text is not None:
            texts.append(text)
            continue
        attachment = attachment_of_part(part) if isinstance(part, dict) else None
        others.append(attachment or part)
        if attachment is not None:
            texts.append(attachment.mark)
    return "\n".join(texts), others


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise FormatError("a part of its content is neither a string nor an object")
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else None


def _metadata(raw: Mapping[str, object], others: list[object]) -> dict[str, object]:
    """Return the message's own metadata, together with data of the file that has no field here."""
    found = {name: raw[name] for name in ("name", "refusal", *CALLS) if raw.get(name)}
    if others:
        found["content_parts"] = others
    return {**found, **(object_field(raw, "metadata") or {})}


def _status(raw: Mapping[str, object], part: FileRole) -> Status:
    name = text_field(raw, "status") or "complete"
    if name not in STATUSES or (part == "user" and name not in ("complete", "deleted")):
        raise FormatError(f"status {json.dumps(name[:40])} is not one that a message of {part} can have")
    return STATUSES[name]


def _usage(raw: Mapping[str, object]) -> ImportedUsage | None:
    usage = object_field(raw, "usage")
    if usage is None:
        return None
    return ImportedUsage(
        count_field(usage, "input_tokens"),
        count_field(usage, "cached_tokens"),
        count_field(usage, "output_tokens"),
        cost_field(usage, "cost_usd"),
    )
