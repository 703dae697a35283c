"""The pages of sign-in in Chromium: a passkey made and used, an authenticator app, and single sign-on from the door."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from allauth.idp.oidc.models import Client as KnownAgent
from allauth.idp.oidc.models import Token
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from django.contrib.auth.models import User

from tests.browser.support.chromium import HEAR_VIOLATIONS, OPTIONS, PATH
from tests.support.fakes.agent import Agent
from tests.support.fakes.oidc import Provider
from tests.support.live_server import LiveServer

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery"
VIRTUAL = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
}
PICTURES = os.environ.get("SIGN_IN_PICTURES", "")
"""A folder for pictures of the pages, to look at."""


@pytest.fixture
def site(live: LiveServer) -> str:
    """The server by a name: a passkey belongs to one, not to an address."""
    return live.url.replace("127.0.0.1", "localhost")


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.nightly)], ids=["desktop", "phone in the dark"])
def page(request: pytest.FixtureRequest, site: str) -> Iterator[Any]:
    """A page whose device keeps passkeys."""
    if not PATH:
        pytest.skip("there is no Chromium on the PATH")
    from playwright.sync_api import sync_playwright

    by_name = [one.replace("EXCLUDE 127.0.0.1", "EXCLUDE localhost, EXCLUDE 127.0.0.1") for one in OPTIONS]
    size: Any = {"width": 375, "height": 812} if request.param else {"width": 1280, "height": 800}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PATH, args=by_name)
        context = chromium.new_context(base_url=site, viewport=size, color_scheme="dark" if request.param else "light")
        context.add_init_script(HEAR_VIOLATIONS)
        made = context.new_page()
        made.set_default_timeout(15_000)
        devices = context.new_cdp_session(made)
        devices.send("WebAuthn.enable")
        devices.send("WebAuthn.addVirtualAuthenticator", {"options": VIRTUAL})
        yield made
        chromium.close()


def look(page: Any, name: str) -> None:
    """Check that the page's policy refused nothing and that it fits; take a picture if requested."""
    assert page.evaluate("window.violations") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}-{page.viewport_size['width']}.png", full_page=True)


def enter_password(page: Any) -> None:
    page.fill("#id_username", "carol")
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")


def test_a_passkey_and_an_app_let_one_in(page: Any) -> None:
    User.objects.create_superuser("carol", password=PASSWORD)
    page.goto("/admin/login/?next=/admin/")
    page.get_by_role("button", name="passkey").wait_for()
    look(page, "login")
    enter_password(page)
    page.wait_for_url(re.compile(r":\d+/admin/$"))
    page.goto("/accounts/second-factors/")
    look(page, "none")
    page.get_by_role("link", name="Add").click()  # the password was given just now
    look(page, "passkey")
    page.get_by_role("button", name="Add").click()
    page.wait_for_url("**/recovery-codes/")
    look(page, "codes")
    page.goto("/accounts/second-factors/totp/activate/")
    look(page, "app")
    secret = page.locator("#authenticator_secret").input_value()
    page.fill("#id_code", format_hotp_value(hotp_value(secret, int(time.time()) // 30)))
    page.get_by_role("button", name="Activate").click()
    page.wait_for_url("**/second-factors/")
    look(page, "both")

    page.context.clear_cookies()
    page.goto("/admin/login/?next=/playground/")
    look(page, "login-with-passkey")
    page.get_by_role("button", name="Sign in by a passkey").click()
    page.wait_for_url(re.compile(r":\d+/playground/$"))

    page.context.clear_cookies()
    page.goto("/admin/login/?next=/admin/")
    enter_password(page)
    page.wait_for_url("**/authenticate/")
    page.fill("#id_code", "000000")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Incorrect code").wait_for()
    look(page, "wrong-code")
    page.get_by_role("button", name="Use a security key").click()
    page.wait_for_url(re.compile(r":\d+/admin/$"))

    page.goto("/accounts/second-factors/")
    page.get_by_role("link", name="Manage").click()
    look(page, "keys")
    page.get_by_role("link", name="Remove").click()
    remove = page.get_by_role("button", name="Remove")
    remove.wait_for()
    look(page, "remove")
    remove.click()
    page.get_by_text("No security keys").wait_for()


def test_single_sign_on_from_the_door(page: Any, settings: Any) -> None:
    settings.PLAYGROUND = "open"
    with Provider() as provider:
        provider.trust(settings)
        page.goto("/playground/")
        look(page, "door")
        page.get_by_role("link", name="by single sign-on").click()
        page.wait_for_url(re.compile(r":\d+/playground/$"))
        page.locator("#who-name", has_text="olga").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Try the memory").wait_for()
        provider.lies = {"aud": "another"}
        page.goto("/admin/login/")
        look(page, "login-oidc")
        page.get_by_role("link", name="single sign-on").click()
        page.get_by_text("Audience doesn't match").wait_for()
        look(page, "refused")
        settings.LOCAL_PASSWORDS = False
        page.goto("/admin/login/")
        look(page, "no-passwords")
        page.goto("/playground/")
        assert page.locator("#username").is_hidden()
        look(page, "door-no-passwords")


@pytest.mark.nightly
def test_admin_sign_in_with_second_factor_redirects(page: Any, settings: Any) -> None:
    settings.PLAYGROUND = "open"
    TOTP.activate(User.objects.create_user("carol", password=PASSWORD), "JBSWY3DPEHPK3PXP")
    page.goto("/playground/")
    page.fill("#username", "carol")
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/accounts/login/?next=/playground/")
    look(page, "accounts-login")


@pytest.mark.urls("tests.support.agent_urls")
def test_an_agent_is_let_in(page: Any, site: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its page's policy as well, which must let the form lead back to the agent."""
    settings.MCP_OAUTH = settings.WEBHOOK_ALLOW_PRIVATE = True
    User.objects.create_superuser("carol", password=PASSWORD)
    back = f"{site}/healthz".replace("localhost", "127.0.0.1")  # another origin
    with Agent(lies={"client_name": f"Claude{'e' * 90}", "redirect_uris": [back]}) as agent:
        monkeypatch.setattr(httpx2, "create_ssl_context", lambda: agent.trusted)
        asked = f"/accounts/agents/authorize?{urlencode(agent.query(site, redirect_uri=back))}"
        refused = f"/accounts/agents/authorize?{urlencode(agent.query(site))}"
        page.goto(asked)
        enter_password(page)
        page.get_by_role("heading", name="Let Claude").wait_for()
        page.get_by_role("button", name="Allow").click()
        assert "/authorize" in page.url  # the browser asks for a choice
        page.get_by_label("Only read").check()
        look(page, "agent")
        page.get_by_role("button", name="Allow").click()
        page.wait_for_url(re.compile(r"/healthz\?code=\w+&state=s-1$"))
        page.goto(asked)
        page.get_by_role("button", name="Cancel").click()
        page.wait_for_url(re.compile(r"/healthz\?error=access_denied&state=s-1$"))
        page.goto(refused)
        look(page, "agent-refused")
        known = {"type": Token.Type.ACCESS_TOKEN, "hash": "x", "scopes": "read-only"}
        Token.objects.create(user=User.objects.get(), client=KnownAgent.objects.get(), **known)
        page.get_by_role("link", name="Agents").click()
        page.get_by_text("only reads, since").wait_for()
        look(page, "agents")
        page.get_by_role("button", name="Send away").click()
        page.get_by_text("You have let no agent in.").wait_for()
