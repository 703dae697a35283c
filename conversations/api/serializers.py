"""JSON of chats and messages, in and out. Messages are written by plain functions, because streams write many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from chatmemory.api.fields import Flag, OneOf, Text, no_longer_than, not_blank
from chatmemory.llm.protocol import Variant
from conversations.models import STREAMING, ActiveReply, Chat, Message, Role, Status
from conversations.replies.begin import TurnRequest
from conversations.replies.message_json import message_json, streaming_json
from memory.context.sources import Source
from memory.policies import POLICIES
from memory.policies.options import option_errors

JSON_DEPTH = 64
"""Maximum nesting of a client's JSON: what is stored must be written again, by code that recurses."""


def any_json(value: Any) -> Any:
    """Check a client's JSON object: its size, and that it has no NUL or lone surrogate, which the database refuses."""
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
    if size > settings.METADATA_MAX_BYTES:
        raise serializers.ValidationError(
            f"This is over the limit of {settings.METADATA_MAX_BYTES} bytes as JSON."
        )
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(_is_deeper(one, levels - 1) for one in inner))


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(serializers.JSONField):
    """Any JSON object."""

    def to_internal_value(self, data: Any) -> Any:
        return any_json(super().to_internal_value(data))


NAMED = 20
"""Maximum number of unknown fields that an error names: a body can have a hundred thousand."""


class Strict(serializers.Serializer[Any]):
    """Refuses unknown fields, so that a typo is not silently ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := set(data) - set(self.fields)):
            raise serializers.ValidationError(
                {name: ["Unknown field."] for name in sorted(map(str, unknown))[:NAMED]}
            )
        return super().to_internal_value(data)


checked_text = no_longer_than(lambda: settings.MESSAGE_MAX_CHARS)
checked_instructions = no_longer_than(lambda: settings.INSTRUCTIONS_MAX_CHARS)
known_policy = OneOf("policy", lambda: POLICIES)
known_variant = OneOf("variant", lambda: settings.MODEL_VARIANTS)


def bad_options(policy: str, options: Mapping[str, Any], standing: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with `options` for a policy, a sentence each. `standing` are the chat's current options."""
    return (
        option_errors(POLICIES[policy], options, settings.MEMORY_LIMITS, standing)
        if policy in POLICIES
        else []
    )


SOURCES_MAX = 200
"""Maximum number of sources of one turn: far more than fit into a prompt, and few enough to be checked quickly."""


class SourceIn(Strict):
    title = Text(required=False, allow_blank=True, default="", max_length=1000)
    text = Text(allow_blank=True, trim_whitespace=False, validators=[checked_text])


class VariantIn(Strict):
    """Fields of every request that creates a reply."""

    model_variant = Text(required=False, validators=[known_variant])
    stream = Flag(required=False, default=True)

    def variant(self) -> Variant | None:
        """Return the variant that the request names, or None."""
        name = self.validated_data.get("model_variant")
        return settings.MODEL_VARIANTS[name] if name else None


class MessageIn(VariantIn):
    message = Text(trim_whitespace=False, validators=[not_blank, checked_text])
    instructions = Text(
        required=False, allow_blank=True, default="", trim_whitespace=False, validators=[checked_instructions]
    )
    sources = serializers.ListField(child=SourceIn(), required=False, default=list, max_length=SOURCES_MAX)
    metadata = ObjectField(required=False, default=dict)

    def turn(self, default: Variant) -> TurnRequest:
        """Return the request as a value."""
        data = self.validated_data
        return TurnRequest(
            message=data["message"],
            variant=self.variant() or default,
            instructions=data["instructions"],
            sources=tuple(Source(source["title"], source["text"]) for source in data["sources"]),
            metadata=data["metadata"],
            policy=data.get("policy"),
        )


class EditIn(Strict):
    content = Text(required=False, trim_whitespace=False, validators=[not_blank, checked_text])


class FirstMessageIn(MessageIn):
    policy = Text(required=False, validators=[known_policy])


class ChatMessageIn(MessageIn):
    chat_id = serializers.UUIDField()


