"""Find the chat that a request of an OpenAI client belongs to: by its name, its whole history, or its newest turns.

A client that names its conversation is trusted, within its own user's chats. The chat of a client that only sends
messages is found by the rolling hash of its history up to the last answered question, whose stored answer is then
compared; else among the chats with the same last question or the same last answer, with which the turns that were sent
must agree (`openai_api.agreement`). A chat is never found by a single message, and never among the chats of another
user, or of another end user that a request names.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from chatmemory.database.owned import ChatKey
from chatmemory.errors import NotFound
from chatmemory.llm.attachments import attachments_in
from chatmemory.llm.protocol import PromptMessage, ToolCall, Variant
from conversations.models import ActiveReply, Chat, ChatCompletion, Message, NamedConversation, Role, Status
from conversations.openai_api import agreement
from conversations.openai_api.answer import finish_reason
from conversations.openai_api.errors import RequestError
from conversations.openai_api.history import HistoryKeys, PreviousKeys, calls_alike
from conversations.openai_api.stored_responses import stored_response
from conversations.openai_api.wire import ChatRequest
from conversations.replies.begin import RequestKey
from conversations.replies.open_turn import calls_of
from conversations.replies.reply import ExistingReply

Decision = Literal["new", "imported", "continued", "branched", "regenerated", "repeated", "not stored"]
"""Where the turn of the request goes: into a new chat, or one imported from the history that was sent; to the end of a
chat, into a branch from an older turn, or in place of the chat's last answer. `repeated`: the request began it before.
`not stored`: a side request that only bears the name of a conversation."""
FoundBy = Literal["", "name", "history", "newest turn", "response id", "retry", "idempotency key"]

RETRIED_WITHIN = timedelta(minutes=10)
"""How far back a request that says it is a retry is matched with the turn it repeats."""
MAX_CANDIDATES = 50
"""Maximum number of completions examined for one key: a question that a user often asks has many."""
TASK_CHARS = 200
"""Length from which a message to a named conversation may be a task about it: a prompt that quotes its last turn."""
NAMED_ROWS = 400
"""Messages of a named conversation of which a request must share one."""
FIRST_ANSWER = 2
"""Seq of a chat's first answer. A client that leaves the history to us repeats its first question to have it answered
again; later, without a history, the same words are a new message."""
TEMPORARY = ("temporary:", "local:")
"""Prefixes of the names of temporary conversations."""
REPLACES_AFTER = timedelta(seconds=10)
"""How long after a reply the same question to another model is not a wish to replace that reply."""
REAL_FIRST_WITHIN = timedelta(minutes=1)
"""How soon after a conversation's first request another one may be its real first."""
CUT = (Status.CANCELLED, Status.INCOMPLETE)
"""States of replies of which a client may have read any part."""
MAX_CHATS = 20
"""Maximum number of chats whose turns are compared with the history."""
ROWS = 3
"""Stored messages read for each one that was sent: a turn with tools has more rows than messages."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A completion that a user requested."""

    user: User
    request: ChatRequest
    variant: Variant
    keys: HistoryKeys
    body_hash: bytes
    name: str = ""
    """The client's name of its conversation, "" for none, as it is stored."""
    end_user: str = ""
    """Hash of the end user and the project that the request names, "" for neither."""
    project: str = ""
    """The chat's project, if the chat is new."""
    is_retry: bool = False
    idempotency_key: str = ""
    previous: ChatCompletion | None = None
    """The turn that the request names as the one before it."""

    @property
    def fingerprint(self) -> str:
        """The same for the same request: a request that repeats its idempotency key must have it."""
        return hashlib.sha256(b"completion" + self.body_hash).hexdigest()

    @property
    def name_with_model(self) -> str:
        """The name of the conversation that this model has if another one answers the same questions."""
        return f"{self.name}\n{hashlib.sha256(self.request.model.encode()).hexdigest()[:16]}"

    @property
    def is_temporary(self) -> bool:
        """Whether the name is one that Open WebUI gives to a chat that it does not keep."""
        return self.name.partition(":")[2].startswith(TEMPORARY)

    @property
    def earlier(self) -> QuerySet[ChatCompletion]:
        """The completions of the same user and end user."""
        return ChatCompletion.objects.filter(user=self.user, end_user=self.end_user)


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """The place where a turn belongs."""

    decision: Decision
    found_by: FoundBy = ""
    chat: Chat | None = None
    """The chat that is continued or branched from, as it was when it was found."""
    through_seq: int = 0
    """For a branch: seq of the last message that it shares."""
    rewritten: str = ""
    """The client's version of the chat's last answer, if it was rewritten: it is stored as an edit of it."""
    made_up: int = 0
    """Number of turns in front of the history that the client made up."""
    unseen: int = 0
    """Number of messages at the end of the history that the chat lacks: another server answered there."""
    existing: ExistingReply | None = None
    """The reply that this request began before."""
    last_turn: ChatCompletion | None = None
    """The last turn of the chat that is continued, if it was found by it."""
    aside: UUID | None = None
    """The chat that the conversation had before, if that is a side request and this conversation's first turn."""
    name: str = ""
    """The name that the chat goes by, if it is not the client's own."""

    def apart(self) -> "TurnPlace":
        """Return the place in a branch, if the client has not named the chat that it is to continue."""
        if self.decision != "continued" or self.last_turn is None or self.found_by == "name":
            return self
        return TurnPlace("branched", self.found_by, self.chat, self.last_turn.seq)


