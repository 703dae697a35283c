"""Begin the turn of a completion: in its chat, in a branch of it, or in a new chat made from the history it sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from chatmemory.database.compiled_writes import Insert
from chatmemory.errors import NotFound
from conversations import chat_lifecycle, message_changes
from conversations.accounts import quotas
from conversations.branching import PreparedBranch, prepare_branch
from conversations.interchange.rows import PreparedChat, prepare_chat
from conversations.interchange.values import ImportedChat, ImportedMessage
from conversations.lookup import get_chat
from conversations.models import Chat, ChatCompletion, Message, NamedConversation, Role, Status
from conversations.openai_api.chat_request import ChatRequest
from conversations.openai_api.errors import RequestError
from conversations.openai_api.find_conversation import TurnPlace
from conversations.openai_api.history import HistoryMessage
from conversations.openai_api.history_keys import HistoryKeys
from conversations.replies import begin as replies
from conversations.replies.begin import BegunTurn, TurnRequest
from conversations.replies.idempotency import ExistingReply
from conversations.titles import automatic_title
from memory import services as memory

_INSERT = Insert(ChatCompletion, created_at=Now())


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A completion that a user requested."""

    user: User
    request: ChatRequest
    keys: HistoryKeys
    turn: TurnRequest
    body_hash: bytes
    name: str = ""
    """The client's name of its conversation, "" for none, as `stored_name` returns it."""
    end_user: str = ""
    """Hash of the end user that the request names, "" for none."""
    is_retry: bool = False
    idempotency_key: str = ""

    @property
    def fingerprint(self) -> str:
        """The same for the same request: whoever repeats its idempotency key must send this."""
        return hashlib.sha256(b"completion" + self.body_hash).hexdigest()


def stored_name(source: str, name: str, end_user: str) -> str:
    """Return a client's name of its conversation as it is stored: with where it stood, and apart for each end user."""
    return f"{end_user[:16]}/{source}:{name}" if end_user else f"{source}:{name}"


@dataclass(frozen=True, slots=True)
class CompletionTurn:
    """A turn of a completion, either begun or already existing."""

    turn: BegunTurn | ExistingReply
    decision: str
    found_by: str


def memory_question(made: ChatCompletion) -> UUID:
    """Return the id of the user's message that a completion answers."""
    earlier = Message.objects.filter(chat_id=made.chat_id, seq__lt=made.seq, role="user")
    found: UUID = earlier.order_by("-seq").values_list("pk", flat=True)[0]
    return found


def prepare(asked: CompletionRequest, place: TurnPlace) -> PreparedChat | PreparedBranch | None:
    """Build what is to be stored before the turn. The history may be long, so this runs without locks."""
    if place.decision == "imported":
        return prepare_chat(asked.user, _imported(asked.request))
    if place.decision == "branched" and place.chat is not None:
        return prepare_branch(place.chat, place.through_seq)
    return None


def begin(
    asked: CompletionRequest,
    place: TurnPlace,
    prepared: PreparedChat | PreparedBranch | None,
    *,
    may_wait: bool = False,
    near: tuple[memory.Near, ...] = (),
) -> CompletionTurn | None:
    """Store what was prepared and begin the turn, in one transaction.

    Return None if the chat has continued, or the name was taken, since `place` was found. Raises as `begin_turn`
    does, and memory's `StaleMemory` with `may_wait`.
    """
    asked = replace(asked, turn=replace(asked.turn, near=near))
    try:
        with transaction.atomic():
            _keep_rewritten(place)
            chat = _stored(asked.user, place, prepared)
            if chat is None and place.chat is not None:
                return None
            return _begin(asked, place, chat, may_wait)
    except IntegrityError:
        if asked.name and place.chat is None:
            return None
        raise


def _keep_rewritten(place: TurnPlace) -> None:
    """Store the client's version of the last answer as an edit of it."""
    if place.chat is None or not place.rewritten:
        return
    replies = Message.objects.filter(chat=place.chat, role=Role.ASSISTANT, superseded_by=None)
    last = replies.order_by("-seq").first()
    if last is not None and last.status not in (Status.DELETED, Status.FAILED):
        message_changes.edit_message(place.chat, last.pk, place.rewritten)


def _imported(request: ChatRequest) -> ImportedChat:
    names = {call.id: call.name for said in request.history for call in said.calls}
    messages = [one for said in request.history for one in _messages(said, names)]
    return ImportedChat(
        title=automatic_title(_first(request.history)),
        title_is_automatic=True,
        messages=_with_questions(messages),
    )


