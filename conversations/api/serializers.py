"""JSON of chats and messages, in and out. Messages are written by plain functions, because streams write many."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from chatmemory.api.http import Flag, LongText, MaxChars, OneOf, Text, Whole, over_limit
from chatmemory.errors import did_you_mean
from chatmemory.llm import registry
from chatmemory.llm.protocol import Prompt, PromptMessage, Variant
from chatmemory.text.cleaning import disarm
from chatmemory.text.turn_line import plain_title
from conversations.models import MAX_RETAIN_DAYS, STREAMING, ActiveReply, Chat, Message, Role, Status
from conversations.replies.events import message_json, streaming_json
from memory import conf
from memory.policies import POLICIES
from memory.policies.protocol import option_errors

JSON_DEPTH = 64
"""Maximum nesting of a client's JSON: what is stored must be written again, by code that recurses."""
MAX_NAMED = 20
"""Maximum number of unknown fields that an error names: a body can have a hundred thousand."""
SOURCES_MAX = 200
"""Maximum number of sources of one turn: far more than fit into a prompt, and few enough to be checked quickly."""
HISTORY_MAX = 1000
"""Maximum number of messages in one request: far more than fit into a model's window, but quick to check."""
ROLES = ("system", "user", "assistant", "examiner")
"""Accepted roles. `examiner` is the seed's name for the assistant in its transcripts."""

# Descriptions of fields that several objects have
VARIANT = "The name under which the model is offered here: see `GET /v1/models`."
POLICY = "The memory policy: `chunked`, `hierarchical`, `card`, `interval` or `progressive`."
OPTIONS = (
    "Options of memory for this chat alone, by name: `budget`, `threshold`, `focus` and others. The rest is as the "
    "server is set."
)
METADATA = "Any JSON object of yours. It is stored and returned, and no model sees it."
PINNED = "Whether it is kept however old it gets; a temporary chat is not."
RETAIN_DAYS = "Days after its last message at which it is erased; null: as the server is set."
TEMPORARY = (
    "Whether it is erased some hours after its last message, is in no list and no search, and gets no title."
)
TEXT = "The text, exactly as it was sent."
MEMORY_EVENTS = "Whether the stream has an event `memory.updated` for each new version of the chat's memory."
STATUS = "`streaming` while it is written; `complete`, `incomplete`, `failed`, `cancelled` or `deleted` then."
USAGE = "Tokens and cost as reported by the provider; null if it reported none."
ERROR = "Why the reply did not complete; null where it did."


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(serializers.JSONField):
    """A client's JSON object of limited size, without NUL and lone surrogates, which the database refuses."""

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        if not isinstance(value, dict):
            raise serializers.ValidationError("This must be a JSON object.")
        if _is_deeper(value, JSON_DEPTH):
            raise serializers.ValidationError(f"This is nested more than {JSON_DEPTH} deep.")
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except UnicodeEncodeError:
            raise serializers.ValidationError("This holds a lone surrogate, which is no text.") from None
        except ValueError:
            raise serializers.ValidationError("This holds a number that JSON does not have.") from None
        if "\\u0000" in text.replace("\\\\", ""):
            raise serializers.ValidationError("This holds a NUL character.")
        if size > (allowed := settings.METADATA_MAX_BYTES):
            raise serializers.ValidationError(over_limit(size, allowed, "bytes as JSON"))
        return value


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(_is_deeper(one, levels - 1) for one in inner))