def previous_of(user: User, end_user: str, response_id: str) -> tuple[ChatCompletion, PreviousKeys]:
    """Return the turn of a response, and its keys. Raises `RequestError` if there is none."""
    try:
        turn = stored_response(user, response_id, end_user=end_user)
    except NotFound:
        why = f"Previous response with id '{response_id[:64]}' not found."
        raise RequestError(why, param="previous_response_id", code="previous_response_not_found") from None
    reply = Message.objects.filter(chat=turn.chat, pk=turn.message_id).first()
    calls = tuple(calls_of(reply)) if reply else ()
    answer = PromptMessage("assistant", reply.content if reply else "", calls)
    return turn, PreviousKeys(bytes(turn.asked), bytes(turn.question), answer)


def find(completion: CompletionRequest) -> TurnPlace:
    """Find the place of the turn that is requested. Raises `IdempotencyMismatch`.

    Outputs that no open turn waits for are imported with their history: another server answered the same question.
    """
    place, request = _find(completion), completion.request
    calls = request.history[-1].calls if request.outputs and request.history else ()
    if calls and place.decision == "continued" and place.chat is not None and not place.chat.open_seq:
        return TurnPlace("imported", place.found_by)
    return place


def _find(completion: CompletionRequest) -> TurnPlace:
    if (existing := _existing(completion)) is not None:
        return existing
    if completion.previous is not None:
        return _after(completion.previous, completion)
    if not completion.name:
        place = _unnamed(completion)
        return _answered_elsewhere(completion) or place if place.decision == "imported" else place
    of_model, chat = _named(completion)
    if of_model is not None:
        place = _within(of_model, completion)
        if chat is None or place.decision not in ("imported", "not stored"):
            return replace(place, name=completion.name_with_model)
    if chat is not None:
        return _within(chat, completion)
    return TurnPlace("imported" if completion.request.history else "new")


def _existing(completion: CompletionRequest) -> TurnPlace | None:
    """Return the turn that this request began before: by its idempotency key, or because the client says it retries.

    A retry of a turn that ended without a complete answer begins a new one.
    """
    known = RequestKey(completion.user, completion.idempotency_key, completion.fingerprint).known_turn()
    if known is not None:
        return TurnPlace("repeated", "idempotency key", existing=known)
    if not completion.is_retry:
        return None
    same = ChatCompletion.objects.filter(
        user=completion.user,
        question=completion.keys.question,
        request=completion.body_hash,
        created_at__gte=Now() - RETRIED_WITHIN,
    )
    first = same.order_by("-message_id").first()
    ended = Message.objects.filter(owner_id=completion.user.pk).exclude(status=Status.COMPLETE)
    if first is None or ended.filter(pk=first.message_id).exists():
        return None
    reply = ExistingReply(ChatKey(first.chat_id, first.user_id), first.message_id)
    return TurnPlace("repeated", "retry", existing=reply)


