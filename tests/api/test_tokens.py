"""One's own tokens: listed without their values, revoked singly or all at once; and the account of a token."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import connection, transaction
from knox.models import AuthToken

from conversations.accounts import api_tokens
from tests.api.talking import begin_reply, error
from tests.api.talking import hold_replies as holding
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for

PASSWORD = "correct horse battery"


def listed(client: Client) -> list[dict[str, Any]]:
    answer = client.get("auth/tokens")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


# The list


def test_tokens_are_listed_without_telling_them(alice: Client, bob: Client) -> None:
    user = User.objects.get(username="alice")
    _, expiring = AuthToken.objects.create(user, expiry=timedelta(days=30))
    AuthToken.objects.create(user, expiry=timedelta(seconds=-1))
    newest, current = listed(alice)
    assert (newest["current"], current["current"]) == (False, True)
    assert newest["prefix"] == expiring[:8]
    assert current["prefix"] == alice.token[:8]
    assert current["expires_at"] is None
    assert newest["expires_at"] > newest["created_at"]
    text = alice.get("auth/tokens").text
    for token in AuthToken.objects.all():
        assert token.digest not in text
        assert token.token_key not in text
    assert len(listed(bob)) == 1


# Revoking


def test_revoke_token_by_its_id_keeps_the_others(alice: Client, user_client: Callable[[str], Client]) -> None:
    other = user_client("alice")
    (theirs,) = [one for one in listed(alice) if not one["current"]]
    assert alice.delete(f"auth/tokens/{theirs['id']}").status_code == 204
    error(other.get("chats"), 401, "not_authenticated")
    for bad in (theirs["id"], "0" * 15, "0" * 17, "G" * 16, "%00" * 16, "0" * 16 + "%0A", "A" * 16):
        error(alice.delete(f"auth/tokens/{bad}"), 404, "not_found")
    assert len(listed(alice)) == 1


def test_all_are_revoked_at_once(alice: Client, bob: Client, user_client: Callable[[str], Client]) -> None:
    other = user_client("alice")
    assert alice.delete("auth/tokens").status_code == 204
    for client in (alice, other):
        error(client.get("chats"), 401, "not_authenticated")
    assert bob.get("chats").status_code == 200


def test_revoked_token_finishes_stream_but_cannot_resume(alice: Client, upstream: FakeUpstream) -> None:
    """As documented: a stream ends with its reply. A reconnect is refused."""
    holding(upstream)
    turn = begin_reply(alice, "now")
    wait_for(lambda: upstream.held())
    path = f"chats/{turn.chat}/messages/{turn.reply}"
    with alice.http.stream("GET", f"/v1/{path}/stream") as stream:
        lines = stream.iter_lines()
        assert "message.created" in next(lines)
        assert alice.delete("auth/tokens").status_code == 204
        upstream.release()
        assert "event: message.completed" in list(lines)
    error(alice.get(f"{path}/stream"), 401, "not_authenticated")
    error(alice.post(f"{path}/cancel"), 401, "not_authenticated")


# At a change of password


def changed_by_set_password(user: User) -> None:
    user.set_password("another one")
    user.save()


def changed_by_its_field(user: User) -> None:
    user.password = make_password("another one")
    user.save(update_fields=["password"])


def taken_away(user: User) -> None:
    user.set_unusable_password()
    user.save(update_fields=["password"])


def set_back(user: User) -> None:
    """Save the user with values read before a change."""
    before = User.objects.get(pk=user.pk)
    User.objects.filter(pk=user.pk).update(password=make_password("meanwhile"))
    before.save()


@pytest.mark.parametrize("change", [changed_by_set_password, changed_by_its_field, taken_away, set_back])
def test_a_change_of_password_revokes_all_tokens(alice: Client, bob: Client, change: Callable[[User], None]) -> None:
    user = User.objects.get(username="alice")
    user.password = make_password(PASSWORD)
    User.objects.filter(pk=user.pk).update(password=user.password)
    assert alice.get("chats").status_code == 200
    change(user)
    error(alice.get("chats"), 401, "not_authenticated")
    assert bob.get("chats").status_code == 200


def test_user_change_without_password_revokes_nothing(alice: Client, live: LiveServer, settings: Any) -> None:
    user = User.objects.get(username="alice")
    user.set_password(PASSWORD)
    user.save()
    token = AuthToken.objects.create(user)[1]
    user.first_name = "Alice"
    user.save()
    user.save(update_fields=["last_login"])
    # Django's hasher has changed: the same password gets another hash at the next sign-in.
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.ScryptPasswordHasher",
        "django.contrib.auth.hashers.MD5PasswordHasher",
    ]
    answer = httpx.post(f"{live.url}/v1/auth/token", json={"username": "alice", "password": PASSWORD})
    assert answer.status_code == 201
    assert User.objects.get(username="alice").password.startswith("scrypt")
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{live.url}/v1/chats", headers=headers).status_code == 200


def test_no_token_comes_after_the_password_was_changed(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign-in with the former password during a change: checked before it, issued after it."""
    user = User.objects.create_user("carol", password=PASSWORD)
    checked, may_go_on = threading.Event(), threading.Event()

    def slow(*args: Any, **kwargs: Any) -> Any:
        found = authenticate(*args, **kwargs)
        checked.set()
        assert may_go_on.wait(20)
        return found

    monkeypatch.setattr("conversations.api.account.authenticate", slow)
    answers: list[httpx.Response] = []
    body = {"username": "carol", "password": PASSWORD}
    thread = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{live.url}/v1/auth/token", json=body, timeout=30))
    )
    thread.start()
    assert checked.wait(20)
    changed_by_set_password(user)
    may_go_on.set()
    thread.join()
    error(answers[0], 401, "invalid_credentials")
    assert not AuthToken.objects.exists()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer")
def test_a_token_that_is_issued_while_the_password_changes_is_revoked(live: LiveServer) -> None:
    """The other order: issued, but not committed, when the new password is stored."""
    user = User.objects.create_user("carol", password=PASSWORD)

    def change() -> None:
        changed_by_set_password(User.objects.get(pk=user.pk))
        connection.close()

    with transaction.atomic():
        assert api_tokens.issue(user, None) is not None
        thread = threading.Thread(target=change)
        thread.start()
        wait_for(_somebody_waits_for_a_lock)
    thread.join()
    assert not AuthToken.objects.exists()


def _somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


# Whose account it is


def test_looking_a_caller_up_takes_one_statement_however_many_tokens_there_are(
    alice: Client, django_assert_num_queries: Any
) -> None:
    from conversations.accounts.authentication import TokenAuthentication

    user = User.objects.get(username="alice")
    for _ in range(50):
        AuthToken.objects.create(user)
    with django_assert_num_queries(1):
        found, _ = TokenAuthentication().authenticate_credentials(alice.token.encode())
    assert found == user
