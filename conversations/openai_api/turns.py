"""Begin the turn of a completion: in its chat, in a branch, which gets copies of messages and pins, or in a new chat
made from the history it sent; and set side requests aside, in chats that no list shows."""

from copy import copy
from dataclasses import replace
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.ids import new_id
from chatmemory.errors import NotFound
from chatmemory.llm.attachments import attachments_in
from chatmemory.text.turn_line import automatic_title
from conversations import chat_lifecycle, message_changes
from conversations.accounts import quotas
from conversations.derived import set_lines
from conversations.interchange.rows import PreparedChat, prepare_chat, prepare_turns
from conversations.interchange.values import ImportedChat, to_imported
from conversations.models import Chat, ChatCompletion, Message, NamedConversation, Role, Status, get_chat
from conversations.openai_api.errors import RequestError
from conversations.openai_api.find_conversation import CompletionRequest, TurnPlace
from conversations.openai_api.history import calls_alike
from conversations.openai_api.wire import ChatRequest
from conversations.replies import begin as replies
from conversations.replies.begin import Readiness
from conversations.replies.open_turn import ToolOutput, calls_of
from conversations.replies.reply import BegunTurn, ExistingReply, TurnRequest
from memory.pins.pins import exported_pins


def prepare(completion: CompletionRequest, place: TurnPlace) -> PreparedChat:
    """Build the rows of an imported chat, of a branch, or of turns that a chat lacks. A long history: without locks."""
    history = completion.request.history
    if place.chat is not None and place.unseen:
        return prepare_turns(place.chat, to_imported((one, {}) for one in history[-place.unseen :]))
    if place.chat is not None:
        return _branch(place.chat, place.through_seq)
    first = next((one.content for one in history if one.role == "user"), history[0].content)
    chat = ImportedChat(
        title="" if completion.is_temporary else automatic_title(first),
        title_is_automatic=True,
        temporary=completion.is_temporary,
        project=completion.project,
        messages=to_imported((one, {}) for one in history),
    )
    return prepare_chat(completion.user, chat)


def _branch(chat: Chat, through_seq: int) -> PreparedChat:
    """Copy `chat` up to message `through_seq`, including the tool calls that follow if that message makes some.

    The branch shares no rows with it. Memory of the copied messages is copied too, when it is stored.
    """
    messages = list(Message.objects.filter(chat=chat, seq__lte=through_seq).order_by("seq"))
    calls = (messages[-1].payload or {}).get("calls", 0) if messages else 0
    messages += Message.objects.filter(chat=chat, seq__gt=through_seq).order_by("seq")[:calls]
    question = next((one.seq for one in reversed(messages) if one.role == Role.USER), 0)
    branch = copy(chat)
    branch.pk, branch.last_seq, branch.open_seq = new_id(), through_seq + calls, question if calls else 0
    branch.last_message_at = timezone.now()
    ids: dict[UUID | None, UUID] = {one.pk: new_id() for one in messages}
    for one in messages:
        one.pk, one.chat = ids[one.pk], branch
        one.reply_to_id, one.superseded_by_id = ids.get(one.reply_to_id), ids.get(one.superseded_by_id)
    # The line of a turn that the branch cuts off may be on a later reply.
    set_lines([one for one in messages if one.seq >= question])
    attached = [(one, found) for one in messages if (found := attachments_in(one.payload))]
    # In other chats, those of `chat` hold: muted or removed there, they are not to be found here.
    pins = [replace(pin, scope="chat") for pin in exported_pins(chat.key, branch.last_seq)]
    return PreparedChat(branch, None, messages, pins, stated=[], attached=attached, origin=chat.pk)


