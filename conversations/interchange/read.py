"""The text of a file → chats as values: in our own format, in OpenAI's, or in ShareGPT's. Pure: no ORM, no files.

Of the formats of others, only what is declared in `FileMessage` and `FileChat` has a meaning. Tool calls and their
outputs become messages if it is known which belong together. Other tool messages, system messages after the first
words, and parts of a message that are neither text nor an image or a file are left out, and counted by kind.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Annotated, Any, Literal

from annotated_types import MaxLen
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from chatmemory.llm.attachments import Attachment, file_of, image_of, read_data_url
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.cleaning import clean
from chatmemory.text.turn_line import automatic_title, plain_title
from conversations.interchange import values
from conversations.interchange.services import MARKS, kind_of, openai_chat

MAX_DEPTH = 100
"""Maximum nesting. Deeper JSON is no conversation, and would cause a RecursionError later."""


def read_chats(text: str) -> list[values.ImportedChat]:
    """Read all conversations of a file. Raises `FormatError` naming the conversation and message that are wrong.

    A message over the server's length limit is kept: that limit is for requests. Times are those of the file, None
    where it has none.
    """
    chats: list[values.ImportedChat] = []
    for value, line in _entries(text):
        several = value.get("chats") if isinstance(value, dict) else None
        for one in several if isinstance(several, list) else [value]:
            place = f"conversation {len(chats) + 1}" + (f" (line {line})" if line else "")
            inner = one.get("chat") if isinstance(one, dict) else None  # Open WebUI
            try:
                chats.append(_chat(inner if isinstance(inner, dict) and "messages" in inner else one))
            except values.FormatError as exc:
                raise values.FormatError(f"{place}: {exc}") from None
            except ValidationError as exc:
                raise values.FormatError(f"{place}: {_sentence(exc)}") from None
    return chats


def read_service(value: Mapping[str, Any], max_messages: int | None = None) -> values.ImportedChat:
    """Read a conversation that ChatGPT or Claude exported. Raises `FormatError` for more than `max_messages`."""
    chat, left_out = openai_chat(value, max_messages)
    return replace(_chat(_cleaned(chat, 0)), left_out=left_out)


def _sentence(error: ValidationError) -> str:
    """Return the first of the things that are wrong, and where."""
    first = error.errors(include_url=False, include_input=False)[0]
    loc = [str(one + 1) if isinstance(one, int) else one for one in first["loc"]]
    if len(loc) > 1 and loc[0] in ("messages", "conversations", "pins"):
        loc = [f"{'pin' if loc[0] == 'pins' else 'message'} {loc[1]}", *loc[2:]]
    special = {"missing": "it is missing", "dataclass_type": "it should be an object"}
    if first["type"] == "missing" and loc[-1] in ("messages", "role"):
        special["missing"] += "; only OpenAI's, ShareGPT's, Open WebUI's and chatmemory's formats are read"
    message = special.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return ": ".join([*loc, message.replace("Input should", "it should")])


# Text → JSON


def _entries(text: str) -> Iterator[tuple[object, int | None]]:
    """Yield a file's one JSON value, the items of its list, or its JSON lines, each of these with its number."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise values.FormatError("the file is empty")
    try:
        whole = _parse(text)
    except values.FormatError:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        first = lines[0][1].strip()
        if len(lines) == 1 or not (first.startswith("{") and first.endswith("}")):
            raise
        for number, line in lines:
            try:
                yield _parse(line), number
            except values.FormatError as exc:
                raise values.FormatError(f"line {number}: {exc}") from None
        return
    items = whole if isinstance(whole, list) else [whole]
    if items and all(isinstance(item, dict) and {"role", "content"} <= item.keys() for item in items):
        items = [{"messages": items}]  # of one conversation
    yield from ((item, None) for item in items)


