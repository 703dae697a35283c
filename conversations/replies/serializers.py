"""Messages as JSON, and the events of a reply's stream: what clients get, declared once for the body and the schema.

`message_json` uses one serializer for all messages, because a stream that makes its own would copy twenty fields.
"""

from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    FloatField,
    IntegerField,
    ListField,
    Serializer,
    UUIDField,
)

from chatmemory.api.fields import ObjectField, Strict
from chatmemory.api.openapi import Event, EventStream, event_data
from chatmemory.llm.attachments import attachments_in
from conversations.models import STREAMING, ActiveReply, Message, Role, Status
from conversations.replies.reply import ReplyHead
from memory.events import MemoryUpdatedOut

# Descriptions of fields that several objects have
VARIANT = "The name under which the model is offered here: see `GET /v1/models`."
METADATA = "Any JSON object of yours. It is stored and returned, and no model sees it."
TEXT = "The text, exactly as it was sent."
STATUS = "`streaming` while it is written; `complete`, `incomplete`, `failed`, `cancelled` or `deleted` then."
MUTED = "Whether it is not relevant: no later prompt quotes it as an excerpt. It stays in its chat and in the summary."
USAGE = "Tokens and cost as reported by the provider; null if it reported none."
ERROR = "Why the reply did not complete; null where it did."

_TOOL_CALL = {"call_id": "id", "name": "name", "arguments": "arguments", "custom": "custom"}
"""The fields of a tool call's payload that the API shows, and their names there; an output has the first two."""


class TextOrNull(CharField):
    """A text that is null where it is empty."""

    def to_representation(self, value: str) -> str | None:  # type: ignore[override]  # as above
        return value or None


class UsageOut(Serializer[Any]):
    input_tokens = IntegerField(help_text="Tokens that the model read, as the provider counted them.")
    cached_tokens = IntegerField(help_text="Input tokens that the provider had cached.")
    output_tokens = IntegerField(help_text="Tokens that the model wrote, as the provider counted them.")
    cost_usd = FloatField(allow_null=True, help_text="Cost in USD; null if the price is unknown.")


class StoredOut(Serializer[Any]):
    # JSON as it is stored, whatever an older version or an imported file wrote into it.
    def to_representation(self, instance: object) -> Any:
        return instance


class ReplyErrorOut(StoredOut):
    code = CharField(help_text="Machine-readable code.")
    message = CharField(help_text="For a person.")


class MessageOut(Serializer[Any]):
    """A message of a chat: what a user said, or a reply."""

    id = UUIDField(help_text="Its id.")
    chat_id = UUIDField(help_text="The chat's id.")
    seq = IntegerField(help_text="Its place in the chat, from 1.")
    role = ChoiceField(Role.choices, help_text="Who speaks.")
    content = CharField(help_text=TEXT)
    status = ChoiceField([STREAMING, *Status.values], help_text=STATUS)
    model_variant = TextOrNull(allow_null=True, help_text=VARIANT)
    model = TextOrNull(allow_null=True, help_text="The model that wrote it; null for user messages.")
    token_count = IntegerField(help_text="Tokens of the text.")
    reply_to = UUIDField(
        source="reply_to_id",
        allow_null=True,
        help_text="The message that it answers; null for user messages.",
    )
    superseded_by = UUIDField(
        source="superseded_by_id",
        allow_null=True,
        help_text="The newer answer to the same question, or null.",
    )
    is_first = BooleanField(help_text="Whether it is the first message of its chat.")
    created_at = DateTimeField(help_text="When it was sent.")
    completed_at = DateTimeField(allow_null=True, help_text="When the reply ended; null for user messages.")
    edited_at = DateTimeField(allow_null=True, help_text="When the text was last edited; null if never.")
    muted = BooleanField(help_text=MUTED)
    usage = UsageOut(allow_null=True, help_text=USAGE)
    error = ReplyErrorOut(allow_null=True, help_text=ERROR)
    metadata = ObjectField(help_text=f"{METADATA} Of a reply that a fallback wrote: `requested_variant`.")
    tool_call = ObjectField(
        required=False,
        help_text="For tool calls: `id`, `name`, `arguments`. For outputs: `id`, `name`. Otherwise absent.",
    )
    attachments = ListField(
        child=ObjectField(),
        required=False,
        help_text="Images and files of a user's message, each by its `sha256`; absent if there are none.",
    )

    def to_representation(self, instance: Message | ActiveReply) -> dict[str, Any]:
        message = _so_far(instance) if isinstance(instance, ActiveReply) else instance
        shown: dict[str, Any] = super().to_representation(message)
        payload = message.payload or {}
        if "call_id" in payload:
            shown["tool_call"] = {name: payload[key] for key, name in _TOOL_CALL.items() if key in payload}
        if attached := attachments_in(payload):
            shown["attachments"] = [one.to_json() for one in attached]
        return shown


