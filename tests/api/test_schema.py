"""The schema describes what the API does, for readers: it is valid and complete, its fields are those that are sent.

`make lint` validates it.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from drf_spectacular.generators import SchemaGenerator

from chatmemory import errors
from chatmemory.api import error_handler
from chatmemory.api.openapi_components import ERRORS, EXAMPLE
from conversations.models import ActiveReply, Chat, Message
from conversations.replies.serializers import MessageOut, ReplyEvent, message_json
from memory.api.serializers import ContextOut
from tests.api.talking import MESSAGE_KEYS
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer, parse_events

pytestmark = pytest.mark.exhaustive

SENT_AS_THEY_ARE = {
    "ask": "ask",
    "chats_create": "chats",
    "completions_create": "chat/completions",
    "message_first": "message/first",
    "responses_create": "responses",
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
            if key != "properties":
                yield from properties(inner, where)
    elif isinstance(schema, list):
        for inner in schema:
            yield from properties(inner, where)


def test_the_schema_is_served(live: LiveServer, schema: dict[str, Any]) -> None:
    """`tests/security/access/test_matrix.py` shows that it names every route."""
    assert httpx.get(f"{live.url}/v1/schema?format=json").json() == schema


def test_the_schema_tells_the_codes_that_errors_have() -> None:
    ours = {(kind.status, kind.code) for kind in kinds(errors.ChatMemoryError)}
    # These are answered to what no client of the schema sends: an unknown method, an endless head.
    apart = {405, 408, 414, 431}
    theirs = {(status, code) for status, (code, _) in error_handler.ERRORS.items() if status not in apart}
    told = {(status, code) for status, (codes, _) in ERRORS.items() for code in codes}
    assert told == ours | theirs


def kinds(kind: type[errors.ChatMemoryError]) -> Iterator[type[errors.ChatMemoryError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


def test_every_operation_tells_its_errors_one_by_one(schema: dict[str, Any]) -> None:
    """A `default` answer would allow anything at all."""
    told = {one["operationId"]: set(one["responses"]) for one in operations(schema)}
    assert all("default" not in answers and "500" in answers for answers in told.values())
    assert {"401", "403", "404", "409", "413", "415", "422", "429"} <= told["message"]


def test_responses_match_the_schema() -> None:
    *fields, of_tools, attached = MessageOut().fields
    assert (fields, of_tools, attached) == (MESSAGE_KEYS, "tool_call", "attachments")
    assert list(message_json(Message(chat=Chat(), seq=1))) == fields
    output = Message(chat=Chat(), seq=1, payload={"call_id": "c1", "name": "find"})
    assert list(message_json(output)) == [*fields, of_tools]
    link = {"kind": "image", "url": "https://example.com/cat.png"}
    assert list(message_json(Message(chat=Chat(), seq=1, payload={"attachments": [link]}))) == [
        *fields,
        attached,
    ]
    assert list(MessageOut(ActiveReply(chat=Chat())).data) == fields


def test_contexts_have_the_fields_of_the_schema(alice: Client, upstream: FakeUpstream) -> None:
    answer = alice.ask("x")
    now = alice.post(f"chats/{answer['chat_id']}/context", json={"message": "y"}).json()
    then = alice.get(f"chats/{answer['chat_id']}/messages/{answer['message']['id']}/context").json()
    assert {*now, "verified", "exact", "why", "card"} == set(then) == set(ContextOut().fields)
    section = {"kind", "tokens", "text", "message_ids", "clipped"}
    assert {frozenset(one) for one in now["sections"]} == {frozenset(section)}


def test_the_docs_work_without_internet_and_without_inline_scripts(live: LiveServer) -> None:
    with httpx.Client(base_url=live.url) as browser:
        page = browser.get("/v1/docs")
        assert page.status_code == 200
        assert page.headers["x-frame-options"] == "DENY"
        assert not re.search(r"<style|\sstyle=|\son\w+=", page.text)
        for attributes, inside in re.findall(r"<script([^>]*)>(.*?)</script>", page.text, re.DOTALL):
            assert "src=" in attributes
            assert not inside.strip()
        sources = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
        assert len(sources) >= 4
        for source in sources:
            assert source.startswith("/"), f"{source} is not ours"
            answer = browser.get(source.replace("&amp;", "&"))
            assert answer.status_code == 200
            assert answer.content
        script = next(source for source in sources if source.startswith("/v1/docs"))
        body = browser.get(script.replace("&amp;", "&"))
        assert "javascript" in body.headers["content-type"]
        assert not re.search(r"https?://(?!localhost|127\.0\.0\.1)", body.text)


def test_a_browser_is_sent_to_the_admin_with_a_slash(live: LiveServer) -> None:
    assert httpx.get(f"{live.url}/admin").headers["location"] == "/admin/"


@pytest.mark.parametrize("mode", ["open", "off"])
def test_the_first_page_leads_on(live: LiveServer, settings: Any, mode: str) -> None:
    settings.PLAYGROUND = mode
    page = httpx.get(f"{live.url}/")
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    leads = set(re.findall(r'<li><a href="([^"]+)"', page.text))
    assert leads == {"/v1/docs", "/admin/", "/readyz"} | ({"/playground/"} if mode == "open" else set())


# For readers


def test_every_operation_and_parameter_is_described(schema: dict[str, Any]) -> None:
    lacking = [one["operationId"] for one in operations(schema) if not (one["summary"] and one["description"])]
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
    assert [one["description"] for one in events] == [one.meaning for one in ReplyEvent.events]


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
def test_schema_examples_are_valid_requests(
    schema: dict[str, Any], alice: Client, upstream: FakeUpstream, name: str
) -> None:
    (operation,) = [one for one in operations(schema) if one["operationId"] == name]
    answer = alice.post(SENT_AS_THEY_ARE[name], json=examples(operation)[0])
    assert answer.status_code in (200, 201), answer.text
