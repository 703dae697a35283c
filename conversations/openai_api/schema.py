"""The OpenAPI schema of the OpenAI endpoints: what most clients send and get. OpenAI's own reference has the rest."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from chatmemory.api.http import example
from conversations.api.replies import KEY
from conversations.openai_api.answer import Answer, Ended, model_object, usage_json

Schema = dict[str, Any]


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _optional(kind: str, description: str, **more: Any) -> Schema:
    """A field that may be null, which counts as absent."""
    return {"type": [kind, "null"], "description": description, **more}


def _object(description: str, /, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
    }


REQUEST: Final[Schema] = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": _text("A variant, the upstream's name of its model, or an alias: see `GET /v1/models`."),
        "messages": {
            "type": "array",
            "minItems": 1,
            "description": "The whole history, or only what is new if the conversation has a name.",
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": _text("Who says it.", enum=["system", "developer", "assistant", "tool", "user"]),
                    "content": {
                        "description": "Text, or a list of parts: text, images, files.",
                        "anyOf": [
                            {"type": "string"},
                            {"type": "array", "items": {"type": "object"}},
                            {"type": "null"},
                        ],
                    },
                },
            },
        },
        "stream": _optional("boolean", "Whether to stream chunks as server-sent events."),
        "store": _optional("boolean", "If false, nothing is stored and no memory is added."),
        "temperature": _optional("number", "Goes to the model.", minimum=0, maximum=2),
        "max_completion_tokens": _optional("integer", "The longest reply, in tokens.", minimum=1),
        "tools": _optional(
            "array", "Functions and custom tools that the model may call.", items={"type": "object"}
        ),
    },
    "additionalProperties": {
        "description": "OpenAI's other parameters. Those without effect here are refused."
    },
}
COMPLETION: Final = _object(
    "The completion.",
    id=_text("The completion's id."),
    object=_text("The kind of object.", enum=["chat.completion"]),
    created={"type": "integer", "description": "Creation time in Unix seconds."},
    model=_text("The model as the request named it."),
    choices={
        "type": "array",
        "description": "One choice: the reply.",
        "items": _object(
            "The reply.",
            index={"type": "integer", "description": "Always 0."},
            message={
                "type": "object",
                "description": "`role`, `content` and, if tools are called, `tool_calls`.",
            },
            finish_reason=_text(
                "Why the reply ended.", enum=["stop", "length", "tool_calls", "content_filter"]
            ),
        ),
    },
    usage={"type": "object", "description": "Tokens of the prompt and of the reply."},
)
MODEL: Final = _object(
    "A model.",
    id=_text("The model's name."),
    object=_text("The kind of object.", enum=["model"]),
    created={"type": "integer", "description": "Start of the server in Unix seconds."},
    owned_by=_text("Always `chatmemory`."),
)

_ANSWER = Answer("chatcmpl-019ab1c27d4070008000000000000002", 1795560095, "arco")
_END = Ended("Your order AB-1234 was sent on 4 May.", "stop", usage_json(None, 1540, 28))
_CHUNKS = (
    _ANSWER.chunk({"role": "assistant", "content": ""})
    + _ANSWER.text_chunks()(_END.text)
    + _ANSWER.last_chunks(_END)
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
    "x-chatmemory-said-tokens": "Tokens of all earlier messages in the chat.",
    "x-chatmemory-sent-tokens": "Tokens of the prompt that the model was sent.",
}

completions_create = extend_schema(
    operation_id="completions_create",
    summary="A completion with memory, for OpenAI's clients",
    description="Finds the chat that the messages belong to, stores what is new, and sends the model a prompt within "
    "the budget instead of the history. Errors have OpenAI's shape.",
    tags=["openai"],
    request={"application/json": REQUEST},
    responses={
        (200, "application/json"): OpenApiResponse(COMPLETION, "The completion."),
        (200, "text/event-stream"): OpenApiResponse(
            _object(
                "An event.", data=_text("A chunk as JSON, in OpenAI's format; in the last event `[DONE]`.")
            ),
            "The completion.",
        ),
    },
    parameters=[
        *(
            OpenApiParameter(name, str, OpenApiParameter.HEADER, description=what)
            for name, what in _SENT.items()
        ),
        KEY,
        *(
            OpenApiParameter(name, str, OpenApiParameter.HEADER, description=what, response=[200])
            for name, what in _ANSWERED.items()
        ),
    ],
    examples=[
        *example({"model": "arco", "messages": [{"role": "user", "content": "Where is my order AB-1234?"}]}),
        OpenApiExample(
            "completion", _ANSWER.completion(_END), response_only=True, media_type="application/json"
        ),
        OpenApiExample("chunks", _CHUNKS.decode(), response_only=True, media_type="text/event-stream"),
    ],
)
models_read = extend_schema(
    operation_id="models_read",
    summary="A model, as OpenAI's clients retrieve it",
    description="One of `data` in `GET /v1/models`. Errors have OpenAI's shape.",
    tags=["openai"],
    responses={(200, "application/json"): OpenApiResponse(MODEL, "The model.")},
    examples=[OpenApiExample("model", model_object("arco", _ANSWER.created), response_only=True)],
)
