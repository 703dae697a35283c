"""What each side said in the messages of a Chat Completions request, in an order that a model answers. Pure.

Consecutive messages of one side are joined. The outputs of tools stay separate, each with the id of its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import PromptMessage, ToolCall
from conversations.openai_api.errors import RequestError

Role = Literal["user", "assistant", "tool"]


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


def in_order(
    said: list[tuple[int, HistoryMessage]], number: int, max_chars: int
) -> tuple[HistoryMessage, ...]:
    """Return what was said, joined by side. Each comes with its index among `number` messages, which errors name.

    Raises `RequestError`.
    """
    said = _without_trimmed_calls(said)
    begins_with_outputs = next((at for at, (_, one) in enumerate(said) if one.role != "tool"), len(said))
    _check_calls(said[begins_with_outputs:])
    joined = _joined(said, max_chars)
    while joined and joined[-1].role == "assistant" and not (joined[-1].content.strip() or joined[-1].calls):
        joined.pop()  # a place for the answer, which some clients send along
    if joined and joined[-1].role == "user" and not joined[-1].content.strip():
        at = f"messages.[{number - 1}].content"
        raise RequestError("The last message says nothing.", param=at, code="invalid_value")
    return tuple(joined)


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
                raise RequestError(
                    f"The messages up to here have {length} characters together; at most {max_chars} are taken.",
                    param=f"messages.[{index}].content",
                    code="string_above_max_length",
                )
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
