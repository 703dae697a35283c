"""Begin the turn of a completion: in its chat, in a branch of it, or in a new chat made from the history it sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from chatmemory.errors import NotFound
from chatmemory.llm.protocol import PromptMessage
from conversations import chat_lifecycle, message_changes
from conversations.accounts import quotas
from conversations.branching import PreparedBranch, prepare_branch
from conversations.interchange.rows import PreparedChat, prepare_chat
from conversations.interchange.values import ImportedChat, ImportedMessage
from conversations.models import Chat, ChatCompletion, Message, NamedConversation, Role, Status, get_chat
from conversations.openai_api.errors import RequestError
from conversations.openai_api.find_conversation import CompletionRequest, TurnPlace
from conversations.replies import begin as replies
from conversations.replies.begin import Readiness, RequestKey
from conversations.replies.reply import BegunTurn, ExistingReply, TurnRequest
from conversations.titles import automatic_title

RETRIED_WITHIN = timedelta(minutes=10)
"""How far back a request that says it is a retry is matched with the turn it repeats."""


@dataclass(frozen=True, slots=True)
class CompletionTurn:
    """A turn of a completion, either begun or already existing."""

    turn: BegunTurn | ExistingReply
    decision: str
    found_by: str


def prepare(completion: CompletionRequest, place: TurnPlace) -> PreparedChat | PreparedBranch | None:
    """Build what is to be stored before the turn. The history may be long, so this runs without locks."""
    if place.decision == "imported":
        return prepare_chat(completion.user, _imported(completion.request.history))
    if place.decision == "branched" and place.chat is not None:
        return prepare_branch(place.chat, place.through_seq)
    return None


def begin(
    completion: CompletionRequest,
    place: TurnPlace,
    prepared: PreparedChat | PreparedBranch | None,
    *,
    ready: Readiness,
) -> CompletionTurn | None:
    """Store what was prepared and begin the turn, in one transaction.

    Return None if the chat has continued, or the name was taken, since `place` was found. Raises as `begin_turn`
    does.
    """
    try:
        with transaction.atomic():
            _keep_rewritten(place)
            chat = _stored(completion.user, place, prepared)
            if chat is None and place.chat is not None:
                return None
            return _begin(completion, place, chat, ready)
    except IntegrityError:
        if completion.name and place.chat is None:
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


def _imported(history: Sequence[PromptMessage]) -> ImportedChat:
    """Return a history as a chat to import. Each reply names the question that it answers."""
    tool_names = {call.id: call.name for one in history for call in one.calls}
    messages: list[ImportedMessage] = []
    question: int | None = None
    for one in history:
        payload: dict[str, object] | None = {"calls": len(one.calls)} if one.calls else None
        if one.role == "tool":
            payload = {"call_id": one.call_id, "name": tool_names.get(one.call_id, "")}
        elif one.role == "user":
            question = len(messages) + 1
        reply_to = question if one.role == "assistant" else None
        messages.append(
            ImportedMessage(
                one.role, one.content, reply_to=reply_to, payload=payload, attachments=one.attachments
            )
        )
        messages += (ImportedMessage("tool_call", call.text, payload=call.payload) for call in one.calls)
    first = next((one.content for one in history if one.role == "user"), history[0].content)
    return ImportedChat(title=automatic_title(first), title_is_automatic=True, messages=messages)


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


def _begin(
    completion: CompletionRequest,
    place: TurnPlace,
    chat: Chat | None,
    ready: Readiness,
) -> CompletionTurn:
    user, turn = completion.user, completion.turn
    if place.call_ids:
        outputs = (replace(one, call_id=place.call_ids.get(one.call_id, one.call_id)) for one in turn.outputs)
        turn = replace(turn, outputs=tuple(outputs))
    chat = chat or chat_lifecycle.create_chat(user)
    if place.decision == "regenerated":
        last = Message.objects.filter(chat=chat).order_by("-seq").values_list("pk", flat=True)[0]
        begun = replies.begin_regeneration(user, chat.pk, last, turn.variant, ready=ready, anew=turn)
    else:
        _require_waiting(turn, chat)
        begun = replies.begin_turn(
            user,
            turn,
            chat_id=chat.pk,
            key=completion.idempotency_key,
            request_hash=completion.fingerprint,
            ready=ready,
        )
    if isinstance(begun, ExistingReply):  # another request had this key first: undo what was stored
        transaction.set_rollback(True)
        return CompletionTurn(begun, "repeated", "idempotency key")
    _remember(completion, place, begun)
    return CompletionTurn(begun, place.decision, place.found_by)


def _require_waiting(turn: TurnRequest, chat: Chat) -> None:
    """Raise `RequestError` for outputs that the conversation does not wait for, as a named one may not."""
    if turn.outputs and not chat.open_seq:
        raise RequestError(
            f"No tool call found for the output with tool_call_id {turn.outputs[0].call_id[:64]} in this conversation.",
            param="messages",
            code=None,
        )


def _remember(completion: CompletionRequest, place: TurnPlace, begun: BegunTurn) -> None:
    pending = begun.pending
    ChatCompletion.objects.create(
        message_id=pending.message_id,
        chat_id=pending.chat_id,
        user=completion.user,
        seq=pending.seq,
        asked=completion.keys.asked,
        question=completion.keys.question,
        request=completion.body_hash,
        end_user=completion.end_user,
        model=completion.request.model,
        decision=place.decision,
        found_by=place.found_by,
        created_at=Now(),
    )
    if not place.name:
        return
    if place.chat is None and not place.found_by:
        # Fails if another request has just taken the name; then this one begins again.
        NamedConversation.objects.create(user=completion.user, name=place.name, chat_id=pending.chat_id)
    elif place.decision in ("branched", "imported"):
        NamedConversation.objects.update_or_create(
            user=completion.user, name=place.name, defaults={"chat_id": pending.chat_id}
        )


def find_existing(completion: CompletionRequest) -> CompletionTurn | None:
    """Return the turn that this request began before: by its idempotency key, or because the client says it retries.

    Raises `IdempotencyMismatch`. A retry of a turn that ended without a complete answer begins a new one.
    """
    known = RequestKey(completion.user, completion.idempotency_key, completion.fingerprint).known_turn()
    if known is not None:
        return CompletionTurn(known, "repeated", "idempotency key")
    if not completion.is_retry:
        return None
    since = Now() - RETRIED_WITHIN
    same = ChatCompletion.objects.filter(
        user=completion.user, question=completion.keys.question, request=completion.body_hash
    )
    first = same.filter(created_at__gte=since).order_by("-message_id").first()
    if first is None:
        return None
    reply = Message.objects.filter(pk=first.message_id).first()
    if reply is not None and reply.status != Status.COMPLETE:
        return None
    return CompletionTurn(ExistingReply(first.chat_id, first.message_id), "repeated", "retry")
