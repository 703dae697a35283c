"""Sign-in by an OpenID provider over real HTTP, by a second factor, and without passwords."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.urls import get_resolver
from django.utils.timezone import now
from knox.models import AuthToken
from requests import RequestException

from chatmemory.runtime.logs import JsonFormatter
from conversations.sign_in import oidc
from conversations.sign_in.sessions import SessionStore
from tests.security.access.headers import PAGE, policy_of
from tests.security.access.operations import operations
from tests.support.exhaustive import first_of, first_row_of
from tests.support.factories import session_of
from tests.support.fakes.oidc import Provider, new_key
from tests.support.live_server import Client, LiveServer
from tests.support.routes import routes

pytestmark = pytest.mark.postgres

CSRF = "c" * 32
FACTORS = "/accounts/second-factors/"
AUTHENTICATE, CODES, PASSKEY = (f"{FACTORS}{step}/" for step in ("authenticate", "recovery-codes", "webauthn/login"))
ADD, REMOVE = (f"{FACTORS}totp/{step}/" for step in ("activate", "deactivate"))
PASSWORD, SECRET = "correct horse battery", "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    with Provider() as made:
        made.trust(settings)
        settings.PLAYGROUND = "open"
        yield made


@pytest.fixture
def browser(live: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live.url, timeout=30) as made:
        yield made


def enter(browser: httpx.Client, then: str = "/playground/") -> httpx.Response:
    """Sign in by the provider, up to our answer to what it sent back."""
    return browser.get(at_provider(browser, then))


def at_provider(browser: httpx.Client, then: str = "/playground/") -> str:
    """Go to the provider, and return where it sends the browser."""
    answer = httpx.get(browser.get("/accounts/oidc/", params={"next": then}).headers["location"])
    return answer.headers["location"]


def forget(browser: httpx.Client) -> None:
    """End all sessions, as their time does."""
    browser.cookies.clear()
    Session.objects.all().delete()


def signed_in() -> list[Session]:
    """The sessions of users, not those of strangers."""
    return [one for one in Session.objects.all() if "_auth_user_id" in one.get_decoded()]


def refusal(answer: httpx.Response, status: int = 403) -> str:
    """The sentence of a refused sign-in."""
    assert answer.status_code == status, answer.text
    assert policy_of(answer) == PAGE
    assert not signed_in()
    found = re.search(r'<p class="errornote">(.*?)</p>', answer.text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"Origin": "https://secret-host.example"}, "Origin checking failed"),  # as a proxy makes it of ours
        ({}, "CSRF token missing."),
    ],
)
def test_refused_form_has_its_reason_in_the_log(
    browser: httpx.Client, caplog: pytest.LogCaptureFixture, sent: dict[str, str], reason: str
) -> None:
    browser.get("/accounts/login/")
    assert browser.post("/accounts/login/", data={"username": "olga"}, headers=sent).status_code == 403
    (record,) = [one for one in caplog.records if one.name == "django.security.csrf"]
    line = JsonFormatter().fields(record)
    assert (line["event"], line["reason"]) == ("refused: csrf", reason)
    assert "secret-host" not in str(line)


# By the provider


def test_oidc_first_sign_in_creates_account_and_session(provider: Provider, browser: httpx.Client) -> None:
    provider.claims |= {"email": "olga@example.com", "given_name": "Olga"}
    answer = enter(browser)
    assert (answer.status_code, answer.headers["location"]) == (302, "/playground/")
    assert 'name="csrf-token"' in browser.get("/playground/").text
    me = browser.get("/v1/me").json()
    assert (me["username"], me["is_staff"], me["has_password"]) == ("olga", False, False)
    user = User.objects.get()
    assert (user.email, user.first_name, user.has_usable_password()) == ("olga@example.com", "Olga", False)
    asked = provider.asked[0]
    assert asked["code_challenge_method"] == "S256"
    assert set(asked["scope"].split()) == {"openid", "profile", "email", "groups"}
    form(browser, "/accounts/logout/")
    assert browser.get("/v1/me").status_code == 401
    assert enter(browser).status_code == 302
    assert User.objects.count() == 1
    session = signed_in()[0]
    assert timedelta(hours=11) < session.expire_date - now() < timedelta(hours=13)


def test_a_taken_name_or_address_leads_to_no_account(provider: Provider, browser: httpx.Client) -> None:
    boss = User.objects.create_superuser("admin", "admin@example.com", PASSWORD)
    provider.claims |= {"preferred_username": "Admin", "email": boss.email, "email_verified": True}
    enter(browser)
    me = browser.get("/v1/me").json()
    assert (me["username"] != "admin", me["is_staff"]) == (True, False)
    assert not SocialAccount.objects.filter(user=boss).exists()


def test_provider_names_in_wide_letters_are_stored_as_ordinary_ones(provider: Provider, browser: httpx.Client) -> None:
    User.objects.create_user("root")
    for sub, wide, name in (("u-1", "ｏｌｇａ", "olga"), ("u-2", "ｒｏｏｔ", None), ("u-3", "shop／anna", None)):
        provider.claims = {"sub": sub, "preferred_username": wide, "given_name": "Ｏlga"}
        enter(browser)
        form(browser, "/accounts/logout/")
        user = SocialAccount.objects.get(uid=sub).user
        assert user.first_name == "Olga"
        assert user.username == name or (name is None and user.username.isascii() and "/" not in user.username)
    assert User.objects.filter(username="root").count() == 1


def test_another_issuer_has_other_people(provider: Provider, browser: httpx.Client, settings: Any) -> None:
    enter(browser)
    with Provider() as other, httpx.Client(base_url=browser.base_url) as elsewhere:
        other.trust(settings)
        enter(elsewhere)
    assert SocialAccount.objects.filter(uid="u-1").values("user").distinct().count() == 2


def test_groups_are_given_and_taken_at_each_sign_in(provider: Provider, browser: httpx.Client, settings: Any) -> None:
    settings.OIDC_STAFF_GROUP = "ops"
    for name in ("readers", "writers"):
        Group.objects.create(name=name)
    provider.claims["groups"] = ["readers", "ops", "nobody", 7, "\0", ["x"], *map(str, range(10_000))]
    assert enter(browser, "/admin/").headers["location"] == "/admin/"
    assert browser.get("/admin/").status_code == 200
    user = User.objects.get()
    assert ([one.name for one in user.groups.all()], user.is_superuser) == (["readers"], False)
    provider.claims["groups"] = "writers"
    enter(browser)
    assert [one.name for one in user.groups.all()] == ["writers"]
    assert browser.get("/admin/").status_code == 302
    del provider.claims["groups"]
    enter(browser)
    assert not user.groups.exists()


def test_oidc_without_required_group_is_refused(provider: Provider, browser: httpx.Client, settings: Any) -> None:
    settings.OIDC_REQUIRED_GROUP = "lab"
    assert "not in the group" in refusal(enter(browser))
    assert not User.objects.exists()
    provider.claims["groups"] = ["lab"]
    assert enter(browser).status_code == 302
    forget(browser)
    provider.claims["groups"] = []
    assert "not in the group" in refusal(enter(browser))


def test_oidc_disabled_user_is_refused(provider: Provider, browser: httpx.Client) -> None:
    enter(browser)
    User.objects.update(is_active=False)
    assert browser.get("/v1/me").status_code == 401
    forget(browser)
    assert "disabled" in refusal(enter(browser))


def test_oidc_user_cannot_use_password(live: LiveServer, provider: Provider, browser: httpx.Client) -> None:
    """A user who left the provider's group loses it here. Superusers are not made by groups, and keep both ways in."""
    enter(browser)
    forget(browser)
    user = User.objects.get()
    user.username = "carol"
    user.set_password(PASSWORD)
    user.save()
    assert "single sign-on only" in refusal(by_password(browser))
    body = {"username": "carol", "password": PASSWORD}
    assert httpx.post(f"{live.url}/v1/auth/token", json=body).status_code == 403
    SocialAccount.objects.update(provider="https://id.example.com/earlier")
    assert "single sign-on only" in refusal(by_password(browser))
    User.objects.update(is_superuser=True)
    assert by_password(browser).status_code == 302
    assert httpx.post(f"{live.url}/v1/auth/token", json=body).status_code == 201