class UsageOut(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost_usd = serializers.FloatField(allow_null=True)


class ReplyErrorOut(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class MessageOut(serializers.Serializer[Any]):
    """A message. This class declares the schema, `message_json` and `streaming_json` write it; a test compares them."""

    id = serializers.UUIDField()
    chat_id = serializers.UUIDField()
    seq = serializers.IntegerField()
    role = serializers.ChoiceField(Role.choices)
    content = serializers.CharField()
    status = serializers.ChoiceField([STREAMING, *Status.values])
    model_variant = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    token_count = serializers.IntegerField()
    reply_to = serializers.UUIDField(allow_null=True)
    superseded_by = serializers.UUIDField(allow_null=True)
    is_first = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    completed_at = serializers.DateTimeField(allow_null=True)
    edited_at = serializers.DateTimeField(allow_null=True)
    usage = UsageOut(allow_null=True)
    error = ReplyErrorOut(allow_null=True)
    metadata = ObjectField()
    tool_call = ObjectField(required=False)
    attachments = serializers.ListField(child=ObjectField(), required=False)

    def to_representation(self, instance: Any) -> Any:
        if isinstance(instance, dict):
            return instance
        if isinstance(instance, ActiveReply):
            return streaming_json(instance, instance.chat.last_seq)
        return message_json(cast(Message, instance))


class TurnOut(serializers.Serializer[Any]):
    """The response with `"stream": false`."""

    chat_id = serializers.UUIDField()
    user_message_id = serializers.UUIDField()
    message = MessageOut()


class OneMessageOut(serializers.Serializer[Any]):
    message = MessageOut()


class ChatOut(serializers.ModelSerializer[Chat]):
    message_count = serializers.IntegerField(source="last_seq", read_only=True)
    options = ObjectField(read_only=True)
    metadata = ObjectField(read_only=True)

    class Meta:
        model = Chat
        fields = [
            "id",
            "title",
            "title_is_automatic",
            "policy",
            "options",
            "instructions",
            "message_count",
            "created_at",
            "updated_at",
            "metadata",
        ]
        read_only_fields = fields


class ChatIn(Strict):
    """The fields of a chat that a client sets. For an update, the chat is the `instance`."""

    title = Text(required=False, allow_blank=True, max_length=200)
    instructions = Text(
        required=False, allow_blank=True, trim_whitespace=False, validators=[checked_instructions]
    )
    policy = Text(required=False, validators=[known_policy])
    options = ObjectField(required=False)
    metadata = ObjectField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check the policy and options that the chat will have against each other."""
        if attrs.keys() & {"policy", "options"}:
            chat = self.instance or Chat(policy=settings.MEMORY_POLICY)
            options = attrs.get("options", chat.options)
            if wrong := bad_options(attrs.get("policy", chat.policy), options, chat.options):
                raise serializers.ValidationError({"options": wrong})
        return attrs


class PriceOut(serializers.Serializer[Any]):
    """USD per million tokens."""

    input = serializers.FloatField()
    cached = serializers.FloatField()
    output = serializers.FloatField()


class ModelOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    model = serializers.CharField()
    reasoning_effort = serializers.CharField(allow_null=True)
    max_output_tokens = serializers.IntegerField(allow_null=True)
    default = serializers.BooleanField()
    price = PriceOut(allow_null=True)


class OpenAIModelOut(serializers.Serializer[Any]):
    """A model as OpenAI's clients list it."""

    id = serializers.CharField()
    object = serializers.ChoiceField(["model"])
    created = serializers.IntegerField()
    owned_by = serializers.CharField()
    shutdown_date = serializers.IntegerField(allow_null=True)


class ModelsOut(serializers.Serializer[Any]):
    object = serializers.ChoiceField(["list"])
    data = OpenAIModelOut(many=True)  # type: ignore[assignment]  # DRF takes fields off the class
    results = ModelOut(many=True)
    offline = serializers.BooleanField()


class PageOut(serializers.Serializer[Any]):
    """A page of a list: follow `next` and `previous`."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


class ChatsPageOut(PageOut):
    results = ChatOut(many=True)


class MessagesPageOut(PageOut):
    results = MessageOut(many=True)
