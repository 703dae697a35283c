"""The messages of a Chat Completions request → what each side said, or the error that OpenAI would answer with. Pure.

Consecutive messages of one side are joined. The outputs of tools stay separate, each with the id of its call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.openai.stream import extra_in
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import RequestError, unsupported
from conversations.openai_api.request.parts import read_content, required_text, unsupported_type

Role = Literal["user", "assistant", "tool"]
CALL_ID_CHARS = 256
MAX_MESSAGES = 50_000
"""Maximum number of messages in a request."""
MAX_CALLS = 128
"""Maximum number of tool calls in one message."""


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """What one side said until the other side spoke, or the output of a tool."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    """Images and files of the user, with their bytes. The content has a mark for each."""
    name: str = ""
    """Who of several speaks on this side. Nothing of it is stored."""

    def as_prompt(self, change: Callable[[str], str]) -> PromptMessage:
        """Return the message as it is sent to a model, with `change` applied to its texts."""
        made = PromptMessage(self.role, self.content, self.calls, self.call_id, self.attachments, self.name)
        return made.with_texts(change)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Size limits of a request."""

    message_chars: int
    instructions_chars: int
    """For all system and developer messages together."""
    attachment_bytes: int
    """For one image or file."""


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a request. `said` ends with the new messages, which are all after the last of the assistant's."""

    instructions: str
    said: tuple[HistoryMessage, ...]


def read_history(value: object, limits: RequestLimits) -> History:
    """Check the `messages` of a body. Raises `RequestError`."""
    if not isinstance(value, list) or not value:
        raise RequestError(
            "Invalid 'messages': a list of at least one message is expected.",
            param="messages",
            code="invalid_type",
        )
    if len(value) > MAX_MESSAGES:
        raise RequestError(
            f"Invalid 'messages': at most {MAX_MESSAGES:,} messages are taken.",
            param="messages",
            code="array_above_max_length",
        )
    instructions: list[str] = []
    said: list[tuple[int, HistoryMessage]] = []
    for index, message in enumerate(value):
        one = _message(f"messages.[{index}]", message, limits)
        if isinstance(one, str):
            instructions.append(one)
        else:
            said.append((index, one))
    said = _without_trimmed_calls(said)
    begins_with_outputs = next((at for at, (_, one) in enumerate(said) if one.role != "tool"), len(said))
    _check_calls(said[begins_with_outputs:])
    joined = _joined(said, limits.message_chars)
    while joined and joined[-1].role == "assistant" and not (joined[-1].content.strip() or joined[-1].calls):
        joined.pop()  # a place for the answer, which some clients send along
    _check_end(joined, len(value), has_instructions=any(one.strip() for one in instructions))
    return History("\n\n".join(instructions), tuple(joined))


def _without_trimmed_calls(said: list[tuple[int, HistoryMessage]]) -> list[tuple[int, HistoryMessage]]:
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


def refuse_outputs_alone(said: Sequence[HistoryMessage]) -> None:
    """Raise `RequestError` for outputs without their calls, which only a named conversation may begin with."""
    if said and said[0].role == "tool":
        raise _no_call_for(0)


def _no_call_for(index: int) -> RequestError:
    return RequestError(
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        param=f"messages.[{index}].role",
        code=None,
    )


def _joined(said: Iterable[tuple[int, HistoryMessage]], max_chars: int) -> list[HistoryMessage]:
    """Join consecutive messages of one side; tool outputs, and what follows calls, stay separate."""
    sides: list[list[HistoryMessage]] = []
    length = 0
    for index, one in said:
        last = sides[-1][-1] if sides else None
        if last is None or last.role != one.role or one.role == "tool" or last.calls:
            sides.append([one])
            length = len(one.content)
        else:
            sides[-1].append(one)
            length += 2 + len(one.content)
            if length > max_chars:
                raise _too_long(f"messages.[{index}].content", length, max_chars)
    return [side[0] if len(side) == 1 else _one_of(side) for side in sides]


def _one_of(side: Sequence[HistoryMessage]) -> HistoryMessage:
    return HistoryMessage(
        side[0].role,
        "\n\n".join(one.content for one in side),
        side[-1].calls,
        attachments=tuple(found for one in side for found in one.attachments),
        name=side[0].name if len({one.name for one in side}) == 1 else "",
    )


def _check_calls(said: Sequence[tuple[int, HistoryMessage]]) -> None:
    """Check that each call is followed by its one output before anybody says anything else.

    Outputs at the very beginning are not checked here: they belong to calls that only this server may know.
    """
    waiting: dict[str, None] = {}
    for index, one in said:
        if one.role == "tool":
            if one.call_id not in waiting:
                raise _no_call_for(index)
            del waiting[one.call_id]
            continue
        _require_outputs(waiting, index)
        waiting = dict.fromkeys(call.id for call in one.calls)
        if one.calls and not any(before.role == "user" for at, before in said if at < index):
            raise RequestError(
                "Tools can be called only in answer to a message of the user.",
                param=f"messages.[{index}].tool_calls",
                code="invalid_value",
            )
    _require_outputs(waiting, said[-1][0] if said else 0)


def _require_outputs(waiting: Iterable[str], index: int) -> None:
    if missing := ", ".join(waiting):
        raise RequestError(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {missing[:1000]}",
            param=f"messages.[{index}].role",
            code=None,
        )