def _parse(text: str) -> object:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        raise values.FormatError(f"not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from None
    except RecursionError:
        raise values.FormatError("nested too deeply") from None
    except ValueError:  # an integer of thousands of digits
        raise values.FormatError("a number is too large") from None
    return _cleaned(value, 0)


def _cleaned(value: object, depth: int) -> object:
    """Return a JSON value as storage can hold it, with all its texts cleaned."""
    if depth > MAX_DEPTH:
        raise values.FormatError("nested too deeply")
    if isinstance(value, float) and not math.isfinite(value):
        raise values.FormatError("a number is too large, or none")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(item, depth + 1) for key, item in value.items()}
    return value


# JSON → chats


def _chat(value: object) -> values.ImportedChat:
    if not isinstance(value, dict):
        raise values.FormatError("it is not an object")
    name = value.get("format")
    if name == values.OWN_FORMAT:
        own = values.read_own(value)
        return replace(own, title=plain_title(own.title), project=plain_title(own.project), left_out={})
    if isinstance(name, str) and name.startswith("chatmemory/"):
        raise values.FormatError(f"it is written in {name[:40]}; this server reads {values.OWN_FORMAT}")
    left_out: Counter[str] = Counter()
    chat = FileChat.model_validate(value, context=left_out)
    leading = [one.text for one in takewhile(lambda one: one.role == "system", chat.messages)]
    messages = values.to_imported(_spoken(chat.messages, left_out))
    left_out["system_messages"] -= len(leading)
    title, is_automatic = plain_title(chat.title or ""), False
    if not title:  # as for a chat begun here
        title = automatic_title(next((one.content for one in messages if one.role == "user"), ""))
        is_automatic = bool(title)
    source = {"source_id": chat.id} if isinstance(chat.id, str | int) else {}
    return values.ImportedChat(
        title=title,
        title_is_automatic=is_automatic,
        instructions="\n\n".join(filter(None, (chat.instructions, chat.system, *leading))),
        metadata={**source, **(chat.metadata or {})},
        created_at=chat.created_at,
        messages=tuple(messages),
        facts=tuple(chat.facts) if isinstance(chat.facts, list) else (),
        left_out=+left_out,
    )


def _spoken(
    messages: Iterable[FileMessage], left_out: Counter[str]
) -> Iterator[tuple[PromptMessage, dict[str, object]]]:
    """Yield what each side said, and the further fields of that message; count what is left out, by kind."""
    waiting: set[str] = set()
    for number, one in enumerate(messages, start=1):
        call_id = one.tool_call_id if one.role == "tool" and isinstance(one.tool_call_id, str) else ""
        is_known = one.role != "tool" or call_id in waiting
        has_lost_calls = one.role == "assistant" and one.calls_something and not one.calls
        files = len(one.files) if isinstance(one.files, list) else 0
        left_out.update({"thoughts": bool(one.thoughts), "tool_messages": has_lost_calls, "files": files})
        if one.role == "system" or not is_known or (has_lost_calls and not one.text):
            left_out.update([f"{one.role}_messages"] * (one.role != "assistant"))
            continue
        waiting = (waiting - {call_id}) | {call.id for call in one.calls}  # each call takes only one output
        parts = one.content if one.role == "user" else None
        attached = tuple(part for part in parts or () if isinstance(part, Attachment))
        yield (
            PromptMessage(one.role, one.text, one.calls, call_id, attached),
            {
                "created_at": one.created_at,
                "completed_at": one.created_at,
                "model": one.model or "",
                "metadata": one.metadata or {},
                "number": number,
            },
        )


# The formats of others

FileRole = Literal["user", "assistant", "system", "tool"]
ROLES: Mapping[str, FileRole] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model", "bot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "tool_call", "tool_response", "assistant_tool_call"), "tool"),
    **dict.fromkeys(("function", "function_call", "function_response", "observation"), "tool"),
}
"""The meaning of the roles of all formats."""


