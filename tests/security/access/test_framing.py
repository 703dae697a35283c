"""How a body is sent changes nothing: every operation with a body, whole, chunked, and one byte at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import httpx
import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from conversations.models import Message
from tests.security.access.operations import FRAMINGS, Filled, Operation, framed, operations
from tests.security.access.rows import remembered
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer

pytestmark = pytest.mark.exhaustive

WITH_BODY = [one for one in operations() if one.body is not None]
REPEATABLE = [one for one in WITH_BODY if one.id != "me_delete"]
"""Operations that can be repeated. Erasing the own account, in each framing, is part of the matrix's control test."""
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32,64}\b")
PASSWORD = "correct horse battery"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=\"created\": )\d+")


def told(body: Any) -> Any:
    """Remove from an answer what always differs: ids, hashes, times."""
    return json.loads(MOMENT.sub("0", ID.sub("<id>", json.dumps(body))))


def answers(client: Client, one: Operation, values: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield the answers to the same request in each framing, each on a chat of its own."""
    for number, framing in enumerate(FRAMINGS):
        filled = one.fill({**values, **remembered(), "Idempotency-Key": f"{one.id}-{number}"})
        answer = send(client, replace(filled, framing=framing))
        yield answer.status_code, told(answer.json()) if answer.content else None


def send(client: Client, filled: Filled) -> httpx.Response:
    answer: httpx.Response = client.http.request(filled.method, filled.path, **filled.options())
    return answer


@pytest.mark.parametrize("one", REPEATABLE, ids=lambda one: one.id)
@pytest.mark.promise("P28")
def test_a_body_is_read_however_it_is_sent(one: Operation, alice: Client, upstream: FakeUpstream) -> None:
    User.objects.filter(username="alice").update(password=make_password(PASSWORD))
    whole, *others = answers(alice, one, {"username": "alice", "password": PASSWORD})
    assert whole[0] < 300, whole
    assert others == [whole] * len(others)


def test_what_is_no_json_is_refused_however_it_is_sent(alice: Client, upstream: FakeUpstream) -> None:
    values = {**remembered(), "username": "alice", "password": "x"}
    for one, framing in product(WITH_BODY, FRAMINGS):
        filled = one.fill(values)
        answer = alice.http.request(filled.method, filled.path, **framed(b"not json", framing))
        assert answer.status_code == 400, f"{one.id}, {framing}: {answer.text}"
        error = answer.json()["error"]
        assert error.get("reason", error["code"]) == "invalid_request"


def test_an_edit_that_redacts_does_so_however_it_is_sent(alice: Client) -> None:
    for framing in FRAMINGS:
        where = remembered()
        path = f"/v1/chats/{where['chat_id']}/messages/{where['message_id']}"
        answer = send(alice, Filled("PATCH", path, body={"content": "redacted"}, framing=framing))
        assert answer.json()["content"] == "redacted", framing
        assert Message.objects.get(pk=where["message_id"]).content == "redacted"


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_form_of_the_admin_is_read_however_it_is_sent(framing: str, live: LiveServer) -> None:
    User.objects.create_superuser("boss", password=PASSWORD)
    csrf = "0123456789abcdef0123456789abcdef"
    fields = {"csrfmiddlewaretoken": csrf, "username": "boss", "password": PASSWORD}
    form = httpx.Request("POST", live.url, files={name: (None, value) for name, value in fields.items()})
    sent = framed(form.read(), framing, form.headers["content-type"])
    answer = httpx.post(f"{live.url}/admin/login/", cookies={"csrftoken": csrf}, **sent)
    assert answer.status_code == 302
    assert "sessionid" in answer.cookies