def _unnamed(completion: CompletionRequest) -> TurnPlace:
    request, keys = completion.request, completion.keys
    sought = [keys.asked] if keys.before is None else [keys.asked, keys.before]
    known = _newest(completion.earlier.filter(asked__in=sought))
    same = next((one for one in known if bytes(one.asked) == keys.asked), None)
    if same is not None and _broke_off(same) and _is_whole(same, (*request.history, *request.new)):
        return TurnPlace("regenerated", "history", same.chat)
    if keys.before is None or keys.last_question is None:
        return TurnPlace("imported" if request.history else "new")
    answer = request.history[-1]
    before = [one for one in known if bytes(one.asked) == keys.before and _is_whole(one, request.history)]
    matches = _answered(before, answer)
    newest = next((one for one in matches if _is_head(one)), None)
    if newest is not None:
        return TurnPlace("continued", "history", newest.chat, last_turn=newest)
    rewritten = _agreeing([one for one in before if not matches or _is_head(one)], request.history)
    if rewritten.chat is not None:
        return rewritten
    if matches:
        return TurnPlace("branched", "history", matches[0].chat, matches[0].seq)
    # Many chats may have the question, if it is one that people often ask; few have the answer.
    same_question = _newest(completion.earlier.filter(question=keys.last_question))
    place = _agreeing([*_with_last_answer(completion), *same_question], request.history)
    return place if place.found_by != "newest turn" or _is_alone(place, completion) else TurnPlace("imported")


def _answered_elsewhere(completion: CompletionRequest) -> TurnPlace | None:
    """Return the place in a chat that ends within the history: another server answered what follows there."""
    history, answers = completion.request.history, completion.keys.earlier
    for one in _newest(completion.earlier.filter(asked__in=list(answers)[-MAX_CANDIDATES:])):
        known = answers[bytes(one.asked)] + 1
        is_end = known < len(history) and _is_head(one) and not one.chat.open_seq
        if is_end and _is_whole(one, history[:known]) and _answered([one], history[known - 1]):
            return TurnPlace("continued", "history", one.chat, unseen=len(history) - known)
    return None


def _after(previous: ChatCompletion, completion: CompletionRequest) -> TurnPlace:
    """Return the place after the turn of a response: at the end of its chat, or in a branch."""
    again = completion.earlier.filter(chat=previous.chat, asked=completion.keys.asked)
    same = again.select_related("chat").order_by("-seq").first()
    if same is not None and _broke_off(same):
        return TurnPlace("regenerated", "response id", same.chat)
    if _is_head(previous):
        return TurnPlace("continued", "response id", previous.chat, last_turn=previous)
    return TurnPlace("branched", "response id", previous.chat, previous.seq)


def _broke_off(completion: ChatCompletion) -> bool:
    """Whether the client got an error instead of the last answer of a chat, so that it may send its request again."""
    replies = Message.objects.filter(chat=completion.chat, pk=completion.message_id)
    reply = replies.values_list("status", "error").first()
    return reply is not None and finish_reason(*reply) is None and _is_head(completion)


def _is_whole(completion: ChatCompletion, sent: Sequence[PromptMessage]) -> bool:
    """Whether nothing was said in the chat before what was sent: else the hash is that of a trimmed history, which
    several people may have."""
    rows = sum(1 + len(one.calls) for one in sent)
    if completion.seq <= rows + 1:
        return True
    questions = Message.objects.filter(chat=completion.chat, seq__lte=completion.seq, role=Role.USER)
    return questions.count() <= sum(one.role == "user" for one in sent)


