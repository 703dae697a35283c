"""What each side said in a Chat Completions request, and the keys by which a history is found again. Pure.

The messages are read by pydantic models, each of which becomes a `PromptMessage`. An image or a file comes as a data
URL, or an image as a link; nothing is fetched here, and each leaves a mark in the text. Consecutive messages of one
side are joined. The outputs of tools stay separate, each with the id of its call.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any, Literal, NamedTuple, cast

from annotated_types import MaxLen, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from chatmemory.llm.attachments import IMAGE_TYPES, Attachment, file_of, image_of, read_data_url
from chatmemory.llm.openai.reading import extra_in
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import RequestError, invalid_field

MAX_CALLS = 128
"""Maximum number of tool calls in one message."""
MAX_ATTACHMENTS = 100
"""Maximum number of images and files in one message."""
ID_CHARS = 256
URL_MAX_CHARS = 8192
NAME_MAX_CHARS = 255
ONE_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
"""A name of a speaker as OpenAI takes it."""

Text = Annotated[str, BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value)]
"""A text as it can be stored: no NUL, no lone surrogate."""
Id = Annotated[Text, MinLen(1), MaxLen(ID_CHARS)]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Size limits of a request."""

    message_chars: int
    attachment_bytes: int
    """For one image or file."""


class Wire(BaseModel):
    """What a client sends. A number is not read from a text, nor a text from a number."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class Typed(Wire):
    """An object whose `type` names the field that it must have."""

    type: str

    @model_validator(mode="after")
    def _has_the_field_of_its_type(self) -> Typed:
        if self.type in type(self).model_fields and getattr(self, self.type) is None:
            raise invalid_field("it is missing", "missing_required_parameter", at=self.type)
        return self


def _image(url: str, info: ValidationInfo) -> Attachment:
    detail = info.data.get("detail") or ""
    if url[:8].lower().startswith(("https://", "http://")):
        url = clean(url)
        if len(url) > URL_MAX_CHARS or not url.isprintable():
            raise invalid_field(f"a link has at most {URL_MAX_CHARS} printable characters")
        return Attachment("image", url=url, detail=detail)
    media_type, data = _bytes(url, info)
    image = image_of(data, media_type, detail)
    if image is None:
        formats = ", ".join(IMAGE_TYPES.values())
        raise invalid_field(f"an image in one of the formats {formats} is expected", "invalid_image_format")
    return image


def _file(url: str, info: ValidationInfo) -> Attachment:
    name = "".join(one for one in (info.data.get("filename") or "") if one.isprintable())
    media_type, data = _bytes(url, info)
    return file_of(data, media_type, name.strip()[:NAME_MAX_CHARS])


def _bytes(url: str, info: ValidationInfo) -> tuple[str, bytes]:
    """Return the media type and the bytes of a data URL."""
    found, limit = read_data_url(url), _limits(info).attachment_bytes
    if found is None or not found[1]:
        raise invalid_field("a data URL with base64 is expected, such as 'data:image/png;base64,…'")
    if len(found[1]) > limit:
        raise invalid_field(f"at most {limit:,} bytes are taken", "string_above_max_length")
    return found


def _limits(info: ValidationInfo) -> RequestLimits:
    assert isinstance(info.context, RequestLimits)
    return info.context


def _no_id(file_id: object) -> None:
    if file_id:
        why = "files are sent with the message here, as 'file_data'; 'file_id' is not supported"
        raise invalid_field(why, "unsupported_parameter")


class Image(Wire):
    detail: Literal["auto", "low", "high", ""] | None = None
    url: Annotated[str, AfterValidator(_image)]


class File(Wire):
    file_id: Annotated[Any, AfterValidator(_no_id)] = None
    filename: Text | None = None
    file_data: Annotated[str, AfterValidator(_file)]


class Part(Typed):
    type: Literal["text", "refusal", "image_url", "file"]
    text: Text | None = None
    refusal: Text | None = None
    image_url: Image | None = None
    file: File | None = None

    def read(self) -> str | Attachment:
        part = getattr(self, self.type)
        if isinstance(part, Image):
            return cast("str | Attachment", part.url)
        return cast("str | Attachment", part.file_data if isinstance(part, File) else part)


class Content(NamedTuple):
    """The content of a message: its text, with a mark for each image and file."""

    text: str
    attachments: tuple[Attachment, ...] = ()


def _content(value: object, parts: ValidatorFunctionWrapHandler) -> Content:
    if isinstance(value, str):
        return Content(clean(value))
    if not isinstance(value, list):
        raise invalid_field("a string or a list of parts is expected", "invalid_type")
    read = [part.read() for part in parts(value)]
    text = "\n\n".join(one if isinstance(one, str) else one.mark for one in read)
    return Content(text, tuple(one for one in read if isinstance(one, Attachment)))


class FunctionOfCall(Wire):
    name: Id
    arguments: Text


class CustomToolOfCall(Wire):
    name: Id
    input: Text


class Call(Typed):
    type: Literal["function", "custom"] = "function"
    id: Id = ""
    function: FunctionOfCall | None = None
    custom: CustomToolOfCall | None = None
    extra_content: Any = None

    def read(self) -> ToolCall:
        extra = extra_in({"extra_content": self.extra_content})
        if self.custom is not None and self.type == "custom":
            return ToolCall(self.id, self.custom.name, self.custom.input, is_custom=True, extra=extra)
        assert self.function is not None
        return ToolCall(self.id, self.function.name, self.function.arguments, extra=extra)


class WireMessage(Wire):
    """A message of any role. What an SDK sends back of an answer has all of the answer's fields."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[Part], Field(fail_fast=True), WrapValidator(_content)] | None = None
    refusal: Any = None
    annotations: Any = None
    name: Any = None
    tool_calls: Annotated[list[Call], Field(fail_fast=True), MaxLen(MAX_CALLS)] | None = None
    tool_call_id: Id | None = None
    # What gateways add to answers and clients send back: the model need not read it again.
    extra_content: Any = None
    provider_specific_fields: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    thinking_blocks: Any = None

    @model_validator(mode="before")
    @classmethod
    def _without_empty_extras(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: one for name, one in value.items() if one or name in ("role", "content", "tool_call_id")
        }


