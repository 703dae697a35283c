"""Whose account the playground uses: it always shows it, a link alone never changes it, and signing out ends it."""

import re
from functools import cache
from typing import Any

import httpx
import pytest

from tests.browser.support.first_look import FirstLook, Person, manage, person
from tests.browser.support.playground import ask, enter, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.nightly]
STORED = "sessionStorage.getItem('cm-token')"
DOOR = "Try the memory"


@cache
def given_token(look: FirstLook) -> str:
    """Return a token of the demo user that `quickstart` did not print."""
    return manage(look, "create_token", "demo").split()[-1]


def link(look: FirstLook, *, chat: bool = True, token: str = "") -> str:
    return f"#token={token or given_token(look)}" + (f"&chat={look.chat_id}" if chat else "")


def name_shown(page: Any) -> str:
    page.locator("#who-name:visible").wait_for()
    return str(page.locator("#who-name").inner_text())


def status_with(look: FirstLook, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{look.url}/v1/me", headers=headers, trust_env=False).status_code


@pytest.fixture
def admin(visitor: Person) -> Person:
    """A visitor who signed in as the admin, by name and password."""
    visitor.go("/playground/")
    sign_in(visitor)
    assert name_shown(visitor.page) == "admin"
    return visitor


# Links


def test_a_link_signs_in_after_a_click_that_names_the_account(visitor: Person, first_look: FirstLook) -> None:
    page = visitor.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(first_look.url)))
    visitor.go(f"/playground/{link(first_look)}")
    page.get_by_role("heading", name="This link is for the account demo").wait_for()
    assert given_token(first_look) not in page.url
    assert page.evaluate("sessionStorage.length") == 0
    assert [path for path in asked if path.startswith("/v1/")] == ["/v1/me"]
    assert not page.locator("#token").is_visible()
    assert visitor.axe() == []
    page.get_by_role("button", name="Continue as demo").click()
    page.get_by_role("heading", name="A journey to Ljubljana").wait_for()
    assert name_shown(page) == "demo"
    assert page.url.endswith(f"#chat={first_look.chat_id}")
    page.reload()
    assert name_shown(page) == "demo"
    assert visitor.axe() == []


def test_the_link_that_quickstart_printed_signs_in_at_once(visitor: Person, first_look: FirstLook) -> None:
    page = visitor.page
    printed = re.search(r"/playground/\S+", first_look.screen)
    assert printed
    visitor.go(printed[0])
    page.get_by_role("heading", name="A journey to Ljubljana").wait_for()
    assert name_shown(page) == "demo"
    assert first_look.demo_token not in page.url
    assert visitor.axe() == []


def test_a_link_does_not_replace_an_existing_sign_in(admin: Person, first_look: FirstLook) -> None:
    page = admin.page
    mine = page.evaluate(STORED)
    ask(page, "Is this mine?")
    page.evaluate("hash => { location.hash = hash }", link(first_look))
    page.get_by_text("You are signed in as admin. The link you opened has a different token").wait_for()
    assert given_token(first_look) not in page.url
    admin.go(f"/playground/?again{link(first_look)}")
    page.get_by_text("You are signed in as admin. The link you opened has a different token").wait_for()
    assert (name_shown(page), page.evaluate(STORED)) == ("admin", mine)
    assert given_token(first_look) not in page.url
    assert admin.axe() == []
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Continue as demo").click()
    page.get_by_role("heading", name="A journey to Ljubljana").wait_for()
    assert name_shown(page) == "demo"


def test_a_link_does_not_replace_a_staff_session(keeper: Person, first_look: FirstLook) -> None:
    page = keeper.page
    keeper.go(f"/playground/{link(first_look)}")
    page.get_by_text("You are signed in as admin. The link you opened has a different token").wait_for()
    assert name_shown(page) == "admin"
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name=DOOR).wait_for()
    keeper.go("/admin/")
    assert "/admin/login/" in page.url


def test_a_link_is_offered_when_the_stored_token_is_revoked(admin: Person, first_look: FirstLook) -> None:
    admin.expected = ("401",)
    page = admin.page
    headers = {"Authorization": f"Bearer {page.evaluate(STORED)}"}
    httpx.delete(f"{first_look.url}/v1/auth/token", headers=headers, trust_env=False).raise_for_status()
    admin.go(f"/playground/?again{link(first_look)}")
    page.get_by_role("button", name="Continue as demo").click()
    page.get_by_role("heading", name="A journey to Ljubljana").wait_for()
    assert name_shown(page) == "demo"


def test_a_link_with_a_revoked_token_says_so(visitor: Person, first_look: FirstLook) -> None:
    visitor.expected = ("401",)
    page = visitor.page
    visitor.go(f"/playground/{link(first_look, token='0' * 64)}")
    page.get_by_text("The token in this link is invalid or has expired.").wait_for()
    assert page.locator("#token").is_visible()
    assert page.evaluate("sessionStorage.length") == 0
    assert visitor.axe() == []


# Whose account


def test_a_different_admin_session_is_noticed(keeper: Person, first_look: FirstLook) -> None:
    page = keeper.page
    keeper.go("/playground/")
    assert name_shown(page) == "admin"
    other = {"json": {"username": "olga", "is_staff": True, "has_password": True, "token": None}}
    page.route("**/v1/me", lambda route: route.fulfill(**other))
    with page.expect_navigation():
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.locator("#who-name", has_text="olga").wait_for()


def test_the_user_name_fits_on_a_phone(walking: Any, first_look: FirstLook) -> None:
    with person(walking, first_look, phone=True) as somebody:
        page, name = somebody.page, "نام کاربری " * 15
        other = {"json": {"username": name, "is_staff": False, "has_password": False, "token": None}}
        page.route("**/v1/me", lambda route: route.fulfill(**other))
        somebody.go(f"/playground/{link(first_look)}")
        page.get_by_role("button", name="Continue as").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        page.click("#offer-yes")
        assert name_shown(page) == name.strip()
        for width in (375, 700, 1024, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("#who-name").is_visible()
            assert page.locator("#leave").is_visible()
        assert somebody.axe() == []


# Signing out


def test_signing_out_revokes_the_token_of_the_page(admin: Person, first_look: FirstLook) -> None:
    page = admin.page
    mine = page.evaluate(STORED)
    assert status_with(first_look, mine) == 200
    page.reload()
    assert name_shown(page) == "admin"
    with page.expect_response("**/v1/auth/token") as answer:
        page.get_by_role("button", name="Sign out").click()
    assert answer.value.status == 204
    assert status_with(first_look, mine) == 401
    assert page.evaluate("sessionStorage.length") == 0
    assert not page.locator("#who").is_visible()


def test_signing_out_keeps_a_token_that_was_pasted(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name=DOOR).wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    assert status_with(first_look, first_look.demo_token) == 200


def test_failing_to_revoke_a_token_is_reported(admin: Person) -> None:
    admin.expected = ("ERR_FAILED",)
    page = admin.page
    page.route("**/v1/auth/token", lambda route: route.abort())
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("this page's token stays valid until it expires").wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_wrong_password_is_reported(visitor: Person) -> None:
    visitor.expected = ("401",)
    visitor.go("/playground/")
    sign_in(visitor, "not the password")
    visitor.page.get_by_text("Wrong user name or password.").wait_for()
    assert visitor.axe() == []