def _so_far(active: ActiveReply) -> Message:
    """Return a reply being written as a message with the text of its last checkpoint."""
    return Message(
        id=active.message_id,
        chat_id=active.chat_id,
        seq=active.chat.last_seq + 1,
        role=Role.ASSISTANT,
        content=active.text,
        status=STREAMING,
        model_variant=active.model_variant,
        model=active.model,
        reply_to_id=active.user_message_id,
        created_at=active.started_at,
        metadata=active.metadata,
    )


class AnswerOut(Serializer[Any]):
    """A reply that is not stored, so it has no id."""

    role = ChoiceField(["assistant"], help_text="Who speaks.")
    content = CharField(help_text=TEXT)
    status = ChoiceField(["complete", "incomplete", "failed"], help_text=STATUS)
    model_variant = CharField(help_text=VARIANT)
    model = CharField(help_text="The model's name, as the provider knows it.")
    usage = UsageOut(allow_null=True, help_text=USAGE)
    error = ReplyErrorOut(allow_null=True, help_text=ERROR)


class TurnOut(Serializer[Any]):
    """The response with `"stream": false`."""

    chat_id = UUIDField(help_text="The chat's id.")
    user_message_id = UUIDField(help_text="The id of the user's message.")
    message = MessageOut(help_text="The message.")


class OneMessageOut(Serializer[Any]):
    message = MessageOut(help_text="The message.")


class PromptPartOut(Strict):
    kind = CharField(help_text="Which part.")
    tokens = IntegerField(min_value=0, help_text="Its tokens.")


class PromptSizeOut(Strict):
    tokens = IntegerField(min_value=0, help_text="Tokens of memory in the prompt.")
    budget = IntegerField(min_value=0, source="plan.budget", help_text="Tokens that memory may have.")
    sections = PromptPartOut(many=True, help_text="The parts of the prompt.")


class CreatedOut(Strict):
    chat_id = UUIDField(source="chat.id", help_text="The chat's id.")
    user_message_id = UUIDField(allow_null=True, help_text="The id of the user's message.")
    message_id = UUIDField(help_text="The id of the reply.")
    model_variant = CharField(source="variant", help_text="The name of the model that answers.")
    context = PromptSizeOut(source="snapshot", help_text="What the prompt is made of.")  # type: ignore[assignment]  # DRF takes fields off the class

    def to_representation(self, instance: ReplyHead) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        if instance.snapshot is None:
            shown["context"] = {"tokens": 0, "budget": 0, "sections": []}
        return shown


_MESSAGE, _ANSWER, _CREATED = MessageOut(), AnswerOut(), CreatedOut()


def message_json(message: Message) -> dict[str, Any]:
    """Return a message as the API shows it; of a reply that is not stored, only what it has."""
    return (_MESSAGE if message.chat_id else _ANSWER).to_representation(message)


def created_json(head: ReplyHead) -> dict[str, Any]:
    return _CREATED.to_representation(head)


# Events


_ENDINGS = {
    "incomplete": "The reply was cut off. The partial reply is saved.",
    "failed": "There is no usable reply.",
    "cancelled": "The reply was cancelled. The partial reply is saved.",
}


def _events(created: Strict, message: type[Serializer[Any]], *endings: str) -> list[Event]:
    final = message(help_text="The reply as it is stored.")
    error = ReplyErrorOut(help_text="Why it did not complete.")
    retry = IntegerField(min_value=0, help_text="Milliseconds to wait before.")
    later = ReplyErrorOut(required=False, help_text="Only if it is not stored yet.")
    return [
        Event("message.created", "The reply has begun: its ids, and what its prompt is made of.", created, None),
        Event(
            "content.delta",
            "The next piece of the reply. All pieces joined are its content.",
            event_data(delta=CharField(help_text="Text.")),
        ),
        Event("message.completed", "The reply is complete and stored.", event_data(message=final)),
        *(Event(f"message.{one}", _ENDINGS[one], event_data(message=final, error=error)) for one in endings),
        Event(
            "reconnect",
            "This server is about to stop, or the reply cannot be stored yet: come back with `Last-Event-ID`.",
            event_data(retry_ms=retry, error=later),
            has_id=False,
        ),
    ]


class ReplyEvent(EventStream):
    position = "Code points of the reply sent so far: come back with it as `Last-Event-ID`."
    events = _events(_CREATED, MessageOut, *_ENDINGS)
    events.insert(
        1,
        Event(
            "memory.updated",
            "The chat's memory has a new version since the prompt of the reply before. Only on request; a stream that "
            "is resumed tells it again.",
            MemoryUpdatedOut(),
            has_id=False,
        ),
    )


class AnswerEvent(EventStream):
    events = _events(
        event_data(model_variant=CharField(help_text="The name of the model that answers.")),
        AnswerOut,
        "incomplete",
        "failed",
    )