class Strict(serializers.Serializer[Any]):
    """Refuses unknown fields, so that a typo is not silently ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := set(data) - set(self.fields)):
            named = sorted(map(str, unknown))[:MAX_NAMED]
            wrong = {name: [f"Unknown field.{did_you_mean(name, self.fields)}"] for name in named}
            lacking = [name for name, field in self.fields.items() if field.required and name not in data]
            raise serializers.ValidationError(wrong | {name: ["This field is required."] for name in lacking})
        return super().to_internal_value(data)


checked_text = MaxChars(lambda: settings.MESSAGE_MAX_CHARS)
checked_instructions = MaxChars(lambda: settings.INSTRUCTIONS_MAX_CHARS)
known_policy = OneOf("policy", lambda: POLICIES)
known_variant = OneOf("variant", lambda: settings.MODEL_VARIANTS)


class SourceIn(Strict):
    title = Text(allow_blank=True, default="", max_length=1000, help_text="What the source is called.")
    text = LongText(checked_text, allow_blank=True, help_text="What it says.")


class VariantIn(Strict):
    """Fields of every request that creates a reply, in a chat or not."""

    model_variant = Text(required=False, validators=[known_variant], help_text=VARIANT)
    stream = Flag(default=True, help_text="Whether to answer as server-sent events.")

    def validate_model_variant(self, name: str) -> Variant:
        return settings.MODEL_VARIANTS[name]


class RegenerateIn(VariantIn):
    """Fields of every request that creates a reply in a chat."""

    memory_events = Flag(default=False, help_text=MEMORY_EVENTS)


class MessageIn(RegenerateIn):
    message = LongText(checked_text, help_text="What the user says.")
    instructions = LongText(
        checked_instructions,
        allow_blank=True,
        default="",
        help_text="Instructions for this turn, beside those of the chat.",
    )
    sources = serializers.ListField(
        child=SourceIn(),
        default=list,
        max_length=SOURCES_MAX,
        help_text="Retrieved material for this turn.",
    )
    metadata = ObjectField(default=dict, help_text=METADATA)


class EditIn(Strict):
    content = LongText(checked_text, required=False, help_text=TEXT)


class FirstMessageIn(MessageIn):
    policy = Text(required=False, validators=[known_policy], help_text=POLICY)
    temporary = Flag(default=False, help_text=TEMPORARY)


class ChatMessageIn(MessageIn):
    chat_id = serializers.UUIDField(help_text="The chat's id.")


class UsageOut(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(
        help_text="Tokens that the model read, as the provider counted them."
    )
    cached_tokens = serializers.IntegerField(help_text="Input tokens that the provider had cached.")
    output_tokens = serializers.IntegerField(
        help_text="Tokens that the model wrote, as the provider counted them."
    )
    cost_usd = serializers.FloatField(
        allow_null=True, help_text="Cost in USD; null where the price is not known."
    )


class ReplyErrorOut(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Machine-readable code.")
    message = serializers.CharField(help_text="For a person.")


class MessageOut(serializers.Serializer[Any]):
    """A message of a chat: what a user said, or a reply."""

    # Declares the schema: `message_json` and `streaming_json` write it, and a test compares them.

    id = serializers.UUIDField(help_text="Its id.")
    chat_id = serializers.UUIDField(help_text="The chat's id.")
    seq = serializers.IntegerField(help_text="Its place in the chat, from 1.")
    role = serializers.ChoiceField(Role.choices, help_text="Who speaks.")
    content = serializers.CharField(help_text=TEXT)
    status = serializers.ChoiceField([STREAMING, *Status.values], help_text=STATUS)
    model_variant = serializers.CharField(allow_null=True, help_text=VARIANT)
    model = serializers.CharField(
        allow_null=True, help_text="The model that wrote it; empty for the user's own messages."
    )
    token_count = serializers.IntegerField(help_text="Tokens of the text.")
    reply_to = serializers.UUIDField(
        allow_null=True, help_text="The message that this reply answers; null for the user's own messages."
    )
    superseded_by = serializers.UUIDField(
        allow_null=True, help_text="The newer answer to the same question; null if this is the newest."
    )
    is_first = serializers.BooleanField(help_text="Whether it is the first message of its chat.")
    created_at = serializers.DateTimeField(help_text="When it was sent.")
    completed_at = serializers.DateTimeField(
        allow_null=True, help_text="When the reply ended; null for the user's own messages."
    )
    edited_at = serializers.DateTimeField(
        allow_null=True, help_text="When the text was last edited; null if it never was."
    )
    usage = UsageOut(allow_null=True, help_text=USAGE)
    error = ReplyErrorOut(allow_null=True, help_text=ERROR)
    metadata = ObjectField(help_text=f"{METADATA} Of a reply that a fallback wrote: `requested_variant`.")
    tool_call = ObjectField(
        required=False,
        help_text="Of a call of a tool its `id`, `name` and `arguments`, of its output `id` and `name`;"
        " absent else.",
    )
    attachments = serializers.ListField(
        child=ObjectField(),
        required=False,
        help_text="Images and files of a user's message, each by its `sha256`; absent where there are none.",
    )

    def to_representation(self, instance: Any) -> Any:
        if isinstance(instance, dict):
            return instance
        if isinstance(instance, ActiveReply):
            return streaming_json(instance, instance.chat.last_seq)
        return message_json(cast(Message, instance))


class TurnOut(serializers.Serializer[Any]):
    """The response with `"stream": false`."""

    chat_id = serializers.UUIDField(help_text="The chat's id.")
    user_message_id = serializers.UUIDField(help_text="The id of the user's message.")
    message = MessageOut(help_text="The message.")


class OneMessageOut(serializers.Serializer[Any]):
    message = MessageOut(help_text="The message.")


class ChatOut(serializers.ModelSerializer[Chat]):
    message_count = serializers.IntegerField(
        source="last_seq", read_only=True, help_text="Messages of the chat."
    )
    options = ObjectField(read_only=True, help_text=OPTIONS)
    metadata = ObjectField(read_only=True, help_text=METADATA)

    class Meta:
        model = Chat
        extra_kwargs: ClassVar = {
            "id": {"help_text": "Its id."},
            "title": {"help_text": "What it is called."},
            "title_is_automatic": {
                "help_text": "Whether the title was made from the first message, and follows it."
            },
            "policy": {"help_text": POLICY},
            "instructions": {"help_text": "The system prompt."},
            "pinned": {"help_text": PINNED},
            "retain_days": {"help_text": RETAIN_DAYS},
            "temporary": {"help_text": TEMPORARY},
            "created_at": {"help_text": "Creation time."},
            "updated_at": {"help_text": "When it last changed."},
        }
        fields = read_only_fields = [*extra_kwargs, "options", "message_count", "metadata"]


class ChatIn(Strict):
    """The fields of a chat that a client sets."""

    # For an update, the chat is the `instance`.
    title = Text(required=False, allow_blank=True, max_length=200, help_text="What it is called.")
    instructions = LongText(
        checked_instructions, required=False, allow_blank=True, help_text="The system prompt."
    )
    policy = Text(required=False, validators=[known_policy], help_text=POLICY)
    options = ObjectField(required=False, help_text=OPTIONS)
    metadata = ObjectField(required=False, help_text=METADATA)
    pinned = Flag(required=False, help_text=PINNED)
    retain_days = Whole(
        required=False, allow_null=True, min_value=1, max_value=MAX_RETAIN_DAYS, help_text=RETAIN_DAYS
    )

    def validate_title(self, title: str) -> str:
        return plain_title(title)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check the policy and options that the chat will have against each other."""
        if attrs.keys() & {"policy", "options"}:
            chat = self.instance or Chat(policy=settings.MEMORY_POLICY)
            policy = POLICIES.get(attrs.get("policy", chat.policy))
            options = attrs.get("options", chat.options)
            if policy and (wrong := option_errors(policy, options, conf.limits(), chat.options)):
                raise serializers.ValidationError({"options": wrong})
        return attrs


