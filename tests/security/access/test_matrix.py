"""Every operation of the schema × every caller who does not own its object: 401 or 404, and nothing happens.

The last test is the control: the owner's same requests succeed. So the refusals are due to the caller's identity.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.urls import get_resolver, resolve
from knox.models import AuthToken

from chatmemory.api.async_view import SMALL_BYTES
from conversations.accounts import end_users
from conversations.accounts.models import EndUser, Scope
from conversations.api.replies import LimitedView
from conversations.models import Chat, Message
from tests.admin.rows import make_chat
from tests.security.access.callers import (
    APP,
    BESIDE,
    CANARY,
    END_USER,
    OTHERS,
    READS,
    STRANGERS,
    UNKNOWN,
    UNSCOPED,
    Caller,
    OwnedObjects,
    nowhere,
    of_app,
    owned_by,
    with_token,
)
from tests.security.access.operations import FRAMINGS, PUBLIC, Filled, Operation, operations
from tests.security.access.traces import everything
from tests.support.exhaustive import first_of, first_row_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.invariants import check_all
from tests.support.live_server import Client, LiveServer
from tests.support.routes import routes

pytestmark = pytest.mark.nightly

OPERATIONS = operations()
OF_END_USERS = [one for one in OPERATIONS if "end_user" in one.objects]
OF_OBJECTS = [one for one in OPERATIONS if one.objects and one not in OF_END_USERS]
OF_APPS = [one for one in OPERATIONS if one.id.startswith("webhook_")]
"""For an app's own account alone: see `tests/api/test_webhooks`, too."""
COMPLETING = ("completions_create", "responses_create")
"""Operations that name their chat in a header."""
CANCELLING = ("messages_cancel", "responses_cancel")
OF_ONESELF = [one for one in OPERATIONS if not one.objects and one.id not in PUBLIC and one not in OF_APPS]
ABOUT_CHATS = [
    one
    for one in OPERATIONS
    if one.id in (*COMPLETING, "embeddings_create")
    or one.id.startswith("responses_")
    or not {"chats", "messages", "memory"}.isdisjoint(one.tags)
]
NAME_AN_END_USER = [one for one in OPERATIONS if any(name["name"] in ("user", "end_user") for name in one.parameters)]
ENDS_ITSELF = ("v1_auth_token_destroy", "tokens_delete_all", "me_delete")
"""Operations that end the caller's token or account. They run last, in this order, each with its own token."""
ME = Filled("GET", "/v1/me")


# Refusals


def test_every_operation_of_the_schema_is_covered(live: LiveServer) -> None:
    served = httpx.get(f"{live.url}/v1/schema?format=json").json()["paths"]
    tried = {(one.path, one.method.lower()) for one in OPERATIONS}
    assert tried == {(path, method) for path, methods in served.items() for method in methods}
    paths = {re.sub(r"\{\w+\}", "{}", path) for path in served} | {"/v1/schema", "/v1/docs"}
    routed = {re.sub(r"<[^>]+>", "{}", path) for path in routes(get_resolver().url_patterns)}
    assert {path for path in routed if path.startswith("/v1/")} <= paths
    assert len(OF_OBJECTS) >= 15
    assert len(OF_ONESELF) >= 8


@pytest.mark.parametrize(
    ("owned", "name", "status", "code"),
    [
        *first_row_of(("owned_objects", name, 401, "not_authenticated") for name in UNKNOWN),
        *first_row_of(("end_users_house", name, 403, "permission_denied") for name in UNSCOPED),
    ],
    indirect=["owned"],
)
@pytest.mark.promise("P21")
def test_callers_without_credentials_or_scope_are_refused_everything(
    owned: OwnedObjects, name: str, status: int, code: str, calling: Callable[..., Caller], upstream: FakeUpstream
) -> None:
    caller = (UNKNOWN | UNSCOPED)[name](calling)
    before, asked = everything(), len(upstream.requests)
    for one, ids in product([*OF_OBJECTS, *OF_END_USERS, *OF_ONESELF, *OF_APPS], [owned.idle, nowhere()]):
        answer = caller.send(one.fill(ids))
        assert (answer.status_code, code_of(answer)) == (status, code), one.id
    assert (everything(), len(upstream.requests)) == (before, asked)


