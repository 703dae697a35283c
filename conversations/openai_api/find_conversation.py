"""Find the chat that a request of an OpenAI client belongs to: by its name, its whole history, or its newest turn.

A client that names its conversation is trusted, within its own user's chats. The chat of a client that only sends
messages is found by the rolling hash of its history up to the last answered question, whose stored answer is then
compared. A chat is never found by its first message only, and never among another user's chats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet

from chatmemory.database.compiled import Select
from chatmemory.llm.protocol import ToolCall
from conversations.models import ActiveReply, Chat, ChatCompletion, Message, NamedConversation, Role, Status
from conversations.openai_api.chat_answer import finish_reason
from conversations.openai_api.history_keys import HistoryKeys, answers_alike, calls_alike
from conversations.openai_api.request.chat_request import ChatRequest
from conversations.openai_api.request.history import HistoryMessage
from conversations.replies.open_turn import calls_of

Decision = Literal["new", "imported", "continued", "branched", "regenerated"]
"""What becomes of the request: a turn in a new chat, in one made from the history that was sent, at the end of a
chat, in a branch from an older turn of it, or as a new answer in place of a chat's last one."""
FoundBy = Literal["", "name", "history", "newest turn"]

MAX_CANDIDATES = 50
"""Maximum number of completions examined for one key: a question that a user often asks has many."""


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """The place where a turn belongs."""

    decision: Decision
    found_by: FoundBy = ""
    chat: Chat | None = None
    """The chat that is continued or branched from, as it was when it was found."""
    through_seq: int = 0
    """For a branch: seq of the last message that it shares."""
    name: str = ""
    """`source:name`, the client's name of the conversation, by which the chat is found from now on; "" for none."""


def find(user: User, request: ChatRequest, keys: HistoryKeys, name: str) -> TurnPlace:
    """Find the place of the turn that `request` wants. `name` is as in `TurnPlace`."""
    chat = _named(user, name) if name else None
    if chat is not None:
        return _within(user, chat, request, keys, name)
    if name:
        return TurnPlace("imported" if request.history else "new", name=name)
    wanted = [keys.asked] if keys.before is None else [keys.asked, keys.before]
    mine = ChatCompletion.objects.filter(user=user)
    known = _newest(mine.filter(asked__in=wanted))
    broken = next((one for one in known if bytes(one.asked) == keys.asked), None)
    if broken is not None and _is_head(broken) and _broke_off(broken):
        return TurnPlace("regenerated", "history", broken.chat)
    if keys.before is None:
        return TurnPlace("imported" if request.history else "new")
    answer = request.history[-1]
    matches = _answered([one for one in known if bytes(one.asked) == keys.before], answer)
    if matches:
        newest = next((one for one in matches if _is_head(one)), None)
        if newest is not None:
            return TurnPlace("continued", "history", newest.chat)
        return TurnPlace("branched", "history", matches[0].chat, matches[0].seq)
    assert keys.last_question is not None
    alike = _answered(_newest(mine.filter(question=keys.last_question)), answer)
    heads = {one.chat_id: one.chat for one in alike if _is_head(one)}
    if len(heads) == 1:
        return TurnPlace("continued", "newest turn", heads.popitem()[1])
    return TurnPlace("imported")


def _within(user: User, chat: Chat, request: ChatRequest, keys: HistoryKeys, name: str) -> TurnPlace:
    """Find the place within the chat that the client named. A history unknown to the chat is assumed to be trimmed.

    Uses the chat as it was read: if it has changed since, `turns.begin` notices.
    """
    mine = ChatCompletion.objects.filter(user=user, chat=chat)
    again = mine.filter(asked=keys.asked).order_by("-seq").first()
    if again is not None and _is_head(again) and (request.history or again.seq <= FIRST_ANSWER):
        return TurnPlace("regenerated", "name", chat, name=name)
    is_busy = ActiveReply.objects.filter(
        chat=chat
    ).exists()  # if busy, the turn is refused, or a reply left by a crash is finished
    if keys.before is not None and not is_busy:
        matches = _answered(_newest(mine.filter(asked=keys.before)), request.history[-1])
        if matches and not any(_is_head(one) for one in matches):
            return TurnPlace("branched", "name", chat, matches[0].seq, name)
    return TurnPlace("continued", "name", chat, name=name)


