"""What drf-spectacular cannot see by itself: how tokens are sent, that unknown fields are refused, and what all answer.

The hook `completed` adds to every operation the errors it can answer with (`errors`), the events of a stream
(`events`), where an answer leads (`links`), what everything means (`words`) and an example of every body (`examples`),
and to every text of a request that it takes no NUL (`texts`).
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema

from chatmemory.api.fields import OneOf
from chatmemory.api.openapi import errors, examples, texts, words
from chatmemory.api.openapi import events as schema_events
from chatmemory.api.openapi import links as schema_links

METHODS = ("get", "post", "patch", "delete")


class OperationSchema(AutoSchema):
    """drf-spectacular's, but a DELETE whose view names a request has a body, too, and no docstring is published."""

    def get_description(self) -> str:  # type: ignore[override]  # its stubs are of another class
        return ""

    def _get_request_body(self, direction: Any = "request") -> Any:
        method = self.method
        # It leaves out the body of a DELETE, whatever the view says.
        self.method = "POST" if method == "DELETE" else method
        try:
            return super()._get_request_body(direction)  # type: ignore[no-untyped-call]  # not typed
        finally:
            self.method = method


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    target_class = "chatmemory.api.http.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "From `POST /v1/auth/token` or `create_token`.",
        }


class StrictScheme(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    """Serializers that refuse fields they do not know say so, and which names a field takes."""

    target_class = "conversations.api.serializers.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        for name, field in self.target.fields.items():
            for validator in field.validators:
                if isinstance(validator, OneOf):
                    schema["properties"][name]["enum"] = sorted(validator.names())
        if type(self.target).__doc__ is None:
            schema.pop("description", None)  # that of the base, which says what this says anyhow
        return {**schema, "additionalProperties": False}


class HistoryScheme(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    """A history says how long it may be, and that somebody must say something in it."""

    target_class = "conversations.api.stateless_serializers.HistoryField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        plain = auto_schema._map_serializer_field(self.target, direction, bypass_extensions=True)
        return {**plain, **self.target.in_the_schema}


def completed(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook: the schema with what is said above."""
    components = result["components"]
    texts.without_nul(components["schemas"], result["paths"])
    components["schemas"] |= errors.SCHEMAS | schema_events.SCHEMAS
    components["headers"] = errors.HEADERS
    components["responses"] = errors.RESPONSES
    for path, methods in result["paths"].items():
        for method in METHODS:
            if method in methods:
                _complete(path, method, methods[method])
                _require_choice(methods[method].get("requestBody", {}), components["schemas"])
    words.describe(result)
    examples.add_examples(result)
    return result


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    parameters = operation.get("parameters", [])
    # That another form of the answer can be had by `?format=` is DRF's, and no promise of ours.
    operation["parameters"] = [one for one in parameters if one["name"] != "format"]
    links = schema_links.links_of(operation["operationId"])
    for answer in operation["responses"].values():
        answer["headers"] = errors.WITH_ID
        _without_false_events(answer.get("content", {}))
        if links:
            answer["links"] = links
    operation["responses"] |= errors.errors_of(path, method, operation)


def _require_choice(body: dict[str, Any], schemas: dict[str, Any]) -> None:
    """A body that is one of several things has to be there, though no single field of it has to."""
    for content in body.get("content", {}).values():
        name = content["schema"].get("$ref", "").rsplit("/", 1)[-1]
        if "oneOf" in schemas.get(name, {}):
            body["required"] = True


def _without_false_events(content: dict[str, Any]) -> None:
    """DRF's renderer for events writes JSON where nothing is streamed."""
    events = content.get("text/event-stream", {}).get("schema", {}).get("$ref", "Event")
    if not events.endswith("Event"):
        del content["text/event-stream"]
