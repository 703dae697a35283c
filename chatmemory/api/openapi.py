"""Extensions of drf-spectacular, for what it cannot infer: how tokens are sent, which values a field may have, and that
unknown fields are refused.

The hook `completed` adds to every operation its errors (`openapi_components`) and the example of its stream.
"""

import inspect
from typing import Any, ClassVar, NamedTuple

from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction
from rest_framework.fields import Field
from rest_framework.serializers import Serializer

from chatmemory.api import openapi_components as components
from chatmemory.api.fields import OneOf, Strict

Schema = dict[str, Any]

METHODS = ("get", "post", "put", "patch", "delete")
PATH_PARAMETERS = {
    "chat_id": "The chat's id.",
    "message_id": "The message's id.",
    "pin_id": "The pin's id.",
    "response_id": "The response's id.",
    "model": "The name of a model, as `GET /v1/models` lists it.",
    "version": "The number of a version of the summary, from 1.",
    "sha256": "The hash of the bytes, as the message tells it.",
}


class OperationSchema(AutoSchema):
    """drf-spectacular's, except that a DELETE may have a body.

    The first sentence of a handler's docstring is the summary of its operation, the rest is the description.
    """

    def get_summary(self) -> str:
        return self._docstring()[0]

    def get_description(self) -> str:  # type: ignore[override]  # its stubs are of another class
        return self._docstring()[2]

    def _docstring(self) -> tuple[str, str, str]:
        handler = getattr(self.view, getattr(self.view, "action", self.method.lower()), None)
        return " ".join((inspect.getdoc(handler) or "").split()).partition(". ")

    def _get_request_body(self, direction: Direction = "request") -> Any:
        method = self.method
        # drf-spectacular leaves out the body of a DELETE, even if the view declares one.
        self.method = "POST" if method == "DELETE" else method
        try:
            return super()._get_request_body(direction)  # type: ignore[no-untyped-call]  # not typed
        finally:
            self.method = method


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    target_class = "conversations.accounts.authentication.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "From `POST /v1/auth/token` or `create_token`.",
        }


class StrictScheme(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    """The schema of strict serializers: unknown fields are refused, and fields with `OneOf` list their names."""

    target_class = "chatmemory.api.fields.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(  # type: ignore[no-untyped-call]  # not typed
            self.target, direction, bypass_extensions=True
        )
        for name, field in self.target.fields.items():
            for validator in field.validators:
                if isinstance(validator, OneOf):
                    schema["properties"][name]["enum"] = sorted(validator.names())
        if type(self.target).__doc__ is None:
            schema.pop("description", None)  # the description is that of the base class
        return {**schema, "additionalProperties": False}


class Event(NamedTuple):
    """An event of a stream."""

    name: str
    meaning: str
    data: Strict
    has_id: bool | None = True
    """Whether its id is the position in the stream. False: parsers give it the id of the event before; None: it is the
    first, without an id."""


class EventStream(Serializer[Any]):
    """A stream of events; its schema is that of one of them."""

    position: ClassVar[str] = ""
    """Describes the id of an event; "" if a stream cannot be resumed."""
    events: ClassVar[list[Event]]


def event_data(**fields: Field[Any, Any, Any, Any]) -> Strict:
    """Return the serializer of an event's data."""
    data: type[Strict] = type("Data", (Strict,), fields)
    return data()


class EventStreamScheme(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    """The schema of `text/event-stream` describes one event; `contentSchema` describes the JSON in its text."""

    target_class = "chatmemory.api.openapi.EventStream"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> Schema:
        position = {"type": "string", "pattern": "^[0-9]+$", "description": self.target.position}
        alternatives: list[Schema] = []
        for event in self.target.events:
            data = auto_schema._map_serializer(event.data, direction)  # type: ignore[no-untyped-call]  # not typed
            line: Schema = {"type": "string", "description": "One line of JSON."}
            line |= {"contentMediaType": "application/json", "contentSchema": data}
            named = {"type": "string", "const": event.name, "description": "The event's name."}
            schema = components.closed_object(event=named, data=line)
            if self.target.position and event.has_id is not None:
                schema["properties"]["id"] = position
                schema["required"] += ["id"] * event.has_id
            alternatives.append({"description": event.meaning, **schema})
        return {"oneOf": alternatives}


def in_order(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Sort operations by their place in urls.py, then by method: the methods of a view set come in any order."""
    places = list(dict.fromkeys(path for path, *_ in endpoints))
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    return sorted(endpoints, key=lambda one: (places.index(one[0]), methods.index(one[2])))


def completed(result: Schema, generator: object, request: object, public: bool) -> Schema:
    """A postprocessing hook of drf-spectacular: return the schema with the additions listed above."""
    schemas = result["components"]["schemas"]
    schemas |= components.SCHEMAS
    result["components"] |= {"headers": components.HEADERS, "responses": components.RESPONSES}
    for path, methods in result["paths"].items():
        for method in METHODS:
            if method in methods:
                _complete(path, methods[method])
                _require_choice(methods[method].get("requestBody", {}), schemas)
    return result


def _complete(path: str, operation: Schema) -> None:
    # Answers in other formats by `?format=` are a feature of DRF that we do not promise.
    operation["parameters"] = [one for one in operation.get("parameters", []) if one["name"] != "format"]
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            parameter.setdefault("description", PATH_PARAMETERS.get(parameter["name"], ""))
    for answer in operation["responses"].values():
        answer["headers"] = {**answer.get("headers", {}), **components.WITH_ID}
        _complete_stream(answer.get("content", {}))
    operation["responses"] |= components.errors_of(path, operation)


def _require_choice(body: Schema, schemas: dict[str, Schema]) -> None:
    """Require a body that is one of several alternatives, though none of its fields is required."""
    for content in body.get("content", {}).values():
        name = content["schema"].get("$ref", "").rsplit("/", 1)[-1]
        if "oneOf" in schemas.get(name, {}):
            body["required"] = True


def _complete_stream(content: dict[str, Schema]) -> None:
    """Add the example of a stream; take it from operations that do not stream, where DRF's renderer writes JSON."""
    schema = content.get("text/event-stream", {}).get("schema", {}).get("$ref", "Event")
    if not schema.endswith("Event"):
        del content["text/event-stream"]
    elif "text/event-stream" in content and not content["text/event-stream"].get("examples"):
        content["text/event-stream"]["example"] = components.EXAMPLE