def test_oidc_linking_account_ends_sessions(provider: Provider, browser: httpx.Client) -> None:
    """Otherwise a session by password would outlast the group by days."""
    carol = User.objects.create_user("carol", password=PASSWORD)
    enter(browser)
    known = SocialAccount.objects.get()
    browser.cookies.clear()
    browser.cookies.update(session_of(carol))
    assert browser.get("/v1/me").status_code == 200
    with httpx.Client(base_url=browser.base_url) as boss:
        boss.cookies.update(session_of(User.objects.create_superuser("boss")))
        fields = {"user": str(carol.pk), "provider": known.provider, "uid": known.uid}
        path = f"/admin/socialaccount/socialaccount/{known.pk}/change/"
        assert form(boss, path, **fields).status_code == 302
    assert SocialAccount.objects.get().user == carol
    assert browser.get("/v1/me").status_code == 401


def test_a_second_factor_is_asked_for_after_the_provider(provider: Provider, browser: httpx.Client) -> None:
    enter(browser)
    form(browser, "/accounts/logout/")
    TOTP.activate(User.objects.get(), SECRET)
    assert enter(browser).headers["location"] == AUTHENTICATE
    assert browser.get("/v1/me").status_code == 401
    assert enter_code(browser).headers["location"] == "/playground/"
    session = signed_in()[0]
    assert timedelta(hours=11) < session.expire_date - now() < timedelta(hours=13)


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "issuer": ({"iss": "https://evil.example.com"}, "refused: Invalid issuer"),
    "audience": ({"aud": "somebody-else"}, "refused: Audience doesn&#x27;t match"),
    "party": ({"aud": ["chatmemory-test", "x"], "azp": "x"}, "another sign-in"),
    "expired": ({"exp": int(time.time()) - 600}, "refused: Signature has expired"),
    "nonce": ({"nonce": "of another sign-in"}, "another sign-in"),
    "no expiry": ({"exp": None}, "missing the &quot;exp&quot; claim"),
    "no nonce": ({"nonce": None}, "missing the &quot;nonce&quot; claim"),
    "no subject": ({"sub": None}, "missing the &quot;sub&quot; claim"),
    "a number": ({"sub": 5}, "Subject must be a string"),
}