def _check_end(said: Sequence[HistoryMessage], number: int, *, has_instructions: bool) -> None:
    last = said[-1] if said else None
    if last is None and not has_instructions:
        raise RequestError("The messages say nothing.", param="messages", code="invalid_value")
    if last is not None and last.role == "user" and not last.content.strip():
        at = f"messages.[{number - 1}].content"
        raise RequestError("The last message says nothing.", param=at, code="invalid_value")


def _message(at: str, message: object, limits: RequestLimits) -> HistoryMessage | str:
    """Read one message; return a string for a system or developer message."""
    if not isinstance(message, dict):
        raise RequestError(f"Invalid type for '{at}': expected an object.", param=at, code="invalid_type")
    role = message.get("role")
    if role not in tuple(_FIELDS):  # it may be unhashable
        raise RequestError(
            f"Invalid value for '{at}.role': supported are 'system', 'developer', 'user', 'assistant' and 'tool'.",
            param=f"{at}.role",
            code="invalid_value",
        )
    for name in message.keys() - _FIELDS[role] - (_ADDED if role == "assistant" else set()):
        if message[name]:
            raise unsupported(f"{at}.{str(name)[:64]}")
    calls = _calls(f"{at}.tool_calls", message.get("tool_calls") or []) if role == "assistant" else ()
    content = _content_of(role, message)
    if isinstance(content, str) and len(content) > limits.message_chars:  # before it costs anything
        raise _too_long(f"{at}.content", len(content), limits.message_chars)
    text, attachments = read_content(
        f"{at}.content",
        content,
        takes_attachments=role == "user",
        max_bytes=limits.attachment_bytes,
    )
    if (length := len(text) + sum(len(call.arguments) for call in calls)) > limits.message_chars:
        raise _too_long(f"{at}.content", length, limits.message_chars)
    if role in ("system", "developer"):
        return text
    if role == "tool":
        return HistoryMessage(role, text, call_id=_call_id(at, message))
    return HistoryMessage(role, text, calls, attachments=attachments, name=_name(message.get("name")))


_SPOKEN = {"role", "content", "refusal", "annotations", "name"}
_FIELDS = {
    "system": _SPOKEN,
    "developer": _SPOKEN,
    "user": _SPOKEN,
    "assistant": _SPOKEN | {"tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
"""Fields of a message that may have a value: what an SDK sends back of an answer has all of the answer's fields."""


_ADDED = {"extra_content", "provider_specific_fields", "reasoning", "reasoning_content", "thinking_blocks"}
"""Fields that gateways add to answers and clients send back: the model need not read them again."""


def _content_of(role: str, message: dict[str, Any]) -> object:
    content = message.get("content")
    return (message.get("refusal") or "") if content is None and role == "assistant" else content


def _name(value: object) -> str:
    """Return a name as OpenAI takes it; "" for any other, which other servers take."""
    name = clean(value) if isinstance(value, str) else ""
    return name if re.fullmatch(r"[^\s<|\\/>]{1,64}", name) else ""


def _call_id(at: str, message: dict[str, Any]) -> str:
    found = clean(required_text(f"{at}.tool_call_id", message.get("tool_call_id")))
    if not 0 < len(found) <= CALL_ID_CHARS:
        raise RequestError(
            f"Invalid '{at}.tool_call_id': 1 to {CALL_ID_CHARS} characters are expected.",
            param=f"{at}.tool_call_id",
            code="invalid_value",
        )
    return found


def _calls(at: str, value: object) -> tuple[ToolCall, ...]:
    if not isinstance(value, list) or len(value) > MAX_CALLS:
        raise RequestError(
            f"Invalid type for '{at}': expected a list of at most {MAX_CALLS} calls.",
            param=at,
            code="invalid_type",
        )
    calls = tuple(_call(f"{at}.[{index}]", call) for index, call in enumerate(value))
    if len({call.id for call in calls}) < len(calls):
        raise RequestError(f"Duplicate value for 'tool_call_id' in '{at}'.", param=at, code="invalid_value")
    return calls


def _call(at: str, call: object) -> ToolCall:
    kind = str(call.get("type") or "function")[:64] if isinstance(call, dict) else "function"
    if kind not in _ARGUMENTS:
        raise unsupported_type(at, f"Calls of the type {kind!r}")
    if not isinstance(call, dict) or not isinstance(tool := call.get(kind), dict):
        raise RequestError(
            f"Missing required parameter: '{at}.{kind}'.",
            param=f"{at}.{kind}",
            code="missing_required_parameter",
        )
    name = clean(required_text(f"{at}.{kind}.name", tool.get("name")))
    said = _ARGUMENTS[kind]
    arguments = clean(required_text(f"{at}.{kind}.{said}", tool.get(said)))
    call_id = clean(required_text(f"{at}.id", call.get("id")))
    if not name or not 0 < len(call_id) <= CALL_ID_CHARS or len(name) > CALL_ID_CHARS:
        raise RequestError(
            f"Invalid '{at}': a call has an id and a name of 1 to {CALL_ID_CHARS} characters.",
            param=at,
            code="invalid_value",
        )
    return ToolCall(call_id, name, arguments, is_custom=kind == "custom", extra=extra_in(call))


_ARGUMENTS = {"function": "arguments", "custom": "input"}
"""The types of calls, each with the field that holds the tool's input."""


def _too_long(at: str, length: int, limit: int) -> RequestError:
    return RequestError(
        f"Invalid '{at}': it has {length} characters, and at most {limit} are taken.",
        param=at,
        code="string_above_max_length",
    )
