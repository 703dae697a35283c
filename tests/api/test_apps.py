"""An app acts for its end users: an account for each behind one token, and what else the app may do for them."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module
from io import StringIO
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from django.apps import apps as django_apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from rest_framework.exceptions import AuthenticationFailed

from conversations import account_deletion
from conversations.accounts import authentication, quotas
from conversations.accounts.authentication import TokenAuthentication
from conversations.accounts.end_users import create_app, create_end_user
from conversations.accounts.models import Allowance, App, EndUser, Window
from conversations.models import Chat
from tests.api.talking import begin_reply, final, hold_replies
from tests.security.access.operations import operations
from tests.support.docs import snippet
from tests.support.exhaustive import first_of
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
from tests.support.spans import recorded
from tests.support.waiting import wait_for

pytestmark = pytest.mark.postgres

HELLO = [{"role": "user", "content": "Hello."}]
TALK = {"model": "arco", "messages": HELLO}
CALLS: dict[str, dict[str, Any]] = {
    "message/first": {"message": "Hello.", "stream": False},
    "ask": {"messages": HELLO, "stream": False},
    "chat/completions": TALK,
    "summarize": {"messages": HELLO},
}
"""Calls that ask a model, by their paths."""
ANNA, BEN = ({"X-Chatmemory-User": name} for name in ("anna", "ben"))


def command(*args: str, **options: Any) -> str:
    out = StringIO()
    call_command(*args, stdout=out, **options)
    return out.getvalue().strip()


@pytest.fixture
def shop(live: LiveServer) -> Iterator[Client]:
    """A client with the token of the app `shop`, which may leave out the name of an end user."""
    client = Client(live.url, command("create_app", "shop", own_chats=True))
    yield client
    client.http.close()


def titles(client: Client, headers: dict[str, str]) -> list[str]:
    return [chat["title"] for chat in client.get("chats", headers=headers).json()["results"]]


def test_each_end_user_has_chats_of_their_own(shop: Client) -> None:
    for headers, title in ((ANNA, "A"), (BEN, "B"), (ANNA, "A2"), ({}, "the app's")):
        assert shop.post("chats", json={"title": title}, headers=headers).status_code == 201
    assert [titles(shop, one) for one in (ANNA, BEN, {})] == [["A2", "A"], ["B"], ["the app's"]]
    assert set(User.objects.values_list("username", flat=True)) == {"shop", "shop/anna", "shop/ben"}
    assert set(Chat.objects.values_list("app__user__username", flat=True)) == {"shop"}


def test_a_known_end_user_costs_no_query_more(shop: Client) -> None:
    shop.post("chats", headers=ANNA)
    door = TokenAuthentication()
    door._external_id = "anna"
    with CaptureQueriesContext(connection) as queries:
        user, _ = door.authenticate_credentials(shop.token.encode())
    assert (user.username, len(queries)) == ("shop/anna", 1)


IDS = ["Zoë/b", "x" * 200, "100%2F+?#", "anna@example.org", "/", "{'a': \"b\"}", "export", "..a"]


@pytest.mark.parametrize("external_id", first_of(IDS, 3))
def test_any_printable_id_works_in_header_body_and_path(shop: Client, external_id: str) -> None:
    shop.post("chats", json={"title": "by header"}, headers={"X-Chatmemory-User": external_id.encode()})
    assert shop.post("chat/completions", json=TALK | {"user": external_id}).status_code == 200
    path = f"users/{quote(external_id, safe='')}"
    exported = shop.get(f"{path}/export").json()
    assert [chat["title"] for chat in exported["chats"]] == ["by header", "Hello."]
    assert exported["external_id"] == external_id
    assert shop.delete(path).status_code == 204
    assert (EndUser.objects.count(), Chat.objects.count(), User.objects.count()) == (0, 0, 1)
    assert shop.delete(path).status_code == 404


def test_end_user_names_are_unique_per_app_only(live: LiveServer, shop: Client) -> None:
    """The account of an app may be renamed, and an id may look like the shortened name of another account."""
    long = {"X-Chatmemory-User": "x" * 200}
    for headers in (ANNA, long):
        shop.post("chats", headers=headers)
    taken = User.objects.get(username__startswith="shop/x").username.removeprefix("shop/")
    User.objects.filter(username="shop").update(username="store")
    client = Client(live.url, command("create_app", "shop"))
    for headers in (ANNA, long, {"X-Chatmemory-User": taken}):
        assert client.post("chats", json={}, headers=headers).status_code == 201
        assert len(titles(client, headers)) == 1
    assert len(titles(shop, ANNA)) == 1
    client.http.close()


def test_session_and_plain_token_cannot_name_end_user(live: LiveServer, shop: Client) -> None:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("root"))
    cookies = {"sessionid": browser.cookies["sessionid"].value}
    codes = [httpx.get(f"{live.url}/v1/me", headers=headers, cookies=cookies).status_code for headers in ({}, ANNA)]
    assert (codes, EndUser.objects.exists()) == ([200, 401], False)


@pytest.mark.parametrize("named", [{"user": ""}, {"safety_identifier": " "}, {"safety_identifier": "", "user": "anna"}])
def test_an_empty_name_in_the_body_is_refused(shop: Client, alice: Client, named: dict[str, str]) -> None:
    assert shop.post("chat/completions", json=TALK | named).status_code == 400
    assert not Chat.objects.exists()
    assert alice.post("chat/completions", json=TALK | named).status_code == 200, "she has no end users"


NO_IDS = ["", "x" * 201, "x" * 10_000, "tab\tbed", b"\xff\xfe", "..", "a/export", "a/memory", "a/deletion"]
NOT_PRINTABLE, SEVERAL = "1 to 200 printable characters", "name more than one end user"


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        *(([("X-Chatmemory-User", one)], NOT_PRINTABLE) for one in NO_IDS),
        ([("X-Chatmemory-User", "anna"), ("X-Chatmemory-User", "")], NOT_PRINTABLE),
        ([("X-Chatmemory-User", "anna"), ("X-Chatmemory-User", "ben")], SEVERAL),
        ([("X-Chatmemory-User", "anna"), ("X-OpenWebUI-User-Id", "ben")], SEVERAL),
    ],
)
def test_headers_with_no_id_or_several_are_refused(shop: Client, settings: Any, headers: Any, why: str) -> None:
    settings.END_USER_HEADER = ("x-chatmemory-user", "x-openwebui-user-id")
    for call in (shop.get, shop.post):
        answer = call("chats", headers=headers)
        assert (answer.status_code, why in answer.text) == (400, True)
    assert not EndUser.objects.exists()


def test_spellings_of_one_id_name_one_end_user(shop: Client, settings: Any) -> None:
    """With and without blanks, however its letters are composed, by either header and by two that agree."""
    settings.END_USER_HEADER = ("x-chatmemory-user", "x-openwebui-user-id")
    composed, apart = "Zoë".encode(), "Zoe\u0308".encode()
    for headers in (
        [("X-Chatmemory-User", composed)],
        [("X-OpenWebUI-User-Id", apart)],
        [("X-OpenWebUI-User-Id", composed), ("X-Chatmemory-User", apart)],
    ):
        assert shop.post("chats", headers=headers).status_code == 201
    for user in ("Zoë ", " Zoe\u0308"):
        assert shop.post("chat/completions", json=TALK | {"user": user}).status_code == 200
    assert EndUser.objects.get().external_id == "Zoë"
    assert shop.delete(f"users/{quote(' Zoe' + chr(0x308))}").status_code == 204


@pytest.mark.exhaustive
def test_the_commands_of_the_page_serve_one_end_user(shop: Client, live: LiveServer, settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
    environment = {**os.environ, "TOKEN": shop.token}
    for language, start in (("bash", ["bash", "-c"]), ("python", [sys.executable, "-c"])):
        program = snippet("docs/apps.md", language, live.url, heading="Name the end user")
        out = subprocess.run([*start, program], env=environment, capture_output=True, text=True, check=True)
        assert "AB-1234" in out.stdout or language == "python"
    assert set(Chat.objects.values_list("owner__username", flat=True)) == {"shop/anna"}


def test_safety_identifier_counts_before_user_and_the_header_before_both(shop: Client) -> None:
    body = TALK | {"user": "a", "safety_identifier": "b"}
    assert shop.post("chat/completions", json=body).status_code == 200
    assert shop.post("chat/completions", json=body, headers=ANNA).status_code == 200
    owners = Chat.objects.order_by("pk").values_list("owner__username", flat=True)
    assert list(owners) == ["shop/b", "shop/anna"]


def test_end_user_chat_is_matched_however_named(shop: Client) -> None:
    hello = [{"role": "user", "content": "Hello, I am looking for a red bicycle."}]
    answer = shop.post("chat/completions", json={"model": "arco", "messages": hello}, headers=ANNA).json()
    history = [*hello, answer["choices"][0]["message"], {"role": "user", "content": "And a blue one?"}]
    later = shop.post("chat/completions", json={"model": "arco", "messages": history, "user": "anna"})
    assert later.headers["x-chatmemory-conversation"] == "continued"


def test_ten_first_requests_at_once_make_one_end_user(shop: Client) -> None:
    with ThreadPoolExecutor(10) as pool:
        codes = list(pool.map(lambda _: shop.post("chats", headers=ANNA).status_code, range(10)))
    assert (codes, EndUser.objects.count()) == ([201] * 10, 1)


@pytest.mark.parametrize("fails", [False, True])
def test_logs_and_traces_of_a_path_with_an_end_user_leave_the_id_out(
    shop: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    named = [one for one in operations() if "end_user" in one.names]
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 500 if fails else 404),
        (ANNA, 403),
        ({"Authorization": "Bearer x"}, 401),
        ({"X": "x" * 70_000}, 431),
    ]
    if fails:
        monkeypatch.setattr(authentication, "find_end_user", lambda *_: 1 / 0)
    monkeypatch.setattr(logging.getLogger("httpx"), "disabled", True)
    capsys.readouterr()
    with recorded(monkeypatch) as spans:
        for one, (headers, status) in product(named, cases):
            path = one.path.replace("{end_user}", quote("canary a/ü", safe=""))
            if fails and headers == ANNA:
                continue
            assert shop.http.request(one.method, path, headers=headers).status_code == status
        wait_for(lambda: len(list(spans)) >= len(named))
        told = capsys.readouterr().err + spans.text
    assert "/v1/users/{end_user}/export" in told
    assert "canary" not in told


def test_limits_count_per_end_user(shop: Client) -> None:
    shop.post("chats", headers=ANNA)
    Allowance.objects.create(user=EndUser.objects.get().user, requests_per_minute=1)
    codes = [
        shop.post("message/first", json={"message": "Hi.", "stream": False}, headers=headers).status_code
        for headers in (ANNA, ANNA, BEN)
    ]
    assert codes == [200, 429, 200]


@pytest.fixture
def end_users(shop: Client, live: LiveServer) -> Iterator[list[Client]]:
    """Clients that name an end user each, with the token of the app."""
    with ExitStack() as stack:
        clients = [Client(live.url, shop.token) for _ in range(3)]
        for number, client in enumerate(clients):
            stack.callback(client.http.close)
            client.http.headers["X-Chatmemory-User"] = f"user-{number}"
        yield clients


def test_all_end_users_of_an_app_together_have_so_many_replies_at_the_same_time(
    end_users: list[Client], alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.LIMIT_APP_STREAMS = 2
    one, two, three = end_users
    hold_replies(upstream)
    turns = [begin_reply(one), begin_reply(two)]
    for path, body in CALLS.items():
        refused = three.post(path, json=body)
        assert (refused.status_code, "2 replies for this app" in refused.text) == (429, True), path
    assert begin_reply(alice), "who belongs to no app"
    upstream.release()
    for client, turn in zip((one, two), turns, strict=True):
        final(client, turn)
    upstream.behave(Behaviour(text="Fine."))
    wait_for(lambda: not quotas._slots)
    assert [three.post(path, json=body).status_code for path, body in CALLS.items()] == [200] * len(CALLS)
    assert not quotas._slots


def test_all_end_users_of_an_app_together_have_so_many_tokens_a_day(
    end_users: list[Client], alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.LIMIT_APP_TOKENS_PER_DAY = 1
    for path, body in CALLS.items():
        Window.objects.filter(kind="app_tokens").delete()
        assert end_users[0].post(path, json=body).status_code == 200
        wait_for(lambda: Window.objects.filter(kind="app_tokens", count__gt=1).exists())
        for client in end_users:
            refused = client.post(path, json=body)
            assert (refused.status_code, "Your app has reached" in refused.text) == (429, True), path
    assert 80_000 < int(refused.headers["retry-after"]) <= 86_400
    assert alice.post("ask", json=CALLS["ask"]).status_code == 200
    Window.objects.update(since=Now() - timedelta(days=1))
    assert end_users[0].post("ask", json=CALLS["ask"]).status_code == 200


def test_an_app_makes_so_many_end_users_a_minute(shop: Client, settings: Any) -> None:
    settings.LIMIT_NEW_END_USERS_PER_MINUTE = 2
    codes = [shop.post("chats", json={}, headers={"X-Chatmemory-User": name}).status_code for name in "abcab"]
    assert (codes, EndUser.objects.count()) == ([201, 201, 429, 201, 201], 2)


def test_a_disabled_end_user_and_one_being_deleted_are_refused(shop: Client) -> None:
    shop.post("chats", headers=ANNA)
    User.objects.filter(username="shop/anna").update(is_active=False)
    answer = shop.get("chats", headers=ANNA)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")


def test_tokens_tell_their_names_and_scopes(shop: Client) -> None:
    command("create_token", "shop", name="dashboard", scope=["read-only", "act-for-users"])
    command("create_token", "shop", name="plain")
    found = {one["name"]: one["scopes"] for one in shop.get("auth/tokens").json()["results"]}
    assert found == {
        "create_app": ["act-for-users"],
        "dashboard": ["act-for-users", "read-only"],
        "plain": ["chat"],
    }


def test_an_app_is_deleted_with_its_end_users(shop: Client) -> None:
    for headers in (ANNA, BEN, {}):
        shop.post("chats", json={}, headers=headers)
    assert "with 3 chats" in command("forget_user", "shop", yes=True)
    assert not any(model.objects.exists() for model in (User, App, EndUser, Chat))


def test_delete_all_end_users_finishes_within_a_request(shop: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App.objects.get()
    create_end_user(app, "anna")
    account_deletion.request_erasure(app.pk)
    assert not account_deletion.erase(app.pk, until=0)
    assert EndUser.objects.count() == 1

    def late() -> None:
        with pytest.raises(AuthenticationFailed):
            create_end_user(app, "ben")
        connection.close()

    thread, counted = threading.Thread(target=late), Window.objects.filter

    def between(**condition: Any) -> Any:
        """Another request makes an end user after it was seen that there are no more."""
        if condition == {"owner_id": app.pk}:
            thread.start()
            thread.join(0.5)
        return counted(**condition)

    monkeypatch.setattr(Window.objects, "filter", between)
    assert account_deletion.erase(app.pk)
    thread.join()
    assert not User.objects.exists()


def test_new_app_must_name_an_end_user_and_an_existing_one_need_not(live: LiveServer) -> None:
    client = Client(live.url, command("create_app", "shop"))
    refused = client.get("chats")
    assert (refused.status_code, "must name an end user" in refused.text) == (400, True)
    assert client.post("chat/completions", json=TALK).status_code == 400
    assert client.post("chat/completions", json=TALK | {"user": "anna"}).status_code == 200
    with connection.cursor() as cursor:  # as a server of the version before makes one
        user = User.objects.create(username="old")
        cursor.execute("INSERT INTO conversations_app (user_id) VALUES (%s)", [user.pk])
    assert not App.objects.get(pk=user.pk).requires_end_user
    client.http.close()


def test_upgrade_normalizes_stored_ids_unless_taken(live: LiveServer) -> None:
    shop, forum = create_app("shop"), create_app("forum")
    ids = ((shop, "anna"), (shop, "anna "), (forum, " anna"), (shop, "Zoe\u0308"), (shop, "a b"))
    for app, external_id in ids:
        EndUser.objects.create(
            app=app, external_id=external_id, user=User.objects.create(username=f"{app}/{external_id}")
        )
    import_module("conversations.migrations.0002_named_end_users_and_siblings").normalize_ids(django_apps, None)
    stored = EndUser.objects.order_by("pk").values_list("external_id", flat=True)
    assert list(stored) == ["anna", "anna ", "anna", "Zoë", "a b"]


def test_end_user_scope_requires_an_app(shop: Client) -> None:
    User.objects.create(username="eve")
    with pytest.raises(CommandError, match="create_app"):
        command("create_token", "eve", scope=["act-for-users"])
    for name in ("shop", "a/b", ""):
        with pytest.raises(CommandError, match="cannot be an app's name"):
            command("create_app", name)