@pytest.mark.parametrize(("owned", "name"), OTHERS, indirect=["owned"])
@pytest.mark.promise("P21")
def test_objects_of_another_user_or_end_user_return_404(
    owned: OwnedObjects, name: str, calling: Callable[..., Caller], upstream: FakeUpstream
) -> None:
    caller = (STRANGERS | BESIDE)[name](calling)
    if name in BESIDE:
        caller.send(Filled("POST", "/v1/chats", body={}))  # makes the end user
    before, asked = everything(), len(upstream.requests)
    for one in OF_OBJECTS + (OF_END_USERS if name == "another app" else []):
        absent = caller.send(one.fill(nowhere()))
        assert absent.status_code == 404, one.id
        for ids in owned.all:
            assert comparable(caller.send(one.fill(ids))) == comparable(absent), one.id
    assert (everything(), len(upstream.requests)) == (before, asked)
    check_all()


@pytest.mark.parametrize(("owned", "name"), OTHERS, indirect=["owned"])
@pytest.mark.promise("P21")
def test_own_answers_contain_nothing_of_others(owned: OwnedObjects, name: str, calling: Callable[..., Caller]) -> None:
    caller, before = (STRANGERS | BESIDE)[name](calling), owned_by(owned.owner)
    refused = 403 if name in BESIDE else None
    secret = [CANARY, *(str(ids[what]) for ids in owned.all for what in ("chat_id", "message_id"))]
    # Completions last: their chat keeps the name that the caller gave it, the id of the owner's. With the other key, as
    # the caller has used the first one by then.
    for one in sorted(OF_ONESELF, key=lambda one: one.id in COMPLETING):
        if one.id not in ENDS_ITSELF:
            ids = owned.busy if one.id in COMPLETING else owned.idle
            key = {"Idempotency-Key": "other"} if one.id == COMPLETING[1] else {}
            answer = caller.send(one.fill({**ids, **key}))
            assert answer.status_code < 300 or answer.status_code == refused, f"{one.id}: {answer.text}"
            assert not [word for word in secret if word in f"{answer.headers}{answer.text}"], one.id
    assert owned_by(owned.owner) == before
    check_all()


@pytest.mark.parametrize("end_user", first_of(["", END_USER]))
@pytest.mark.promise("P21")
def test_a_token_that_may_only_read_changes_nothing(
    end_user: str, calling: Callable[..., Caller], end_users_house: OwnedObjects, upstream: FakeUpstream
) -> None:
    caller = of_app(APP, end_user, *READS)(calling)
    before, asked = owned_by(f"{APP}/{END_USER}"), len(upstream.requests)
    for one, ids in product([*OF_OBJECTS, *OF_END_USERS, *OF_ONESELF], end_users_house.all[:2]):  # the third never ends
        answer = caller.send(one.fill(ids))
        if one.method != "GET" or (end_user and one in OF_END_USERS):
            assert (answer.status_code, code_of(answer)) == (403, "permission_denied"), one.id
        elif end_user or one not in OF_OBJECTS:
            assert answer.status_code in (200, 404, 429), f"{one.id}: {answer.text}"
        else:
            assert answer.status_code == 404, one.id
    assert (owned_by(f"{APP}/{END_USER}"), len(upstream.requests)) == (before, asked)


@pytest.mark.promise("P21")
def test_the_app_has_access_to_every_operation_of_its_end_user(
    calling: Callable[..., Caller], end_users_house: OwnedObjects
) -> None:
    owned_objects, caller, app = end_users_house, of_app(APP, END_USER)(calling), of_app(APP)(calling)
    expected_of = {**{key: {403} for key in ENDS_ITSELF}, "users_export": {429}}
    for one in [*sorted([*OF_OBJECTS, *OF_ONESELF], key=_harmless_first), *OF_END_USERS[::-1]]:
        ids = dict(owned_objects.busy if one.id in CANCELLING else owned_objects.idle)
        by = app if one in OF_END_USERS else caller
        answer = by.send(one.fill({**ids, "Idempotency-Key": f"new-{one.id}"}))
        expected = expected_of.get(one.id, range(200, 300))
        assert answer.status_code in expected, f"{one.id}: {answer.status_code} {answer.text}"
    assert caller.send(ME).json()["username"] == f"{APP}/{END_USER}"
    assert not EndUser.objects.exists(), "a GET creates no end user"
    assert not Chat.objects.exists()