def begin(
    completion: CompletionRequest, place: TurnPlace, prepared: PreparedChat | None, *, ready: Readiness
) -> tuple[BegunTurn | ExistingReply, TurnPlace] | None:
    """Store what was prepared and begin the turn, in one transaction.

    Return None if the chat has continued, or the name was taken, since `place` was found. Raises as `begin_turn`
    does.
    """
    try:
        with transaction.atomic():
            if place.chat is not None and place.rewritten:
                _keep_rewritten(place.chat, completion.request.history[-1].content or place.rewritten)
            chat = _chat(completion, place, prepared)
            if chat is None:
                return None
            begun = _begin(completion, place, chat, ready)
            if isinstance(begun, ExistingReply):  # another request had this key first: undo what was stored
                transaction.set_rollback(True)
                return begun, TurnPlace("repeated", "idempotency key")
            _remember(completion, place, begun)
            if place.last_turn is not None and completion.request.question:
                _go_on(place.last_turn)
            if place.aside is not None:
                _set_aside(completion.user.pk, place.aside)
            return begun, place
    except IntegrityError:
        if completion.name and place.chat is None:
            return None
        raise


def _keep_rewritten(chat: Chat, text: str) -> None:
    """Store the client's version of the last answer as an edit of it, also if that failed here."""
    replies = Message.objects.filter(chat=chat, role=Role.ASSISTANT, superseded_by=None).order_by("-seq")
    question = replies.values_list("reply_to", flat=True).first()
    answers = [one for one in replies.filter(reply_to=question) if not (one.payload or {}).get("calls")]
    last = next((one for one in answers if one.status != Status.FAILED), next(iter(answers), None))
    if last is not None and last.status != Status.DELETED:
        message_changes.edit_message(chat, last.pk, text, revives=True)


def _chat(completion: CompletionRequest, place: TurnPlace, prepared: PreparedChat | None) -> Chat | None:
    """Return the turn's chat: a new one, or the locked one. None: it has changed since it was found."""
    user = completion.user
    if prepared is not None and not place.unseen:
        if place.decision == "imported":
            quotas.spend(user.pk, prepared.tokens)
        return prepared.store()
    if place.chat is None:
        return chat_lifecycle.create_chat(user, temporary=completion.is_temporary, project=completion.project)
    try:
        locked = get_chat(user, place.chat.pk, lock=True)
    except NotFound:
        return None
    if locked.last_seq != place.chat.last_seq:
        return None
    if prepared is not None:
        quotas.spend(user.pk, prepared.tokens)
        locked.last_seq += len(prepared.messages)
        locked.save(update_fields=["last_seq"])
        prepared.store_messages()
    return locked


def _begin(completion: CompletionRequest, place: TurnPlace, chat: Chat, ready: Readiness) -> BegunTurn | ExistingReply:
    user, request = completion.user, completion.request
    outputs = _outputs(chat, request)
    turn = TurnRequest(
        message=request.question,
        variant=completion.variant,
        instructions=request.instructions,
        parameters=request.parameters,
        tools=request.tools,
        outputs=outputs,
        attachments=request.new[-1].attachments,
    )
    key, request_hash = completion.idempotency_key, completion.fingerprint
    if place.decision == "regenerated":
        last = Message.objects.filter(chat=chat).order_by("-seq").values_list("pk", flat=True)[0]
        return replies.begin_regeneration(
            user, chat.pk, last, turn.variant, key=key, request_hash=request_hash, ready=ready, anew=turn
        )
    if outputs and not chat.open_seq:
        why = f"No tool call found for the output with tool_call_id {outputs[0].call_id[:64]} in this conversation."
        raise RequestError(why, param=completion.request.wording.field)
    return replies.begin_turn(user, turn, chat_id=chat.pk, key=key, request_hash=request_hash, ready=ready)


