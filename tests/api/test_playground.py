"""The playground's page: who may open it, that it has no user's data, and that its resources exist and are small."""

import hashlib
import re
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from django.contrib.auth.models import User

import chatmemory
from memory.policies import POLICIES
from tests.security.access.headers import check_headers
from tests.support.factories import session_of
from tests.support.live_server import Client, LiveServer

SCRIPTS = Path(chatmemory.__file__).parent / "static" / "chatmemory" / "playground"
VENDOR = SCRIPTS / "vendor"
PATH = "/playground/"


@pytest.fixture(autouse=True)
def is_open(settings: SimpleNamespace) -> None:
    settings.PLAYGROUND = "open"


def page(live: LiveServer, **options: dict[str, str]) -> httpx.Response:
    return httpx.get(f"{live.url}{PATH}", **options)  # type: ignore[arg-type]  # cookies, headers


# Who may open it


@pytest.mark.parametrize(("mode", "user", "staff"), [("staff", 302, 200), ("open", 200, 200), ("off", 404, 404)])
def test_playground_is_open_by_setting(
    live: LiveServer, alice: Client, settings: SimpleNamespace, mode: str, user: int, staff: int
) -> None:
    """A token is no way to a page for staff, nor is a session of somebody else."""
    settings.PLAYGROUND = mode
    users = User.objects.create_user("plain"), User.objects.create_user("staff", is_staff=True)
    answers = [page(live), alice.get(PATH), *(page(live, cookies=session_of(one)) for one in users)]
    assert [answer.status_code for answer in answers] == [user, user, user, staff]
    assert mode != "staff" or answers[0].headers["location"] == f"/admin/login/?next={PATH}"


# What is in it


def test_playground_page_is_not_cached_and_has_csp(live: LiveServer) -> None:
    answer = page(live)
    check_headers(answer)
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\s(style|on\w+)=|javascript:", answer.text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)


def test_playground_page_contains_no_user_data(live: LiveServer, alice: Client) -> None:
    alice.ask("My order is AB-1234.")
    staff = User.objects.create_user("marigold", email="m@example.com", is_staff=True)
    text = page(live, cookies=session_of(staff)).text
    for told in ("AB-1234", "marigold", "m@example.com", "alice", alice.token):
        assert told not in text


def test_playground_gives_csrf_token_to_sessions_only(live: LiveServer) -> None:
    assert "csrf" not in page(live).text
    cookies = session_of(User.objects.create_user("staff", is_staff=True))
    with httpx.Client(base_url=live.url, cookies=cookies) as browser:
        found = re.search(r'<meta name="csrf-token" content="(\w+)">', browser.get(PATH).text)
        assert found is not None
        assert "csrftoken" in browser.cookies
        made = browser.post("/v1/chats", json={}, headers={"X-CSRFToken": found[1]})
        assert made.status_code == 201
        assert browser.post("/v1/chats", json={}).status_code == 403


def test_policies_can_be_chosen_some_with_a_number_of_tokens(live: LiveServer, settings: SimpleNamespace) -> None:
    options = re.findall(r'<option value="(\w+)" data-label="[^"]+"[^>]*>[^<]+ \(\1\): [^<]+<', page(live).text)
    assert sorted(options) == sorted(POLICIES)
    assert all(policy.label and policy.description for policy in POLICIES.values())
    assert options[0] == settings.MEMORY_POLICY
    for enabled, some in ((True, ["chunked", "progressive"]), (False, [])):
        settings.MEMORY_ENABLED = enabled
        assert sorted(re.findall(r'<option value="(\w+)"[^>]* data-threshold="yes"', page(live).text)) == some


# Its scripts


def test_every_script_that_is_named_exists_and_is_fetched_at_once(live: LiveServer) -> None:
    named = set(re.findall(r'(?:src|href)="(/static/[^"]+\.js)"', page(live).text))
    on_disk = {f"/static/chatmemory/playground/{path.relative_to(SCRIPTS)}" for path in SCRIPTS.rglob("*.js")}
    later = {one for one in on_disk if "/speed-highlight/" in one or one.endswith("/code-worker.js")}
    assert len(later) == 2 + len(languages())
    assert named == on_disk - later
    for path in SCRIPTS.glob("*.js"):
        for target in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            assert (path.parent / target).exists(), (path.name, target)


def languages() -> set[str]:
    return {path.stem for path in (VENDOR / "speed-highlight" / "languages").glob("*.js")}


def test_highlighter_languages_load_with_their_parts() -> None:
    """Which of them a worker loads for a block of code is tested in `tests/browser/test_walk_playground_code.py`."""
    table = (SCRIPTS / "languages.js").read_text()
    assert set(re.findall(r'(\w+): "\1\b', table)) == languages()
    for name in languages():
        source = (VENDOR / "speed-highlight" / "languages" / f"{name}.js").read_text()
        assert not re.search(r"\bimport\b[ (]*[\"']|\bfrom *[\"']", source), name
        assert set(re.findall(r'sub:"(\w+)"', source)) <= languages(), name


def test_scripts_are_cached(live: LiveServer) -> None:
    path = SCRIPTS / "conversation.js"
    url = f"{live.url}/static/chatmemory/playground/{path.name}"
    answer = httpx.get(url)
    assert answer.content == path.read_bytes()
    for tag in (answer.headers["etag"], f"W/{answer.headers['etag']}"):  # weak, if a proxy compresses it
        assert httpx.get(url, headers={"If-None-Match": tag}).status_code == 304
    check_headers(answer)


def test_vendored_files_have_published_hashes() -> None:
    rows = re.findall(r"^\| `([\w./-]+)` .*`([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.M)
    there = sorted(path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*.js"))
    assert sorted(name for name, _ in rows) == there
    for name, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_playground_scripts_make_no_html() -> None:
    for path in SCRIPTS.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|\beval\(|srcdoc",
            path.read_text(),
        ), path