def _messages(said: HistoryMessage, names: Mapping[str, str]) -> Iterator[ImportedMessage]:
    """Yield the messages to store for one of the history. `names` are those of tools, by the ids of their calls."""
    if said.role == "tool":
        payload: dict[str, object] = {"call_id": said.call_id, "name": names.get(said.call_id, "")}
        yield ImportedMessage("tool", said.content, payload=payload)
        return
    made = {"calls": len(said.calls)} if said.calls else None
    yield ImportedMessage(said.role, said.content, payload=made, attachments=said.attachments)
    for call in said.calls:
        yield ImportedMessage("tool_call", call.text, payload=call.payload)


def _with_questions(messages: Sequence[ImportedMessage]) -> list[ImportedMessage]:
    """Return the messages, each of the assistant's with the index of the user's message that it answers."""
    made: list[ImportedMessage] = []
    question: int | None = None
    for index, one in enumerate(messages):
        question = index if one.role == "user" else question
        made.append(replace(one, reply_to=question) if one.role == "assistant" else one)
    return made


def _first(history: tuple[HistoryMessage, ...]) -> str:
    return next((said.content for said in history if said.role == "user"), history[0].content)


def _stored(user: User, place: TurnPlace, prepared: PreparedChat | PreparedBranch | None) -> Chat | None:
    """Store what was prepared, lock and return the turn's chat. None: it does not exist yet, or it has changed."""
    if isinstance(prepared, PreparedChat):
        quotas.spend(prepared.row.owner_id, prepared.tokens)
    if prepared is not None:
        return prepared.store()
    if place.chat is None:
        return None
    try:
        locked = get_chat(user, place.chat.pk, lock=True)
    except NotFound:
        return None
    return locked if locked.last_seq == place.chat.last_seq else None


def _begin(asked: CompletionRequest, place: TurnPlace, chat: Chat | None, may_wait: bool) -> CompletionTurn:
    user, turn = asked.user, asked.turn
    if place.call_ids:
        outputs = (replace(one, call_id=place.call_ids.get(one.call_id, one.call_id)) for one in turn.outputs)
        turn = replace(turn, outputs=tuple(outputs))
    chat = chat or chat_lifecycle.create_chat(user)
    if place.decision == "regenerated":
        last = Message.objects.filter(chat=chat).order_by("-seq").values_list("pk", flat=True)[0]
        begun = replies.begin_regeneration(
            user, chat.pk, last, turn.variant, may_wait=may_wait, near=turn.near, anew=turn
        )
    else:
        _require_waiting(turn, chat)
        key = asked.idempotency_key
        begun = replies.begin_turn(
            user, turn, chat_id=chat.pk, key=key, may_wait=may_wait, fingerprint=asked.fingerprint
        )
    if isinstance(begun, ExistingReply):  # another request had this key first: undo what was stored
        transaction.set_rollback(True)
        return CompletionTurn(begun, "repeated", "idempotency key")
    _remember(asked, place, begun)
    return CompletionTurn(begun, place.decision, place.found_by)


def _require_waiting(turn: TurnRequest, chat: Chat) -> None:
    """Raise `RequestError` for outputs that the conversation does not wait for, as a named one may not."""
    if turn.outputs and not chat.open_seq:
        raise RequestError(
            f"No tool call found for the output with tool_call_id {turn.outputs[0].call_id[:64]} in this conversation.",
            param="messages",
            code=None,
        )


def _remember(asked: CompletionRequest, place: TurnPlace, begun: BegunTurn) -> None:
    pending = begun.pending
    made = ChatCompletion(
        message_id=pending.message_id,
        chat_id=pending.chat_id,
        user=asked.user,
        seq=pending.seq,
        asked=asked.keys.asked,
        question=asked.keys.question,
        request=asked.body_hash,
        end_user=asked.end_user,
        model=asked.request.model,
        decision=place.decision,
        found_by=place.found_by,
    )
    _INSERT.save(made)
    if not place.name:
        return
    if place.chat is None and not place.found_by:
        # Fails if another request has just taken the name; then this one begins again.
        NamedConversation.objects.create(user=asked.user, name=place.name, chat_id=pending.chat_id)
    elif place.decision in ("branched", "imported"):
        NamedConversation.objects.update_or_create(
            user=asked.user, name=place.name, defaults={"chat_id": pending.chat_id}
        )