def _agreeing(candidates: Sequence[ChatCompletion], history: Sequence[PromptMessage]) -> TurnPlace:
    """Return the one place among `candidates` that agrees best with the history; several are none."""
    sent = agreement.compared_turns(history)
    agreeing = [
        (one, found)
        for one in list({one.pk: one for one in candidates}.values())[:MAX_CHATS]
        if (found := agreement.match(_turns_of(one.chat.key, one.seq, ROWS * len(history)), sent)) is not None
    ]
    least = min((found.made_up for _, found in agreeing), default=0)
    best = [(one, found) for one, found in agreeing if found.made_up == least]
    heads = [(one, found) for one, found in best if _is_head(one)]
    older = [(one, found) for one, found in best if (one, found) not in heads and not found.differs]
    if not (heads or older):
        return TurnPlace("imported")
    (one, found), *others = heads + older
    if any(not _is_copy(other.chat.key, one.chat.key, other.seq, one.seq) for other, _ in others):
        return TurnPlace("imported")  # another chat has these turns, too: it may be another person's
    if heads:
        by: FoundBy = "history" if found.is_whole else "newest turn"
        return TurnPlace("continued", by, one.chat, rewritten=found.rewritten, made_up=least, last_turn=one)
    return TurnPlace("branched", "newest turn", one.chat, one.seq, made_up=least)


def _is_alone(place: TurnPlace, completion: CompletionRequest) -> bool:
    """Whether no other chat has the part of its history by which a place was found.

    That chat may have been imported or branched, so that no completion leads to its turns.
    """
    assert place.chat is not None
    history = completion.request.history
    others = [one for one in _recent(completion.user) if one != place.chat.pk]
    replies = Message.objects.filter(owner_id=completion.user.pk, chat__in=others, role=Role.ASSISTANT)
    same = replies.filter(content=history[-1].content).only("chat", "owner_id", "seq")
    sent = agreement.compared_turns(history)
    return not any(
        completion.earlier.filter(chat=one.chat_id).exists()
        and (found := agreement.match(_turns_of(one.chat_key, one.seq, ROWS * len(history)), sent)) is not None
        and found.made_up <= place.made_up
        and not _is_copy(one.chat_key, place.chat.key, one.seq, place.through_seq or place.chat.last_seq)
        for one in same[:MAX_CHATS]
    )


def _is_copy(one: ChatKey, other: ChatKey, seq: int, other_seq: int) -> bool:
    """Whether two chats are the same word for word up to there, as a branch is: then either is right."""
    if one == other:
        return True
    first, second = (
        Message.objects.filter(**chat.columns, seq__lte=last).order_by("seq").values_list("role", "content")
        for chat, last in ((one, seq), (other, other_seq))
    )
    return seq == other_seq and list(first) == list(second)


def _recent(user: User) -> list[UUID]:
    recent = Chat.objects.filter(owner=user).order_by("-updated_at", "-pk")
    return list(recent.values_list("pk", flat=True)[:MAX_CANDIDATES])


def _with_last_answer(completion: CompletionRequest) -> list[ChatCompletion]:
    """Return the user's last active chats that end with this answer: their question was reworded since."""
    answer = agreement.essence(completion.request.history[-1].content)
    if not answer:
        return []
    mine = Message.objects.filter(owner_id=completion.user.pk, chat__in=_recent(completion.user))
    last = mine.filter(seq=F("chat__last_seq"), role=Role.ASSISTANT)
    texts = last.values_list("pk", "content")
    ids = [pk for pk, text in texts if agreement.essence(text) == answer]
    return _newest(completion.earlier.filter(message_id__in=ids))