@pytest.mark.parametrize("lie", first_of(LIES, 3))
def test_a_token_with_a_wrong_claim_is_refused(provider: Provider, browser: httpx.Client, lie: str) -> None:
    provider.lies, told = LIES[lie]
    assert told in refusal(enter(browser))
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("forged", "told"),
    first_row_of(
        [
            ({"signs_with": new_key()}, "Signature verification failed"),
            ({"kid": "k2"}, "keyset has no key for kid: k2"),
            ({"algorithm": "none"}, "The specified alg value is not allowed"),
            (
                {"algorithm": "HS256", "signs_with": "provider-secret-canary" * 2},
                "The specified alg value is not allowed",
            ),
            ({"broken": frozenset({"/keys"})}, "does not answer"),
        ],
        2,
    ),
)
def test_a_token_that_the_provider_did_not_sign_is_refused(
    provider: Provider, browser: httpx.Client, forged: dict[str, Any], told: str
) -> None:
    for name, value in forged.items():
        setattr(provider, name, value)
    assert told in refusal(enter(browser), 502 if "broken" in forged else 403)
    assert not User.objects.exists()


def test_a_way_back_is_for_one_browser_and_one_time(provider: Provider, browser: httpx.Client) -> None:
    back = at_provider(browser)
    with httpx.Client(base_url=browser.base_url) as stranger:
        assert "already used" in refusal(stranger.get(back))
    assert browser.get(back).status_code == 302
    form(browser, "/accounts/logout/")
    assert "already used" in refusal(browser.get(back))
    first, second = at_provider(browser), at_provider(browser)
    swapped = re.sub("code=[^&]*", re.search("code=[^&]*", first)[0], second)  # type: ignore[index]
    assert "refused the sign-in" in refusal(browser.get(swapped), 502)  # the challenge is another one's


