"""The OpenAPI schema of the OpenAI endpoints: what most clients send and get. OpenAI's own reference has the rest."""

from functools import partial
from typing import Any
from uuid import UUID

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
from chatmemory.llm.protocol import Usage
from conversations.api.replies import KEY
from conversations.api.serializers import OpenAIModelOut
from conversations.openai_api.answer import CompletionFormat, Ended
from conversations.openai_api.model_names import model_object
from conversations.openai_api.response import ResponseFormat

_OPTIONAL: dict[str, Any] = {"required": False, "allow_null": True}
openai_operation = partial(extend_schema, tags=["openai"])


class CompletionMessageIn(Serializer[Any]):
    role = ChoiceField(["system", "developer", "assistant", "tool", "user"], help_text="Who says it.")
    content = JSONField(required=False, help_text="Text, or a list of parts: text, images, files.")


class _RequestIn(Serializer[Any]):
    """What most clients send. OpenAI's other parameters are taken, too; those without effect here are refused."""

    model = CharField(help_text="A variant, its model's upstream name, or an alias: see `GET /v1/models`.")
    stream = BooleanField(**_OPTIONAL, help_text="Whether to stream server-sent events.")
    store = BooleanField(
        **_OPTIONAL,
        help_text="If false, nothing is stored and no memory is added, unless the token has the scope "
        "`remember-named` and the request names its conversation.",
    )
    temperature = FloatField(**_OPTIONAL, min_value=0, max_value=2, help_text="Goes to the model.")
    tools = ListField(child=DictField(), **_OPTIONAL, help_text="Functions and custom tools.")


class CompletionIn(_RequestIn):
    messages = ListField(
        child=CompletionMessageIn(),
        min_length=1,
        help_text="The whole history, or only what is new if the conversation has a name.",
    )
    max_completion_tokens = IntegerField(**_OPTIONAL, min_value=1, help_text="The longest reply, in tokens.")


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


_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "An event.",
    "required": ["data"],
    "properties": {"data": {"type": "string", "description": "A chunk as JSON, in OpenAI's format; at last `[DONE]`."}},
}
_REPLY_ID = UUID("019ab1c2-7d40-7000-8000-000000000002")
_ANSWER = CompletionFormat("arco", message_id=_REPLY_ID, created=1795560095)
_END = Ended("Your order AB-1234 was sent on 4 May.", "complete", Usage(1540, 0, 28))


def _stream(answer: CompletionFormat | ResponseFormat) -> str:
    return (answer.first() + answer.text(_END.text) + answer.last(_END)).decode()


class ResponseIn(_RequestIn):
    input = JSONField(help_text="A message as a text, or a list of items: messages, calls of tools, their outputs.")
    instructions = CharField(**_OPTIONAL, allow_blank=True, help_text="Instructions for this request only.")
    previous_response_id = CharField(
        **_OPTIONAL, help_text="The response that is continued: then `input` has only what is new."
    )
    conversation = JSONField(**_OPTIONAL, help_text="A chat's id, or a name of yours for one.")
    max_output_tokens = CompletionIn().fields["max_completion_tokens"]


class ResponseOut(Serializer[Any]):
    id = CharField(help_text="The response's id.")
    object = CharField(help_text="`response`.")
    created_at = IntegerField(help_text="Creation time in Unix seconds.")
    status = ChoiceField(["in_progress", "completed", "incomplete", "failed", "cancelled"], help_text="Its state.")
    model = CharField(help_text="The model as the request named it.")
    conversation = DictField(allow_null=True, help_text="The `id` by which the request named its conversation.")
    previous_response_id = CharField(allow_null=True, help_text="The response that it continues, as requested.")
    output = ListField(child=DictField(), help_text="The reply: a message, calls of tools, or both.")
    usage = DictField(allow_null=True, help_text="Tokens of the prompt and of the reply; null until it has ended.")
    error = DictField(allow_null=True, help_text="Why it failed.")


class ResponseDeletedOut(Serializer[Any]):
    id = CharField(help_text="The response's id.")
    object = CharField(help_text="`response`.")
    deleted = BooleanField(help_text="Always true.")


class InputItemsOut(Serializer[Any]):
    object = CharField(help_text="`list`.")
    data = ListField(child=DictField(), help_text="Messages and outputs of tools.")  # type: ignore[assignment]  # DRF takes fields off the class
    first_id = CharField(allow_null=True, help_text="The id of the first item of this page.")
    last_id = CharField(allow_null=True, help_text="The id of the last one: `after` of the next page.")
    has_more = BooleanField(help_text="Whether there is a next page.")


class ResponseQuery(Serializer[Any]):
    stream = BooleanField(default=False, help_text="Whether to stream its events.")
    starting_after = IntegerField(
        default=-1,
        min_value=-1,
        max_value=999_999_999,
        help_text="The `sequence_number` of the last event that was received.",
    )


class InputItemsQuery(Serializer[Any]):
    order = ChoiceField(["asc", "desc"], default="desc", help_text="`desc`, the default, for the newest first.")
    after = CharField(required=False, help_text="The id of the item before the page.")
    limit = IntegerField(default=20, min_value=1, max_value=100, help_text="Items on a page.")