def _within(chat: Chat, completion: CompletionRequest) -> TurnPlace:
    """Find the place within the chat that the client named.

    Uses the chat as it was read: if it has changed since, `turns.begin` notices.
    """
    request, keys = completion.request, completion.keys
    its = completion.earlier.filter(chat=chat)
    again = its.filter(asked=keys.asked).order_by("-seq").first()
    if again is not None and _is_head(again) and (request.history or again.seq <= FIRST_ANSWER):
        if again.model != request.model and request.question and _is_just_answered(again):
            questions = Message.objects.filter(chat=chat, role=Role.USER, seq__lt=again.seq).order_by("-seq")
            through_seq = questions.values_list("seq", flat=True)[0] - 1
            return TurnPlace("branched", "name", chat, through_seq, name=completion.name_with_model)
        return TurnPlace("regenerated", "name", chat)
    continued = TurnPlace("continued", "name", chat)
    # If busy, the turn is refused, or a reply left by a crash is finished.
    is_busy = ActiveReply.objects.filter(chat=chat).exists()
    if keys.before is None or is_busy:
        if is_busy or len(request.question) < TASK_CHARS:
            return continued
        last = _turns_of(chat.key, chat.last_seq, 2 * ROWS)[-1:]
        return TurnPlace("not stored") if any(agreement.quotes(request.question, turn) for turn in last) else continued
    matches = _answered(_newest(its.filter(asked=keys.before)), request.history[-1])
    newest = next((one for one in matches if _is_head(one)), None)
    if newest is not None and _follows_a_side_request(newest, request.history):
        return TurnPlace("imported", "name", aside=chat.pk)
    if newest is not None:
        return replace(continued, last_turn=newest)
    if matches:
        return TurnPlace("branched", "name", chat, matches[0].seq)
    return _followed(chat, request.history)


def _is_just_answered(turn: ChatCompletion) -> bool:
    """Whether a reply is being written, or ended a moment ago: too soon for a reader to want another one."""
    replies = Message.objects.filter(owner_id=turn.user_id, pk=turn.pk)
    return not replies.filter(Q(completed_at__lt=Now() - REPLACES_AFTER) | Q(status=Status.FAILED)).exists()


def _follows_a_side_request(turn: ChatCompletion, history: Sequence[PromptMessage]) -> bool:
    """Whether the client takes this turn for the first of its conversation, although another one precedes it.

    The two began at the same time, neither with a history, and under other instructions: one was to make a title.
    """
    is_first = sum(one.role == "user" for one in history) == 1 and bytes(turn.asked) == bytes(turn.question)
    if not is_first or turn.seq <= FIRST_ANSWER:
        return False
    before = ChatCompletion.objects.filter(user=turn.user_id, chat=turn.chat_id, seq__lt=turn.seq)
    if [one.seq for one in before] != [FIRST_ANSWER] or turn.created_at - before[0].created_at > REAL_FIRST_WITHIN:
        return False
    replies = Message.objects.filter(owner_id=turn.user_id, pk__in=[turn.pk, before[0].pk])
    return len(set(replies.values_list("context_record__turn_instructions_hash", flat=True))) > 1


def _followed(chat: Chat, history: Sequence[PromptMessage]) -> TurnPlace:
    """Return the place in the chat that its client named for a history whose hash is not known: as far as it agrees."""
    sent = agreement.compared_turns(history)
    stored = _turns_of(chat.key, chat.last_seq, max(NAMED_ROWS, ROWS * len(history)))
    found = agreement.match(stored, sent, is_named=True)
    if found is not None:
        return TurnPlace("continued", "name", chat, rewritten=found.rewritten)
    asked = [at for at, one in enumerate(history) if one.role == "user"]
    for unseen, at in enumerate(asked[:0:-1][:MAX_CANDIDATES], start=1):  # another server answered there
        found = agreement.match(stored, sent[:-unseen], is_named=True)
        if found is not None and not found.differs and not chat.open_seq:
            return TurnPlace("continued", "name", chat, unseen=len(history) - at)
    for number in range(len(stored) - 1, 0, -1):  # it goes back to an older turn
        found = agreement.match(stored[:number], sent, is_named=True)
        if found is not None and not found.differs:
            return TurnPlace("branched", "name", chat, stored[number - 1].seq)
    if stored and not agreement.shares_a_message(stored, sent):
        return TurnPlace("not stored")
    # A history that begins like the chat is all of it, with changes by hand; any other was trimmed.
    if stored and agreement.likeness(stored[0].question, sent[0].question) is agreement.Likeness.SAME:
        return TurnPlace("imported", "name")
    return TurnPlace("continued", "name", chat)