def test_oidc_provider_errors_and_timeouts_are_shown(provider: Provider, browser: httpx.Client) -> None:
    state = httpx.URL(at_provider(browser)).params["state"]
    answer = browser.get("/accounts/oidc/callback/", params={"error": "access_denied", "state": state})
    assert "refused the sign-in" in refusal(answer, 502)
    provider.broken = frozenset({"/.well-known/openid-configuration"})
    assert "does not answer" in refusal(browser.get("/accounts/oidc/"), 502)


ODD: list[Any] = [
    *(None, "elsewhere", [], 5, {}, {"issuer": 1}, {"keys": 5}, {"keys": [5]}, {"access_token": [], "id_token": {}}),
    {"keys": [], "access_token": "x" * 2_000_000},
]


@pytest.mark.parametrize("path", first_of(["/.well-known/openid-configuration", "/token", "/keys"]))
def test_oidc_malformed_answers_are_reported(
    provider: Provider, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(oidc, "ANSWER_SECONDS", 0.3)
    for odd in ODD:
        back = at_provider(browser)
        provider.odd[path] = odd
        answer = browser.get(back)
        assert answer.status_code in (403, 502), (odd, answer.text)
        refusal(answer, answer.status_code)
        provider.odd.clear()


@pytest.mark.parametrize("claim", [{"given_name": "Ol\0ga"}, {"sub": "x" * 192}, {"sub": ""}])
def test_oidc_values_beyond_columns_are_reported(provider: Provider, browser: httpx.Client, claim: Any) -> None:
    provider.claims |= claim
    answer = enter(browser)
    if answer.status_code != 302:  # SQLite stores a NUL
        assert "not answer as expected" in refusal(answer, 502)
        assert not User.objects.exists()


def test_a_provider_by_https_is_asked_by_nothing_else(settings: Any) -> None:
    settings.OIDC_ISSUER = "https://id.example.com"
    with pytest.raises(RequestException, match="not https"):
        oidc.ProviderSession().get("http://id.example.com/keys")


def test_a_sign_in_ends_here(provider: Provider, browser: httpx.Client) -> None:
    for then in ("https://evil.example.com/", "//evil.example.com", "javascript:alert(1)"):
        assert enter(browser, then).headers["location"] == "/"


def test_oidc_request_cannot_add_parameters(provider: Provider, browser: httpx.Client) -> None:
    told = {"process": "connect", "scope": "admin", "auth_params": "redirect_uri=https://evil.example.com"}
    browser.cookies.update(session_of(User.objects.create_superuser("boss")))
    asked = httpx.URL(browser.get("/accounts/oidc/", params=told).headers["location"]).params
    assert "admin" not in asked["scope"]
    assert asked["redirect_uri"].startswith(str(browser.base_url))
    assert not SocialAccount.objects.exists()


def test_without_a_provider_there_is_no_such_page(browser: httpx.Client) -> None:
    for path in ("oidc/", "oidc/callback/"):
        assert browser.get(f"/accounts/{path}").status_code == 404
    assert "single sign-on" not in browser.get("/accounts/login/").text


def test_an_account_of_the_provider_leaves_nothing_behind(
    provider: Provider, browser: httpx.Client, live: LiveServer
) -> None:
    enter(browser)
    user = User.objects.get()
    TOTP.activate(user, SECRET)
    client = Client(live.url, AuthToken.objects.create(user)[1])
    told = client.get("me/export").json()
    assert [(one["provider"], one["uid"]) for one in told["identities"]] == [(provider.issuer, "u-1")]
    assert [one["type"] for one in told["second_factors"]] == ["totp"]
    assert SECRET not in client.get("me/export").text
    assert client.erase(confirm="olga").status_code == 204
    client.http.close()
    assert not SocialAccount.objects.exists()
    assert not Authenticator.objects.exists()
    assert browser.get("/v1/me").status_code == 401


# With a second factor


def code_now(secret: str = SECRET) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))


def add_app(browser: httpx.Client) -> httpx.Response:
    """Set up an authenticator app."""
    secret = re.search('value="([A-Z2-7]{32})"', browser.get(ADD).text)[1]  # type: ignore[index]
    return form(browser, ADD, code=code_now(secret))


