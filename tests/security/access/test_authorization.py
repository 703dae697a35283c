"""An `Authorization` header of another scheme belongs to a proxy: pages work behind one, with their session."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from tests.support.exhaustive import first_of
from tests.support.factories import session_of
from tests.support.live_server import Client, LiveServer

FORMS = {
    "basic": "Basic YTpi",
    "bearer": "Bearer x",
    "bearer without a token": "Bearer",
    "empty": "",
    "digest": 'Digest username="a"',
    "not ASCII": "Bearer ü".encode().decode("latin-1"),
    "negotiate": "Negotiate " + "A" * 2000,
}
PAGES = (
    *("/admin/", "/admin/login/", "/admin/overview/", "/admin/jsi18n/", "/admin/conversations/chat/"),
    *("/admin/auth/user/", "/admin/password_change/", "/playground/", "/v1/docs", "/healthz", "/readyz"),
)


@pytest.fixture
def boss(live: LiveServer) -> Iterator[httpx.Client]:
    """A superuser's client."""
    cookies = session_of(User.objects.create_superuser("boss"))
    with httpx.Client(base_url=live.url, cookies=cookies, timeout=30) as client:
        yield client


def extra_headers(form: str) -> dict[str, Any]:
    return {"headers": [(b"Authorization", FORMS[form].encode("latin-1"))]}


@pytest.mark.parametrize("form", first_of(FORMS))
def test_pages_are_the_same_with_a_proxys_authorization(form: str, live: LiveServer, boss: httpx.Client) -> None:
    with httpx.Client(base_url=live.url) as nobody:
        for path, client in product(PAGES, (boss, nobody)):
            plain, with_it = client.get(path), client.get(path, **extra_headers(form))
            assert with_it.status_code == plain.status_code, path
            assert with_it.status_code in (200, 302, 503), path
            assert with_it.headers.get("location") == plain.headers.get("location")


@pytest.mark.parametrize("form", first_of(FORMS, 2))
def test_staff_sign_in_and_out_behind_basic_authentication(form: str, live: LiveServer) -> None:
    User.objects.create_superuser("boss", password="correct horse battery")
    with httpx.Client(base_url=live.url, headers=extra_headers(form)["headers"]) as browser:
        browser.get("/admin/login/")
        told = {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        data = {**told, "username": "boss", "password": "correct horse battery"}
        assert browser.post("/admin/login/?next=/admin/", data=data).headers["location"] == "/admin/"
        assert "boss" in browser.get("/admin/").text
        told = {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert browser.post("/admin/logout/", data=told).status_code == 200
        assert browser.get("/admin/").status_code == 302


@pytest.mark.parametrize("form", first_of(FORMS, 2))
def test_a_form_without_its_csrf_token_is_refused(form: str, boss: httpx.Client) -> None:
    assert boss.post("/admin/logout/", **extra_headers(form)).status_code == 403
    is_token = FORMS[form].lower().startswith("bearer")
    answer = boss.post("/v1/chats", json={}, **extra_headers(form))
    assert answer.status_code == (401 if is_token else 403), answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_of_a_token_is_case_insensitive(scheme: str, alice: Client) -> None:
    answer = alice.get("chats", headers={"Authorization": f"{scheme} {alice.token}"})
    assert answer.status_code == 200


# Caches


@pytest.mark.parametrize("path", first_of(["chats", "search?q=x", "models", "nothing", "schema", "chats?cursor=no"]))
def test_api_answers_are_not_cacheable(path: str, alice: Client, live: LiveServer) -> None:
    assert alice.get(path).headers["cache-control"] == "no-store"
    assert httpx.get(f"{live.url}/v1/{path}").headers["cache-control"] == "no-store"
