"""Agents that people let in to `/mcp`: what they are asked, what agents get, and everything that is refused."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from allauth.idp.oidc.internal.oauthlib.request_validator import OAuthLibRequestValidator
from allauth.idp.oidc.models import Client as KnownAgent
from allauth.idp.oidc.models import Token
from django.contrib.auth.models import User
from django.utils.timezone import now

from conversations.sign_in import agents
from memory.worker.sweep import sweep
from tests.security.access.headers import PAGE, check_headers, policy_of
from tests.support.factories import session_of
from tests.support.fakes.agent import Agent
from tests.support.live_server import Client, LiveServer

pytestmark = [pytest.mark.postgres, pytest.mark.urls("tests.support.agent_urls")]


@pytest.fixture(autouse=True)
def switched_on(settings: Any) -> None:
    settings.MCP_OAUTH = True
    settings.WEBHOOK_ALLOW_PRIVATE = True


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    with Agent() as made:
        monkeypatch.setattr(httpx2, "create_ssl_context", lambda: made.trusted)
        yield made


@pytest.fixture
def browser(live: LiveServer) -> Iterator[httpx.Client]:
    """The browser of alice, who is signed in."""
    user = User.objects.create_user("alice", password="correct horse battery")
    with httpx.Client(base_url=live.url, timeout=30, cookies=session_of(user)) as made:
        yield made


def site(browser: httpx.Client) -> str:
    return str(browser.base_url).rstrip("/")


def ask(browser: httpx.Client, agent: Agent, **changes: Any) -> httpx.Response:
    """Go to our page with an agent's request."""
    return browser.get("/accounts/agents/authorize", params=agent.query(site(browser), **changes))


def refusal(answer: httpx.Response) -> str:
    """The sentence of a request that is refused on a page, which leads nowhere."""
    assert "location" not in answer.headers, answer.headers["location"]
    assert policy_of(answer) == PAGE
    found = re.search(r'is refused.</p>\s*<p dir="auto">(.*?)</p>', answer.text)
    assert found is not None, answer.text
    return found[1]


def decide(browser: httpx.Client, page: httpx.Response, action: str = "grant", **changes: Any) -> httpx.Response:
    """Press a button of the page."""
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    fields = {"scopes": "chat", **hidden, "action": action, **changes}
    sent = {name: value for name, value in fields.items() if value is not None}
    return browser.post("/accounts/agents/authorize", data=sent, headers={"Referer": site(browser)})


def code_of(answer: httpx.Response) -> str:
    assert answer.status_code == 302, answer.text
    return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]


def tokens(browser: httpx.Client, agent: Agent, scopes: str = "chat") -> dict[str, Any]:
    """All that an agent gets from alice, who lets it in."""
    answer = trade(browser, agent.trade(code_of(decide(browser, ask(browser, agent), scopes=scopes))))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def trade(browser: httpx.Client, sent: dict[str, Any]) -> httpx.Response:
    """Call as the agent's server, which has no session."""
    return httpx.post(f"{site(browser)}/accounts/agents/token", data=sent)


def call(browser: httpx.Client, token: str, at: str = "/mcp", **headers: str) -> httpx.Response:
    """Ask which tools there are."""
    headers = {"Authorization": f"Bearer {token}", **headers}
    return httpx.post(f"{site(browser)}{at}", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)


def may_write(answer: httpx.Response) -> bool:
    assert answer.status_code == 200, answer.text
    return "remember" in [tool["name"] for tool in answer.json()["result"]["tools"]]


# The documents, and the challenge


def test_documents_name_this_server_and_what_it_takes(live: LiveServer) -> None:
    first = httpx.get(f"{live.url}/mcp")
    assert first.status_code == 401
    assert first.headers["www-authenticate"] == (
        f'Bearer resource_metadata="{live.url}/.well-known/oauth-protected-resource/mcp"'
    )
    for name in ("oauth-protected-resource/mcp", "oauth-protected-resource", "oauth-authorization-server"):
        answer = httpx.get(f"{live.url}/.well-known/{name}")
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.json() == {
            "resource": f"{live.url}/mcp",
            "authorization_servers": [live.url],
            "bearer_methods_supported": ["header"],
            "issuer": live.url,
            "authorization_endpoint": f"{live.url}/accounts/agents/authorize",
            "token_endpoint": f"{live.url}/accounts/agents/token",
            "revocation_endpoint": f"{live.url}/accounts/agents/revoke",
            "scopes_supported": ["chat", "read-only"],
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "client_id_metadata_document_supported": True,
        }


