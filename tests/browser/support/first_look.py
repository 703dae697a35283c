"""The server that `quickstart` starts, and people who use it with a browser: nothing is mocked, nothing shared.

Walks need no database of their own: they read the pages, or use the API.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.browser.support.chromium import HEAR_VIOLATIONS, OPTIONS, PATH, PATIENCE_MS, Visit, listen

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 90
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 812}


@dataclass(frozen=True)
class FirstLook:
    """A running quickstart. `api` is a client of the demo user."""

    url: str
    admin_password: str
    demo_token: str
    chat_id: str
    folder: Path
    screen: str
    process: subprocess.Popen[str] = field(repr=False)
    api: httpx.Client = field(repr=False)

    def log(self) -> str:
        """Return what server and worker have logged so far."""
        return (self.folder / "log" / "server.log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def running(folder: Path, wanted: int = 0, /, **env: str) -> Iterator[FirstLook]:
    """Run `manage.py quickstart` on a database in `folder`, from its start screen to Ctrl-C, with `env` added.

    The server listens on the port `wanted`, or on any free port if that is 0.
    """
    with socket.create_server(("127.0.0.1", wanted)) as probe:
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if name not in ("SAMPLES", "POSTGRES_URL")}
    given = {"RATE_LIMITS": "off", "DATABASE_URL": f"sqlite:///{folder / 'first.sqlite3'}", **env}
    process = subprocess.Popen(
        [sys.executable, "manage.py", "quickstart", "--port", str(port)],
        cwd=ROOT,
        env={**kept, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        screen = _screen(process)
        secrets = json.loads((folder / "quickstart.json").read_text())
        found = re.search(r"conversations/chat/([0-9a-f-]{36})/", screen)
        assert found is not None, screen
        url = f"http://127.0.0.1:{port}"
        token = secrets["demo_token"]
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        ) as api:
            yield FirstLook(url, secrets["admin_password"], token, found.group(1), folder, screen, process, api)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run(look: FirstLook, *arguments: str) -> str:
    """Return the output of a Python process on the database of `look`."""
    own = {
        "DATABASE_URL": f"sqlite:///{look.folder / 'first.sqlite3'}",
        "DJANGO_SETTINGS_MODULE": "chatmemory.settings",
    }
    command, env = [sys.executable, *arguments], {**os.environ, **own}
    return subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def manage(look: FirstLook, *arguments: str) -> str:
    """Return the output of a management command on the database of `look`."""
    return run(look, "manage.py", *arguments)


def _screen(process: subprocess.Popen[str]) -> str:
    """Return what is printed until everything runs."""
    assert process.stdout is not None
    lines: list[str] = []
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        lines.append(line)
        if line.startswith("Press Ctrl-C"):
            return "".join(lines)
        assert line, f"quickstart ended: {''.join(lines)}"
    raise AssertionError(f"quickstart printed no screen within {START_SECONDS} s: {''.join(lines)}")


@dataclass
class Person:
    """Someone with their own browser context. `seen` records what went wrong on any of their pages."""

    look: FirstLook
    page: Any
    seen: Visit
    expected: tuple[str, ...] = ()
    """Parts of the troubles that a test brings about."""

    def go(self, path: str) -> None:
        """Open a page of the server and wait until it is loaded."""
        answer = self.page.goto(self.look.url + path, wait_until="load", timeout=PATIENCE_MS)
        assert answer is None or answer.status < 400, f"{path}: {answer.status}"

    def sign_in(self) -> None:
        """Sign in to the admin as its superuser, through the form."""
        self.go("/admin/login/?next=/admin/")
        self.page.fill("#id_username", "admin")
        self.page.fill("#id_password", self.look.admin_password)
        self.page.click("input[type=submit]")
        self.page.wait_for_url(f"{self.look.url}/admin/")

    def troubles(self) -> list[str]:
        """Return what went wrong so far, including violations of the page's policy."""
        self.seen.violations = self.page.evaluate("window.violations")
        return self.seen.troubles

    def axe(self, context: str | None = None) -> list[str]:
        """Return serious and critical findings of axe on the current page, as text."""
        from axe_playwright_python.sync_playwright import Axe

        errors, violations = len(self.seen.errors), self.page.evaluate("window.violations.length")
        found = Axe().run(self.page, context=context)
        # Axe adds a style to check contrasts. That the page's policy refuses it is not an error of the page.
        del self.seen.errors[errors:]
        self.page.evaluate("count => { window.violations.length = count }", violations)
        return [
            f"{self.page.url}: {one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:5]}"
            for one in found.response["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        """Wait until `condition` is true, while the page keeps running."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited {seconds} s in vain"
            self.page.wait_for_timeout(100)


@contextmanager
def browser() -> Iterator[Any]:
    """Run Chromium. Its loop runs in this thread, so Django's ORM cannot be used here."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PATH, args=OPTIONS)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def person(chromium: Any, look: FirstLook, *, phone: bool = False, dark: bool = False) -> Iterator[Person]:
    """Open a browser context for someone who has never been here."""
    context = chromium.new_context(
        viewport=PHONE if phone else DESKTOP,
        has_touch=phone,
        color_scheme="dark" if dark else "light",
        locale="en-GB",
        timezone_id="Europe/Amsterdam",
    )
    context.add_init_script(HEAR_VIOLATIONS)
    page = context.new_page()
    seen = Visit(look.url)
    listen(page, seen, look.url)
    try:
        yield Person(look, page, seen)
    finally:
        context.close()