def _parts(value: object, info: ValidationInfo[Any]) -> list[str | Attachment] | None:
    """Return the parts of a content that have a meaning, and marks of others; count these in the context, by kind."""
    if value is None or isinstance(value, str):
        return value if value is None else [value]
    if not isinstance(value, list) or not all(isinstance(part, str | dict) for part in value):
        raise ValueError("this is neither a string nor a list of parts")
    return [part for one in value if (part := _part(one, info.context)) is not None]


def _part(part: str | dict[str, Any], left_out: Counter[str]) -> str | Attachment | None:
    """Return the text of a part, or the image or file in it."""
    match part:
        case str(text) | {"refusal": str(text)} | {"text": {"value": str(text)}}:  # the last of OpenAI's threads
            return text
        case {"text": str(text)} if kind_of(part.get("type")) != "thoughts":
            return text
        case {"type": "image_url", "image_url": {"url": str(url), **more}}:
            detail = more.get("detail")
            detail = detail if isinstance(detail, str) else ""
            if url.startswith(("https://", "http://")):
                return Attachment("image", url=url, detail=detail)
            if (found := read_data_url(url)) and (image := image_of(found[1], detail)):
                return image
        case {"type": "file", "file": {"file_data": str(url), **more}}:
            if found := read_data_url(url):
                return file_of(found[1], found[0], str(more.get("filename") or ""))
    kind = kind_of(part.get("type"))
    left_out[kind] += 1
    return MARKS.get(kind)


def _role(value: object) -> FileRole:
    if not isinstance(value, str) or value.lower() not in ROLES:
        raise ValueError(f"{json.dumps(value)[:42]} is not a known role")
    return ROLES[value.lower()]


class FileMessage(BaseModel):
    model_config = ConfigDict(strict=True)

    role: Annotated[FileRole, PlainValidator(_role)] = Field(validation_alias=AliasChoices("role", "from"))
    content: Annotated[list[str | Attachment] | None, PlainValidator(_parts)] = Field(
        default=None, validation_alias=AliasChoices("text", "content", "value")
    )
    created_at: values.Time | None = None
    model: Annotated[str, MaxLen(128)] | None = None
    metadata: dict[str, Any] | None = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    tool_call_id: Any = None
    files: Any = None
    thoughts: Any = Field(default=None, validation_alias=AliasChoices("reasoning_content", "reasoning"))

    @model_validator(mode="after")
    def _says_something(self) -> FileMessage:
        has_content = self.content is not None or "content" in self.model_fields_set
        if not (has_content or isinstance(self.refusal, str) or self.calls_something):
            raise ValueError('"content" is missing')
        return self

    @property
    def text(self) -> str:
        if self.content is not None:
            return "\n".join(one if isinstance(one, str) else one.mark for one in self.content)
        return self.refusal if isinstance(self.refusal, str) else ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of a reply; none if one of them is incomplete. Our own format has a message for each."""
        found = self.tool_calls if self.role == "assistant" else None
        calls = [_call(one) for one in found] if isinstance(found, list) else []
        whole = tuple(call for call in calls if call is not None)
        return whole if len({call.id for call in whole}) == len(calls) else ()

    @property
    def calls_something(self) -> bool:
        """Whether it calls tools, even if it is not known how."""
        return bool(self.tool_calls or self.function_call)


def _call(value: object) -> ToolCall | None:
    match value:
        case {"type": "custom", "id": str(call_id), "custom": {"name": str(name), "input": str(text)}}:
            return ToolCall(call_id, name, text, is_custom=True) if call_id and name else None
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(text)}}:
            return ToolCall(call_id, name, text) if call_id and name else None
    return None


class FileChat(BaseModel):
    model_config = ConfigDict(strict=True)

    messages: list[FileMessage] = Field(validation_alias=AliasChoices("messages", "conversations"))
    title: str | None = None
    instructions: str | None = None
    system: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: values.Time | None = None
    id: Any = None
    facts: Any = None
