"""`POST /v1/embeddings`: passed on to the server's embeddings model, for clients that embed by the same base URL."""

import asyncio
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from pydantic import BeforeValidator, ValidationError
from rest_framework.request import Request

from chatmemory.api.error_handler import INSTEAD
from chatmemory.api.http import caller
from chatmemory.errors import NotFound
from chatmemory.llm import registry
from chatmemory.llm.openai.failures import TOO_LONG
from chatmemory.llm.protocol import UpstreamError
from chatmemory.text.cleaning import clean
from chatmemory.text.tokens import count_tokens
from conversations.openai_api import errors, schema
from conversations.openai_api.views import OpenAIView
from conversations.openai_api.wire import Text, Wire
from conversations.replies import generation

MAX_INPUTS = 2048  # as many as OpenAI takes
MAX_DIMENSIONS = 65_536  # more than any model has


def _inputs(value: object) -> list[object]:
    inputs = value if isinstance(value, list) and value and type(value[0]) is not int else [value]
    for one in inputs:
        are_tokens = isinstance(one, list) and one and all(type(token) is int for token in one)
        if not are_tokens and not isinstance(one, str):
            raise errors.invalid_field("a text, a list of tokens, or a list of either is expected", "invalid_type")
    if len(inputs) > MAX_INPUTS:
        raise errors.invalid_field(f"at most {MAX_INPUTS} items are taken", "array_above_max_length")
    return [clean(one) if isinstance(one, str) else one for one in inputs]


class EmbeddingsRequest(Wire):
    input: Annotated[list[Any], BeforeValidator(_inputs)]
    model: str
    dimensions: Annotated[int, Ge(1), Le(MAX_DIMENSIONS)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: Text | None = None


class EmbeddingsView(OpenAIView[tuple[dict[str, Any], int]]):
    is_stateless = True

    @schema.embeddings_create
    def post(self, request: Request) -> tuple[dict[str, Any], int]:
        """Embed texts, as OpenAI's clients do. Passed on to the server's embeddings model, if it has one; nothing is
        stored, and memory has no part in it. Errors have OpenAI's shape.
        """
        generation.refuse_when_draining()
        data = request.data
        self.drop_body()
        self.identify(request, data)
        if not registry.embeds():
            raise NotFound(INSTEAD["embeddings"])
        body = _read(data)
        tokens = sum(count_tokens(one) if isinstance(one, str) else len(one) for one in body.input)
        return body.model_dump(exclude={"model"}, exclude_none=True), tokens

    async def respond(self, prepared: tuple[dict[str, Any], int]) -> HttpResponseBase:
        parameters, tokens = prepared
        spent: int | None = tokens  # also if the client leaves: the upstream goes on, and bills it
        call = await generation.begin_call(caller(self.request), tokens)
        asking = registry.embedder().pass_on(parameters, timeout=settings.REPLY_DEADLINES.total)
        try:
            answer, billed = await generation.cancel_on_drain(asking)
            spent = billed or tokens
        except UpstreamError as error:
            if error.reason == TOO_LONG:
                why = "The vectors are too many for one answer: send fewer inputs, or ask for 'base64'."
                raise errors.RequestError(why, param="input", code="array_above_max_length") from None
            spent = None
            raise errors.ModelFailed(error.reason) from None
        finally:
            await asyncio.shield(generation.end_call(call, spent))
        return HttpResponse(answer, content_type="application/json")


def _read(data: object) -> EmbeddingsRequest:
    if not isinstance(data, dict):
        raise errors.RequestError("The body must be a JSON object.", param=None)
    for name in data.keys() - EmbeddingsRequest.model_fields.keys():
        raise errors.unsupported(name)
    try:
        body = EmbeddingsRequest.model_validate(data)
    except ValidationError as error:
        raise errors.validation_error(error, EmbeddingsRequest.model_fields) from None
    if body.model != (known := settings.MEMORY_EMBEDDINGS_MODEL):
        raise errors.ModelNotFound(body.model, [known])
    return body