@pytest.mark.parametrize("at", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("named", ["/mcp", "/mcp/"])
def test_agent_sent_to_the_path_with_a_slash_is_let_in(
    browser: httpx.Client, agent: Agent, at: str, named: str
) -> None:
    """Agents compare the address they were given with the document's, to the letter, or leave the slash out."""
    told = httpx.get(site(browser) + at).headers["www-authenticate"]
    document = httpx.get(told.removeprefix('Bearer resource_metadata="').rstrip('"')).json()
    assert document["resource"] == site(browser) + at
    resource = site(browser) + named
    code = code_of(decide(browser, ask(browser, agent, resource=resource)))
    token = trade(browser, agent.trade(code, resource=resource)).json()["access_token"]
    assert may_write(call(browser, token, at))


@pytest.mark.urls("chatmemory.urls")
@pytest.mark.parametrize("where", ["/.well-known/oauth-authorization-server", "/accounts/agents/authorize"])
def test_pages_switched_off_do_not_exist(live: LiveServer, where: str) -> None:
    assert httpx.get(live.url + where).status_code == 404


# A person decides


def test_consent_stranger_is_sent_to_sign_in_and_comes_back(live: LiveServer, agent: Agent) -> None:
    User.objects.create_user("alice", password="correct horse battery")
    with httpx.Client(base_url=live.url) as browser:
        answer = ask(browser, agent)
        assert (answer.status_code, agent.asked) == (302, 0)
        page = browser.get(answer.headers["location"])
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        fields = {name: value.replace("&amp;", "&") for name, value in fields.items()}
        known = {"username": "alice", "password": "correct horse battery"}
        back = browser.post("/accounts/login/", data={**fields, **known}, headers={"Referer": live.url})
        assert "Helper" in browser.get(back.headers["location"]).text


def test_consent_page_says_who_asks_for_what(browser: httpx.Client, agent: Agent) -> None:
    agent.lies["client_name"] = "<b>Claude</b>"
    page = ask(browser, agent)
    text = re.sub(r"<[^>]+>|\s+", " ", page.text)
    for words in ("&lt;b&gt;Claude", "localhost", "alice", "agent.example", "add to it and delete it", "Only read"):
        assert words in text
    assert policy_of(page) == {**PAGE, "form-action": "'self' https:"}
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"


def test_consent_given_returns_code_and_state(browser: httpx.Client, agent: Agent) -> None:
    answer = decide(browser, ask(browser, agent))
    to = urlsplit(answer.headers["location"])
    assert (to.scheme, to.netloc, to.path) == ("https", "agent.example", "/back")
    assert parse_qs(to.query)["state"] == ["s-1"]


def test_consent_refused_returns_no_code(browser: httpx.Client, agent: Agent) -> None:
    answer = decide(browser, ask(browser, agent), "cancel", scopes=None)
    assert answer.headers["location"] == "https://agent.example/back?error=access_denied&state=s-1"
    assert not Token.objects.exists()


def test_consent_without_choice_is_asked_again(browser: httpx.Client, agent: Agent) -> None:
    answer = decide(browser, ask(browser, agent), scopes=None)
    assert answer.status_code == 200
    assert "This field is required" in answer.text


@pytest.mark.parametrize("scope", [None, ""])
def test_consent_no_scope_asked_offers_both(browser: httpx.Client, agent: Agent, scope: str | None) -> None:
    answer = ask(browser, agent, scope=scope)
    page = browser.get(str(answer.url.join(answer.headers["location"])))
    assert re.findall(r'type="radio" name="scopes" value="([\w-]+)"', page.text) == ["chat", "read-only"]
    assert code_of(decide(browser, page))


def test_consent_to_more_than_was_asked_is_refused(browser: httpx.Client, agent: Agent) -> None:
    answer = decide(browser, ask(browser, agent, scope="read-only"), scopes="chat")
    assert answer.status_code == 200
    assert not Token.objects.exists()


@pytest.mark.parametrize("changes", [{"csrfmiddlewaretoken": None}, {"csrfmiddlewaretoken": "x" * 64}])
def test_consent_from_another_site_is_refused(browser: httpx.Client, agent: Agent, changes: dict[str, Any]) -> None:
    assert decide(browser, ask(browser, agent), **changes).status_code == 403
    assert not Token.objects.exists()


def test_consent_to_a_changed_request_is_refused(browser: httpx.Client, agent: Agent) -> None:
    page = ask(browser, agent)
    assert decide(browser, page, request="e30:forged").status_code == 403


def test_consent_prompt_none_is_asked_nevertheless(browser: httpx.Client, agent: Agent) -> None:
    tokens(browser, agent)
    assert "Allow" in ask(browser, agent, prompt="none").text


def test_consent_too_many_requests_are_refused(browser: httpx.Client, agent: Agent, settings: Any) -> None:
    settings.RATE_LIMITS, settings.LIMIT_REQUESTS_PER_MINUTE = True, 1
    ask(browser, agent)
    assert "requests" in refusal(ask(browser, agent))
    assert agent.asked == 1


# What an agent may ask


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"redirect_uri": "https://evil.example/back"}, "Mismatching redirect URI"),
        ({"redirect_uri": "https://agent.example/back/../x"}, "Mismatching redirect URI"),
        ({"redirect_uri": "https://agent.example:444/back"}, "Mismatching redirect URI"),
        ({"redirect_uri": "http://agent.example/back"}, "Mismatching redirect URI"),
        ({"redirect_uri": r"https://evil.example\@agent.example/back"}, "redirect URI"),
        ({"redirect_uri": None}, "redirect URI"),
        ({"code_challenge": None}, "does not give"),
        ({"code_challenge_method": "plain"}, "S256"),
        ({"code_challenge_method": None}, "S256"),
        ({"resource": None}, "resource"),
        ({"resource": "https://elsewhere.example/mcp"}, "resource"),
        ({"scope": "openid"}, "does not give"),
        ({"scope": "chat act-for-users"}, "does not give"),
        ({"response_type": "token"}, "does not give"),
        ({"response_type": "code id_token"}, "does not give"),
        ({"client_id": "https://localhost/"}, "path"),
        ({"client_id": "http://localhost/agent.json"}, "https"),
        ({"client_id": "a-made-up-name"}, "URL"),
        ({"client_id": f"https://localhost/{'a' * 100}"}, "100"),
        ({"client_id": None}, "URL"),
    ],
)
def test_request_of_other_kind_is_refused_on_the_page(
    browser: httpx.Client, agent: Agent, changes: dict[str, Any], why: str
) -> None:
    assert why in refusal(ask(browser, agent, **changes))


