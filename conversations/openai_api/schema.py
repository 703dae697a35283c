"""The OpenAPI schema of the OpenAI endpoints: what most clients send and get. OpenAI's own reference has the rest."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    FloatField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
)

from chatmemory.api.http import example
from conversations.api.replies import KEY
from conversations.api.serializers import OpenAIModelOut
from conversations.openai_api.answer import Answer, Ended, model_object, usage_json


class CompletionMessageIn(Serializer[Any]):
    role = ChoiceField(["system", "developer", "assistant", "tool", "user"], help_text="Who says it.")
    content = JSONField(required=False, help_text="Text, or a list of parts: text, images, files.")


class CompletionIn(Serializer[Any]):
    """What most clients send. OpenAI's other parameters are taken, too; those without effect here are refused."""

    model = CharField(help_text="A variant, its model's upstream name, or an alias: see `GET /v1/models`.")
    messages = ListField(
        child=CompletionMessageIn(),
        min_length=1,
        help_text="The whole history, or only what is new if the conversation has a name.",
    )
    stream = BooleanField(required=False, allow_null=True, help_text="Whether to stream server-sent events.")
    store = BooleanField(
        required=False, allow_null=True, help_text="If false, nothing is stored and no memory is added."
    )
    temperature = FloatField(required=False, allow_null=True, min_value=0, max_value=2, help_text="Goes to the model.")
    max_completion_tokens = IntegerField(
        required=False, allow_null=True, min_value=1, help_text="The longest reply, in tokens."
    )
    tools = ListField(child=DictField(), required=False, allow_null=True, help_text="Functions and custom tools.")


class CompletionChoiceOut(Serializer[Any]):
    index = IntegerField(help_text="Always 0.")
    message = DictField(help_text="`role`, `content` and, if tools are called, `tool_calls`.")
    finish_reason = ChoiceField(["stop", "length", "tool_calls", "content_filter"], help_text="Why the reply ended.")


class CompletionOut(Serializer[Any]):
    id = CharField(help_text="The completion's id.")
    object = ChoiceField(["chat.completion"], help_text="The kind of object.")
    created = IntegerField(help_text="Creation time in Unix seconds.")
    model = CharField(help_text="The model as the request named it.")
    choices = CompletionChoiceOut(many=True, help_text="One choice: the reply.")
    usage = DictField(help_text="Tokens of the prompt and of the reply.")


_EVENT = {
    "type": "object",
    "description": "An event.",
    "required": ["data"],
    "properties": {"data": {"type": "string", "description": "A chunk as JSON, in OpenAI's format; at last `[DONE]`."}},
}
_ANSWER = Answer("chatcmpl-019ab1c27d4070008000000000000002", 1795560095, "arco")
_END = Ended("Your order AB-1234 was sent on 4 May.", "stop", usage_json(None, 1540, 28))
_CHUNKS = (
    _ANSWER.chunk({"role": "assistant", "content": ""}) + _ANSWER.text_chunks()(_END.text) + _ANSWER.last_chunks(_END)
)

_SENT = {
    "x-chatmemory-conversation-id": "The client's own name of its conversation, or the id of a chat. "
    "`OPENAI_CONVERSATION_HEADERS` names other headers that are read, too.",
    "x-chatmemory-remember": "`false` for a request that is not part of a conversation, such as one for a title.",
}
_ANSWERED = {
    "x-chatmemory-conversation-id": "The chat's id, for all other calls.",
    "x-chatmemory-conversation": "`new`, `imported`, `continued`, `branched`, `regenerated`, `repeated` or "
    "`not stored`.",
    "x-chatmemory-found-by": "`name`, `history`, `newest turn`, `retry` or `idempotency key`.",
    "x-chatmemory-history-tokens": "Tokens of all earlier messages in the chat.",
    "x-chatmemory-said-tokens": "Deprecated: the same as `x-chatmemory-history-tokens`.",
    "x-chatmemory-sent-tokens": "Tokens of the prompt that the model was sent.",
}

completions_create = extend_schema(
    operation_id="completions_create",
    tags=["openai"],
    request=CompletionIn,
    responses={
        (200, "application/json"): OpenApiResponse(CompletionOut, "The completion."),
        (200, "text/event-stream"): OpenApiResponse(_EVENT, "The completion."),
    },
    parameters=[
        *(OpenApiParameter(name, str, OpenApiParameter.HEADER, description=what) for name, what in _SENT.items()),
        KEY,
        *(
            OpenApiParameter(
                name,
                str,
                OpenApiParameter.HEADER,
                description=what,
                deprecated=what.startswith("Deprecated"),
                response=[200],
            )
            for name, what in _ANSWERED.items()
        ),
    ],
    examples=[
        *example({"model": "arco", "messages": [{"role": "user", "content": "Where is my order AB-1234?"}]}),
        OpenApiExample("completion", _ANSWER.completion(_END), response_only=True, media_type="application/json"),
        OpenApiExample("chunks", _CHUNKS.decode(), response_only=True, media_type="text/event-stream"),
    ],
)
models_read = extend_schema(
    operation_id="models_read",
    tags=["openai"],
    responses={(200, "application/json"): OpenApiResponse(OpenAIModelOut, "The model.")},
    examples=[OpenApiExample("model", model_object("arco", _ANSWER.created), response_only=True)],
)
