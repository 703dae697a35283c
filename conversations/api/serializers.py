"""The bodies of requests about chats, messages and replies; and chats as JSON. Messages: `conversations.replies`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.conf import settings
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    FloatField,
    IntegerField,
    ModelSerializer,
    Serializer,
    SerializerMethodField,
    UUIDField,
    ValidationError,
)

from chatmemory.api.fields import Choice, Flag, LongText, MaxChars, ObjectField, OneOf, ShortList, Strict, Text, Whole
from chatmemory.api.http import page_of
from chatmemory.llm.protocol import Prompt, PromptMessage, Variant
from chatmemory.text.turn_line import plain_title
from conversations.accounts.models import MAX_RETAIN_DAYS
from conversations.models import MAX_PROJECT_CHARS, Across, Chat
from conversations.replies.serializers import METADATA, MUTED, TEXT, VARIANT, AnswerOut, MessageOut
from memory import conf
from memory.policies import POLICIES
from memory.policies.protocol import option_errors

SOURCES_MAX = 200
"""Maximum number of sources of one turn: far more than fit into a prompt, and few enough to be checked quickly."""
HISTORY_MAX = 1000
"""Maximum number of messages in one request: far more than fit into a model's window, but quick to check."""
ROLES = ("system", "user", "assistant", "examiner")
"""Accepted roles. `examiner` is the seed's name for the assistant in its transcripts."""

# Descriptions of fields that several objects have
POLICY = f"The memory policy: {', '.join(f'`{name}`' for name in POLICIES)}."
OPTIONS = (
    "Options of memory for this chat alone, by name: `budget`, `threshold`, `focus` and others. The rest is as the "
    "server is set."
)
PINNED = "Whether it is kept however old it gets; a temporary chat is not."
RETAIN_DAYS = "Days after its last message at which it is erased; null: as the server is set."
TEMPORARY = "Whether it is erased some hours after its last message, is in no list and no search, and gets no title."
PROJECT = "The project that it belongs to: chats share what was said with those of the same project only; empty: none."
ACROSS = "The most that it shares with your other chats, and they with it: nothing, pins, or also what was said."
MEMORY_EVENTS = "Whether the stream has an event `memory.updated` for each new version of the chat's memory."


checked_text = MaxChars(lambda: settings.MESSAGE_MAX_CHARS)
checked_instructions = MaxChars(lambda: settings.INSTRUCTIONS_MAX_CHARS)
known_policy = OneOf("policy", lambda: POLICIES)
known_variant = OneOf("variant", lambda: settings.MODEL_VARIANTS)


class SourceIn(Strict):
    title = Text(allow_blank=True, default="", max_length=1000, help_text="The title of the source.")
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
        help_text="Instructions for this turn, in addition to the chat's.",
    )
    sources = ShortList(
        child=SourceIn(), default=list, max_length=SOURCES_MAX, help_text="Retrieved material for this turn."
    )
    metadata = ObjectField(default=dict, help_text=METADATA)


POSITION_DIGITS = 11


class StreamQuery(Serializer[Any]):
    after = IntegerField(
        required=False,
        min_value=0,
        max_value=10**POSITION_DIGITS - 1,
        help_text="Number of code points of the reply received so far.",
    )
    memory_events = BooleanField(default=False, help_text=MEMORY_EVENTS)


class EditIn(Strict):
    content = LongText(checked_text, required=False, help_text=TEXT)
    muted = Flag(required=False, help_text=MUTED)


class SharingIn(Strict):
    """The fields of a chat that say with which other chats it shares, and what."""

    project = Text(required=False, allow_blank=True, max_length=MAX_PROJECT_CHARS, help_text=PROJECT)
    across = Choice(Across.choices, required=False, help_text=ACROSS)

    def validate_project(self, name: str) -> str:
        return plain_title(name)


class FirstMessageIn(SharingIn, MessageIn):
    policy = Text(required=False, validators=[known_policy], help_text=POLICY)
    temporary = Flag(default=False, help_text=TEMPORARY)


class ChatMessageIn(MessageIn):
    chat_id = UUIDField(help_text="The chat's id.")


class ChatOut(ModelSerializer[Chat]):
    message_count = IntegerField(source="last_seq", read_only=True, help_text="Messages of the chat.")
    options = ObjectField(read_only=True, help_text=OPTIONS)
    metadata = ObjectField(read_only=True, help_text=METADATA)

    class Meta:
        model = Chat
        extra_kwargs: ClassVar = {
            "id": {"help_text": "Its id."},
            "title": {"help_text": "What it is called."},
            "title_is_automatic": {"help_text": "Whether the title was made from the first message, and follows it."},
            "policy": {"help_text": POLICY},
            "instructions": {"help_text": "The system prompt."},
            "pinned": {"help_text": PINNED},
            "retain_days": {"help_text": RETAIN_DAYS},
            "temporary": {"help_text": TEMPORARY},
            "project": {"help_text": PROJECT},
            "across": {"help_text": ACROSS},
            "created_at": {"help_text": "Creation time."},
            "updated_at": {"help_text": "When it last changed."},
        }
        fields = read_only_fields = [*extra_kwargs, "options", "message_count", "metadata"]


