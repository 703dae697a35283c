"""The schema is written for readers: everything is described, nothing internal is named, every body has an example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from drf_spectacular.generators import SchemaGenerator

from chatmemory.api.openapi_components import EXAMPLE, MEANINGS
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, parse_events

SENT_AS_THEY_ARE = {
    "ask": "ask",
    "chats_create": "chats",
    "completions_create": "chat/completions",
    "message_first": "message/first",
    "search": "search",
    "summarize": "summarize",
}
"""Operations whose example refers to no user's data, and their paths."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]  # not typed
    return made


def operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in schema["paths"].values():
        yield from methods.values()


def properties(schema: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each property in a schema, at any depth, with its location."""
    if isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            yield f"{where}.{name}", inner
            yield from properties(inner, f"{where}.{name}")
        for key, inner in schema.items():
            if key not in ("properties", "contains"):  # that is a condition, without new properties
                yield from properties(inner, where)
    elif isinstance(schema, list):
        for inner in schema:
            yield from properties(inner, where)


def test_every_operation_and_parameter_is_described(schema: dict[str, Any]) -> None:
    lacking = [
        one["operationId"] for one in operations(schema) if not (one["summary"] and one["description"])
    ]
    lacking += [
        f"{one['operationId']}: {parameter['name']}"
        for one in operations(schema)
        for parameter in one.get("parameters", ())
        if not parameter.get("description")
    ]
    assert lacking == []


def test_every_property_of_bodies_and_events_is_described(schema: dict[str, Any]) -> None:
    found = list(properties(schema["components"]["schemas"], ""))
    assert len(found) > 300
    assert [where for where, one in found if not one.get("description")] == []
    events = schema["components"]["schemas"]["ReplyEvent"]["oneOf"]
    assert [one["description"] for one in events] == list(MEANINGS.values())


def test_every_body_of_a_request_has_an_example_that_is_valid(schema: dict[str, Any]) -> None:
    seen = 0
    for operation in operations(schema):
        if "application/json" in operation.get("requestBody", {}).get("content", {}):
            whole = {
                **operation["requestBody"]["content"]["application/json"]["schema"],
                "components": schema["components"],
            }
            for one in examples(operation):
                seen += 1
                jsonschema.Draft202012Validator(whole).validate(one)
    assert seen >= 15


def examples(operation: dict[str, Any]) -> list[Any]:
    """Return the examples of a request's body, of which there is at least one."""
    content = operation["requestBody"]["content"]["application/json"]
    assert content.get("examples"), operation["operationId"]
    return [one["value"] for one in content["examples"].values()]


def test_the_example_of_a_stream_is_one(schema: dict[str, Any]) -> None:
    events = list(parse_events(iter(EXAMPLE.splitlines())))
    assert [one.name for one in events] == [
        "message.created",
        "content.delta",
        "content.delta",
        "message.completed",
    ]
    said = "".join(one.data["delta"] for one in events if one.name == "content.delta")
    assert events[-1].data["message"]["content"] == said
    assert events[-1].id == str(len(said))
    streams = [
        content["text/event-stream"]["example"]
        for operation in operations(schema)
        for answer in operation["responses"].values()
        if "text/event-stream" in (content := answer.get("content", {})) and operation["tags"] != ["openai"]
    ]
    assert len(streams) >= 5
    assert set(streams) == {EXAMPLE}


@pytest.mark.parametrize("name", SENT_AS_THEY_ARE)
def test_what_the_page_pre_fills_can_be_sent(
    schema: dict[str, Any], alice: Client, upstream: FakeUpstream, name: str
) -> None:
    (operation,) = [one for one in operations(schema) if one["operationId"] == name]
    answer = alice.post(SENT_AS_THEY_ARE[name], json=examples(operation)[0])
    assert answer.status_code in (200, 201), answer.text