def test_request_by_a_program_may_name_any_port(browser: httpx.Client, agent: Agent) -> None:
    page = ask(browser, agent, redirect_uri="http://localhost:43123/callback")
    assert policy_of(page)["form-action"] == "'self' http:"
    assert decide(browser, page).headers["location"].startswith("http://localhost:43123/callback?code=")
    page = ask(browser, agent, redirect_uri="com.example.agent:/back")
    assert policy_of(page)["form-action"] == "'self' com.example.agent:"
    assert decide(browser, page).headers["location"].startswith("com.example.agent:/back?code=")


@pytest.mark.parametrize(
    "bad",
    [
        {"raw": b"<html>"},
        {"raw": b"[]"},
        {"raw": b"{}"},
        {"raw": b" " * 20_000},
        {"status": 404},
        {"status": 302},
        {"lies": {"client_id": "https://other.example/agent.json"}},
        {"lies": {"client_name": "Cla\0ude"}},
        {"lies": {"client_name": "Cla\ud800ude"}},
        {"lies": {"client_name": "\u202eedualC"}},
        {"lies": {"client_name": 7}},
        {"lies": {"redirect_uris": []}},
        {"lies": {"redirect_uris": "https://agent.example/back"}},
        {"lies": {"redirect_uris": ["https://agent.example/back\nhttps://evil.example"]}},
    ],
    ids=repr,
)
def test_invalid_document_is_refused(browser: httpx.Client, agent: Agent, bad: dict[str, Any]) -> None:
    for name, value in bad.items():
        setattr(agent, name, value)
    assert refusal(ask(browser, agent))
    assert not KnownAgent.objects.exists()


def test_document_cannot_widen_what_agents_may(browser: httpx.Client, agent: Agent) -> None:
    agent.lies = {
        "scope": "openid act-for-users chat",
        "grant_types": ["client_credentials", "urn:ietf:params:oauth:grant-type:device_code"],
        "response_types": ["token", "code"],
        "skip_consent": True,
    }
    assert "does not give" in refusal(ask(browser, agent, scope="openid"))
    assert "does not give" in refusal(ask(browser, agent, response_type="token"))
    for grant in ("client_credentials", "urn:ietf:params:oauth:grant-type:device_code", "password"):
        sent = {"grant_type": grant, "client_id": agent.client_id, "username": "alice", "password": "x"}
        assert trade(browser, sent).status_code in (400, 401)