def _read(message: WireMessage, info: ValidationInfo) -> PromptMessage | str:
    """Return what is said; a text for instructions. Raises for what is too long, or has what its role may not."""
    role, content = message.role, cast("Content | None", message.content)
    if content is None:
        if role != "assistant":
            raise invalid_field("a string or a list of parts is expected", "invalid_type", at="content")
        content = Content(clean(message.refusal) if isinstance(message.refusal, str) else "")
    calls = tuple(call.read() for call in message.tool_calls or ())
    _check(message, content, calls, _limits(info).message_chars)
    if role == "system" or role == "developer":
        return content.text
    if role == "tool":
        return PromptMessage(role, content.text, call_id=message.tool_call_id or "")
    name = clean(message.name) if isinstance(message.name, str) else ""
    name = name if ONE_SPEAKER.fullmatch(name) else ""
    return PromptMessage(role, content.text, calls, attachments=content.attachments, name=name)


def _check(message: WireMessage, content: Content, calls: Sequence[ToolCall], max_chars: int) -> None:
    if calls and message.role != "assistant":
        raise invalid_field("only the assistant calls tools", "unsupported_parameter", at="tool_calls")
    if (message.tool_call_id is not None) != (message.role == "tool"):
        raise invalid_field("a tool's message, and no other, has the id of a call", at="tool_call_id")
    if content.attachments and message.role != "user":
        raise invalid_field("images and files can only be sent in messages of the user", at="content")
    if len(content.attachments) > MAX_ATTACHMENTS:
        why = f"at most {MAX_ATTACHMENTS} images and files are taken with one message"
        raise invalid_field(why, "array_above_max_length", at="content")
    if len({call.id for call in calls}) < len(calls):
        raise invalid_field("two calls have the same id", at="tool_calls")
    length = len(content.text) + sum(len(call.arguments) for call in calls)
    if length > max_chars:
        why = f"it has {length} characters, and at most {max_chars} are taken"
        raise invalid_field(why, "string_above_max_length", at="content")


ReadMessage = Annotated[WireMessage, AfterValidator(_read)]
"""A message that becomes what is said at once, so that a long history is in memory only once."""


# Their order


def in_order(said: list[tuple[int, PromptMessage]], number: int, max_chars: int) -> tuple[PromptMessage, ...]:
    """Return what was said, joined by side. Each comes with its index among `number` messages, which errors name.

    Raises `RequestError`.
    """
    said = _without_trimmed_calls(said)
    _check_calls(said)
    joined = _joined(said, max_chars)
    while joined and joined[-1].role == "assistant" and not (joined[-1].content.strip() or joined[-1].calls):
        joined.pop()  # a place for the answer, which some clients send along
    if joined and joined[-1].role == "user" and not joined[-1].content.strip():
        raise _refused(number - 1, "content", "The last message says nothing.", "invalid_value")
    return tuple(joined)


def _refused(index: int, field: str, why: str, code: str | None = None) -> RequestError:
    return RequestError(why, param=f"messages.[{index}].{field}", code=code)


def _without_trimmed_calls(said: list[tuple[int, PromptMessage]]) -> list[tuple[int, PromptMessage]]:
    """Leave out the calls and outputs with which a trimmed history begins: memory has them, or nobody does.

    Outputs that nobody has answered yet stay: the server may know their calls.
    """
    first = next((at for at, (_, one) in enumerate(said) if one.role == "user"), len(said))
    is_open = first == len(said) and bool(said) and said[-1][1].role == "tool"
    if is_open or not any(one.role == "assistant" for _, one in said):
        return said
    begun = [
        (index, replace(one, calls=()))
        for index, one in said[:first]
        if one.role != "tool" and one.content.strip()
    ]
    return begun + said[first:]


