"""The schema describes what the API does: it is valid, and its fields are those that are really sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.urls import get_resolver

from chatmemory import errors
from chatmemory.api import error_handler
from chatmemory.api.openapi_components import ERRORS
from conversations.api.serializers import MessageOut
from conversations.models import ActiveReply, Chat, Message
from conversations.replies.events import message_json, streaming_json
from memory.api.serializers import BriefOut, ContextOut, brief_json
from memory.models import ConversationBrief
from tests.api.talking import MESSAGE_KEYS
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
from tests.support.routes import routes


def test_the_schema_is_valid_and_without_warnings() -> None:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    assert "openapi: 3" in out.getvalue()


def test_the_schema_is_served_and_names_every_route(live: LiveServer) -> None:
    answer = httpx.get(f"{live.url}/v1/schema?format=json")
    assert answer.status_code == 200
    paths = {re.sub(r"\{\w+\}", "{}", path) for path in answer.json()["paths"]}
    served = {re.sub(r"<[^>]+>", "{}", path) for path in routes(get_resolver().url_patterns)}
    api = {path for path in served if path.startswith("/v1/") and path not in ("/v1/schema", "/v1/docs")}
    assert api - paths == set()


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


def test_every_operation_tells_its_errors_one_by_one(live: LiveServer) -> None:
    """A `default` answer would allow anything at all."""
    paths = httpx.get(f"{live.url}/v1/schema?format=json").json()["paths"]
    told = {
        (path, method): set(one["responses"]) for path, item in paths.items() for method, one in item.items()
    }
    assert all("default" not in answers and "500" in answers for answers in told.values())
    assert {"401", "403", "404", "409", "413", "415", "422", "429"} <= told["/v1/message", "post"]


def test_what_is_sent_has_the_fields_of_the_schema() -> None:
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
    assert list(streaming_json(ActiveReply(chat=Chat()), 1)) == fields
    assert set(brief_json(ConversationBrief(chat=Chat()))) == set(BriefOut().fields)


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