class NewChatIn(ChatIn):
    temporary = Flag(default=False, help_text=TEMPORARY)


class PriceOut(serializers.Serializer[Any]):
    """USD per million tokens."""

    input = serializers.FloatField(help_text="Of input, in USD per million tokens.")
    cached = serializers.FloatField(help_text="Of input that the provider had cached.")
    output = serializers.FloatField(help_text="Of output, in USD per million tokens.")


class ModelOut(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Its name.")
    model = serializers.CharField(help_text="The model behind it, as the provider knows it.")
    reasoning_effort = serializers.CharField(
        allow_null=True, help_text="How long the model may think; null where it is not said."
    )
    max_output_tokens = serializers.IntegerField(
        allow_null=True, help_text="The longest reply; null where there is no limit."
    )
    default = serializers.SerializerMethodField(
        "is_default", help_text="Whether it is used where none is named."
    )
    price = PriceOut(allow_null=True, help_text="What it costs; null where that is not known.")

    def is_default(self, variant: Variant) -> bool:
        return variant.name == settings.DEFAULT_MODEL_VARIANT


class OpenAIModelOut(serializers.Serializer[Any]):
    """A model as OpenAI's clients list it."""

    id = serializers.CharField(help_text="Its id.")
    object = serializers.ChoiceField(["model"], help_text="What it is, in OpenAI's words.")
    created = serializers.IntegerField(help_text="Creation time in Unix seconds.")
    owned_by = serializers.CharField(help_text="Always `chatmemory`.")
    shutdown_date = serializers.IntegerField(allow_null=True, help_text="Always null.")


class ModelsOut(serializers.Serializer[Any]):
    object = serializers.ChoiceField(["list"], help_text="What it is, in OpenAI's words.")
    data = OpenAIModelOut(
        many=True,
        help_text="The same as OpenAI's clients list models: variants, and every other name that leads "
        "to one.",
    )  # type: ignore[assignment]  # DRF takes fields off the class
    results = ModelOut(many=True, help_text="Items on this page.")
    offline = serializers.BooleanField(
        help_text="Whether the built-in model answers, because none is configured."
    )


class PageOut(serializers.Serializer[Any]):
    """A page of a list: follow `next` and `previous`."""

    next = serializers.URLField(allow_null=True, help_text="Address of the next page; null on the last.")
    previous = serializers.URLField(
        allow_null=True, help_text="Address of the page before; null on the first."
    )


class Period(serializers.Serializer[Any]):
    since = serializers.DateTimeField(required=False, help_text="From this moment on.")
    until = serializers.DateTimeField(required=False, help_text="Up to this moment.")


class ChatsDeleteQuery(serializers.Serializer[Any]):
    confirm = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="How many chats are to be deleted: the count as it was answered.",
    )