@pytest.mark.parametrize("named", [END_USER, "ben"])
@pytest.mark.parametrize("one", NAME_AN_END_USER, ids=lambda one: one.id)
@pytest.mark.promise("P21")
def test_operation_on_an_end_user_under_a_header_is_refused(
    one: Operation, named: str, calling: Callable[..., Caller], live: LiveServer
) -> None:
    """An app that passes requests of its users through sets the header; what is in path and query may be theirs."""
    app = end_users.create_app(APP)
    for name in (END_USER, "ben"):
        make_chat(end_users.create_end_user(app, name).user, title=CANARY)
    caller, itself = of_app(APP, named)(calling), of_app(APP)(calling)
    before = everything()
    filled = one.fill({**nowhere(), "end_user": END_USER})
    if filled.path == one.path:
        filled = replace(filled, query={**filled.query, "user": END_USER})
    answer = caller.send(filled)
    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")
    assert CANARY not in answer.text
    assert everything() == before
    assert itself.send(filled).status_code in (200, 204)


@pytest.mark.promise("P21")
def test_app_without_a_required_end_user_reaches_its_account_but_no_chats(
    calling: Callable[..., Caller], live: LiveServer, upstream: FakeUpstream
) -> None:
    end_users.create_app(APP)
    caller = of_app(APP)(calling)
    for one in ABOUT_CHATS:
        answer = caller.send(one.fill(nowhere()))
        assert (answer.status_code, "must name an end user" in answer.text) == (400, True), one.id
    assert (Chat.objects.count(), upstream.requests) == (0, [])
    for one in OPERATIONS:
        if one not in ABOUT_CHATS and one.id not in (*ENDS_ITSELF, *PUBLIC):
            answer = caller.send(one.fill(nowhere()))
            assert answer.status_code in (200, 204) or one.objects or one in OF_APPS, f"{one.id}: {answer.text}"
            assert "must name" not in answer.text, one.id


@pytest.mark.parametrize("scopes", [(Scope.ACT_FOR_USERS,), READS])
def test_read_for_a_new_end_user_finds_an_empty_account_and_creates_none(
    scopes: tuple[str, ...], calling: Callable[..., Caller], live: LiveServer
) -> None:
    caller = of_app(APP, "new", *scopes)(calling)
    before = everything()
    for one in [*OF_OBJECTS, *OF_ONESELF]:
        if one.method == "GET":
            answer = caller.send(one.fill(nowhere()))
            expected = 404 if one in OF_OBJECTS or one.id == "me_export" else 200
            assert answer.status_code == expected, f"{one.id}: {answer.text}"
            assert not answer.json().get("results") or one.id == "models_list"
    assert everything() == before


BEFORE: dict[str, dict[str, Any]] = {
    "more parameters than Django reads": {"params": [("a", "")] * 1001},
    "an unknown format, of a large body": {"params": {"format": "xml"}, "content": b" " * (SMALL_BYTES + 1)},
    "an unacceptable answer": {"headers": [("Accept", "image/png")]},
    "an impossible end user": {"headers": [("X-Chatmemory-User", "a/export")]},
    "two end users": {"headers": [("X-Chatmemory-User", "a"), ("X-Chatmemory-User", "b")]},
}
"""Requests that are refused before authentication."""


