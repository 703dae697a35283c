"""Extensions of drf-spectacular, for what it cannot infer: how tokens are sent, and that unknown fields are refused.

The hook `completed` adds to every operation its errors (`errors`), the events of its stream (`events`), links from
its answer (`links`), descriptions (`words`) and an example of every body (`examples`), and to every text of a request
the rule that it has no NUL (`texts`).
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
    """drf-spectacular's, except that a DELETE may have a body, and docstrings are not published."""

    def get_description(self) -> str:  # type: ignore[override]  # its stubs are of another class
        return ""

    def _get_request_body(self, direction: Any = "request") -> Any:
        method = self.method
        # drf-spectacular leaves out the body of a DELETE, even if the view declares one.
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
    """The schema of strict serializers: unknown fields are refused, and fields with `OneOf` list their names."""

    target_class = "conversations.api.serializers.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        for name, field in self.target.fields.items():
            for validator in field.validators:
                if isinstance(validator, OneOf):
                    schema["properties"][name]["enum"] = sorted(validator.names())
        if type(self.target).__doc__ is None:
            schema.pop("description", None)  # the description is that of the base class
        return {**schema, "additionalProperties": False}


class HistoryScheme(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    """The schema of a history: its maximum length, and that one message that is not the system's has text."""

    target_class = "conversations.api.stateless_serializers.HistoryField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        plain = auto_schema._map_serializer_field(self.target, direction, bypass_extensions=True)
        return {**plain, **self.target.in_the_schema}


def completed(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular: return the schema with the additions listed above."""
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
    # Answers in other formats by `?format=` are a feature of DRF that we do not promise.
    operation["parameters"] = [one for one in parameters if one["name"] != "format"]
    links = schema_links.links_of(operation["operationId"])
    for answer in operation["responses"].values():
        answer["headers"] = {**answer.get("headers", {}), **errors.WITH_ID}
        _without_false_events(answer.get("content", {}))
        if links:
            answer["links"] = links
    operation["responses"] |= errors.errors_of(path, method, operation)


def _require_choice(body: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Require a body that is one of several alternatives, though none of its fields is required."""
    for content in body.get("content", {}).values():
        name = content["schema"].get("$ref", "").rsplit("/", 1)[-1]
        if "oneOf" in schemas.get(name, {}):
            body["required"] = True


def _without_false_events(content: dict[str, Any]) -> None:
    """Remove the event stream from operations that do not stream: DRF's renderer for events writes JSON there."""
    events = content.get("text/event-stream", {}).get("schema", {}).get("$ref", "Event")
    if not events.endswith("Event"):
        del content["text/event-stream"]