def _outputs(chat: Chat, request: ChatRequest) -> tuple[ToolOutput, ...]:
    """Return the outputs with the ids of the calls that are stored, where the client replaced them."""
    ids: dict[str, str] = {}
    if request.outputs and request.history:
        reply = Message.objects.filter(chat=chat, role=Role.ASSISTANT).order_by("-seq").first()
        stored, sent = calls_of(reply) if reply is not None else [], request.history[-1].calls
        if calls_alike(stored, sent):
            ids = {theirs.id: ours.id for ours, theirs in zip(stored, sent, strict=True)}
    return tuple(ToolOutput(ids.get(one.call_id, one.call_id), one.content) for one in request.outputs)


def _remember(completion: CompletionRequest, place: TurnPlace, begun: BegunTurn) -> None:
    pending = begun.pending
    sibling: UUID | None = None
    if place.decision == "branched" and place.chat is not None:
        sibling = _part(place.chat, place.through_seq, pending.chat_id)
    elif place.last_turn is not None and not completion.request.question:  # outputs of tools: the same turn
        sibling = place.last_turn.sibling
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
        api=completion.request.wording.api,
        decision=place.decision,
        found_by=place.found_by,
        sibling=sibling,
        response=completion.request.shown if completion.request.store else None,
        created_at=Now(),
    )
    if not completion.name:
        return
    name = place.name or completion.name
    if place.chat is None and not place.found_by:
        # Fails if another request has just taken the name; then this one begins again.
        NamedConversation.objects.create(user=completion.user, name=name, chat_id=pending.chat_id)
    elif place.decision in ("branched", "imported"):
        NamedConversation.objects.update_or_create(
            user=completion.user, name=name, defaults={"chat_id": pending.chat_id}
        )


# Side requests
#
# Some clients send the whole history and a message of their own after each turn, such as to update a memory file, or
# have a title made under the conversation's name. Nothing tells such a request from a question, until the client goes
# on without it: then two chats have different turns in one place. The chat that goes on is the conversation; the other,
# if it has no second turn, is set aside: erased like a temporary chat, and in no list. If it goes on after all, it
# returns.

ASIDE = "aside"
"""The decision on a turn that turned out to be a side request."""


def _part(chat: Chat, through_seq: int, branch: UUID) -> UUID | None:
    """Note that `branch` has another turn in place of the chat's last one, if that is all that follows this message.

    Return the chat if so. `chat` is as it was found: conversations that merely go on at once are no siblings.
    """
    later = Message.objects.filter(chat=chat, role=Role.USER, seq__gt=through_seq, seq__lte=chat.last_seq)
    if later.count() != 1:
        return None
    ChatCompletion.objects.filter(chat=chat, seq__gt=through_seq).update(sibling=branch)
    return chat.pk


def _go_on(turn: ChatCompletion) -> None:
    """Take the chat whose last turn this is for the conversation, and set its sibling aside."""
    if turn.sibling is None:
        return
    if turn.decision == ASIDE:
        Chat.objects.filter(pk=turn.chat_id, owner=turn.user_id).update(temporary=False)
        ChatCompletion.objects.filter(chat=turn.chat_id, user=turn.user_id, decision=ASIDE).update(decision="continued")
    replies = Message.objects.filter(owner_id=turn.user_id, pk=turn.message_id)
    asked = replies.values_list("reply_to__seq", flat=True).first()
    others = Message.objects.filter(owner_id=turn.user_id, chat=turn.sibling, role=Role.USER)
    if asked is not None and others.filter(seq__gte=asked).count() == 1:
        _set_aside(turn.user_id, turn.sibling)


def _set_aside(owner_id: int, chat_id: UUID) -> None:
    """Set a chat aside, unless it is pinned, or another turn begins in it just now."""
    chats = Chat.objects.select_for_update(skip_locked=True).filter(owner=owner_id, pinned=False, temporary=False)
    if (chat := chats.filter(pk=chat_id).first()) is None:
        return
    chat.temporary = True
    chat.save(update_fields=["temporary"])
    last = ChatCompletion.objects.filter(chat=chat, user=owner_id).order_by("-seq").first()
    if last is not None:
        last.decision = ASIDE
        last.save(update_fields=["decision"])