@pytest.mark.parametrize("way", first_of(BEFORE, 2))
def test_limited_operation_refused_before_authentication_gets_an_answer(
    way: str, live: LiveServer, alice: Client
) -> None:
    views = [
        (one, getattr(resolve(one.fill(nowhere()).path).func, "cls", object)) for one in [*OF_OBJECTS, *OF_ONESELF]
    ]
    limited = [one for one, view in views if issubclass(view, LimitedView)]
    assert len(limited) >= 8
    with httpx.Client(base_url=live.url) as client:
        for one, token in product(
            limited, ([], [("Authorization", "Bearer x")], [("Authorization", f"Bearer {alice.token}")])
        ):
            headers = [*token, *BEFORE[way].get("headers", [])]
            answer = client.request(one.method, one.fill(nowhere()).path, **{**BEFORE[way], "headers": headers})
            assert 400 <= answer.status_code < 500, (one.id, token, answer.text)


def code_of(answer: httpx.Response) -> str:
    """Return our code of an error, which is beside OpenAI's where the error has its shape."""
    error = answer.json()["error"]
    return str(error.get("reason", error["code"]))


def comparable(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """Return what an answer says, without its times and request id."""
    apart = ("date", "x-request-id", "openai-processing-ms")
    return (
        answer.status_code,
        answer.content,
        {name: value for name, value in answer.headers.items() if name not in apart},
    )


@pytest.mark.promise("P21")
def test_ids_of_two_owners_do_not_mix(
    calling: Callable[..., Caller], owned_objects: OwnedObjects, upstream: FakeUpstream
) -> None:
    caller = STRANGERS["another user"](calling)
    assert caller.user is not None
    own = make_chat(caller.user)
    said = Message.objects.filter(chat=own, role="assistant").latest("seq")
    before, asked = everything(), len(upstream.requests)
    for one in OF_OBJECTS:
        if {"chat_id", "message_id"} <= one.objects:
            for theirs in owned_objects.all:
                for mixed in ({"chat_id": str(own.pk)}, {"message_id": str(said.pk)}):
                    assert caller.send(one.fill({**theirs, **mixed})).status_code == 404, one.id
    assert (everything(), len(upstream.requests)) == (before, asked)


@pytest.mark.promise("P21")
def test_a_session_alone_changes_nothing(
    calling: Callable[..., Caller], owned_objects: OwnedObjects, upstream: FakeUpstream
) -> None:
    owner = User.objects.get(username="alice")
    caller = calling(session=owner, csrf=False)
    before, asked = everything(), len(upstream.requests)
    for one in [*OF_OBJECTS, *OF_ONESELF]:
        if one.method != "GET":
            answer = caller.send(one.fill(owned_objects.busy if one.id in CANCELLING else owned_objects.idle))
            assert answer.status_code == 403, one.id
            assert code_of(answer) == "permission_denied"
    assert (everything(), len(upstream.requests)) == (before, asked)


# The control


@pytest.mark.parametrize("framing", first_of(FRAMINGS))
@pytest.mark.promise("P21")
def test_the_owner_has_access_to_every_operation(
    framing: str, alice: Client, owned_objects: OwnedObjects, calling: Callable[..., Caller]
) -> None:
    caller = Caller(alice.http)
    for one in sorted([*OF_OBJECTS, *OF_ONESELF], key=_harmless_first):
        ids = dict(owned_objects.busy if one.id in CANCELLING else owned_objects.idle)
        asks = with_token(calling, User.objects.get(username="alice")) if one.id in ENDS_ITSELF else caller
        filled = one.fill({**ids, "Idempotency-Key": f"new-{one.id}"})
        answer = asks.send(replace(filled, framing=framing))
        assert answer.status_code < 300, f"{one.id}: {answer.status_code} {answer.text}"
    assert not Chat.objects.filter(pk=owned_objects.idle["chat_id"]).exists()
    assert not AuthToken.objects.exists()
    assert not User.objects.filter(username="alice").exists()


def _harmless_first(one: Operation) -> tuple[int, int]:
    """Sort key: reads first, then creates, changes and deletes; messages before chats, and the own account last."""
    last = ENDS_ITSELF.index(one.id) if one.id in ENDS_ITSELF else -len(one.path)
    return ("GET", "POST", "PATCH", "PUT", "DELETE").index(one.method), last