class ChatsDeletedOut(serializers.Serializer[Any]):
    count = serializers.IntegerField(help_text="How many chats the filters found.")
    deleted = serializers.IntegerField(help_text="How many of them are deleted now; none without `confirm`.")
    left = serializers.IntegerField(help_text="How many of them are left: the next `confirm`.")


class ChatsPageOut(PageOut):
    results = ChatOut(many=True, help_text="Items on this page.")


class MessagesPageOut(PageOut):
    results = MessageOut(many=True, help_text="Items on this page.")


class HistoryMessageIn(Strict):
    role = serializers.ChoiceField(ROLES, help_text="Who speaks.")
    content = LongText(checked_text, allow_blank=True, help_text=TEXT)


class HistoryField(serializers.ListField):
    """The messages of a history, oldest first. At least one message besides the system's must have text."""

    child = HistoryMessageIn()

    def __init__(self, **options: Any) -> None:
        super().__init__(min_length=1, max_length=HISTORY_MAX, **options)

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, list) and len(data) > HISTORY_MAX:
            raise serializers.ValidationError(
                f"These are {len(data)} messages; at most {HISTORY_MAX} are taken."
            )
        messages = super().to_internal_value(data)
        if not any(message["content"].strip() for message in messages if message["role"] != "system"):
            raise serializers.ValidationError("`messages` must contain at least one user message.")
        return messages


def spoken(messages: Sequence[dict[str, str]]) -> tuple[PromptMessage, ...]:
    """Return validated `messages` as prompt messages, without the system message."""
    return tuple(
        PromptMessage("user" if message["role"] == "user" else "assistant", message["content"])
        for message in messages
        if message["role"] != "system"
    )


class AskIn(VariantIn):
    messages = HistoryField(help_text="A system message must come first and is used as instructions.")

    def validate_messages(self, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        if any(message["role"] == "system" for message in messages[1:]):
            raise serializers.ValidationError("Only the first message may have the role system.")
        checked_instructions(_instructions(messages))
        return messages


def _instructions(messages: Sequence[dict[str, str]]) -> str:
    return messages[0]["content"] if messages[0]["role"] == "system" else ""


def prompt_of(messages: Sequence[dict[str, str]], variant: Variant) -> Prompt:
    """Return the prompt: the messages with models' control tokens disarmed, the system message as instructions."""
    if registry.disarms_control_tokens(variant):
        messages = [{**message, "content": disarm(message["content"])} for message in messages]
    return Prompt(spoken(messages), instructions=_instructions(messages))


class AnswerOut(serializers.Serializer[Any]):
    """A reply that is not stored, so it has no id."""

    role = serializers.ChoiceField(["assistant"], help_text="Who speaks.")
    content = serializers.CharField(help_text=TEXT)
    status = serializers.ChoiceField(["complete", "incomplete", "failed"], help_text=STATUS)
    model_variant = serializers.CharField(help_text=VARIANT)
    model = serializers.CharField(help_text="The model's name, as the provider knows it.")
    usage = UsageOut(allow_null=True, help_text=USAGE)
    error = ReplyErrorOut(allow_null=True, help_text=ERROR)


class AskOut(serializers.Serializer[Any]):
    """The response with `"stream": false`."""

    message = AnswerOut(help_text="The message.")