FIRST_ANSWER = 2
"""Seq of a chat's first answer. A client that leaves the history to us repeats its first question to have it answered
again; later, without a history, the same words are a new message."""


def _named(user: User, name: str) -> Chat | None:
    """Return the user's chat of that name. The id of a chat is a name too, but only for the chat's owner."""
    known = NamedConversation.objects.filter(user=user, name=name).select_related("chat").first()
    if known is not None:
        return known.chat
    try:
        return Chat.objects.filter(pk=UUID(name.partition(":")[2]), owner=user).first()
    except ValueError:
        return None


def _newest(completions: QuerySet[ChatCompletion]) -> list[ChatCompletion]:
    return list(completions.select_related("chat").order_by("-message_id")[: 2 * MAX_CANDIDATES])


def _answered(completions: Sequence[ChatCompletion], answer: HistoryMessage) -> list[ChatCompletion]:
    """Return those of `completions`, newest first, whose stored answer is the one that was sent.

    A reply that is still being written counts as a match: a client that leaves a stream has read part of it.
    """
    found = completions[:MAX_CANDIDATES]
    if not found:
        return []
    stored = _stored_answers([one.message_id for one in found])
    written: set[UUID] = set()
    if ids := [one.message_id for one in found if one.message_id not in stored]:
        written = set(ActiveReply.objects.filter(message_id__in=ids).values_list("message_id", flat=True))
    return [
        one
        for one in found
        if one.message_id in written or (one.message_id in stored and stored[one.message_id].fits(answer))
    ]


_ANSWER = Select(
    lambda pk: Message.objects.filter(pk=pk).values_list("content", "status", "payload", "seq", "chat_id"),
    UUID,
)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A reply as it is stored."""

    content: str
    status: str
    payload: dict[str, Any] | None
    seq: int
    chat_id: UUID

    def fits(self, sent: HistoryMessage) -> bool:
        """Whether a client that sends `sent` has read this reply; any text fits a deleted one."""
        if self.status == Status.DELETED:
            return True
        if not answers_alike(self.content, sent.content):
            return False
        # Some clients leave out calls once they were answered; none invents calls.
        return not sent.calls or calls_alike(self._calls(), sent.calls)

    def _calls(self) -> list[ToolCall]:
        return calls_of(Message(chat_id=self.chat_id, seq=self.seq, payload=self.payload))


def _stored_answers(ids: Sequence[UUID]) -> dict[UUID, _Answer]:
    """Return stored replies by their ids; nearly always there is one."""
    if len(ids) == 1:
        rows: Iterable[Any] = [(*ids, *found) for found in _ANSWER.rows(ids[0])]
    else:
        fields = ("pk", "content", "status", "payload", "seq", "chat_id")
        rows = Message.objects.filter(pk__in=ids).values_list(*fields)
    return {pk: _Answer(*found) for pk, *found in rows}


def _broke_off(completion: ChatCompletion) -> bool:
    """Whether the client got an error instead of an answer: then it sends the same request again."""
    reply = Message.objects.filter(pk=completion.message_id).values_list("status", "error").first()
    return reply is not None and finish_reason(*reply) is None


def _is_head(completion: ChatCompletion) -> bool:
    """Whether nothing except its own tool calls follows the reply in its chat, or the reply is still being written.

    Later tries that failed, or were cancelled in favour of its tool calls, do not count.
    """
    if completion.seq >= completion.chat.last_seq:
        return True
    later = Message.objects.filter(chat=completion.chat_id, seq__gt=completion.seq, superseded_by=None)
    return not later.exclude(role=Role.TOOL_CALL).exclude(status=Status.FAILED).exists()
