"""JSON of the calls that store nothing, for histories that clients keep themselves (seed 004), in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rest_framework import serializers

from chatmemory.api.fields import NOT_BLANK, Text
from chatmemory.llm import registry
from chatmemory.llm.protocol import Prompt, PromptMessage
from chatmemory.text.cleaning import disarm
from conversations.api.serializers import (
    ReplyErrorOut,
    Strict,
    UsageOut,
    VariantIn,
    checked_instructions,
    checked_text,
)

HISTORY_MAX = 1000
"""Maximum number of messages in one request: far more than fit into a model's window, but quick to check."""
ROLES = ("system", "user", "assistant", "examiner")
"""Accepted roles. `examiner` is the seed's name for the assistant in its transcripts."""


class HistoryMessageIn(Strict):
    role = serializers.ChoiceField(ROLES, help_text="Who speaks.")
    content = Text(
        allow_blank=True,
        trim_whitespace=False,
        validators=[checked_text],
        help_text="The text, exactly as it was sent.",
    )


class HistoryField(serializers.ListField):
    """The messages of a history, oldest first. At least one message besides the system's must have text."""

    child = HistoryMessageIn()
    in_the_schema: ClassVar[dict[str, Any]] = {
        "minItems": 1,
        "maxItems": HISTORY_MAX,
        "contains": {
            "type": "object",
            "required": ["role", "content"],
            "properties": {
                "role": {"enum": [role for role in ROLES if role != "system"]},
                "content": {"type": "string", "pattern": NOT_BLANK},
            },
        },
    }

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

    def prompt(self) -> Prompt:
        """Return the prompt: the messages with models' control tokens disarmed, the system message as instructions."""
        messages = self.validated_data["messages"]
        if registry.disarms_control_tokens():
            messages = [{**message, "content": disarm(message["content"])} for message in messages]
        return Prompt(spoken(messages), instructions=_instructions(messages))


def _instructions(messages: Sequence[dict[str, str]]) -> str:
    return messages[0]["content"] if messages[0]["role"] == "system" else ""


class AnswerOut(serializers.Serializer[Any]):
    """A reply that is not stored, so it has no id."""

    role = serializers.ChoiceField(["assistant"], help_text="Who speaks.")
    content = serializers.CharField(help_text="The text, exactly as it was sent.")
    status = serializers.ChoiceField(
        ["complete", "incomplete", "failed"],
        help_text="`streaming` while it is written; `complete`, `incomplete`, `failed`, `cancelled` or "
        "`deleted` then.",
    )
    model_variant = serializers.CharField(
        help_text="The name under which the model is offered here: see `GET /v1/models`."
    )
    model = serializers.CharField(help_text="The model's name, as the provider knows it.")
    usage = UsageOut(
        allow_null=True, help_text="Tokens and cost as reported by the provider; null if it reported none."
    )
    error = ReplyErrorOut(allow_null=True, help_text="Why the reply did not complete; null where it did.")


class AskOut(serializers.Serializer[Any]):
    """The response with `"stream": false`."""

    message = AnswerOut(help_text="The message.")
