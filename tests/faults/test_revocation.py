"""P32: access that is revoked, in any way, ends on every process at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client as Browser

from tests.api.talking import error
from tests.faults.bench.two import Two
from tests.support.live_server import Client

PASSWORD = "correct horse battery"
NEW_PASSWORD = "staple gun and glue"
CALLS = (
    ("GET", "/v1/chats", None),
    ("GET", "/v1/me", None),
    ("POST", "/v1/message/first", {"message": "x", "stream": False}),
)
Take = Callable[[Two, Client], Any]


# Ways to revoke


def by_command(two: Two, _: Client) -> None:
    assert two.product.manage("revoke_tokens", "alice", "--sessions").startswith("alice: tokens revoked: 1")


def all_by_the_api(two: Two, client: Client) -> None:
    assert client.delete("auth/tokens").status_code == 204


def one_by_the_api(two: Two, client: Client) -> None:
    (mine,) = client.get("auth/tokens").json()["results"]
    assert client.delete(f"auth/tokens/{mine['id']}").status_code == 204


def by_signing_out(two: Two, client: Client) -> None:
    assert client.delete("auth/token").status_code == 204


def by_the_admin(two: Two, client: Client) -> None:
    in_the_admin(client.base, "tokens", everything="yes")


def by_a_password_in_the_admin(two: Two, client: Client) -> None:
    form = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    in_the_admin(client.base, "password", **form)


def by_the_command_for_passwords(two: Two, _: Client) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("getpass.getpass", lambda prompt: NEW_PASSWORD)
        call_command("changepassword", "alice")


def by_code_that_sets_a_password(two: Two, _: Client) -> None:
    code = "from django.contrib.auth.models import User; u = User.objects.get(username='alice')"
    two.product.manage("shell", "-c", f"{code}; u.set_password({NEW_PASSWORD!r}); u.save()")


def by_deactivating(two: Two, _: Client) -> None:
    User.objects.filter(username="alice").update(is_active=False)


def by_erasing(two: Two, client: Client) -> None:
    assert client.erase(password=PASSWORD).status_code == 204


def in_the_admin(url: str, page: str, **form: str) -> None:
    """Submit a form on a page of alice's, as a superuser signed in at that server."""
    boss, _ = User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)
    alice = User.objects.get(username="alice")
    with httpx.Client(base_url=url, cookies=session_of(boss), timeout=30) as browser:
        path = f"/admin/auth/user/{alice.pk}/{page}/"
        assert browser.get(path).status_code == 200
        form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
        assert browser.post(path, data=form, headers={"Referer": url}).status_code == 302


TOKENS: list[Take] = [all_by_the_api, one_by_the_api, by_signing_out]
BOTH: list[Take] = [
    by_command,
    by_the_admin,
    by_a_password_in_the_admin,
    by_the_command_for_passwords,
    by_code_that_sets_a_password,
    by_deactivating,
    by_erasing,
]
"""Ways that end sessions, too."""


# Answers afterwards


def session_of(user: User) -> dict[str, str]:
    browser = Browser()
    browser.force_login(user)
    return {"sessionid": browser.cookies["sessionid"].value}


@pytest.fixture
def alice(two: Two) -> User:
    """A user with a password hashed as the servers do, unlike in this process."""
    return User.objects.create(
        username="alice", password=make_password(PASSWORD, hasher=PBKDF2PasswordHasher())
    )


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("take", [*TOKENS, *BOTH], ids=lambda take: take.__name__)
@pytest.mark.promise("P32")
def test_the_next_call_with_a_token_is_refused_on_each_process(two: Two, alice: User, take: Take) -> None:
    here, there = two.clients()
    for client in (here, there):
        assert client.get("chats").status_code == 200
    take(two, here)
    asked = len(two.fake.requests)
    for client in (there, here):
        for method, path, body in CALLS:
            error(client.http.request(method, path, json=body), 401, "not_authenticated")
    assert len(two.fake.requests) == asked


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("take", BOTH, ids=lambda take: take.__name__)
@pytest.mark.promise("P32")
def test_the_next_call_with_a_session_is_refused_on_each_process(two: Two, alice: User, take: Take) -> None:
    here, _ = two.clients()
    cookies = session_of(alice)
    sites = list(two.product.urls.values())
    for url in sites:
        assert httpx.get(f"{url}/v1/me", cookies=cookies, timeout=30).json()["username"] == "alice"
    take(two, here)
    for url in reversed(sites):
        error(httpx.get(f"{url}/v1/me", cookies=cookies, timeout=30), 401, "not_authenticated")