def test_document_at_private_address_is_not_read(browser: httpx.Client, agent: Agent, settings: Any) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = False
    assert "private network" in refusal(ask(browser, agent))
    by_name = agent.client_id.replace("localhost", "localhost.localdomain")
    assert refusal(ask(browser, agent, client_id=by_name))
    assert agent.asked == 0


def test_document_that_takes_long_is_refused(
    browser: httpx.Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "DOCUMENT_SECONDS", 0.2)
    agent.pause = 1
    assert "TimeoutError" in refusal(ask(browser, agent))


def test_document_changed_holds_from_the_next_consent(browser: httpx.Client, agent: Agent) -> None:
    tokens(browser, agent)
    agent.lies["redirect_uris"] = ["https://moved.example/back"]
    assert "Mismatching" in refusal(ask(browser, agent))


def test_document_is_not_read_for_strangers(browser: httpx.Client, agent: Agent) -> None:
    assert trade(browser, agent.trade("made-up")).status_code in (400, 401)
    assert agent.asked == 0


# Codes and tokens


def test_tokens_of_agent_reach_mcp_alone(browser: httpx.Client, agent: Agent) -> None:
    given = tokens(browser, agent)
    assert (given["scope"], given["expires_in"], given["token_type"]) == ("chat", 3600, "Bearer")
    token = given["access_token"]
    assert may_write(call(browser, token))
    for where in ("/v1/chats", "/v1/me", "/v1/models"):
        answer = httpx.get(site(browser) + where, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
    assert call(browser, given["refresh_token"]).status_code == 401
    assert call(browser, token, **{"X-Chatmemory-User": "anna"}).status_code == 403


def test_tokens_of_ours_work_there_too(alice: Client) -> None:
    answer = alice.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert may_write(answer)


def test_tokens_refreshed_replace_the_old(browser: httpx.Client, agent: Agent) -> None:
    first = tokens(browser, agent, "read-only")
    sent = {
        "grant_type": "refresh_token",
        "refresh_token": first["refresh_token"],
        "client_id": agent.client_id,
        "resource": f"{site(browser)}/mcp",
    }
    assert trade(browser, {**sent, "scope": "chat"}).status_code == 400
    second = trade(browser, sent).json()
    assert not may_write(call(browser, second["access_token"]))
    assert trade(browser, sent).status_code in (400, 401)
    assert agent.asked == 1


@pytest.mark.parametrize("resource", ["https://elsewhere.example/mcp", "{site}/mcp/inner", "no url", "\0"])
def test_tokens_for_elsewhere_do_not_work(browser: httpx.Client, agent: Agent, resource: str) -> None:
    code = code_of(decide(browser, ask(browser, agent)))
    answer = trade(browser, agent.trade(code, resource=resource.format(site=site(browser))))
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert call(browser, answer.json()["access_token"]).status_code == 401


def test_tokens_without_resource_do_not_work(browser: httpx.Client, agent: Agent) -> None:
    token = tokens(browser, agent)["access_token"]
    Token.objects.update(data=None)
    assert call(browser, token).status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": None},
        {"redirect_uri": "http://localhost/callback"},
        {"redirect_uri": None},
        {"client_id": "https://other.example/agent.json"},
        {"client_id": "a\0b"},
        {"code": "made-up"},
        {"code": "a\0b"},
    ],
    ids=repr,
)
def test_code_with_other_particulars_is_refused(browser: httpx.Client, agent: Agent, changes: dict[str, Any]) -> None:
    code = code_of(decide(browser, ask(browser, agent)))
    assert trade(browser, agent.trade(code, **changes)).status_code in (400, 401)
    assert trade(browser, agent.trade(code)).status_code == 200


def test_code_used_by_many_at_once_gives_tokens_once(browser: httpx.Client, agent: Agent) -> None:
    code = code_of(decide(browser, ask(browser, agent)))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: trade(browser, agent.trade(code)).status_code, range(8)))
    assert answers.count(200) == 1
    assert trade(browser, agent.trade(code)).status_code == 400


# The end of it


def _password(browser: httpx.Client, user: User, alice: Client) -> None:
    user.set_password("another horse battery")
    user.save()