class ChatIn(SharingIn):
    """The fields of a chat that a client sets."""

    # For an update, the chat is the `instance`.
    title = Text(required=False, allow_blank=True, max_length=200, help_text="What it is called.")
    instructions = LongText(checked_instructions, required=False, allow_blank=True, help_text="The system prompt.")
    policy = Text(required=False, validators=[known_policy], help_text=POLICY)
    options = ObjectField(required=False, help_text=OPTIONS)
    metadata = ObjectField(required=False, help_text=METADATA)
    pinned = Flag(required=False, help_text=PINNED)
    retain_days = Whole(required=False, allow_null=True, min_value=1, max_value=MAX_RETAIN_DAYS, help_text=RETAIN_DAYS)

    def validate_title(self, title: str) -> str:
        return plain_title(title)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check the policy and options that the chat will have against each other."""
        if attrs.keys() & {"policy", "options"}:
            chat = self.instance or Chat(policy=settings.MEMORY_POLICY)
            policy = POLICIES.get(attrs.get("policy", chat.policy))
            options = attrs.get("options", chat.options)
            if policy and (wrong := option_errors(policy, options, conf.limits(), chat.options)):
                raise ValidationError({"options": wrong})
        return attrs


class NewChatIn(ChatIn):
    temporary = Flag(default=False, help_text=TEMPORARY)


class PriceOut(Serializer[Any]):
    """USD per million tokens."""

    input = FloatField(help_text="The price of input tokens, in USD per million.")
    cached = FloatField(help_text="The price of input tokens that the provider had cached.")
    output = FloatField(help_text="The price of output tokens, in USD per million.")


class ModelOut(Serializer[Any]):
    name = CharField(help_text="Its name.")
    model = CharField(help_text="The model behind it, as the provider knows it.")
    reasoning_effort = CharField(allow_null=True, help_text="Reasoning effort; null if not set.")
    max_output_tokens = IntegerField(allow_null=True, help_text="The longest reply; null if unlimited.")
    default = SerializerMethodField("is_default", help_text="Whether it is used if a request names none.")
    price = PriceOut(allow_null=True, help_text="What it costs; null if unknown.")

    def is_default(self, variant: Variant) -> bool:
        return variant.name == settings.DEFAULT_MODEL_VARIANT


class OpenAIModelOut(Serializer[Any]):
    """A model as OpenAI's clients list it."""

    id = CharField(help_text="Its id.")
    object = ChoiceField(["model"], help_text="Object type.")
    created = IntegerField(help_text="Creation time in Unix seconds.")
    owned_by = CharField(help_text="Always `chatmemory`.")
    shutdown_date = IntegerField(allow_null=True, help_text="Always null.")


class ModelsOut(Serializer[Any]):
    object = ChoiceField(["list"], help_text="Object type.")
    data = OpenAIModelOut(
        many=True,
        help_text="The same as OpenAI's clients list models: variants, and every other name that leads to one.",
    )  # type: ignore[assignment]  # DRF takes fields off the class
    results = ModelOut(many=True, help_text="Items on this page.")
    offline = BooleanField(help_text="Whether the built-in model answers because no other is configured.")


class Period(Serializer[Any]):
    since = DateTimeField(required=False, help_text="From this moment on.")
    until = DateTimeField(required=False, help_text="Up to this moment.")


class ChatsDeleteQuery(Serializer[Any]):
    confirm = IntegerField(required=False, min_value=0, help_text="The `count` of the previous response.")


class ChatsDeletedOut(Serializer[Any]):
    count = IntegerField(help_text="Number of chats that match the filters.")
    deleted = IntegerField(help_text="Number of chats deleted by this request; 0 without `confirm`.")
    left = IntegerField(help_text="Remaining chats; pass as `confirm` to continue.")


ChatsPageOut = page_of("ChatsPageOut", ChatOut)
MessagesPageOut = page_of("MessagesPageOut", MessageOut)


class HistoryMessageIn(Strict):
    role = ChoiceField(ROLES, help_text="Who speaks.")
    content = LongText(checked_text, allow_blank=True, help_text=TEXT)


class HistoryField(ShortList):
    """The messages of a history, oldest first. At least one message besides the system's must have text."""

    child = HistoryMessageIn()

    def to_internal_value(self, data: list[object]) -> Any:
        messages = super().to_internal_value(data)
        if not any(message["content"].strip() for message in messages if message["role"] != "system"):
            raise ValidationError("`messages` must contain at least one user message.")
        return messages


def to_prompt_messages(messages: Sequence[dict[str, str]]) -> tuple[PromptMessage, ...]:
    """Return validated `messages` as prompt messages, without the system message."""
    return tuple(
        PromptMessage("user" if message["role"] == "user" else "assistant", message["content"])
        for message in messages
        if message["role"] != "system"
    )


class AskIn(VariantIn):
    messages = HistoryField(
        min_length=1,
        max_length=HISTORY_MAX,
        help_text="A system message must come first and is used as instructions.",
    )

    def validate_messages(self, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        if any(message["role"] == "system" for message in messages[1:]):
            raise ValidationError("Only the first message may have the role system.")
        checked_instructions(_instructions(messages))
        return messages


def _instructions(messages: Sequence[dict[str, str]]) -> str:
    return messages[0]["content"] if messages[0]["role"] == "system" else ""


def prompt_of(messages: Sequence[dict[str, str]]) -> Prompt:
    """Return the prompt: the messages, the system message as instructions."""
    return Prompt(to_prompt_messages(messages), instructions=_instructions(messages))


class AskOut(Serializer[Any]):
    """The response with `"stream": false`."""

    message = AnswerOut(help_text="The message.")
