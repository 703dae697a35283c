"""Every operation of the schema, filled with valid values: only the caller's identity can be a reason for a refusal.

A new route with a parameter or field that has no valid value here raises an error. Add the value, and the matrix
covers the route.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drf_spectacular.generators import SchemaGenerator

OBJECTS = ("chat_id", "message_id", "version", "token_id", "pin_id", "sha256", "end_user", "response_id")
"""Parameters and fields that identify a user's objects."""
PUBLIC = ("healthz", "readyz", "v1_auth_token_create")
"""Operations that need no authentication."""
VALUES: dict[str, Any] = {
    "across": "pins",
    "after": 0,
    "against": 1,
    "before": 9,
    "budget": 2000,
    "confirm": "alice",
    "content": "A word.",
    "conversation": None,
    "dimensions": 4,
    "encoding_format": "float",
    "input": "A word.",
    "instructions": "Be brief.",
    "lifts_pins": False,
    "limit": 5,
    "max_completion_tokens": 100,
    "max_output_tokens": 100,
    "message": "A word.",
    "metadata": {"lesson": 1},
    "metadata.key": "word",
    "mode": "update",
    "muted": True,
    "model": "arco",
    "model_variant": "arco",
    "name": "x",
    "options": {},
    "one of body": {"uuid": "0f3c", "chat_messages": [{"sender": "human", "text": "A word."}]},
    "order": "asc",
    "pause": True,
    "password": "not looked at",
    "memory_events": True,
    "pinned": True,
    "policy": "chunked",
    "previous_response_id": None,
    "previous_summary": "",
    "project": "",
    "q": "word",
    "restore": 1,
    "retain_days": 30,
    "role": "user",
    "scope": "chat",
    "search": "word",
    "store": True,
    "temperature": 0.5,
    "temporary": False,
    "tools": [],
    "since": "2026-01-01T00:00:00Z",
    "starting_after": 0,
    "stream": False,
    "text": "A word.",
    "url": "https://example.com/hook",
    "ended": False,
    "events": ["chat.deleted"],
    "new_secret": False,
    "title": "A word.",
    "until": "2027-01-01T00:00:00Z",
}
"""A valid value for each name, wherever it occurs. Ids come from the test."""
UNFILLED = ("confirm", "cursor", "user", "Last-Event-ID")
"""Optional parameters that only an earlier answer can give, or that repeat another one."""


FRAMINGS = ("whole", "chunked", "single bytes", "chunks of single bytes")
"""How a body is sent: at once with its length, in chunks without it, and both a byte at a time."""


@dataclass(frozen=True)
class Filled:
    """A complete request, except for the caller's credentials."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    framing: str = FRAMINGS[0]

    def options(self) -> dict[str, Any]:
        """The keyword arguments for a call of httpx."""
        sent = framed(b"" if self.body is None else json.dumps(self.body).encode(), self.framing)
        return {**sent, "params": dict(self.query), "headers": {**sent["headers"], **self.headers}}


def framed(body: bytes, framing: str, content_type: str = "application/json") -> dict[str, Any]:
    """Content and headers for httpx to send `body` in this framing; no headers for an empty one."""
    headers = {"Content-Type": content_type} if body else {}
    if not body or framing == "whole":
        return {"content": body, "headers": headers}
    if framing == "single bytes":
        headers["Content-Length"] = str(len(body))  # otherwise httpx sends the pieces as chunks
    size = 7 if framing == "chunked" else 1
    return {"content": (body[at : at + size] for at in range(0, len(body), size)), "headers": headers}


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    id: str
    method: str
    path: str
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    components: Mapping[str, Any] = field(repr=False)
    tags: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Names of its parameters and of the fields of its body."""
        fields = self._resolved(self.body or {}).get("properties", {})
        return {*(one["name"] for one in self.parameters), *fields}

    @property
    def objects(self) -> set[str]:
        """Which of `OBJECTS` it names."""
        return self.names & set(OBJECTS)

    def fill(self, values: Mapping[str, Any]) -> Filled:
        """Build the request with `values` for objects and headers, and with our values for the rest."""
        # OpenAI's clients name their chat in a header.
        named = {"x-chatmemory-conversation-id": values["chat_id"]} if "chat_id" in values else {}
        known = {**VALUES, **named, **values}
        path = self.path
        query: dict[str, Any] = {}
        headers: dict[str, str] = {}
        for one in self.parameters:
            name = one["name"]
            if name in UNFILLED or (one["in"] == "header" and name not in known):
                continue
            if name not in known:
                raise LookupError(f"{self.id}: nothing is known to fill in for the parameter {name!r}: add it here")
            if one["in"] == "path":
                path = path.replace(f"{{{name}}}", str(known[name]))
            else:
                (query if one["in"] == "query" else headers)[name] = known[name]
        body = None if self.body is None else self._value("body", self.body, known)
        return Filled(self.method, path, query, headers, body)

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema or "allOf" in schema or "oneOf" in schema:
            name = schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else ""
            # Of several possible bodies, take the last, which names an object.
            schema = self.components[name] if name else schema.get("allOf", schema.get("oneOf"))[-1]
        return schema

    def _value(self, name: str, schema: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
        schema = self._resolved(schema)
        if name in known:
            return known[name]
        if "properties" in schema:
            return {inner: self._value(inner, of, known) for inner, of in schema["properties"].items()}
        if schema.get("type") == "array":
            return [self._value(f"one of {name}", schema["items"], known)]
        raise LookupError(f"{self.id}: nothing is known to fill in for the field {name!r}: add it here")


def operations() -> list[Operation]:
    """Return all operations, in the order of the schema."""
    schema = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]  # has no annotations
    return [
        Operation(
            told["operationId"],
            method.upper(),
            path,
            tuple(told.get("parameters", ())),
            told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema"),
            schema["components"]["schemas"],
            tuple(told.get("tags", ())),
        )
        for path, methods in schema["paths"].items()
        for method, told in methods.items()
    ]
