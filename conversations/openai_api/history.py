"""The history in a Chat Completions request, joined by side and normalized, and the keys that find it again. Pure.

Consecutive messages of one side are joined. The outputs of tools stay separate, each with the id of its call.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text import cleaning
from conversations.openai_api.errors import RequestError


@dataclass(frozen=True, slots=True)
class Wording:
    """An API, and how its errors name a message, and calls that have no outputs or outputs that have no calls."""

    api: str
    """Its name."""
    field: str
    """The field of the body with all messages."""
    at: str
    """A message, by its `index`, and a `field` of it."""
    no_call: str
    no_output: str

    def refused(self, index: int, field: str, why: str, code: str = "") -> RequestError:
        return RequestError(why, param=self.at.format(index=index, field=field), code=code)


def in_order(messages: list[tuple[int, PromptMessage]], max_chars: int, wording: Wording) -> tuple[PromptMessage, ...]:
    """Return what was said, joined by side. Each comes with its index among all messages, which errors name.

    Raises `RequestError`.
    """
    # A blank answer is none: one that failed, or a place for the next, which some clients send along.
    messages = [one for one in messages if one[1].role != "assistant" or one[1].text.strip()]
    messages = _without_trimmed_calls(messages)
    _check_calls(messages, wording)
    joined = _joined(messages, max_chars, wording)
    if joined and joined[-1].role == "user" and not joined[-1].content.strip():
        raise wording.refused(messages[-1][0], "content", "The last message is empty.", "invalid_value")
    return tuple(joined)


def _without_trimmed_calls(messages: list[tuple[int, PromptMessage]]) -> list[tuple[int, PromptMessage]]:
    """Leave out the calls and outputs with which a trimmed history begins: memory has them, or they are lost.

    Outputs without an answer stay: the server may know their calls.
    """
    first = next((at for at, (_, one) in enumerate(messages) if one.role == "user"), len(messages))
    is_open = first == len(messages) and bool(messages) and messages[-1][1].role == "tool"
    if is_open or not any(one.role == "assistant" for _, one in messages):
        return messages
    begun = [
        (index, replace(one, calls=())) for index, one in messages[:first] if one.role != "tool" and one.content.strip()
    ]
    return begun + messages[first:]


def _check_calls(messages: Sequence[tuple[int, PromptMessage]], wording: Wording) -> None:
    """Check that each call is followed by its one output before any other message.

    Outputs at the very beginning are not checked here: they belong to calls that only this server may know.
    """
    waiting: dict[str, None] = {}
    has_begun = has_question = False
    for index, one in messages:
        if one.role == "tool":
            if has_begun and one.call_id not in waiting:
                raise _no_call(index, one, wording)
            waiting.pop(one.call_id, None)
            continue
        has_begun, has_question = True, has_question or one.role == "user"
        _require_outputs(waiting, index, wording)
        waiting = dict.fromkeys(call.id for call in one.calls)
        if one.calls and not has_question:
            why = "Tools can be called only in answer to a message of the user."
            raise wording.refused(index, "tool_calls", why, "invalid_value")
    _require_outputs(waiting, messages[-1][0] if messages else 0, wording)


def _no_call(index: int, output: PromptMessage, wording: Wording) -> RequestError:
    return wording.refused(index, "role", wording.no_call.format(id=output.call_id[:64]))


def refuse_outputs_alone(messages: Sequence[PromptMessage], wording: Wording) -> None:
    """Raise `RequestError` for outputs without their calls, which only a named conversation may begin with."""
    if messages and messages[0].role == "tool":
        raise _no_call(0, messages[0], wording)


def _require_outputs(waiting: Iterable[str], index: int, wording: Wording) -> None:
    if missing := ", ".join(waiting):
        raise wording.refused(index, "role", wording.no_output.format(ids=missing[:1000]))


def _joined(messages: Iterable[tuple[int, PromptMessage]], max_chars: int, wording: Wording) -> list[PromptMessage]:
    """Join consecutive messages of one side; tool outputs, and what follows calls, stay separate."""
    sides: list[list[PromptMessage]] = []
    length = 0
    for index, one in messages:
        last = sides[-1][-1] if sides else None
        if last is None or last.role != one.role or one.role == "tool" or last.calls:
            sides.append([one])
            length = len(one.content)
            continue
        sides[-1].append(one)
        length += 2 + len(one.content)
        if length > max_chars:
            why = f"The messages up to here have {length} characters together; at most {max_chars} are taken."
            raise wording.refused(index, "content", why, "string_above_max_length")
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

    earlier: Mapping[bytes, int]
    """Key of the history before each of its answers → the answer's index."""
    before: bytes | None
    """Key of the history before its last answer; None if there is no answer in it."""
    asked: bytes
    """Key of the history including the new messages: the `before` of the next request."""
    last_question: bytes | None
    """Key of only the messages answered last: a question, or the outputs of tools."""
    question: bytes
    """Key of only the new messages: the `last_question` of the next request."""


@dataclass(frozen=True, slots=True)
class PreviousKeys:
    """The keys of the turn that a request names as the one before it, with its answer."""

    asked: bytes
    question: bytes
    answer: PromptMessage


def history_keys(
    secret: bytes,
    user_id: int,
    history: Sequence[PromptMessage],
    new: Sequence[PromptMessage],
    end_user: str = "",
    previous: PreviousKeys | None = None,
) -> HistoryKeys:
    """Return the keys of a request. The cost depends on what was sent, not on what is stored.

    After a `previous` turn they are the same as if the whole history had been sent.
    """
    start = hmac.digest(secret, f"history:{user_id}".encode(), "sha256")
    if end_user:
        start = hmac.digest(start, f"end user:{end_user}".encode(), "sha256")
    key = alone = start
    before = last_question = None
    earlier: dict[bytes, int] = {}
    if previous is not None:
        before, last_question, key = previous.asked, previous.question, _next(previous.asked, previous.answer)
    for index, message in enumerate(history, start=1):
        key = _next(key, message)
        if message.role == "assistant":
            alone = start
        else:
            alone = _next(alone, message)
            before, last_question = key, alone
            earlier[key] = index
    return HistoryKeys(earlier, before, reduce(_next, new, key), last_question, reduce(_next, new, start))


def normalized(text: str) -> str:
    """Return `text` without what clients change on the way: surrounding space, line endings, composed letters."""
    return cleaning.normalized("NFC", text.replace("\r\n", "\n")).strip()


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


def _next(key: bytes, message: PromptMessage) -> bytes:
    parts = [message.role, "\0", normalized(message.content)]
    for call in message.calls:
        parts += ["\0call", _written(call)]
    if message.call_id:
        parts.append("\0output")
    for one in message.attachments:
        parts += ["\0attached", one.sha256 or one.url]
    return hashlib.sha256(key + "".join(parts).encode()).digest()