def _check_calls(said: Sequence[tuple[int, PromptMessage]]) -> None:
    """Check that each call is followed by its one output before anybody says anything else.

    Outputs at the very beginning are not checked here: they belong to calls that only this server may know.
    """
    waiting: dict[str, None] = {}
    has_begun = has_question = False
    for index, one in said:
        if one.role == "tool":
            if has_begun and one.call_id not in waiting:
                raise _no_call_for(index)
            waiting.pop(one.call_id, None)
            continue
        has_begun, has_question = True, has_question or one.role == "user"
        _require_outputs(waiting, index)
        waiting = dict.fromkeys(call.id for call in one.calls)
        if one.calls and not has_question:
            why = "Tools can be called only in answer to a message of the user."
            raise _refused(index, "tool_calls", why, "invalid_value")
    _require_outputs(waiting, said[-1][0] if said else 0)


def _no_call_for(index: int) -> RequestError:
    why = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
    return _refused(index, "role", f"Invalid parameter: {why}")


def refuse_outputs_alone(said: Sequence[PromptMessage]) -> None:
    """Raise `RequestError` for outputs without their calls, which only a named conversation may begin with."""
    if said and said[0].role == "tool":
        raise _no_call_for(0)


def _require_outputs(waiting: Iterable[str], index: int) -> None:
    if missing := ", ".join(waiting):
        why = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {missing[:1000]}"
        )
        raise _refused(index, "role", why)


def _joined(said: Iterable[tuple[int, PromptMessage]], max_chars: int) -> list[PromptMessage]:
    """Join consecutive messages of one side; tool outputs, and what follows calls, stay separate."""
    sides: list[list[PromptMessage]] = []
    length = 0
    for index, one in said:
        last = sides[-1][-1] if sides else None
        if last is None or last.role != one.role or one.role == "tool" or last.calls:
            sides.append([one])
            length = len(one.content)
            continue
        sides[-1].append(one)
        length += 2 + len(one.content)
        if length > max_chars:
            why = f"The messages up to here have {length} characters together; at most {max_chars} are taken."
            raise _refused(index, "content", why, "string_above_max_length")
    return [
        replace(
            side[0],
            content="\n\n".join(one.content for one in side),
            calls=side[-1].calls,
            attachments=tuple(found for one in side for found in one.attachments),
            name=side[0].name if len({one.name for one in side}) == 1 else "",
        )
        for side in sides
    ]


# Keys
#
# A key is a rolling hash over everything said so far, so it identifies the whole history: two conversations have the
# same key only if they are the same word for word. It begins with a secret, the user, and the end user that the request
# names, so that no history is ever found by another one's, and a key by itself reveals nothing of a text. The ids of
# tool calls are not part of it, because some clients make them anew.


@dataclass(frozen=True, slots=True)
class HistoryKeys:
    """The keys of one request."""

    before: bytes | None
    """Key of the history before its last answer; None if there is no answer in it."""
    asked: bytes
    """Key of the history including the new messages: the `before` of the next request."""
    last_question: bytes | None
    """Key of only the messages answered last: a question, or the outputs of tools."""
    question: bytes
    """Key of only the new messages: the `last_question` of the next request."""


def history_keys(
    secret: bytes,
    user_id: int,
    history: Sequence[PromptMessage],
    new: Sequence[PromptMessage],
    end_user: str = "",
) -> HistoryKeys:
    """Return the keys of a request. The cost depends on what was sent, not on what is stored."""
    start = hmac.digest(secret, f"history:{user_id}".encode(), "sha256")
    if end_user:
        start = hmac.digest(start, f"end user:{end_user}".encode(), "sha256")
    key = alone = start
    before = last_question = None
    for said in history:
        key = _next(key, said)
        if said.role == "assistant":
            alone = start
        else:
            alone = _next(alone, said)
            before, last_question = key, alone
    return HistoryKeys(before, reduce(_next, new, key), last_question, reduce(_next, new, start))


def normalized(text: str) -> str:
    """Return `text` without what clients change on the way: surrounding space, line endings, composed letters."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def calls_alike(stored: Sequence[ToolCall], sent: Sequence[ToolCall]) -> bool:
    """Whether a client sends the calls that are stored, whatever their ids and the formatting of their arguments."""
    return [_written(call) for call in stored] == [_written(call) for call in sent]


def _written(call: ToolCall) -> str:
    return json.dumps([call.name, sorted_json(call.arguments)])


def sorted_json(text: str) -> str:
    """Return JSON as one text, however it was written; any other text as it is."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _next(key: bytes, said: PromptMessage) -> bytes:
    parts = [said.role, "\0", normalized(said.content)]
    for call in said.calls:
        parts += ["\0call", _written(call)]
    if said.call_id:
        parts.append("\0output")
    for one in said.attachments:
        parts += ["\0attached", one.sha256 or one.url]
    return hashlib.sha256(key + "".join(parts).encode()).digest()