def form(browser: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send a form of ours, as its page would."""
    browser.cookies.set("csrftoken", CSRF, domain=browser.base_url.host)
    return browser.post(path, data={"csrfmiddlewaretoken": CSRF, **fields})


def enter_code(browser: httpx.Client, code: str = "") -> httpx.Response:
    """Answer the question for a second factor, by default rightly."""
    return form(browser, AUTHENTICATE, code=code or code_now())


def by_password(browser: httpx.Client, path: str = "/accounts/login/") -> httpx.Response:
    return form(browser, path, username="carol", password=PASSWORD, next="/playground/")


@pytest.fixture
def carol(live: LiveServer) -> User:
    cache.clear()  # where allauth remembers codes of users of the same number
    user = User.objects.create_superuser("carol", password=PASSWORD)
    TOTP.activate(user, SECRET)
    RecoveryCodes.activate(user)
    return user


@pytest.mark.parametrize("path", ["/accounts/login/", "/admin/login/"])
def test_password_with_second_factor_is_not_enough(
    live: LiveServer, browser: httpx.Client, carol: User, path: str
) -> None:
    assert by_password(browser, path).headers["location"] == AUTHENTICATE
    assert browser.get("/v1/me").status_code == 401
    body = {"username": "carol", "password": PASSWORD}
    refused = httpx.post(f"{live.url}/v1/auth/token", json=body)
    assert (refused.status_code, "password alone" in refused.text) == (403, True)
    assert not AuthToken.objects.exists()
    assert "Incorrect code" in enter_code(browser, "000000").text
    done = enter_code(browser)
    assert (done.status_code, done.headers["location"]) == (302, "/playground/")
    assert browser.get("/v1/me").json()["username"] == "carol"


def test_signed_in_user_can_sign_in_as_another(browser: httpx.Client, carol: User) -> None:
    """As staff do who have tried the playground as a user."""
    browser.cookies.update(session_of(User.objects.create_user("dave")))
    asked = browser.get(PASSKEY, headers={"Accept": "application/json"})
    assert "publicKey" in asked.json()["request_options"]
    by_password(browser, "/admin/login/")
    assert browser.get("/v1/me").status_code == 401
    enter_code(browser)
    assert browser.get("/v1/me").json()["username"] == "carol"


def test_a_code_is_accepted_once(browser: httpx.Client, carol: User) -> None:
    recovery = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()[0]
    code = code_now()
    for used, again in ((code, f"{code[:3]}-{code[3:]}"), (recovery, recovery)):
        with httpx.Client(base_url=browser.base_url) as one, httpx.Client(base_url=browser.base_url) as other:
            by_password(one)
            by_password(other)
            assert enter_code(one, used).status_code == 302
            cache.clear()  # as in another process
            answer = enter_code(other, again)
            assert answer.status_code == 200
            assert other.get("/v1/me").status_code == 401


@pytest.mark.promise("P22")
def test_codes_are_guessed_only_so_often(browser: httpx.Client, carol: User, settings: Any) -> None:
    settings.LIMIT_SIGN_INS = 3
    by_password(browser)
    answers = [enter_code(browser, f"00000{n}").text for n in range(4)]
    assert ["Too many wrong codes" in one for one in answers] == [False, False, False, True]
    assert "Too many wrong codes" in enter_code(browser).text


def test_factor_changes_require_reauthentication(browser: httpx.Client, settings: Any) -> None:
    """Adding an app: the session alone is not enough, and wrong passwords count."""
    settings.LIMIT_SIGN_INS = 2
    user = User.objects.create_user("carol", password=PASSWORD)
    assert browser.get("/accounts/second-factors/").headers["location"].startswith("/accounts/login/")
    by_password(browser)
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0
    assert browser.get(ADD).headers["location"].startswith("/accounts/password/")
    for password in ("x", "y"):
        assert form(browser, "/accounts/password/", password=password, next=ADD).status_code == 200
    assert "Too many" in form(browser, "/accounts/password/", password=PASSWORD).text
    settings.LIMIT_SIGN_INS, settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 10, 300
    assert form(browser, "/accounts/password/", password=PASSWORD, next=ADD).headers["location"] == ADD
    assert add_app(browser).headers["location"] == CODES
    codes = browser.get(CODES)
    assert (len(re.findall(r"\b\d{8}\b", codes.text)), codes.headers["cache-control"]) == (10, "no-store")
    removed = form(browser, REMOVE)
    assert removed.status_code == 302
    assert not Authenticator.objects.filter(user=user).exists()


@pytest.mark.parametrize("factor", [False, True])
def test_factor_change_within_five_minutes_of_sign_in_asks_for_no_password(
    browser: httpx.Client, settings: Any, factor: bool
) -> None:
    user = User.objects.create_user("carol", password=PASSWORD)
    if factor:
        cache.clear()
        TOTP.activate(user, SECRET)
    by_password(browser)
    if factor:
        enter_code(browser)
    page = REMOVE if factor else ADD
    assert browser.get(page).status_code == 200
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0
    assert browser.get(page).headers["location"].startswith("/accounts/")
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
    with httpx.Client(base_url=browser.base_url, cookies=session_of(user)) as stolen:
        session = next(one for one in Session.objects.all() if one.pk == stolen.cookies["sessionid"])
        store = SessionStore(session.pk)
        del store["account_authentication_methods"]
        store.save()
        assert stolen.get(page).headers["location"].startswith("/accounts/"), "another session's does not count"


def test_factor_change_after_a_provider_sign_in_asks_for_the_password(
    provider: Provider, browser: httpx.Client
) -> None:
    enter(browser)
    user = User.objects.get()
    user.is_superuser = True
    user.set_password(PASSWORD)
    user.save()
    form(browser, "/accounts/logout/")
    enter(browser)
    assert browser.get(ADD).headers["location"].startswith("/accounts/password/")


GUESSES: dict[str, Callable[[httpx.Client, Client], httpx.Response]] = {
    **{
        path: lambda browser, _, path=path: form(browser, path, username="carol", password="x")  # type: ignore[misc]
        for path in ("/accounts/login/", "/admin/login/")
    },
    "/accounts/password/": lambda browser, _: form(browser, "/accounts/password/", password="x"),
    "/admin/password_change/": lambda browser, _: form(
        browser,
        "/admin/password_change/",
        old_password="x",
        new_password1="violet Tuesday",
        new_password2="violet Tuesday",
    ),
    **{
        path: lambda browser, _, path=path: form(browser, path, code="000000")  # type: ignore[misc]
        for path in (AUTHENTICATE, "/accounts/second-factors/reauthenticate/")
    },
    "v1_auth_token_create": lambda _, client: client.post("auth/token", json={"username": "carol", "password": "x"}),
    "me_delete": lambda _, client: client.erase(password="x"),
}
"""A wrong guess at each place that checks a password or a code: pages and operations."""
HALF = ("/accounts/login/", "/admin/login/", AUTHENTICATE)
"""Pages before the sign-in is complete; a password leads to the last."""


@pytest.fixture
def carols(live: LiveServer) -> Iterator[tuple[User, Client]]:
    """Staff with a second factor, and a client with a token of theirs."""
    cache.clear()
    user = User.objects.create_user("carol", password=PASSWORD, is_staff=True)
    TOTP.activate(user, SECRET)
    client = Client(live.url, AuthToken.objects.create(user)[1])
    yield user, client
    client.http.close()


@pytest.mark.parametrize("place", GUESSES)
@pytest.mark.promise("P22")
def test_wrong_password_or_code_at_each_place_is_counted(
    place: str, carols: tuple[User, Client], browser: httpx.Client, settings: Any
) -> None:
    if place in HALF:
        by_password(browser)
    else:
        browser.cookies.update(session_of(carols[0]))
    settings.LIMIT_SIGN_INS = 2
    answers = [GUESSES[place](browser, carols[1]).text for _ in range(3)]
    assert ["Too many" in one for one in answers] == [False, False, True]


@pytest.mark.exhaustive
def test_places_that_ask_for_a_password_or_code_are_all_listed(carols: tuple[User, Client], live: LiveServer) -> None:
    asking = re.compile(r'<input[^>]* name="(password|old_password|code)"')
    found = {one.id for one in operations() if "password" in one.names}
    paths = [
        path
        for path in routes(get_resolver().url_patterns)
        if "<" not in path and not re.match(r"/admin/\w+/\w+/", path)
    ]
    for path in paths:
        for how in ("stranger", "staff", *["half"] * path.startswith("/accounts/")):
            with httpx.Client(base_url=live.url) as browser:
                if how == "half":
                    by_password(browser)
                elif how == "staff":
                    browser.cookies.update(session_of(carols[0]))
                if asking.search(browser.get(path).text):
                    found.add(path)
    assert found == {*GUESSES}


def test_factor_change_ends_other_sessions(browser: httpx.Client) -> None:
    User.objects.create_user("carol", password=PASSWORD)
    by_password(browser)
    form(browser, "/accounts/password/", password=PASSWORD, next=ADD)
    with httpx.Client(base_url=browser.base_url) as thief:
        by_password(thief)
        add_app(browser)
        assert (browser.get("/v1/me").status_code, thief.get("/v1/me").status_code) == (200, 401)
        thief.cookies.update(session_of(User.objects.get()))
        assert thief.get("/v1/me").status_code == 200
        form(browser, REMOVE)
        assert (browser.get("/v1/me").status_code, thief.get("/v1/me").status_code) == (200, 401)


def test_recovery_codes_alone_are_no_second_factor(live: LiveServer, browser: httpx.Client, carol: User) -> None:
    """A superuser has removed the lost authenticator app of a user."""
    Authenticator.objects.filter(type="totp").delete()
    assert by_password(browser).headers["location"] == "/playground/"
    body = {"username": "carol", "password": PASSWORD}
    assert httpx.post(f"{live.url}/v1/auth/token", json=body).status_code == 201


def test_malformed_passkeys_are_refused(browser: httpx.Client) -> None:
    response = {"clientDataJSON": "e30", "authenticatorData": "A" * 200, "signature": "AAAA", "userHandle": "MQ"}
    whole = {"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": response}
    odd: list[Any] = [5, [], None, {}, {"id": "x"}, {**whole, "response": []}, {**whole, "response": {}}]
    values: list[Any] = [None, 5, "é", {}]
    odd += [{**whole, "response": {**response, name: value}} for name in response for value in values]
    for sent in [whole, *odd]:
        browser.get(PASSKEY, headers={"Accept": "application/json"})
        answer = form(browser, PASSKEY, credential=json.dumps(sent))
        assert answer.status_code in (302, 400), (sent, answer.text)
    assert browser.get("/v1/me").status_code == 401


def test_strangers_make_only_short_sessions(provider: Provider, browser: httpx.Client, carol: User) -> None:
    at_provider(browser)
    with httpx.Client(base_url=browser.base_url) as other:
        other.get(PASSKEY, headers={"Accept": "application/json"})
    assert Session.objects.filter(expire_date__lt=now() + timedelta(minutes=16)).count() == 2
    by_password(browser)
    enter_code(browser)
    session = signed_in()[0]
    assert session.expire_date > now() + timedelta(days=13)


# Without passwords


def test_password_sign_in_switched_off_is_refused(
    live: LiveServer, provider: Provider, browser: httpx.Client, settings: Any
) -> None:
    User.objects.create_superuser("carol", password=PASSWORD)
    settings.LOCAL_PASSWORDS = False
    settings.AUTHENTICATION_BACKENDS = ["conversations.sign_in.password.NoPasswords"]
    for path in ("/accounts/login/", "/admin/login/"):
        page = browser.get(path)
        assert ("Passwords are switched off" in page.text, 'type="password"' in page.text) == (True, False)
        assert by_password(browser, path).status_code == 200
        assert browser.get("/v1/me").status_code == 401
    refused = httpx.post(f"{live.url}/v1/auth/token", json={"username": "carol", "password": PASSWORD})
    assert (refused.status_code, "switched off" in refused.text) == (403, True)
    assert not AuthToken.objects.exists()
    assert enter(browser).status_code == 302
    user = User.objects.get(username="olga")
    user.set_password(PASSWORD)  # from before; it is asked for no more
    user.save()
    enter(browser)
    page = browser.get("/accounts/second-factors/webauthn/add/")
    assert (page.status_code, "asked for after that" in page.text) == (200, True)
    assert form(browser, "/accounts/password/", password=PASSWORD).status_code == 403