def _all(browser: httpx.Client, user: User, alice: Client) -> None:
    assert alice.delete("/v1/auth/tokens").status_code == 204


def _disabled(browser: httpx.Client, user: User, alice: Client) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _deleted(browser: httpx.Client, user: User, alice: Client) -> None:
    user.delete()


@pytest.mark.parametrize("end", [_password, _all, _disabled, _deleted])
def test_tokens_end_with_password_revocation_or_account(
    browser: httpx.Client, agent: Agent, alice: Client, end: Callable[..., None]
) -> None:
    given, user = tokens(browser, agent), User.objects.get(username="alice")
    code = code_of(decide(browser, ask(browser, agent)))
    end(browser, user, alice)
    sent = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"], "client_id": agent.client_id}
    assert call(browser, given["access_token"]).status_code == 401
    assert trade(browser, sent).status_code in (400, 401)
    assert trade(browser, agent.trade(code)).status_code == 400


@pytest.mark.exhaustive
def test_tokens_being_exchanged_end_with_a_revocation(
    browser: httpx.Client, agent: Agent, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, save = tokens(browser, agent), OAuthLibRequestValidator.save_bearer_token
    sent = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"], "client_id": agent.client_id}
    with ThreadPoolExecutor(1) as pool:

        def save_late(*args: Any, **kwargs: Any) -> None:
            ends.append(pool.submit(alice.delete, "/v1/auth/tokens"))
            wait(ends, timeout=1)  # it is done by then, unless it waits for this exchange
            save(*args, **kwargs)

        ends: list[Future[httpx.Response]] = []
        monkeypatch.setattr(OAuthLibRequestValidator, "save_bearer_token", save_late)
        answer = trade(browser, {**sent, "resource": f"{site(browser)}/mcp"})
    assert (answer.status_code, ends[0].result().status_code) == (200, 204)
    assert call(browser, answer.json()["access_token"]).status_code == 401


def test_tokens_given_back_end(browser: httpx.Client, agent: Agent) -> None:
    given = tokens(browser, agent)
    sent = {"token": given["access_token"], "client_id": agent.client_id}
    assert httpx.post(f"{site(browser)}/accounts/agents/revoke", data=sent).status_code == 200
    assert call(browser, given["access_token"]).status_code == 401


def test_agents_are_listed_and_sent_away(browser: httpx.Client, agent: Agent, live: LiveServer) -> None:
    page = f"{site(browser)}/accounts/agents/"
    assert "You have let no agent in." in browser.get(page).text
    token, again = (tokens(browser, agent, "read-only")["access_token"] for _ in range(2))
    bob = User.objects.create_user("bob", password="correct horse battery")
    with httpx.Client(base_url=live.url, timeout=30, cookies=session_of(bob)) as other:
        theirs = tokens(other, agent)["access_token"]
    shown = browser.get(page).text
    assert shown.count(f'value="{agent.client_id}"') == 1
    assert "only reads, since" in shown
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', shown))
    assert browser.post(page, data={"agent": agent.client_id}).status_code == 403
    assert browser.post(page, data={**hidden, "agent": "a\0b"}, headers={"Referer": page}).status_code in (302, 400)
    assert call(browser, token).status_code == 200
    assert browser.post(page, data=hidden, headers={"Referer": page}).headers["location"] == "/accounts/agents/"
    assert [call(browser, one).status_code for one in (token, again, theirs)] == [401, 401, 200]
    assert httpx.get(page).headers["location"].startswith("/accounts/login/")


def test_tokens_and_codes_that_expired_are_refused_and_removed(browser: httpx.Client, agent: Agent) -> None:
    token = tokens(browser, agent)["access_token"]
    code = code_of(decide(browser, ask(browser, agent)))
    Token.objects.update(expires_at=now() - timedelta(seconds=1))
    assert call(browser, token).status_code == 401
    assert trade(browser, agent.trade(code)).status_code == 400
    assert sweep()["agent_tokens_removed"] == 3
    assert not Token.objects.exists()


def test_tokens_switched_off_are_refused_and_no_document_is_named(
    browser: httpx.Client, agent: Agent, settings: Any
) -> None:
    token = tokens(browser, agent)["access_token"]
    settings.MCP_OAUTH = False
    answer = call(browser, token)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_answers_have_the_headers_of_every_answer(browser: httpx.Client, agent: Agent) -> None:
    check_headers(browser.get("/.well-known/oauth-authorization-server"))
    check_headers(ask(browser, agent, resource=None))
    check_headers(trade(browser, {}))