class EmbeddingsIn(Serializer[Any]):
    model = CharField(help_text="The server's embeddings model. Any other name is a 404: its vectors would differ.")
    input = JSONField(help_text="A text, a list of tokens, or a list of up to 2,048 of either.")
    dimensions = IntegerField(**_OPTIONAL, min_value=1, max_value=65_536, help_text="Numbers in a vector.")
    encoding_format = ChoiceField(["float", "base64"], **_OPTIONAL, help_text="Of each vector.")


_RESPONSE = ResponseFormat("arco", {}, message_id=_REPLY_ID)
_NAME = {"event": {"type": "string", "description": "The `type` of the event."}}
_RESPONSE_EVENT = {**_EVENT, "required": ["event", "data"], "properties": {**_NAME, **_EVENT["properties"]}}
_RESPONSE_ENDS = {
    (200, "application/json"): OpenApiResponse(ResponseOut, "The response."),
    (200, "text/event-stream"): OpenApiResponse(_RESPONSE_EVENT, "The response."),
}
_RESPONSE_EXAMPLES = [
    OpenApiExample("response", _RESPONSE.whole(_END), response_only=True, media_type="application/json"),
    OpenApiExample("events", _stream(_RESPONSE), response_only=True, media_type="text/event-stream"),
]

CHAT, PROJECT, REMEMBER = "x-chatmemory-conversation-id", "x-chatmemory-project", "x-chatmemory-remember"
DECISION, FOUND_BY, SENT_TOKENS = "x-chatmemory-conversation", "x-chatmemory-found-by", "x-chatmemory-sent-tokens"
HISTORY_TOKENS = "x-chatmemory-history-tokens", "x-chatmemory-said-tokens"
_SENT = {
    CHAT: "The client's own name of its conversation, or the id of a chat. "
    "`OPENAI_CONVERSATION_HEADERS` names other headers that are read, too.",
    PROJECT: "The project of a new chat. The conversation is only looked for in that project.",
    REMEMBER: "`false` for a request that is not part of a conversation, such as one for a title.",
}
_ANSWERED = {
    CHAT: "The chat's id, for all other calls.",
    DECISION: "`new`, `imported`, `continued`, `branched`, `regenerated`, `repeated` or `not stored`.",
    FOUND_BY: "`name`, `history`, `newest turn`, `retry` or `idempotency key`.",
    HISTORY_TOKENS[0]: "Tokens of all earlier messages in the chat.",
    HISTORY_TOKENS[1]: "Deprecated: the same as `x-chatmemory-history-tokens`.",
    SENT_TOKENS: "Tokens of the prompt that the model was sent.",
}

_header = partial(OpenApiParameter, type=str, location=OpenApiParameter.HEADER)
_HEADERS = [
    *(_header(name, description=what) for name, what in _SENT.items()),
    KEY,
    *(
        _header(name, description=what, deprecated=what.startswith("Deprecated"), response=[200])
        for name, what in _ANSWERED.items()
    ),
]

completions_create = openai_operation(
    operation_id="completions_create",
    request=CompletionIn,
    responses={
        (200, "application/json"): OpenApiResponse(CompletionOut, "The completion."),
        (200, "text/event-stream"): OpenApiResponse(_EVENT, "The completion."),
    },
    parameters=_HEADERS,
    examples=[
        *example({"model": "arco", "messages": [{"role": "user", "content": "Where is my order AB-1234?"}]}),
        OpenApiExample("completion", _ANSWER.whole(_END), response_only=True, media_type="application/json"),
        OpenApiExample("chunks", _stream(_ANSWER), response_only=True, media_type="text/event-stream"),
    ],
)
responses_create = openai_operation(
    operation_id="responses_create",
    request=ResponseIn,
    responses=_RESPONSE_ENDS,
    parameters=_HEADERS,
    examples=[*example({"model": "arco", "input": "Where is my order AB-1234?"}), *_RESPONSE_EXAMPLES],
)
responses_read = openai_operation(
    operation_id="responses_read",
    responses=_RESPONSE_ENDS,
    parameters=[ResponseQuery],
    examples=_RESPONSE_EXAMPLES,
)
responses_delete = openai_operation(operation_id="responses_delete", request=None, responses={200: ResponseDeletedOut})
responses_cancel = openai_operation(operation_id="responses_cancel", request=None, responses=ResponseOut)
responses_input_items = openai_operation(
    operation_id="responses_input_items",
    responses=InputItemsOut,
    parameters=[InputItemsQuery],
)
embeddings_create = openai_operation(
    operation_id="embeddings_create",
    request=EmbeddingsIn,
    responses={(200, "application/json"): OpenApiResponse({"type": "object"}, "The upstream's answer.")},
    examples=example({"model": "text-embedding-3-small", "input": "Where is my order AB-1234?"}),
)
models_read = openai_operation(
    operation_id="models_read",
    responses={(200, "application/json"): OpenApiResponse(OpenAIModelOut, "The model.")},
    examples=[OpenApiExample("model", model_object("arco", _ANSWER.created), response_only=True)],
)