def _named(completion: CompletionRequest) -> tuple[Chat | None, Chat | None]:
    """Return the user's chats of that name: the model's own, if it has one, and the other.

    The id of a chat is a name too, but only for the chat's owner. A chat of an end user belongs to no other user.
    """
    user, name, with_model = completion.user, completion.name, completion.name_with_model
    named = NamedConversation.objects.filter(user=user, name__in=[name, with_model]).select_related("chat")
    known: dict[str, Chat] = {one.name: one.chat for one in named}
    if known:
        return known.get(with_model), known.get(name)
    try:
        chat = Chat.objects.filter(pk=UUID(name.rpartition(":")[2]), owner=user).first()
    except ValueError:
        return None, None
    if chat is None or completion.earlier.filter(chat=chat).exists():
        return None, chat
    return None, None if ChatCompletion.objects.filter(chat=chat).exists() else chat


def _newest(completions: QuerySet[ChatCompletion]) -> list[ChatCompletion]:
    return list(completions.select_related("chat").order_by("-message_id")[: 2 * MAX_CANDIDATES])


def _answered(completions: Sequence[ChatCompletion], answer: PromptMessage) -> list[ChatCompletion]:
    """Return the `completions`, newest first, whose stored answer is the one that was sent.

    A reply that is still being written counts as a match: a client that leaves a stream has read part of it.
    """
    ids = [one.message_id for one in completions[:MAX_CANDIDATES]]
    mine = {"owner_id": completions[0].user_id} if completions else {}
    replies = Message.objects.filter(pk__in=ids, **mine)
    replies = replies.only("content", "status", "payload", "seq", "chat_id", "owner_id")
    stored = {one.pk: one for one in replies}
    active = ActiveReply.objects.filter(message_id__in=set(ids) - stored.keys(), **mine)
    written = set(active.values_list("message_id", flat=True))
    fitting = written | {pk for pk, reply in stored.items() if _fits(reply, answer)}
    return [one for one in completions[:MAX_CANDIDATES] if one.message_id in fitting]


def _fits(stored: Message, sent: PromptMessage) -> bool:
    """Whether a client that sends `sent` has read this reply; any text fits a deleted one."""
    if stored.status == Status.DELETED:
        return True
    is_cut = stored.status in CUT
    if not (agreement.has_read(stored.content, sent.content, is_cut=is_cut) or (sent.calls and not sent.content)):
        return False
    # Some clients leave out calls once they were answered; none invents calls.
    return not sent.calls or calls_alike(calls_of(stored), sent.calls)


def _turns_of(chat: ChatKey, through_seq: int, rows: int) -> list[agreement.ComparedTurn]:
    """Return the last turns of a chat up to a reply and the calls it makes, read from at most so many rows."""
    fields = ("seq", "role", "content", "status", "payload")
    earlier = Message.objects.filter(**chat.columns, seq__lte=through_seq, superseded_by=None)
    newest = list(earlier.exclude(status=Status.FAILED).order_by("-seq").values_list(*fields)[:rows])
    after = Message.objects.filter(**chat.columns, seq__gt=through_seq).order_by("seq")
    calls = (newest[0][4] or {}).get("calls", 0) if newest else 0
    found: list[agreement.ComparedTurn] = []
    for seq, role, content, status, payload in [*reversed(newest), *after.values_list(*fields)[:calls]]:
        text = None if status == Status.DELETED else content
        if role == Role.USER or not found:
            attached = agreement.identities(attachments_in(payload)) if role == Role.USER else ()
            found.append(agreement.ComparedTurn(text if role == Role.USER else None, attached=attached))
        if role == Role.ASSISTANT:
            found[-1] = replace(agreement.with_answer(found[-1], text, is_cut=status in CUT), seq=seq)
        elif role == Role.TOOL_CALL and payload:
            found[-1] = agreement.with_answer(found[-1], "", (ToolCall.of(payload),))
    return found[1:] if len(newest) == rows else found  # the first one may have been cut off


def _is_head(completion: ChatCompletion) -> bool:
    """Whether nothing except its own tool calls follows the reply in its chat, or the reply is still being written.

    Later tries that failed, or were cancelled in favour of its tool calls, do not count.
    """
    if completion.seq >= completion.chat.last_seq:
        return True
    later = Message.objects.filter(chat=completion.chat, seq__gt=completion.seq, superseded_by=None)
    return not later.exclude(role=Role.TOOL_CALL).exclude(status=Status.FAILED).exists()
