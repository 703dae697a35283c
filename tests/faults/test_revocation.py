"""Access that is revoked, in any way, ends on every process at once (P32)."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.auth.models import User

from tests.api.talking import error
from tests.faults.bench.two import Two
from tests.support.factories import session_of
from tests.support.live_server import Client

PASSWORD = "correct horse battery"
NEW_PASSWORD = "staple gun and glue"
CALLS = (
    ("GET", "/v1/chats", None),
    ("GET", "/v1/me", None),
    ("POST", "/v1/message/first", {"message": "x", "stream": False}),
)
SET_PASSWORD = f"u = User.objects.get(username='alice'); u.set_password({NEW_PASSWORD!r}); u.save()"


def in_the_admin(client: Client, page: str, **form: str) -> None:
    """Submit a form on a page of alice's, as a superuser signed in at that server."""
    boss, _ = User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)
    path = f"/admin/auth/user/{User.objects.get(username='alice').pk}/{page}/"
    with httpx.Client(base_url=client.base, cookies=session_of(boss), timeout=30) as browser:
        assert browser.get(path).status_code == 200
        form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
        assert browser.post(path, data=form, headers={"Referer": client.base}).status_code == 302


def one_by_the_api(two: Two, client: Client) -> None:
    (mine,) = client.get("auth/tokens").json()["results"]
    client.delete(f"auth/tokens/{mine['id']}")


def by_a_password_in_the_admin(two: Two, client: Client) -> None:
    form = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    in_the_admin(client, "password", **form)


WAYS: dict[str, Callable[[Two, Client], Any]] = {
    "all by the API": lambda two, client: client.delete("auth/tokens"),
    "one by the API": one_by_the_api,
    "by signing out": lambda two, client: client.delete("auth/token"),
    "by command": lambda two, client: two.product.manage("revoke_tokens", "alice", "--sessions"),
    "by the admin": lambda two, client: in_the_admin(client, "tokens", everything="yes"),
    "by a password in the admin": by_a_password_in_the_admin,
    "by code that sets a password": lambda two, client: two.product.manage("shell", "-c", SET_PASSWORD),
    "by deactivating": lambda two, client: User.objects.filter(username="alice").update(is_active=False),
    "by erasing": lambda two, client: client.erase(password=PASSWORD),
}
TOKENS_ONLY = [*WAYS][:3]
"""Ways that leave sessions alone."""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.promise("P32")
def test_the_next_call_is_refused_on_each_process(two: Two, way: str) -> None:
    # The password is hashed as the servers do, unlike in this process.
    password = make_password(PASSWORD, hasher=PBKDF2PasswordHasher())
    alice = User.objects.create(username="alice", password=password)
    here, there = two.clients()
    session = session_of(alice)
    for client in (here, there):
        assert client.get("chats").status_code == 200
        assert httpx.get(f"{client.base}/v1/me", cookies=session).json()["username"] == "alice"
    WAYS[way](two, here)
    asked = len(two.fake.requests)
    for client in (there, here):
        for method, path, body in CALLS:
            error(client.http.request(method, path, json=body), 401, "not_authenticated")
        status = httpx.get(f"{client.base}/v1/me", cookies=session).status_code
        assert status == (200 if way in TOKENS_ONLY else 401)
    assert len(two.fake.requests) == asked
