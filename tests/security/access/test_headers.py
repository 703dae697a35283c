"""What browsers are told to restrict, on every answer; and that production settings give no warning."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.security.access.headers import check_headers
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "path",
    first_of(
        [
            *("/", "/admin/", "/admin/login/", "/v1/docs", "/v1/docs?script=", "/v1/schema", "/v1/models"),
            *("/healthz", "/readyz", "/metrics", "/nothing", "/static/admin/css/base.css", "/admin/jsi18n/"),
        ],
        4,
    ),
)
def test_every_answer_has_the_security_headers(live: LiveServer, path: str) -> None:
    check_headers(httpx.get(f"{live.url}{path}"))


def test_streams_and_refusals_have_the_security_headers(alice: Client, upstream: FakeUpstream) -> None:
    with alice.http.stream("POST", "/v1/message/first", json={"message": "x"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        check_headers(answer)
        answer.read()
    check_headers(alice.post("message/first", json={}))
    check_headers(alice.get("chats", headers={"Authorization": "Bearer no"}))


def test_forms_and_scripts_of_the_login_page_fit_its_policy(live: LiveServer) -> None:
    page = httpx.get(f"{live.url}/admin/login/")
    assert not re.search(r"<script(?![^>]*(\bsrc=|application/json))[^>]*>[^<]*\S|<style|\s(style|on\w+)=", page.text)
    cookie = page.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie  # so that http://localhost works


# Production


def production(**variables: str) -> dict[str, str]:
    """The environment that docs/deploy.md names, plus what a test process needs."""
    needed = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "DATABASE_URL")}
    documented = {
        "DJANGO_SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "DJANGO_ALLOWED_HOSTS": "chat.example.com",
        "DJANGO_SECURE_SSL_REDIRECT": "true",
        "OPENAI_API_KEY": "sk-production",
    }
    return {**needed, **documented, **variables}


def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    env = production(**variables)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.exhaustive
@pytest.mark.processes
def test_djangos_deployment_check_passes_the_documented_settings_and_reports_unsafe_ones() -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
    bad = {"DJANGO_SECURE_SSL_REDIRECT": "false", "DJANGO_DEBUG": "true", "DJANGO_SECRET_KEY": "short"}
    done = manage("check", "--deploy", "--fail-level", "WARNING", **bad)
    assert done.returncode != 0
    for told in ("chatmemory.W001", "security.W018", "security.W009"):
        assert told in done.stderr


ASK = """
import json
from django.test import Client
browser = Client(HTTP_HOST="chat.example.com")
plain = browser.get("/admin/login/")
probe = browser.get("/healthz")
page = browser.get("/admin/login/", headers={"X-Forwarded-Proto": "https"})
cookie = page.cookies["csrftoken"]
flags = {name: cookie[name] for name in ("secure", "httponly", "samesite")}
print(json.dumps([*([one.status_code, dict(one.headers)] for one in (plain, probe, page)), [0, flags]]))
"""


@pytest.mark.exhaustive
@pytest.mark.processes
def test_production_redirects_to_https() -> None:
    done = manage("shell", "--no-imports", "-c", ASK)
    assert done.returncode == 0, done.stderr
    (status, plain), (probed, _), (served, page), (_, cookie) = json.loads(done.stdout.splitlines()[-1])
    assert (status, plain["Location"]) == (301, "https://chat.example.com/admin/login/")
    assert (probed, served) == (200, 200)
    assert page["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    assert cookie == {"secure": True, "httponly": True, "samesite": "Lax"}
