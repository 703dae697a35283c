"""Authentication: tokens, sessions of staff, and what each request leaves behind."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from knox.models import AuthToken

from conversations.models import Chat
from tests.api.talking import error
from tests.support.exhaustive import first_of
from tests.support.factories import session_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer

PASSWORD = "correct horse battery"


def test_a_token_is_got_with_a_password_and_revokes_itself(live: LiveServer) -> None:
    User.objects.create_user("carol", password=PASSWORD)
    url = f"{live.url}/v1/auth/token"
    body = {"username": "carol", "password": PASSWORD}
    answer = httpx.post(url, json=body, headers={"Authorization": "Bearer stale"})
    assert answer.status_code == 201
    assert set(answer.json()) == {"token", "expires_at"}
    assert answer.json()["expires_at"].endswith("Z")
    headers = {"Authorization": f"Bearer {answer.json()['token']}"}
    assert httpx.get(f"{live.url}/v1/chats", headers=headers).status_code == 200
    assert httpx.delete(url, headers=headers).status_code == 204
    error(httpx.get(f"{live.url}/v1/chats", headers=headers), 401, "not_authenticated")
    assert not AuthToken.objects.exists()


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"username": "carol", "password": "wrong"}, 401),
    ({"username": "nobody", "password": PASSWORD}, 401),
    ({"username": "off", "password": PASSWORD}, 401),
    ({"username": "carol"}, 400),
    ({"username": "carol", "password": "a\0b"}, 400),
    ({"username": "carol", "password": PASSWORD, "days": 1000}, 400),
]


@pytest.mark.parametrize(("body", "status"), WRONG)
def test_no_token_without_the_password(live: LiveServer, body: dict[str, Any], status: int) -> None:
    User.objects.create_user("carol", password=PASSWORD)
    User.objects.create_user("off", password=PASSWORD, is_active=False)
    answer = httpx.post(f"{live.url}/v1/auth/token", json=body)
    told = error(answer, status, "invalid_credentials" if status == 401 else "invalid_request")
    if status == 401:
        assert told["message"] == "Wrong user name or password."
        assert answer.headers["www-authenticate"] == "Bearer"
    assert not AuthToken.objects.exists()


HEADERS = ["", "Bearer", "Bearer x", "Bearer x y", "Basic YTpi", "bearer é", "Bearer " + "x" * 4000]


@pytest.mark.parametrize("header", first_of([None, *HEADERS], 3))
def test_without_a_valid_token(live: LiveServer, header: str | None) -> None:
    """Refused before the body is looked at."""
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    headers["Content-Type"] = b"text/x"
    for method, path in (("POST", "message/first"), ("GET", "chats"), ("DELETE", "auth/token")):
        url = f"{live.url}/v1/{path}"
        answer = httpx.request(method, url, headers=headers, content=b"{")  # type: ignore[arg-type]  # bytes are fine
        told = error(answer, 401, "not_authenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        is_bearer = "bearer" in (header or "").lower()
        assert told["message"].startswith("Invalid or expired" if is_bearer else "Authentication required")
    assert not Chat.objects.exists()


@pytest.mark.parametrize("how", ["expired", "of an inactive user"])
def test_a_token_that_is_over(alice: Client, upstream: FakeUpstream, how: str) -> None:
    assert alice.get("chats").status_code == 200
    if how == "expired":
        AuthToken.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    else:
        User.objects.update(is_active=False)
    error(alice.post("message/first", json={"message": "x"}), 401, "not_authenticated")
    error(alice.get("chats"), 401, "not_authenticated")
    assert upstream.requests == []


@pytest.mark.parametrize("method", first_of(["GET", "PUT", "PATCH", "TRACE"]))
def test_unsupported_method_returns_405_without_token(live: LiveServer, method: str) -> None:
    answer = httpx.request(method, f"{live.url}/v1/auth/token")
    error(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST, DELETE, OPTIONS"
    for asked in ("DELETE", "OPTIONS"):
        error(httpx.request(asked, f"{live.url}/v1/auth/token"), 401, "not_authenticated")


def test_a_token_request_sets_no_cookies_and_needs_no_csrf(alice: Client, upstream: FakeUpstream) -> None:
    for answer in (
        alice.get("chats"),
        alice.post("chats", json={}),
        alice.post("message/first", json={"message": "x"}),
        alice.get("nothing"),
    ):
        assert "set-cookie" not in answer.headers
        assert "cookie" not in answer.headers.get("vary", "").lower()


def test_staff_use_the_api_with_their_session_and_csrf(live: LiveServer, upstream: FakeUpstream) -> None:
    staff = User.objects.create_user("staff", is_staff=True, is_superuser=True)
    csrf = {"X-CSRFToken": "0123456789abcdef0123456789abcdef"}
    cookies = session_of(staff) | {"csrftoken": csrf["X-CSRFToken"]}
    with httpx.Client(base_url=live.url, cookies=cookies) as browser:
        assert browser.get("/v1/chats").json()["results"] == []
        body = {"message": "x", "stream": False}
        error(browser.post("/v1/message/first", json=body), 403, "permission_denied")
        error(browser.delete("/v1/auth/token", headers=csrf), 400, "invalid_request")
        assert not Chat.objects.exists()
        answer = browser.post("/v1/message/first", json=body, headers=csrf)
        assert answer.json()["message"]["status"] == "complete"
        with browser.stream("POST", "/v1/message/first", json={"message": "x"}, headers=csrf) as stream:
            assert "event: message.completed" in list(stream.iter_lines())
    assert Chat.objects.filter(owner=staff).count() == 2
